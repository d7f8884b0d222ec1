// The whole card as one bar: the CUDA context, what is in use by category, what lies free in segments, what is left.
//
//   card  {parts: {category: bytes}, reserved: when memory ran out, or else at most, room, total, asked: what was refused or 0}

import { build, pattern, tone } from "../../../widget/page/elements.js";
import { short, sum } from "../../../widget/page/numbers.js";

const CARD = { height: 46, above: 26 }; // pixels
const CARD_LETTER = 7;

function piece(className, from, width, words, ...more) {
  const box = { x: from, y: CARD.above, width: Math.max(0, width), height: CARD.height };
  const text = words.find((word) => word.length * CARD_LETTER + 6 <= width);
  const middle = { x: from + width / 2, y: CARD.above + CARD.height / 2, "text-anchor": "middle" };
  return build("g", { class: className, ...more[0] }, build("rect", { ...box, class: "eb-fill" }),
    more[1] ? build("rect", { ...box, fill: more[1] }) : "", text ? build("text", middle, text) : "");
}

/** Where memory ran out, a frame as long as what was asked for, behind what is reserved. */
function asked(card, x) {
  if (!card.asked) return [];
  const [from, to] = [x(card.reserved), x(card.reserved + card.asked)];
  const edge = x(card.room);
  return [
    build("rect", { class: "eb-card-asked", x: from, y: CARD.above - 4, width: to - from, height: CARD.height + 8 }),
    build("text", { class: "eb-card-word", x: to, y: CARD.above - 14, "text-anchor": "end" }, `asked for ${short(card.asked)}`),
    build("line", { class: "eb-card-edge", x1: edge, x2: edge, y1: CARD.above - 4, y2: CARD.above + CARD.height + 4 }),
  ];
}

/** What the bar shows, in words. */
export function cardWords(card) {
  const used = sum(Object.values(card.parts));
  const context = card.total - card.room;
  const held = `${short(card.reserved - used)} ${card.asked ? "free in segments" : "more reserved at most"}`;
  const said = [`${short(used)} in use`, held, `${short(card.room - card.reserved)} ${card.asked ? "left to the driver" : "never reserved"}`];
  if (context > 0) said.push(`${short(context)} assumed for the CUDA context`);
  return `${card.asked ? "When memory ran out" : "At the peak"}: ${said.join(", ")}; ${short(card.total)} in all.`;
}

/** `element` for the page and `draw(width)`. */
export function createCard(card, numberOf, colours) {
  const svg = build("svg", { role: "img", class: "eb-card", "aria-label": cardWords(card) });
  const element = build("figure", { class: "eb-card-figure" }, svg, build("figcaption", {}, cardWords(card)));
  const ids = Object.fromEntries(Object.keys(card.parts).map((name) => [name, `card-${numberOf(name)}`]));
  function draw(width) {
    const most = Math.max(card.room, card.reserved + card.asked);
    const x = (bytes) => ((width - 2) * bytes) / most + 1;
    let at = 0;
    const parts = Object.entries(card.parts).sort(([a], [b]) => numberOf(a) - numberOf(b)).map(([name, bytes]) => {
      const [from, to] = [x(at), x((at += bytes))];
      const words = [`${numberOf(name)} ${name} ${short(bytes)}`, `${numberOf(name)} ${name}`, `${numberOf(name)}`];
      return piece("eb-segment", from, to - from, words, { style: tone(colours[name]), "data-category": name }, colours[name].hatch ? `url(#${ids[name]})` : "");
    });
    const left = card.room - card.reserved;
    svg.setAttribute("height", CARD.above + CARD.height + 5);
    svg.replaceChildren(
      build("defs", {}, ...Object.entries(ids).map(([name, id]) => pattern(id, colours[name].hatch))),
      piece("eb-card-free", x(card.reserved), x(card.room) - x(card.reserved), [`free ${short(left)}`, "free"]),
      ...parts,
      piece("eb-card-cached", x(at), x(card.reserved) - x(at), [`reserved, free ${short(card.reserved - at)}`, "reserved, free"]),
      ...asked(card, x));
  }
  return { element, draw };
}
