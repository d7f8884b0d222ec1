// The curves of an explorer: line plots side by side, those of the choices made; one below the other where it is narrow.

import { createAxis } from "./axes.js";
import { build } from "./elements.js";
import { chosen } from "./formula.js";

const GAP = 28; // between two plots
const PLOT = { least: 270, most: 440, height: 176 }; // pixels; its width lies between the first two
const CHARACTER = 7.7; // width of one of a tick's characters
const ABOVE = 24; // room for the label of the upright axis
const BESIDE = 11; // room for the half of the last number
const BELOW = 38; // room for the numbers and the label of the level axis

const line = (x1, y1, x2, y2, className) => build("line", { x1, y1, x2, y2, class: className });
const words = (x, y, anchor, text, className) => build("text", { x, y, "text-anchor": anchor, class: className }, text);

/** Both axes with a thin line at each number; the lines at zero are darker. */
function grid({ left, right, top, bottom }, across, up) {
  const zero = ({ isZero }) => `eb-grid ${isZero ? "eb-zero" : ""}`;
  return [...across.ticks.map((tick) => ({ tick, ends: [tick.at, top, tick.at, bottom] })),
    ...up.ticks.map((tick) => ({ tick, ends: [left, tick.at, right, tick.at] }))]
    .sort((a, b) => a.tick.isZero - b.tick.isZero)
    .map(({ tick, ends }) => line(...ends, zero(tick)))
    .concat(across.ticks.map(({ at, text }) => words(at, bottom + 16, "middle", text, "eb-x")))
    .concat(up.ticks.map(({ at, text }) => words(left - 7, at + 4, "end", text, "eb-y")));
}

/** One piece: a line, or a dot where all its points fall together. */
function drawPiece([xs, ys], across, up) {
  const points = xs.map((x, i) => [across.at(x).toFixed(2), up.at(ys[i]).toFixed(2)]);
  const isDot = points.every((point) => Math.hypot(point[0] - points[0][0], point[1] - points[0][1]) < 1);
  if (isDot) return build("circle", { class: "eb-dot", cx: points[0][0], cy: points[0][1], r: 3.2 });
  return build("path", { class: "eb-line", d: `M${points.map((point) => point.join(" ")).join("L")}` });
}

/** Two points joined by a dashed line, the first full and the second empty: the same two in each plot. */
function drawMark(mark, across, up) {
  if (!mark) return [];
  const [[x1, y1], [x2, y2]] = mark.map(([x, y]) => [across.at(x), up.at(y)]);
  return [line(x1, y1, x2, y2, "eb-join"),
    build("circle", { class: "eb-first", cx: x1, cy: y1, r: 4.5 }), build("circle", { class: "eb-second", cx: x2, cy: y2, r: 4.5 })];
}

function plot(curve, width) {
  const points = [...curve.pieces.flatMap(([xs, ys]) => xs.map((x, i) => [x, ys[i]])), ...(curve.mark ?? [])];
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const bottom = ABOVE + PLOT.height;
  const up = createAxis(ys, bottom, ABOVE, 34);
  const left = 10 + CHARACTER * Math.max(...up.ticks.map(({ text }) => text.length));
  const right = width - BESIDE;
  const across = createAxis(xs, left, right, 52);
  const isNear = ({ at, text }) => at + (text.length * CHARACTER) / 2 <= width && at - (text.length * CHARACTER) / 2 >= 0;
  const inside = { ...across, ticks: across.ticks.map((tick) => (isNear(tick) ? tick : { ...tick, text: "" })) };
  return build("svg", {
    role: "img", class: "eb-plot", width, height: bottom + BELOW, "aria-label": [`${curve.title}.`, curve.caption].join(" ").trim(),
  },
    ...grid({ left, right, top: ABOVE, bottom }, inside, up),
    words(left, ABOVE - 9, "start", curve.y_label, "eb-label"),
    words((left + right) / 2, bottom + 33, "middle", curve.x_label, "eb-label"),
    ...curve.pieces.map((piece) => drawPiece(piece, across, up)),
    ...drawMark(curve.mark, across, up));
}

const figure = (curve, width) =>
  build("figure", { class: "eb-curve" },
    build("div", { class: "eb-curve-title" }, curve.title), plot(curve, width), build("figcaption", {}, curve.caption));

/** `elements` for the page, none if there are no curves, and `draw(width, value)`. Drawn anew only where they differ. */
export function createCurves(spec) {
  const element = build("div", { class: "eb-curves" });
  let drawn = {};
  function draw(width, value) {
    const entry = chosen(spec.curves, value);
    if (!entry || (drawn.entry === entry && drawn.width === width)) return;
    drawn = { entry, width };
    const { curves } = entry;
    const columns = Math.max(1, Math.min(curves.length, Math.floor((width + GAP) / (PLOT.least + GAP))));
    const each = Math.min(PLOT.most, Math.floor((width - GAP * (columns - 1)) / columns));
    element.style.gridTemplateColumns = `repeat(${columns}, ${each}px)`;
    element.replaceChildren(...curves.map((curve) => figure(curve, each)));
  }
  return { elements: spec.curves.length ? [element] : [], draw };
}
