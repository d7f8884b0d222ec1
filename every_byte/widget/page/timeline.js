// The timeline of an explorer, and of a run: a plot, a slider over its instants, and the ledger at the one chosen.

import { bytesAt, drawAreas, PLOT_LEFT } from "./areas.js";
import { build, swatch } from "./elements.js";
import { exact, short } from "./numbers.js";

const nameAt = (spans, column) => spans?.find(([, first, last]) => first <= column && column <= last)?.[0];

/** What a column is, in words: its step and phase, whether it is the peak, and how far the whole is. */
function placeOf(timeline, column) {
  const where = [nameAt(timeline.steps, column), nameAt(timeline.phases, column)].filter(Boolean).join(", ");
  const name = column === timeline.peak ? `peak, ${timeline.peak_is || where}` : where;
  return `${name}, after ${exact(timeline.places[column])} of ${exact(timeline.n_events)} allocations and frees`;
}

function item(name, bytes, number, colour) {
  const words = build("span", {}, name, build("small", {}, `${exact(bytes)} bytes`));
  return build("li", { "data-category": name, "data-bytes": bytes }, swatch(number, colour), words, build("b", {}, short(bytes)));
}

const OF_A_STEP = { title: "A step of training, event by event: bytes allocated", label: "instant of the step" };

/** `element` for the page, hidden as long as there is no timeline, and `draw(width, compared, timeline, first)`: `first` names
 * the option that the timeline is of, where another one is chosen. With `onMove`, which hears of each column that is shown, the
 * pointer over the plot chooses one, too. */
export function createTimeline(prefix, { title, label, onMove } = OF_A_STEP) {
  const svg = build("svg", { role: "img", class: "eb-areas" });
  const cursor = build("line", { class: "eb-cursor" });
  const id = `${prefix}-instant`;
  const slider = build("input", { type: "range", id, min: 0, step: 1, "data-instant": "" });
  const toPeak = build("button", { type: "button", class: "eb-to-peak" }, "to the peak");
  const place = build("p", { class: "eb-place" });
  const of = build("p", { class: "eb-peak-of", "data-of": "", hidden: "" });
  const key = build("p", { class: "eb-outline-key", hidden: "" });
  const ledger = build("ul", { class: "eb-ledger", "aria-label": "the ledger at this instant" });
  const element = build("figure", { class: "eb-timeline", hidden: "" },
    build("div", { class: "eb-timeline-title" }, title), of, key, svg,
    build("div", { class: "eb-instant", style: `padding-left: ${PLOT_LEFT}px` }, slider, build("div", {}, build("label", { for: id }, label), toPeak)),
    place, ledger);

  let shown = {}; // timeline, width, numberOf, column and the pixels of one
  function drawInstant() {
    const { timeline, numberOf, column, pixel } = shown;
    slider.value = column;
    const bytes = bytesAt(timeline, column);
    slider.setAttribute("aria-valuetext", `${placeOf(timeline, column)}: ${exact(bytes)} bytes`);
    const { x, y, bottom } = pixel(column);
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: y, y2: bottom })) cursor.setAttribute(name, value);
    place.replaceChildren(`${placeOf(timeline, column)}: `, build("b", {}, `${exact(bytes)} bytes (${short(bytes)})`),
      ` allocated, ${short(timeline.reserved[column])} reserved.`,
      timeline.outline ? ` At the same point of this phase, ${timeline.outline.name}: ${short(timeline.outline.bytes[column])}.` : "");
    const present = Object.entries(timeline.columns).filter(([, numbers]) => numbers[column]);
    present.sort(([a], [b]) => numberOf(a) - numberOf(b));
    ledger.replaceChildren(...present.map(([name, numbers]) => item(name, numbers[column], numberOf(name), timeline.colours[name])));
    toPeak.disabled = column === timeline.peak;
    onMove?.(column);
  }
  const move = (column) => {
    shown = { ...shown, column };
    drawInstant();
  };
  slider.addEventListener("input", () => move(Number(slider.value)));
  function follow({ clientX }) {
    const n = shown.timeline.places.length;
    const share = (clientX - svg.getBoundingClientRect().left - PLOT_LEFT) / (shown.width - PLOT_LEFT - 1);
    move(Math.min(n - 1, Math.max(0, Math.floor(share * n))));
  }
  if (onMove) for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, follow);
  toPeak.addEventListener("click", () => {
    move(shown.timeline.peak);
    slider.focus(); // the button is disabled now, and would lose the focus to the page
  });
  toPeak.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab takes Enter

  function draw(width, { stages }, timeline, first) {
    element.hidden = !timeline;
    of.hidden = !first;
    of.textContent = first ? `The figure has the blocks and segments of ${first}.` : "";
    if (!timeline) return;
    const rows = stages.flatMap((stage) => stage.rows);
    const names = [...new Set([...[...rows].sort((a, b) => a.number - b.number).map(({ name }) => name), ...Object.keys(timeline.columns)])];
    const numbers = names.join();
    if (shown.timeline === timeline && shown.width === width && shown.numbers === numbers) return;
    const numberOf = (name) => names.indexOf(name) + 1;
    const ids = Object.fromEntries(Object.keys(timeline.columns).map((name, i) => [name, `${prefix}-area-${i}`]));
    const column = shown.timeline === timeline ? shown.column : timeline.peak;
    key.hidden = !timeline.outline;
    key.textContent = timeline.outline ? `Areas: this setting. Line: the same step ${timeline.outline.name}, phase by phase at the same width.` : "";
    slider.max = timeline.places.length - 1;
    shown = { timeline, width, numbers, numberOf, column, pixel: drawAreas(svg, width, timeline, ids, numberOf) };
    svg.append(cursor);
    drawInstant();
  }
  return { element, draw };
}
