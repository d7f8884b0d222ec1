// An explorer in JupyterLab: ties a view to the kernel's widget.

import { judged, liveAt, same } from "./formula.js";
import { createView } from "./view.js";

const REST_MS = 400; // so long nothing moves before this machine's own GPU is asked

const JUDGE_MS = 200; // so long before it is asked whether it fits

/** One request under way at most; when it is answered and the setting has moved on, the newest setting goes next. What is
 * measured on this machine's own GPU is so when the setting rests; then it is asked whether it fits, too. */
function initialize({ model }) {
  let underWay = 0; // number of the request, 0 for none
  let moving = 0; // the timer of a setting that may move on, 0 for none
  let judging = 0; // that of a verdict to ask for
  const send = (more) => {
    underWay = model.get("answer").request + 1;
    model.send({ request: underWay, settings: model.get("value"), ...more });
  };
  const ask = () => {
    const answer = model.get("answer");
    const [spec, value] = [model.get("spec"), model.get("value")];
    if (answer.request >= underWay) underWay = 0;
    clearTimeout(judging);
    if (moving || underWay) return;
    if (!same(spec, answer.settings, value)) send();
    else if (judged(spec, value, answer).isToAsk) judging = setTimeout(send, JUDGE_MS, { judge: true });
  };
  const rest = () => {
    moving = 0;
    ask();
  };
  const moved = () => {
    clearTimeout(moving);
    moving = liveAt(model.get("spec"), model.get("value")) ? setTimeout(rest, REST_MS) : 0;
    ask();
  };
  model.on("change:value", moved);
  model.on("change:answer", ask);
  ask();
}

const GONE = "The kernel is gone: run all cells up to this one again for accounts.";
const NEEDS_NONE = " The prediction needs no kernel.";

function render({ model, el }) {
  let value = model.get("value");
  let gone = false; // after a restart of the kernel the model is deaf and dumb; the page goes on alone
  let old = null; // the answer that is to be measured again
  const answer = () => (model.get("answer") === old ? { ...old, settings: null } : model.get("answer"));
  const draw = () => view.draw(value, gone ? { settings: value, terms: null, error: `${GONE}${model.get("spec").asked ? "" : NEEDS_NONE}` } : answer());
  const change = (next) => {
    value = next;
    if (!gone) {
      model.set("value", next);
      model.save_changes();
    }
    draw();
  };
  const again = () => {
    old = model.get("answer");
    if (!gone) model.send({ again: true });
    draw();
  };
  const view = createView(model.get("spec"), change, again);
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
