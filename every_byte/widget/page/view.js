// What an explorer shows: its controls, a timeline, a moving map, curves, the bars on one scale, verdicts, and the table they come from.

import { createBars } from "./bars.js";
import { createControl } from "./controls.js";
import { createCurves } from "./curves.js";
import { build } from "./elements.js";
import { compare, fullest, isMeant, judged, liveAt, scale } from "./formula.js";
import { keepKeys } from "./keys.js";
import { createMap } from "./moving_map.js";
import { createTable } from "./table.js";
import { createTimeline } from "./timeline.js";
import { createFit, createRemark, verdict } from "./verdict.js";

/** One number for each term, the same in all stages: in order of appearance, those that the formula lacks last. */
function numbered(compared) {
  const all = compared.stages.flatMap(({ rows }) => rows);
  const names = [...new Set([...all.filter(({ size }) => size !== undefined), ...all].map(({ name }) => name))];
  const number = (row) => ({ ...row, number: names.indexOf(row.name) + 1 });
  return { ...compared, stages: compared.stages.map((stage) => ({ ...stage, rows: stage.rows.map(number) })) };
}

let views = 0; // makes ids unique among the explorers of a page

/** The elements of an explorer. `onChange(value)` hears of each new setting, `onAgain()` that the same one is to be measured
 * again; `draw(value, answer)` shows one. */
export function createView(spec, onChange, onAgain) {
  const prefix = `eb-${++views}-${Math.random().toString(36).slice(2, 8)}`;
  let shown = {};
  let width = 600; // of the bars, in pixels; the observer below knows better as soon as they are on the page
  const status = build("p", { role: "status", "aria-live": "polite", class: "eb-status" });
  const say = (text) => {
    if (status.textContent !== text) status.textContent = text;
  };
  const change = (symbol, setting) => {
    for (const other of controls) if (other.control.symbol !== symbol) other.shown.forget();
    onChange({ ...shown.value, [symbol]: setting });
  };
  const controls = spec.controls.map((control) => ({ control, shown: createControl(control, `${prefix}-${control.symbol}`, change, spec) }));
  const badge = build("span", { class: "eb-badge" });
  const again = build("button", { type: "button", class: "eb-again", hidden: "" }, "measure again");
  again.addEventListener("click", () => onAgain?.());
  const curves = createCurves(spec);
  const bars = createBars(spec, prefix);
  const fit = createFit();
  const remark = createRemark();
  const timeline = createTimeline(prefix);
  const map = createMap(prefix);
  const table = createTable(spec, prefix);
  const element = build("section", { class: "eb", "aria-label": spec.title },
    build("div", { class: "eb-head" }, build("strong", {}, spec.title), badge),
    build("div", { class: "eb-controls" }, ...controls.map(({ shown }) => shown.element)),
    fit.element, remark.element, timeline.element, map.element, ...curves.elements, ...bars.elements, status, again, table.element);

  keepKeys(element);

  const canMeasure = spec.controls.some(({ live }) => Object.keys(live ?? {}).length);
  let elsewhere = "accounted"; // the origin of the last account that was not live: a heading that stays while the next is taken
  function draw(value, answer) {
    shown = { value, answer };
    const live = liveAt(spec, value);
    const compared = { ...numbered(compare(spec, value, answer)), live };
    if (answer?.origin && !(canMeasure && answer.origin === "measured")) elsewhere = answer.origin;
    const origin = live ? "measured" : elsewhere;
    again.hidden = !live;
    for (const { control, shown } of controls) shown.show(value[control.symbol], isMeant(control, value));
    if (compared.state !== "waiting") badge.textContent = answer.badge ?? "";
    element.dataset.state = compared.state;
    element.dataset.value = JSON.stringify(value);
    element.dataset.alarm = String(compared.state === "failed" || compared.misfit !== "");
    element.setAttribute("aria-busy", String(compared.state === "waiting"));
    const { fit: known, isToAsk, first } = judged(spec, value, answer);
    fit.draw(compared, known, isToAsk, fullest(spec, value, compared));
    remark.draw(answer?.remark);
    timeline.draw(width, compared, answer?.timeline, first);
    map.draw(width, compared, answer?.map);
    curves.draw(width, value);
    bars.draw(width, compared, origin, scale(spec, value, compared));
    table.draw(compared, origin);
    say(verdict(compared, answer));
  }
  const resized = new ResizeObserver(([{ contentRect }]) => {
    width = Math.max(contentRect.width, 200);
    if (shown.value) draw(shown.value, shown.answer);
  });
  resized.observe(bars.svg);
  return { element, draw, close: () => resized.disconnect() };
}
