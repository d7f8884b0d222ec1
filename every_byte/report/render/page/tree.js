// The tree of modules at one instant: each with all in it, its bytes by category as a bar, and its own allocations.
//
//   rows  [[module, category, what, about, number, bytes of each, slack of all]], the first four as places in `texts`

import { build, swatch, tone } from "../../../widget/page/elements.js";
import { counted, exact, short } from "../../../widget/page/numbers.js";

const BAR = 220; // pixels that a bar has, about: from what width on a part has its number
const MOST_LISTED = 200;
const FEW_LAYERS = 10;
const OUTERMOST = "the outermost module, or none";

const branch = (name) => ({ name, within: new Map(), own: new Map(), bytes: 0, n: 0, parts: new Map() });

function addTo(node, category, n, bytes) {
  node.bytes += bytes;
  node.n += n;
  node.parts.set(category, (node.parts.get(category) ?? 0) + bytes);
}

/** For each module the layers in it that are named by number and class, "0 Linear". */
function layersIn({ rows, texts }) {
  const found = new Map();
  for (const path of new Set(rows.map(([module]) => texts[module]))) {
    const names = path.split(".");
    names.forEach((name, i) => {
      const outer = names.slice(0, i).join(".");
      if (/^\d+ /.test(name)) found.set(outer, (found.get(outer) ?? new Set()).add(name));
    });
  }
  return found;
}

/** The tree of all rows; with `together`, modules that differ in numbers alone are one: of a few layers, each is its own. */
function plant({ rows, texts }, together) {
  const root = branch("");
  const layers = layersIn({ rows, texts });
  for (const [module, category, what, about, n, each, slack] of rows) {
    const names = texts[module].split(".").filter(Boolean);
    const bytes = n * each + slack;
    let node = root;
    addTo(node, texts[category], n, bytes);
    for (const [i, name] of names.entries()) {
      const isOwn = !together || layers.get(names.slice(0, i).join("."))?.size <= FEW_LAYERS;
      const kind = isOwn ? name : name.replace(/^\d+(?= |$)/, "*");
      if (!node.within.has(kind)) node.within.set(kind, branch(kind));
      node = node.within.get(kind);
      addTo(node, texts[category], n, bytes);
    }
    const key = [category, what, about, each].join();
    const known = node.own.get(key) ?? { category: texts[category], what: texts[what], about: texts[about], n: 0, each, slack: 0 };
    node.own.set(key, { ...known, n: known.n + n, slack: known.slack + slack });
  }
  return root;
}

const bytesOf = (row) => row.n * row.each + row.slack;

function branchBar(node, whole, { numberOf, colours }) {
  const parts = [...node.parts].filter(([, bytes]) => bytes).sort(([a], [b]) => numberOf(a) - numberOf(b));
  const drawn = parts.map(([name, bytes]) => {
    const isWide = (BAR * bytes) / whole > 15;
    return build("span", { style: `${tone(colours[name])};flex-grow:${bytes}`, title: `${name}: ${short(bytes)}` }, isWide ? `${numberOf(name)}` : "");
  });
  return build("span", { class: "eb-tree-bar", "aria-hidden": "true" }, build("span", { style: `width:${((100 * node.bytes) / whole).toFixed(2)}%` }, ...drawn));
}

const amountOf = (bytes, ...more) => build("span", { class: "eb-tree-bytes" }, exact(bytes), build("small", {}, [short(bytes), ...more].join(" · ")));

function ownItem(row, { numberOf, colours }) {
  const said = [row.category, row.about].filter(Boolean).join(" · ");
  const sizes = `${row.n > 1 ? `${row.n} × ` : ""}${exact(row.each)} requested${row.slack ? ` + ${exact(row.slack)} slack` : ""}`;
  return build("li", { class: "eb-leaf", "data-bytes": bytesOf(row) }, swatch(numberOf(row.category), colours[row.category]),
    build("span", {}, build("code", {}, row.what), build("small", {}, said)),
    build("span", { class: "eb-tree-bytes" }, exact(bytesOf(row)), build("small", {}, sizes)));
}

/** What a branch has within; with `isOpen` its largest part is open, and so on. */
function contents(node, look, isOpen = false) {
  const within = [...node.within.values()].sort((a, b) => b.bytes - a.bytes);
  const own = [...node.own.values()].sort((a, b) => bytesOf(b) - bytesOf(a));
  const more = own.length - MOST_LISTED;
  const rest = more > 0 ? [build("li", {}, `and ${exact(more)} more, all of them smaller`)] : [];
  return build("ul", {}, ...within.map((child, i) => branchItem(child, look, isOpen && i === 0 && child.within.size > 0)), ...own.slice(0, MOST_LISTED).map((row) => ownItem(row, look)), ...rest);
}

/** A branch and, as long as it has one part alone, this part: blocks.*. */
function narrowed(node) {
  if (node.own.size || node.within.size !== 1) return node;
  const [part] = node.within.values();
  return narrowed({ ...part, name: `${node.name}.${part.name}` });
}

/** A branch that opens: what is within is made when it does. */
function branchItem(branched, look, isOpen = false) {
  const node = narrowed(branched);
  const summary = build("summary", {}, build("code", {}, node.name), branchBar(node, look.whole, look), amountOf(node.bytes, counted(node.n, "allocations")));
  const details = build("details", { "data-bytes": node.bytes, "data-module": node.name }, summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(contents(node, look, isOpen));
  });
  details.open = isOpen;
  return build("li", {}, details);
}

/** `element` for the page: the tree, and a box that puts alike modules together. */
export function createTree(data, numberOf, colours) {
  const box = build("input", { type: "checkbox", id: "alike" });
  const here = build("div", { class: "eb-tree" });
  const total = build("p", { class: "eb-rest" });
  function draw() {
    const root = plant(data, box.checked);
    const look = { whole: root.bytes, numberOf, colours };
    const own = { ...branch(OUTERMOST), own: root.own };
    for (const row of root.own.values()) addTo(own, row.category, row.n, bytesOf(row));
    const top = { within: new Map([...root.within, ...(own.n ? [["", own]] : [])]), own: new Map() };
    here.replaceChildren(contents(top, look, true));
    total.textContent = `In all ${exact(root.bytes)} bytes (${short(root.bytes)}) in ${counted(root.n, "allocations")}: whole blocks, slack included.`;
  }
  box.checked = true;
  box.addEventListener("change", draw);
  draw();
  return build("div", {}, build("p", { class: "eb-choice" }, box, build("label", { for: "alike" }, "alike modules together: blocks.0, blocks.1, … as blocks.*")), here, total);
}
