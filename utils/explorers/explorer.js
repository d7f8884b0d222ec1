// An explorer in JupyterLab: ties a view to the kernel's widget.

import { same } from "./formula.js";
import { createView } from "./view.js";

/** One request under way at most; when it is answered and the setting has moved on, the newest setting goes next. */
function initialize({ model }) {
  let underWay = 0; // number of the request, 0 for none
  const ask = () => {
    const answer = model.get("answer");
    if (answer.request >= underWay) underWay = 0;
    if (underWay || same(model.get("spec"), answer.settings, model.get("value"))) return;
    underWay = answer.request + 1;
    model.send({ request: underWay, settings: model.get("value") });
  };
  model.on("change:value", ask);
  model.on("change:answer", ask);
  ask();
}

function render({ model, el }) {
  const view = createView(model.get("spec"), (value) => {
    model.set("value", value);
    model.save_changes();
  });
  const draw = () => view.draw(model.get("value"), model.get("answer"));
  el.append(view.element);
  model.on("change:value", draw);
  model.on("change:answer", draw);
  draw();
  return () => {
    model.off("change:value", draw);
    model.off("change:answer", draw);
    view.close();
  };
}

export default { initialize, render };
