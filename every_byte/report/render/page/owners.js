// The largest owners at an instant of a run: category, module, operation, how many of what size.
//
//   timeline  as timeline.js draws it, and {owners: [[category's place, module, what, about, bytes of each]],
//             largest: for each column [place of an owner, number, …], live: for each column how many allocations there are}

import { build, swatch } from "../../../widget/page/elements.js";
import { counted, exact, short, sum } from "../../../widget/page/numbers.js";

function ownerItem([category, module, what, about, each], n, names, colours) {
  const name = names[category];
  const about_it = [name, what, about].filter(Boolean).join(" · ");
  const words = build("span", {}, build("code", {}, module || "the outermost module, or none"), build("small", {}, about_it));
  const size = build("b", {}, short(n * each), build("small", {}, n > 1 ? `${n} × ${short(each)}` : ""));
  return build("li", { "data-bytes": n * each }, swatch(category + 1, colours[name]), words, size);
}

/** `element` for the page, and `draw(column)`. */
export function createOwners(timeline) {
  const names = Object.keys(timeline.columns);
  const list = build("ol", { class: "eb-owners", "aria-label": "the largest owners at this instant" });
  const rest = build("p", { class: "eb-rest" });
  const element = build("div", { class: "eb-owners-block" }, build("h3", {}, "The largest owners at this instant"), list, rest);
  function draw(column) {
    const flat = timeline.largest[column];
    const shown = Array.from({ length: flat.length / 2 }, (_, i) => [timeline.owners[flat[2 * i]], flat[2 * i + 1]]);
    list.replaceChildren(...shown.map(([owner, n]) => ownerItem(owner, n, names, timeline.colours)));
    const requested = sum(names.filter((name) => name !== "slack").map((name) => timeline.columns[name][column]));
    const others = timeline.live[column] - sum(shown.map(([, n]) => n));
    const bytes = requested - sum(shown.map(([owner, n]) => n * owner[4]));
    rest.textContent = others ? `and ${counted(others, "smaller allocations")}: ${exact(bytes)} bytes (${short(bytes)})` : "";
  }
  return { element, draw };
}
