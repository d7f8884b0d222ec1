// The table of an explorer: one row for each term; terms in stages are folded below a row for the stage.

import { build, swatch } from "./elements.js";
import { amount, exact, short } from "./numbers.js";

const CELL = { role: "cell" };
const unbroken = (text) => text.replaceAll("⌉", "⌉\u2060"); // no line ends between a bracket and its 512

function number(kind, label, bytes, isStale, note = "") {
  const content = bytes === null ? [isStale ? "…" : "–"] : [exact(bytes), build("small", {}, short(bytes))];
  if (note) content.push(build("small", { class: "eb-off" }, note));
  return build("td", { ...CELL, class: `eb-number eb-${kind}`, "data-label": label }, ...content);
}

/** The column of the account beside, if there is one, and by how much the account is more. */
function besideCell({ beside, off }, { origin, besideOrigin }) {
  return besideOrigin ? [number("beside", besideOrigin, beside, false, off ? `${origin}: ${amount(off)}` : "")] : [];
}

/** What a row of a term, a stage or the total says behind its name. `columns` are {state, origin, besideOrigin}. */
function cells(line, columns) {
  const { state, origin } = columns;
  const accounted = state === "failed" ? null : line.accounted;
  const { difference, note } = line;
  const text = difference === null ? (state === "waiting" ? "…" : "–") : amount(difference);
  return [
    build("td", { ...CELL, class: "eb-formula" }, unbroken(line.text ?? "")),
    number("predicted", "predicted", line.predicted, false),
    ...besideCell(line, columns),
    number("accounted", origin, accounted, state === "waiting"),
    build("td", { ...CELL, class: `eb-number eb-difference ${difference || note ? "eb-off" : ""}`, "data-label": "difference" },
      text, note ? build("small", {}, note) : ""),
  ];
}

const figures = (line, { state }) => ({
  "data-predicted": line.unsized ? null : (line.predicted ?? 0),
  "data-accounted": state === "ready" ? (line.accounted ?? 0) : null,
  "data-beside": state === "ready" ? line.beside : null,
  "data-difference": line.difference,
});

function termRow(line, columns, colour) {
  const name = build("span", {}, line.name, line.why ? build("small", {}, line.why) : "");
  return build("tr", { role: "row", "data-stage": line.stage || null, "data-term": line.name, ...figures(line, columns) },
    build("th", { role: "rowheader", scope: "row" }, build("div", { class: "eb-term" }, line.number ? swatch(line.number, colour) : "", name)),
    ...cells(line, columns));
}

/** Closed at first. The button stays the same element, so that it keeps the focus while numbers come and go. */
function createStage(name, id) {
  const button = build("button", {
    type: "button", class: "eb-open", "aria-expanded": "false", "aria-controls": id,
  }, name);
  const row = build("tr", { role: "row", "data-stage": name }, build("th", { role: "rowheader", scope: "row" }, button));
  const terms = build("tbody", { role: "rowgroup", id, hidden: "" });
  button.addEventListener("click", () => {
    terms.hidden = !terms.hidden;
    button.setAttribute("aria-expanded", String(!terms.hidden));
  });
  button.addEventListener("keydown", (event) => event.stopPropagation()); // JupyterLab takes Enter and the arrows
  function draw(stage, columns, colours) {
    for (const [attribute, value] of Object.entries(figures(stage, columns))) {
      if (value === null) row.removeAttribute(attribute);
      else row.setAttribute(attribute, value);
    }
    while (row.cells.length > 1) row.lastChild.remove();
    const content = stage.rows.filter((line) => line.predicted || line.accounted || line.beside || line.unsized).map(({ name }) => name);
    const isBalanced = stage.difference === 0 && stage.rows.some(({ difference }) => difference);
    row.append(...cells({ ...stage, text: content.join(" + "), note: isBalanced ? "terms differ" : "" }, columns));
    terms.replaceChildren(...stage.rows.map((line) => termRow(line, columns, colours[line.name])));
  }
  return { elements: [build("tbody", { role: "rowgroup", class: "eb-stage" }, row), terms], draw };
}

/** A stage without a name: its terms, always open, and their total. */
function createTerms() {
  const terms = build("tbody", { role: "rowgroup" });
  const foot = build("tfoot", { role: "rowgroup" });
  function draw(stage, columns, colours) {
    terms.replaceChildren(...stage.rows.map((line) => termRow(line, columns, colours[line.name])));
    foot.replaceChildren(termRow({ ...stage, name: "total" }, columns));
  }
  return { elements: [terms, foot], draw };
}

/** The total of parts, below all of them. */
function createWhole() {
  const foot = build("tfoot", { role: "rowgroup", class: "eb-whole" });
  function draw({ whole, stages }, columns) {
    const isBalanced = whole.difference === 0 && stages.some(({ rows }) => rows.some(({ difference }) => difference));
    foot.replaceChildren(termRow({ ...whole, note: isBalanced ? "terms differ" : "" }, columns));
  }
  return { element: foot, draw };
}

/** `element` for the page, and `draw(compared, origin)`. */
export function createTable(spec, prefix) {
  const stages = spec.stages.map((name, i) => (name ? createStage(name, `${prefix}-stage-${i}`) : createTerms()));
  const head = build("thead", { role: "rowgroup" });
  const whole = spec.parts ? createWhole() : null;
  const first = spec.stages[0] === "" ? "term" : spec.parts ? "part" : "stage";
  const element = build("table", { role: "table", "aria-label": spec.title }, head,
    ...stages.flatMap(({ elements }) => elements), whole?.element ?? "");
  function draw(compared, origin) {
    const columns = { ...compared, origin };
    const beside = compared.besideOrigin ? [`${compared.besideOrigin} bytes`] : [];
    const heads = [first, "formula", "predicted bytes", ...beside, `${origin} bytes`, "difference"];
    head.replaceChildren(build("tr", { role: "row" }, ...heads.map((text) => build("th", { role: "columnheader", scope: "col" }, text))));
    stages.forEach((stage, i) => stage.draw(compared.stages[i], columns, spec.colours));
    whole?.draw(compared, columns);
  }
  return { element, draw };
}
