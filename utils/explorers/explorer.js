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

const GONE = "The kernel is gone: run all cells up to this one again for accounts. The prediction needs no kernel.";

function render({ model, el }) {
  let value = model.get("value");
  let gone = false; // after a restart of the kernel the model is deaf and dumb; the page goes on alone
  const draw = () => view.draw(value, gone ? { settings: value, terms: null, error: GONE } : model.get("answer"));
  const view = createView(model.get("spec"), (next) => {
    value = next;
    if (!gone) {
      model.set("value", next);
      model.save_changes();
    }
    draw();
  });
  const changed = () => {
    value = model.get("value");
    draw();
  };
  const answered = () => {
    gone = false;
    changed();
  };
  const cutOff = () => {
    gone = true;
    draw();
  };
  el.append(view.element);
  const listeners = { "change:value": changed, "change:answer": answered, comm_live_update: cutOff, destroy: cutOff };
  for (const [event, listener] of Object.entries(listeners)) model.on(event, listener);
  draw();
  return () => {
    for (const [event, listener] of Object.entries(listeners)) model.off(event, listener);
    view.close();
  };
}

export default { initialize, render };
