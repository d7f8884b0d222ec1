// The elements that an explorer is built of: HTML and SVG, colours and hatches.

/** An element, HTML or SVG, with attributes (null: left out) and children. A page may forbid style attributes: it is set as a property. */
export function build(tag, attributes = {}, ...children) {
  const isSvg = ["svg", "g", "rect", "text", "title", "defs", "pattern", "path", "line", "tspan", "circle"].includes(tag);
  const node = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") node.style.cssText = value;
    else if (value !== null) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Both tones of a term's colour, for the style sheet to choose from. */
export const tone = (colour) => `--light:${colour?.light ?? "#555"};--dark:${colour?.dark ?? "#bbb"}`;

// Strokes for matplotlib's hatch letters, on a tile of 8 by 8.
const HATCHES = {
  "/": "M-2 2L2 -2M0 8L8 0M6 10L10 6", "\\": "M-2 6L2 10M0 0L8 8M6 -2L10 2", x: "M0 0L8 8M0 8L8 0", "-": "M0 4H8",
  "|": "M4 0V8", "+": "M0 4H8M4 0V8", ".": "M3.4 4h1.2", o: "M2 4a2 2 0 1 0 4 0a2 2 0 1 0 -4 0", "//": "M0 4L4 0M0 8L8 0M4 8L8 4",
  "*": "M4 1.8V6.2M2.1 2.9L5.9 5.1M5.9 2.9L2.1 5.1", "\\\\": "M0 4L4 8M0 0L8 8M4 0L8 4", "--": "M0 2H8M0 6H8", "||": "M2 0V8M6 0V8",
  xx: "M0 0L8 8M0 8L8 0M0 4L4 0M4 8L8 4M0 4L4 8M4 0L8 4",
};

/** An SVG pattern that draws a hatch. */
export const pattern = (id, hatch) =>
  build("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, build("path", { d: HATCHES[hatch] ?? "" }));

/** A small square in a term's colour with its number, for a line of text. */
export const swatch = (number, colour) => build("span", { class: "eb-swatch", style: tone(colour) }, String(number));
