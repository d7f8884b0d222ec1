// The plot of a timeline: areas stacked by category over columns, steps named, phases shaded, the peak marked.

import { build, pattern, tone } from "./elements.js";
import { short, sum } from "./numbers.js";

const AREAS = { height: 216, above: 20, left: 62, steps: 19 }; // pixels; above: names of phases, steps: of steps over them, left: bytes
const LETTER = 6.8; // width of one of a caption's characters
const WIDE_LETTER = 7.4; // and of a bold one
const LINE = 17; // from one line of words to the next
const ROOM = 14; // pixels each way that a category's number needs
const DRAWN_UP_TO = 1.5; // a capacity that is more times the peak lies beyond the plot

/** The bytes in all, at a column. */
export const bytesAt = (timeline, column) => sum(Object.values(timeline.columns).map((numbers) => numbers[column]));

/** Pixels of columns (the left edge) and of bytes, round bytes for the axis, and the capacity if it is to be drawn. */
function createScales(timeline, width) {
  const most = Math.max(...timeline.reserved, ...(timeline.outline?.bytes ?? []), bytesAt(timeline, timeline.peak));
  const capacity = timeline.capacity && timeline.capacity <= DRAWN_UP_TO * most ? timeline.capacity : 0;
  const end = Math.max(most, capacity) * 1.12;
  const step = 2 ** Math.ceil(Math.log2(end / 5));
  const n = timeline.places.length;
  const above = AREAS.above + (timeline.steps?.length ? AREAS.steps : 0);
  return {
    n, capacity, above, bottom: above + AREAS.height,
    ticks: Array.from({ length: Math.floor(end / step) + 1 }, (_, i) => i * step),
    x: (column) => AREAS.left + ((width - AREAS.left - 1) * column) / n,
    y: (bytes) => above + AREAS.height * (1 - bytes / end),
  };
}

const at = (number) => number.toFixed(1);

/** A line that is level within each column, from the first to the last or back. */
const forth = (numbers, { x, y }) => numbers.map((bytes, i) => `${at(x(i))} ${at(y(bytes))}H${at(x(i + 1))}`);
const back = (numbers, { x, y }) => numbers.map((bytes, i) => `${at(x(i + 1))} ${at(y(bytes))}H${at(x(i))}`).reverse();

/** The middle of the longest run of columns in which an area is high enough for its number; null if there is none. */
function middle(low, high, { x, y }) {
  const isHigh = (i) => y(low[i]) - y(high[i]) >= ROOM;
  let best = [0, 0];
  for (let start = 0, i = 0; i <= low.length; i++) {
    if (i < low.length && isHigh(i)) continue;
    if (i - start > best[1] - best[0]) best = [start, i];
    start = i + 1;
  }
  const column = Math.floor((best[0] + best[1]) / 2);
  return x(best[1]) - x(best[0]) < ROOM ? null : { x: x(column + 0.5), y: (y(low[column]) + y(high[column])) / 2 };
}

function stack({ columns, places, colours }, scales, ids, numberOf) {
  let low = places.map(() => 0);
  return Object.entries(columns).map(([name, bytes]) => {
    const [below, above] = [low, low.map((n, i) => n + bytes[i])];
    low = above;
    const d = `M${[...forth(above, scales), ...back(below, scales)].join("L")}Z`;
    const place = middle(below, above, scales);
    return build("g", { class: "eb-segment", "data-category": name, style: tone(colours[name]) },
      build("path", { d, class: "eb-fill" }),
      colours[name].hatch ? build("path", { d, fill: `url(#${ids[name]})` }) : "",
      place ? build("text", { ...place, "text-anchor": "middle" }, `${numberOf(name)}`) : "");
  });
}

const note = (x, y, anchor, text, className = "") => build("text", { class: `eb-caption ${className}`, x, y, "text-anchor": anchor }, text);

function shades({ phases }, { x, above }) {
  const names = [...new Set(phases.map(([name]) => name))];
  return phases.flatMap(([name, first, last]) => {
    const [from, to] = [x(first), x(last + 1)];
    const isWide = name.length * LETTER + 6 <= to - from;
    return [
      build("rect", { class: `eb-phase eb-shade-${names.indexOf(name) % 3}`, x: from, y: above - AREAS.above, width: to - from, height: AREAS.above + AREAS.height }),
      isWide ? note((from + to) / 2, above - 6, "middle", name) : "",
    ];
  });
}

/** Where a request was refused; its name on a plate, as it lies over the areas, to the left where there is room. */
function refusal({ refused }, { x, above, bottom }) {
  if (refused === undefined) return [];
  const across = x(refused + 0.5);
  const name = "out of memory";
  const width = name.length * WIDE_LETTER + 10;
  const left = across - 6 - width < AREAS.left ? across + 6 : across - 6 - width;
  return [
    build("line", { class: "eb-refusal", x1: across, x2: across, y1: above, y2: bottom }),
    build("rect", { class: "eb-refusal-plate", x: left, y: bottom - 28, width, height: 20, rx: 3 }),
    note(left + width / 2, bottom - 14, "middle", name, "eb-refusal-name"),
  ];
}

/** Where each step begins and ends, and its name, where there is room for it. */
const stepLines = ({ steps }, { x, bottom }) => (steps ?? []).flatMap(([name, first, last]) => {
  const [from, to] = [x(first), x(last + 1)];
  return [
    build("line", { class: "eb-step-line", x1: to, x2: to, y1: 0, y2: bottom }),
    name.length * WIDE_LETTER + 4 <= to - from ? note((from + to) / 2, 13, "middle", name, "eb-step-name") : "",
  ];
});

const axis = ({ ticks, y }) => ticks.flatMap((bytes) => [
  build("line", { class: "eb-tick", x1: AREAS.left - 5, x2: AREAS.left, y1: y(bytes), y2: y(bytes) }),
  note(AREAS.left - 8, y(bytes) + 4, "end", bytes ? short(bytes) : "0"),
]);

function peak(timeline, { x, y, n }) {
  const across = x(timeline.peak + 0.5);
  const bytes = bytesAt(timeline, timeline.peak);
  const anchor = across < x(0.2 * n) ? "start" : across > x(0.8 * n) ? "end" : "middle";
  return [
    build("circle", { class: "eb-top", cx: across, cy: y(bytes), r: 4 }),
    note(across, y(bytes) - 8, anchor, `peak ${short(bytes)}`, "eb-peak"),
  ];
}

function lines({ reserved, peak: column }, { x, y, n, capacity }) {
  const isRight = column < n / 2; // beside the peak's own words
  const name = note(isRight ? x(n) - 4 : x(0) + 4, y(reserved[isRight ? n - 1 : 0]) - 5, isRight ? "end" : "start", "reserved");
  const path = build("path", { class: "eb-reserved", d: `M${forth(reserved, { x, y }).join("L")}` });
  if (!capacity) return [path, name];
  return [path, name,
    build("line", { class: "eb-capacity", x1: x(0), x2: x(n), y1: y(capacity), y2: y(capacity) }),
    note(isRight ? x(n) - 4 : x(0) + 4, y(capacity) - 5, isRight ? "end" : "start", `room for ${short(capacity)}`, "eb-room")];
}

/** The other step as a line, with paper on both sides so that it stands out from any area; its name at its peak. */
function outline(timeline, { x, y, n }) {
  const { outline: other, peak: column } = timeline;
  if (!other) return [];
  const d = `M${forth(other.bytes, { x, y }).join("L")}`;
  const most = Math.max(...other.bytes);
  const top = other.bytes.indexOf(most);
  const name = `${other.name}: ${short(most)}`;
  const left = Math.min(x(top + 0.5) + 6, x(n) - name.length * WIDE_LETTER); // to the right of it, as far as there is room
  const peak = y(bytesAt(timeline, column));
  const isNear = Math.abs(y(most) - peak) < 2 * ROOM; // then the words go above the peak's own
  const height = isNear ? Math.min(y(most), peak) - 8 - LINE : y(most) - 6;
  return [
    build("path", { class: "eb-outline-halo", d }), build("path", { class: "eb-outline", d }),
    note(left, height, "start", name, "eb-outline-name"),
  ];
}

/** Draws a timeline into `svg`; returns for a column the pixels {x, y, bottom}: its middle, at the height of its bytes, and the ground. */
export function drawAreas(svg, width, timeline, ids, numberOf) {
  const scales = createScales(timeline, width);
  svg.setAttribute("height", scales.bottom + 1);
  svg.setAttribute("aria-label", timeline.caption);
  svg.replaceChildren(
    build("defs", {}, ...Object.entries(timeline.colours).map(([name, { hatch }]) => pattern(ids[name], hatch))),
    ...shades(timeline, scales), ...stepLines(timeline, scales), ...stack(timeline, scales, ids, numberOf), ...axis(scales), ...lines(timeline, scales), ...outline(timeline, scales), ...refusal(timeline, scales), ...peak(timeline, scales));
  return (column) => ({ x: scales.x(column + 0.5), y: scales.y(bytesAt(timeline, column)), bottom: scales.bottom });
}

/** Where the plot begins, in pixels. */
export const PLOT_LEFT = AREAS.left;
