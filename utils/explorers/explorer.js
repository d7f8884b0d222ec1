// The page's half of an explorer: controls, two stacked bars, and a table that sets predicted beside accounted bytes.
//
// `predict`, `compare` and `createView` know nothing of Jupyter: a spec, a setting and an answer go in, numbers or
// elements come out. A page without a kernel calls them with recorded answers. The default export at the end ties
// them to an anywidget model. What each of the three arguments holds:
//   spec    {title, controls, formulas: [{when, terms: [{name, why, text, js}]}], colours: {name: {light, dark, hatch}}}
//   value   {symbol: number or name of an option}
//   answer  {request, settings, terms: {name: bytes} or null, origin, badge, error}: an account and the value it is for

// ---- numbers ---------------------------------------------------------------------------------------------------

/** Every digit, as Python's f"{n:,d}". */
export const exact = (n) => n.toLocaleString("en-US");

/** Three to four digits and a unit, as utils.units.short: halves go to the even digit, in integers. */
export function short(n) {
  const units = [[2n ** 30n, "GiB"], [2n ** 20n, "MiB"], [2n ** 10n, "KiB"]];
  const magnitude = BigInt(Math.abs(n));
  const [size, name] = units.find(([size]) => magnitude >= size) ?? [1n, "B"];
  const decimals = name === "B" ? 0 : Math.max(0, 3 - String(magnitude / size).length);
  const scaled = magnitude * 10n ** BigInt(decimals);
  const rest = (scaled % size) * 2n;
  const digits = scaled / size + (rest > size || (rest === size && (scaled / size) % 2n) ? 1n : 0n);
  const text = (Number(digits) / 10 ** decimals).toLocaleString("en-US", { maximumFractionDigits: decimals });
  return `${n < 0 ? "-" : ""}${text} ${name}`;
}

// ---- formula and comparison ------------------------------------------------------------------------------------

/** Are two values of one explorer the same setting? */
export const same = (spec, a, b) => !!a && !!b && spec.controls.every(({ symbol }) => a[symbol] === b[symbol]);

/** The letters of the formula: each slider's own, and those that a choice stands for. */
export function letters(spec, value) {
  const found = {};
  for (const control of spec.controls) {
    if (control.kind === "range") found[control.symbol] = value[control.symbol];
    else if (control.letter) found[control.letter] = control.numbers[value[control.symbol]];
  }
  return found;
}

const compiled = new WeakMap(); // term -> function: each formula is compiled once

function evaluate(term, named) {
  if (!compiled.has(term)) compiled.set(term, new Function(...Object.keys(named), `"use strict"; return (${term.js});`));
  return compiled.get(term)(...Object.values(named));
}

const evaluateAll = (formula, named) => formula.terms.map((term) => ({ ...term, bytes: evaluate(term, named) }));

/** The terms of the formula that the value selects, each with its bytes. */
export function predict(spec, value) {
  const chosen = ({ when }) => Object.entries(when).every(([symbol, name]) => value[symbol] === name);
  return evaluateAll(spec.formulas.find(chosen), letters(spec, value));
}

/** Predicted beside accounted. `state` is "waiting" (the answer is for another value), "failed" or "ready". */
export function compare(spec, value, answer) {
  const predicted = predict(spec, value);
  const state = !same(spec, answer?.settings, value) ? "waiting" : answer.error ? "failed" : "ready";
  const counted = { ...answer?.terms };
  const unpredicted = state === "ready" ? Object.keys(counted).filter((name) => !predicted.some((p) => p.name === name)) : [];
  const rows = [...predicted, ...unpredicted.map((name) => ({ name, text: "", why: "not in the formula", bytes: null }))];
  const sum = (numbers) => numbers.reduce((total, n) => total + (n ?? 0), 0);
  return {
    state,
    rows: rows.map((row) => ({ ...row, predicted: row.bytes, accounted: counted[row.name] ?? null })),
    predicted: sum(predicted.map(({ bytes }) => bytes)),
    accounted: answer?.terms ? sum(Object.values(counted)) : null,
  };
}

/** The bytes at the bars' right end: a power of four with room for every formula at these letters, and the account. */
export function scale(spec, value, accounted) {
  const named = letters(spec, value);
  const totals = spec.formulas.map((formula) => evaluateAll(formula, named).reduce((sum, { bytes }) => sum + bytes, 0));
  return 4 ** Math.ceil(Math.log2(Math.max(...totals, accounted ?? 0, 4)) / 2);
}

// ---- elements --------------------------------------------------------------------------------------------------

let views = 0; // makes ids unique among the explorers of a page

function build(tag, attributes = {}, ...children) {
  const isSvg = ["svg", "g", "rect", "text", "title", "defs", "pattern", "path", "line"].includes(tag);
  const node = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const tone = (colour) => `--light:${colour?.light ?? "#555"};--dark:${colour?.dark ?? "#bbb"}`;

// Strokes for matplotlib's hatch letters, on a tile of 8 by 8.
const HATCHES = {
  "/": "M-2 2L2 -2M0 8L8 0M6 10L10 6", "\\": "M-2 6L2 10M0 0L8 8M6 -2L10 2", x: "M0 0L8 8M0 8L8 0", "-": "M0 4H8",
  "|": "M4 0V8", "+": "M0 4H8M4 0V8", ".": "M3.4 4h1.2", o: "M2 4a2 2 0 1 0 4 0a2 2 0 1 0 -4 0", "//": "M0 4L4 0M0 8L8 0M4 8L8 4",
};

const pattern = (id, hatch) =>
  build("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" }, build("path", { d: HATCHES[hatch] ?? "" }));

// ---- controls --------------------------------------------------------------------------------------------------

const SHORTCUTS_OFF = { "data-lm-suppress-shortcuts": "true" }; // or JupyterLab takes the arrow keys

function rangeControl(control, id, change, say) {
  const { symbol, label, minimum, maximum, step, stops, unit } = control;
  const log = !!stops;
  const nearest = (n) => stops.reduce((best, stop, i) => (Math.abs(Math.log(stop / n)) < Math.abs(Math.log(stops[best] / n)) ? i : best), 0);
  const slider = build("input", {
    type: "range", id, "data-symbol": symbol, ...SHORTCUTS_OFF,
    min: log ? 0 : minimum, max: log ? stops.length - 1 : maximum, step: log ? 1 : step,
  });
  const field = build("input", {
    type: "number", "data-exact": symbol, "aria-label": `${label}, exact value`, min: minimum, max: maximum, step, ...SHORTCUTS_OFF,
  });
  slider.addEventListener("input", () => change(symbol, log ? stops[slider.value] : Number(slider.value)));
  field.addEventListener("change", () => {
    const { valid } = field.validity;
    field.setAttribute("aria-invalid", String(!valid || field.value === ""));
    if (valid && field.value !== "") change(symbol, Number(field.value));
    else say(`${label} must be a whole number from ${exact(minimum)} to ${exact(maximum)}${step > 1 ? ` in steps of ${step}` : ""}.`);
  });
  const name = build("label", { for: id }, build("i", {}, symbol), ` ${label}`);
  const element = build("div", { class: "eb-control" }, name, field, slider);
  const show = (number) => {
    slider.value = log ? nearest(number) : number;
    slider.setAttribute("aria-valuetext", `${exact(number)}${unit ? ` ${unit}` : ""}`);
    field.value = number;
    field.setAttribute("aria-invalid", "false");
  };
  return { element, show };
}

function choiceControl({ symbol, label, options }, id, change) {
  const select = build("select", { id, "data-symbol": symbol, ...SHORTCUTS_OFF }, ...options.map((name) => build("option", {}, name)));
  select.addEventListener("change", () => change(symbol, select.value));
  const element = build("div", { class: "eb-control" }, build("label", { for: id }, label), select);
  return { element, show: (name) => (select.value = name) };
}

function radioControl({ symbol, label, options }, id, change) {
  const radios = options.map((name) => build("input", { type: "radio", name: id, value: name, "data-symbol": symbol, ...SHORTCUTS_OFF }));
  radios.forEach((radio) => radio.addEventListener("change", () => change(symbol, radio.value)));
  const labels = radios.map((radio) => build("label", {}, radio, radio.value));
  const group = build("div", { class: "eb-radios", role: "radiogroup", "aria-labelledby": id }, ...labels);
  const element = build("div", { class: "eb-control" }, build("span", { id }, label), group);
  return { element, show: (name) => radios.forEach((radio) => (radio.checked = radio.value === name)) };
}

function toggleControl({ symbol, label, options: [off, on] }, id, change) {
  const box = build("input", { type: "checkbox", id, "data-symbol": symbol, ...SHORTCUTS_OFF });
  box.addEventListener("change", () => change(symbol, box.checked ? on : off));
  const element = build("div", { class: "eb-control eb-toggle" }, box, build("label", { for: id }, label));
  return { element, show: (name) => (box.checked = name === on) };
}

function createControl(control, ...rest) {
  if (control.kind === "range") return rangeControl(control, ...rest);
  if (control.kind === "toggle") return toggleControl(control, ...rest);
  return (control.options.length <= 4 ? radioControl : choiceControl)(control, ...rest);
}

// ---- bars ------------------------------------------------------------------------------------------------------

const BAR = 26;
const CHARACTER = 6.6; // width of one at the bars' font size, to tell what fits

function segment(row, bytes, x, width, ids, colours) {
  const colour = colours[row.name];
  const box = { x, y: 0, width, height: BAR };
  const texts = [`${row.number} ${row.name} · ${short(bytes)}`, `${row.number} ${row.name}`, `${row.number}`];
  const text = texts.find((candidate) => candidate.length * CHARACTER + 10 <= width) ?? "";
  return build("g", { class: "eb-segment", style: tone(colour) },
    build("title", {}, `${row.name}: ${exact(bytes)} bytes`),
    build("rect", { ...box, class: "eb-fill" }),
    colour?.hatch ? build("rect", { ...box, fill: `url(#${ids[row.name]})` }) : "",
    build("text", { x: x + 6, y: BAR / 2 }, text));
}

function bar(kind, rows, y, pixels, ids, colours) {
  let x = 0;
  const parts = [];
  for (const row of rows) {
    if (!row[kind]) continue;
    const width = pixels(row[kind]);
    parts.push(segment(row, row[kind], x, width, ids, colours));
    x += width;
  }
  return build("g", { class: `eb-bar eb-${kind}`, transform: `translate(0 ${y})` }, ...parts);
}

function drawBars(svg, spec, compared, origin, end, ids) {
  const width = Math.max(svg.clientWidth, 200);
  const rows = compared.rows.map((row, i) => ({ ...row, number: i + 1 }));
  const pixels = (bytes) => ((width - 1) * bytes) / end;
  const caption = (text, y) => build("text", { class: "eb-caption", x: 0, y }, text);
  const ticks = [0, 1, 2, 3, 4].flatMap((quarter) => {
    const x = pixels((end * quarter) / 4);
    const anchor = ["start", "middle", "middle", "middle", "end"][quarter];
    return [
      build("line", { class: "eb-tick", x1: x, x2: x, y1: 0, y2: 116 }),
      build("text", { class: "eb-caption", x, y: 127, "text-anchor": anchor }, quarter ? short((end * quarter) / 4) : "0"),
    ];
  });
  const second = { waiting: "…", failed: "no account", ready: short(compared.accounted ?? 0) }[compared.state];
  svg.replaceChildren(
    build("defs", {}, ...Object.entries(spec.colours).map(([name, { hatch }]) => pattern(ids[name], hatch))),
    ...ticks,
    caption(`predicted ${short(compared.predicted)}`, 9),
    bar("predicted", rows, 20, pixels, ids, spec.colours),
    caption(`${origin} ${second}`, 69),
    bar("accounted", compared.state === "failed" ? [] : rows, 80, pixels, ids, spec.colours));
  const parts = rows.map((row) => `${row.name} ${short(row.predicted ?? 0)}`).join(", ");
  svg.setAttribute("aria-label", `Predicted ${short(compared.predicted)}: ${parts}. ${origin} ${second}.`);
}

// ---- table -----------------------------------------------------------------------------------------------------

function number(kind, label, bytes, isStale) {
  const content = bytes === null ? [isStale ? "…" : "–"] : [exact(bytes), build("small", {}, short(bytes))];
  return build("td", { role: "cell", class: `eb-number eb-${kind}`, "data-label": label }, ...content);
}

function tableRow(row, compared, origin, colour) {
  const { state } = compared;
  const isReady = state === "ready";
  const difference = isReady ? (row.accounted ?? 0) - (row.predicted ?? 0) : null;
  const accounted = state === "failed" ? null : row.accounted;
  const swatch = row.number ? build("span", { class: "eb-swatch", style: tone(colour) }, String(row.number)) : "";
  return build("tr", {
    role: "row", "data-term": row.name, "data-predicted": row.predicted ?? 0,
    "data-accounted": isReady ? (row.accounted ?? 0) : null, "data-difference": difference,
  },
  build("th", { role: "rowheader", scope: "row" }, swatch, build("span", {}, row.name, row.why ? build("small", {}, row.why) : "")),
  build("td", { role: "cell", class: "eb-formula" }, row.text ?? ""),
  number("predicted", "predicted", row.predicted, false),
  number("accounted", origin, accounted, state === "waiting"),
  build("td", { role: "cell", class: `eb-number eb-difference ${difference ? "eb-off" : ""}`, "data-label": "difference" },
    difference === null ? (state === "waiting" ? "…" : "–") : `${difference > 0 ? "+" : ""}${exact(difference)}`));
}

function drawTable(table, spec, compared, origin) {
  const heads = ["term", "formula", "predicted bytes", `${origin} bytes`, "difference"];
  const rows = compared.rows.map((row, i) => tableRow({ ...row, number: i + 1 }, compared, origin, spec.colours[row.name]));
  const total = tableRow({ name: "total", predicted: compared.predicted, accounted: compared.accounted }, compared, origin);
  table.replaceChildren(
    build("thead", { role: "rowgroup" }, build("tr", { role: "row" }, ...heads.map((head) => build("th", { role: "columnheader", scope: "col" }, head)))),
    build("tbody", { role: "rowgroup" }, ...rows),
    build("tfoot", { role: "rowgroup" }, total));
}

// ---- view ------------------------------------------------------------------------------------------------------

/** What the status line says: the verdict, the error in place of the account, or that it is being taken. */
export function verdict(compared, answer) {
  if (compared.state === "waiting") return "Taking the account of this setting…";
  if (compared.state === "failed") return `No account of this setting: ${answer.error}`;
  const off = compared.rows.filter((row) => (row.predicted ?? 0) !== (row.accounted ?? 0)).map((row) => row.name);
  if (off.length === 0) return `Predicted and ${answer.origin} agree in every term: ${exact(compared.accounted)} bytes.`;
  return `Predicted and ${answer.origin} differ by ${exact(compared.accounted - compared.predicted)} bytes, in ${off.join(", ")}.`;
}

/** The elements of an explorer. `onChange(value)` hears of each new setting; `draw(value, answer)` shows one. */
export function createView(spec, onChange) {
  const prefix = `eb-${++views}-${Math.random().toString(36).slice(2, 8)}`;
  const ids = Object.fromEntries(Object.keys(spec.colours).map((name, i) => [name, `${prefix}-hatch-${i}`]));
  let shown = {};
  const status = build("p", { role: "status", "aria-live": "polite", class: "eb-status" });
  const say = (text) => {
    if (status.textContent !== text) status.textContent = text;
  };
  const change = (symbol, setting) => onChange({ ...shown.value, [symbol]: setting });
  const controls = spec.controls.map((control) => [control.symbol, createControl(control, `${prefix}-${control.symbol}`, change, say)]);
  const badge = build("span", { class: "eb-badge" });
  const svg = build("svg", { role: "img", class: "eb-bars", height: 134 });
  const table = build("table", { role: "table", "aria-label": spec.title });
  const element = build("section", { class: "eb", "aria-label": spec.title },
    build("div", { class: "eb-head" }, build("strong", {}, spec.title), badge),
    build("div", { class: "eb-controls" }, ...controls.map(([, { element }]) => element)),
    svg, status, table);

  let origin = "accounted"; // of the last account: a heading that stays while the next is taken
  function draw(value, answer) {
    shown = { value, answer };
    const compared = compare(spec, value, answer);
    origin = answer?.origin || origin;
    for (const [symbol, control] of controls) control.show(value[symbol]);
    if (answer?.badge) badge.textContent = answer.badge;
    element.dataset.state = compared.state;
    element.dataset.value = JSON.stringify(value);
    element.setAttribute("aria-busy", String(compared.state === "waiting"));
    drawBars(svg, spec, compared, origin, scale(spec, value, compared.state === "ready" ? compared.accounted : 0), ids);
    drawTable(table, spec, compared, origin);
    say(verdict(compared, answer));
  }
  const resized = new ResizeObserver(() => shown.value && draw(shown.value, shown.answer));
  resized.observe(svg);
  return { element, draw, close: () => resized.disconnect() };
}

// ---- JupyterLab ------------------------------------------------------------------------------------------------

/** One request under way at most; when it is answered and the setting has moved on, the newest setting goes next. */
function initialize({ model }) {
  let underWay = 0; // number of the request, 0 for none
  const ask = () => {
    const answer = model.get("answer");
    if (answer.request >= underWay) underWay = 0;
    if (underWay || same(model.get("spec"), answer.settings, model.get("value"))) return;
    underWay = answer.request + 1;
    model.send({ request: underWay, settings: model.get("value") });
  };
  model.on("change:value", ask);
  model.on("change:answer", ask);
  ask();
}

function render({ model, el }) {
  const view = createView(model.get("spec"), (value) => {
    model.set("value", value);
    model.save_changes();
  });
  const draw = () => view.draw(model.get("value"), model.get("answer"));
  el.append(view.element);
  model.on("change:value", draw);
  model.on("change:answer", draw);
  draw();
  return () => {
    model.off("change:value", draw);
    model.off("change:answer", draw);
    view.close();
  };
}

export default { initialize, render };
