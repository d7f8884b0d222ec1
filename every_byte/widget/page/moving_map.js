// The moving map of an explorer: the segments and their blocks after each request of a program, and what happened in words.
//
//   map  {line: what one line stands for, n_requests, refused: whether the last step's request was, names: [category], colours,
//         rows: [[[size, category's place, allocation's number] or [size, FREE or UNMAPPED]]],
//         steps: [{rows: [place of a row], driver: size, asks: bytes, of: category's place, number, said}]};
//        sizes are in units of 512 bytes

import { build, pattern, swatch, tone } from "./elements.js";
import { short, sum } from "./numbers.js";

const [FREE, UNMAPPED] = [-1, -2];
const UNIT = 512; // bytes
const MAP_LINE = { height: 17, gap: 5, left: 66 }; // pixels; left: a segment's size
const BLOCK_CHARACTER = 6.4; // width of one of a block's
const STEP_MS = 700;

const sizeOf = (row) => sum(row.map(([size]) => size));
const held = (row) => sum(row.filter(([, what]) => what !== UNMAPPED).map(([size]) => size));
const linesOf = (size, line) => Math.max(1, Math.ceil(size / line));

/** [what, number, from, to, isFirst]: the parts of pieces side by side, cut at the end of each line. */
function cut(pieces, line) {
  const parts = [];
  let at = 0;
  for (const [size, what, number] of pieces) {
    for (let from = at; from < at + size; from = (Math.floor(from / line) + 1) * line) {
      parts.push({ what, number, from, to: Math.min(at + size, (Math.floor(from / line) + 1) * line), size, isFirst: from === at });
    }
    at += size;
  }
  return parts;
}

/** One part of a block, a free piece or a gap; a block has its category's number, and its size where there is room. */
function drawPart(part, top, map, scale, ids, numberOf, isNew) {
  const { line } = map;
  const y = top + Math.floor(part.from / line) * (MAP_LINE.height + MAP_LINE.gap);
  const x = MAP_LINE.left + scale(part.from % line);
  const width = Math.max(1.5, scale(part.to - part.from));
  const box = { x, y, width, height: MAP_LINE.height };
  const written = (texts) => (part.isFirst && texts.find((text) => text.length * BLOCK_CHARACTER + 8 <= width)) || "";
  const size = short(part.size * UNIT);
  const word = (texts) => build("text", { x: x + width / 2, y: y + MAP_LINE.height / 2, "text-anchor": "middle" }, written(texts));
  if (part.what === FREE) return build("g", { class: "eb-free" }, build("title", {}, `free: ${size}`), build("rect", box), word([size]));
  if (part.what === UNMAPPED) return build("g", { class: "eb-unmapped" }, build("title", {}, `no memory: ${size}`), build("rect", box), word(["no memory"]));
  const name = map.names[part.what];
  return build("g", { class: `eb-segment${isNew ? " eb-new" : ""}`, style: tone(map.colours[name]), "data-category": name },
    build("title", {}, `${name}: ${size}`), build("rect", { ...box, class: "eb-fill" }),
    map.colours[name].hatch ? build("rect", { ...box, fill: `url(#${ids[part.what]})` }) : "",
    word([`${numberOf(name)} · ${size}`, `${numberOf(name)}`]),
    isNew ? build("rect", { ...box, class: "eb-frame" }) : "");
}

/** Lines that a step's map takes, one of them for the request and one or more for what the driver has. */
const height = (map, { rows, driver }) =>
  (1 + sum(rows.map((place) => linesOf(sizeOf(map.rows[place]), map.line))) + linesOf(driver, map.line)) * (MAP_LINE.height + MAP_LINE.gap) + MAP_LINE.gap;

function drawStep(svg, map, place, width, ids, numberOf) {
  const step = map.steps[place];
  const scale = (size) => ((width - MAP_LINE.left - 1) * size) / map.line;
  const isRefused = map.refused && place === map.steps.length - 1;
  const asked = Math.ceil(step.asks / UNIT);
  const lines = [{ label: "asked for", pieces: [[asked, step.of, null]], className: isRefused ? "eb-asked eb-refused" : "eb-asked" },
    ...step.rows.map((row) => ({ label: short(held(map.rows[row]) * UNIT), pieces: map.rows[row], className: "eb-row" })),
    { label: "driver has", pieces: [[step.driver, FREE]], className: "eb-driver" }];
  let top = 1;
  const groups = lines.map(({ label, pieces, className }, i) => {
    const isRequest = i === 0;
    const parts = cut(pieces, map.line).map((part) => drawPart(part, top, map, scale, ids, numberOf, isRequest || part.number === step.number));
    const group = build("g", { class: className }, build("text", { class: "eb-caption", x: MAP_LINE.left - 7, y: top + MAP_LINE.height / 2, "text-anchor": "end" }, label), ...parts);
    top += linesOf(sum(pieces.map(([size]) => size)), map.line) * (MAP_LINE.height + MAP_LINE.gap) + (isRequest ? MAP_LINE.gap : 0);
    return group;
  });
  svg.replaceChildren(build("defs", {}, ...map.names.map((name, i) => pattern(ids[i], map.colours[name].hatch))), ...groups);
}

/** What the whole card is, in words. */
function summary(map, { rows, driver }) {
  const pieces = rows.flatMap((place) => map.rows[place]);
  const sizes = pieces.filter(([, what]) => what === FREE).map(([size]) => size);
  const used = sum(pieces.filter(([, what]) => what >= 0).map(([size]) => size));
  const bytes = (size) => short(size * UNIT);
  const free = sizes.length ? `${bytes(sum(sizes))} free in ${sizes.length} ${sizes.length === 1 ? "piece" : "pieces"}, the largest ${bytes(Math.max(...sizes))}` : "nothing free";
  return `${rows.length} ${rows.length === 1 ? "segment" : "segments"}: ${bytes(used)} in use, ${free}. The driver has ${bytes(driver)} left.`;
}

function ledger(map, { rows }, numberOf) {
  const sizes = map.names.map((_, i) => sum(rows.flatMap((place) => map.rows[place]).filter(([, what]) => what === i).map(([size]) => size)));
  const present = map.names.map((name, i) => [name, sizes[i]]).filter(([, size]) => size);
  present.sort(([a], [b]) => numberOf(a) - numberOf(b));
  return present.map(([name, size]) =>
    build("li", { "data-category": name, "data-bytes": size * UNIT }, swatch(numberOf(name), map.colours[name]), build("span", {}, name), build("b", {}, short(size * UNIT))));
}

const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** A button that goes on by itself, from the beginning if it stands at the end, until it is pressed again. */
function createPlay(at, last, move) {
  const button = build("button", { type: "button", class: "eb-play" }, "play");
  let timer = 0;
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "play";
  };
  const tick = () => {
    if (!button.isConnected || at() >= last()) stop();
    else move(at() + 1);
  };
  button.addEventListener("click", () => {
    if (timer) return stop();
    if (at() >= last()) move(0);
    timer = setInterval(tick, STEP_MS);
    button.textContent = "pause";
  });
  button.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab takes Enter
  return { button, stop };
}

/** `element` for the page, hidden as long as there is no map, and `draw(width, compared, map)`. Another map is shown at the
 * request at which the one before it was, as far as it goes. */
export function createMap(prefix) {
  const svg = build("svg", { role: "img", class: "eb-map" });
  const id = `${prefix}-request`;
  const slider = build("input", { type: "range", id, min: 1, step: 1, "data-request": "" });
  const said = build("p", { class: "eb-said" });
  const whole = build("p", { class: "eb-whole" });
  const list = build("ul", { class: "eb-in-use", "aria-label": "what is in use after this request" });
  let shown = {}; // map, width, numbers, place
  let wanted = Infinity; // the request that the reader chose; the last until then
  const play = createPlay(() => shown.place, () => shown.map.steps.length - 1, (place) => move(place));
  const element = build("figure", { class: "eb-moving", hidden: "" },
    build("div", { class: "eb-moving-title" }, "The card after each request: a line for each segment"),
    build("div", { class: "eb-request" }, slider, build("div", {}, build("label", { for: id }, "request"), play.button)),
    said, svg, whole, list);

  function drawPlace() {
    const { map, width, place, ids, numberOf } = shown;
    const step = map.steps[place];
    drawStep(svg, map, place, width, ids, numberOf);
    svg.setAttribute("aria-label", summary(map, step));
    slider.value = place + 1;
    slider.setAttribute("aria-valuetext", step.said);
    said.textContent = step.said;
    whole.textContent = summary(map, step);
    list.replaceChildren(...ledger(map, step, numberOf));
    play.button.hidden = isCalm();
  }
  function move(place) {
    wanted = place;
    shown = { ...shown, place };
    drawPlace();
  }
  slider.addEventListener("input", () => {
    play.stop();
    move(Number(slider.value) - 1);
  });

  function draw(width, { stages }, map) {
    element.hidden = !map;
    if (!map) return play.stop();
    const rows = stages.flatMap((stage) => stage.rows);
    const names = [...new Set([...[...rows].sort((a, b) => a.number - b.number).map(({ name }) => name), ...map.names])];
    const numbers = names.join();
    if (shown.map === map && shown.width === width && shown.numbers === numbers) return;
    const last = map.steps.length - 1;
    slider.max = last + 1;
    svg.setAttribute("height", Math.max(...map.steps.map((step) => height(map, step))));
    const ids = map.names.map((_, i) => `${prefix}-block-${i}`);
    shown = { map, width, numbers, ids, numberOf: (name) => names.indexOf(name) + 1, place: Math.min(wanted, last) };
    drawPlace();
  }
  return { element, draw };
}
