// The segments where memory ran out, one after the other, in lines of equal size: who has which piece, and what lies free.
//
//   map  {segments: [[[size, category's place or -1 for free]]], asked: bytes, free: [how many pieces, the bytes of the
//        largest]}; sizes in blocks of 512 bytes, what is too small to be seen goes with what is before it

import { build, pattern, tone } from "../../../widget/page/elements.js";
import { counted, short, sum } from "../../../widget/page/numbers.js";

const BLOCK = 512; // bytes
const SEGMENTS = { height: 15, gap: 4, lines: 20 }; // pixels; lines: how many all segments take

/** [{what, from, to, isFirst}] of pieces one after the other, cut at the end of each line. */
function broken(pieces, line) {
  const parts = [];
  let at = 0;
  for (const [size, what] of pieces) {
    for (let from = at; from < at + size; from = (Math.floor(from / line) + 1) * line) {
      parts.push({ what, from, to: Math.min(at + size, (Math.floor(from / line) + 1) * line) });
    }
    at += size;
  }
  return parts;
}

function drawPiece({ what, from, to }, top, place, names, colours, ids) {
  const { x, line } = place;
  const box = { x: x(from % line), y: top + Math.floor(from / line) * (SEGMENTS.height + SEGMENTS.gap), width: Math.max(0.7, x(to - from)), height: SEGMENTS.height };
  if (what < 0) return build("rect", { ...box, class: "eb-map-free" });
  const name = names[what];
  return build("g", { class: "eb-segment", style: tone(colours[name]), "data-category": name },
    build("rect", { ...box, class: "eb-fill" }), colours[name].hatch && box.width > 4 ? build("rect", { ...box, fill: `url(#${ids[what]})` }) : "");
}

function mapWords(map, line) {
  const [n, most] = map.free;
  const largest = n ? (n > 1 ? `; the largest of ${counted(n, "free pieces")} has ${short(most)}` : `; the one free piece has ${short(most)}`) : "";
  return `${counted(map.segments.length, "segments")}, ${short(sum(map.segments.flat().map(([size]) => size)) * BLOCK)}, one after the other by address, ${short(line * BLOCK)} a line${largest}. ` +
    `The frame above is what was asked for, ${short(map.asked)}, at the same scale. A thin line is where a segment begins; free pieces are empty.`;
}

/** `element` for the page and `draw(width)`. */
export function createSegments(map, names, colours) {
  const size = sum(map.segments.flat().map(([n]) => n));
  const line = Math.max(1, Math.ceil(size / SEGMENTS.lines));
  const words = mapWords(map, line);
  const svg = build("svg", { role: "img", class: "eb-segments", "aria-label": words });
  const element = build("figure", { class: "eb-card-figure" }, svg, build("figcaption", {}, words));
  const ids = names.map((_, i) => `piece-${i}`);
  function draw(width) {
    const place = { line, x: (n) => (width * n) / line };
    const row = SEGMENTS.height + SEGMENTS.gap;
    const request = broken([[Math.ceil(map.asked / BLOCK), 0]], line);
    const top = (Math.floor(request.at(-1).from / line) + 1) * row + SEGMENTS.gap;
    const frames = request.map(({ from, to }) => build("rect", {
      class: "eb-card-asked", x: place.x(from % line), y: Math.floor(from / line) * row + 1, width: place.x(to - from), height: SEGMENTS.height }));
    const edges = map.segments.reduce(([edges, at], pieces) => [[...edges, at], at + sum(pieces.map(([n]) => n))], [[], 0])[0];
    const word = build("text", { class: "eb-card-word", x: 6, y: 1 + SEGMENTS.height / 2 }, `asked for ${short(map.asked)}`);
    const marks = edges.map((at) => {
      const [x, y] = [place.x(at % line), top + Math.floor(at / line) * row];
      return build("line", { class: "eb-map-edge", x1: x, x2: x, y1: y - 2, y2: y + SEGMENTS.height + 2 });
    });
    svg.setAttribute("height", top + Math.ceil(size / line) * row);
    svg.replaceChildren(build("defs", {}, ...names.map((name, i) => pattern(ids[i], colours[name].hatch))),
      ...frames, word, ...broken(map.segments.flat(), line).map((part) => drawPiece(part, top, place, names, colours, ids)), ...marks);
  }
  return { element, draw };
}
