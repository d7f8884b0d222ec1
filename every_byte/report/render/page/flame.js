// The peak as a flame graph that hangs down: each box as wide as its bytes, and below it what it consists of.
//
//   flames  {kind: [name, bytes, allocations, category or "", [boxes within]]}, kinds "call stack", "module", "category"

import { build, tone } from "../../../widget/page/elements.js";
import { counted, exact, short } from "../../../widget/page/numbers.js";

const LEAST_BOX = 0.002; // of the width: what is less is left out of the drawing, and opens when one zooms in

const shareOf = (part, whole) => `${((100 * part) / whole).toFixed(part < whole / 100 ? 2 : 0)} %`;
const boxWords = ([name, bytes, n], whole) => `${name}: ${short(bytes)} (${exact(bytes)} bytes), ${shareOf(bytes, whole)}, ${counted(n, "allocations")}`;

/** A box with those within it; `path` leads from the whole to it. */
function flameBox(node, path, look) {
  const [name, bytes, , category, within] = node;
  const button = build("button", { type: "button", class: "eb-flame-box", tabindex: "-1", title: boxWords(node, look.whole), style: category ? tone(look.colours[category]) : "" }, name);
  if (category) button.dataset.category = category;
  button.addEventListener("click", () => look.zoom(path));
  button.addEventListener("focus", () => look.tell(node));
  button.addEventListener("mouseenter", () => look.tell(node));
  const shown = within.map((inner, i) => [inner, i]).filter(([inner]) => inner[1] >= look.drawn * LEAST_BOX);
  const rest = bytes - shown.reduce((all, [inner]) => all + inner[1], 0);
  const below = build("div", { class: "eb-flame-below" }, ...shown.map(([inner, i]) => flameBox(inner, [...path, i], look)));
  if (shown.length && rest > 0) below.append(build("span", { style: `flex:${rest} 0 0` }));
  return build("div", { class: "eb-flame-part", style: `flex:${bytes} 0 0` }, button, below);
}

const boxAt = (root, path) => path.reduce((node, i) => node[4][i], root);

/** The box that an arrow leads to from one. */
function boxBeside(button, key) {
  const part = button.parentElement;
  const up = part.parentElement.closest(".eb-flame-part");
  const to = { ArrowUp: up, ArrowDown: part.querySelector(".eb-flame-below > .eb-flame-part"), ArrowLeft: part.previousElementSibling, ArrowRight: part.nextElementSibling }[key];
  return to?.querySelector(":scope > button");
}

/** `element` for the page. */
export function createFlame(flames, colours) {
  const kinds = Object.keys(flames);
  const choice = build("select", { id: "flame-by" }, ...kinds.map((kind) => build("option", {}, kind)));
  const here = build("div", { class: "eb-flame", role: "group", "aria-label": "flame graph; arrows move, Enter zooms in, Escape zooms out" });
  const said = build("p", { class: "eb-rest", "aria-live": "polite" });
  let path = [];
  function draw(focus) {
    const root = flames[choice.value];
    const node = boxAt(root, path);
    const tell = (one) => { said.textContent = boxWords(one, root[1]); };
    const zoom = (to) => { path = to.join() === path.join() ? to.slice(0, -1) : to; draw(true); };
    const above = path.map((_, depth) => {
      const button = build("button", { type: "button", class: "eb-flame-box eb-flame-above" }, boxAt(root, path.slice(0, depth))[0]);
      button.addEventListener("click", () => { path = path.slice(0, depth); draw(true); });
      return button;
    });
    here.replaceChildren(...above, flameBox(node, path, { whole: root[1], drawn: node[1], colours, zoom, tell }));
    const first = here.querySelector(".eb-flame-part > button");
    first.tabIndex = 0;
    tell(node);
    if (focus) first.focus();
  }
  here.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && path.length) {
      path = path.slice(0, -1);
      draw(true);
    }
    const to = event.key.startsWith("Arrow") && event.target.closest(".eb-flame-part") ? boxBeside(event.target, event.key) : null;
    if (to) {
      event.preventDefault();
      event.target.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    }
  });
  choice.addEventListener("change", () => { path = []; draw(false); });
  draw(false);
  return build("div", {}, build("p", { class: "eb-choice" }, build("label", { for: "flame-by" }, "by"), choice), here, said);
}
