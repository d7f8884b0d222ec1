// What an explorer shows: two stacked bars on one scale, a verdict, and the table they come from.

import { createControl } from "./controls.js";
import { build, pattern, tone } from "./elements.js";
import { compare, exact, scale, short } from "./formula.js";

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

function drawBars(svg, width, spec, compared, origin, end, ids) {
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
  const second = { waiting: " …", failed: ": no account", ready: ` ${short(compared.accounted ?? 0)}` }[compared.state];
  svg.replaceChildren(
    build("defs", {}, ...Object.entries(spec.colours).map(([name, { hatch }]) => pattern(ids[name], hatch))),
    ...ticks,
    caption(`predicted ${short(compared.predicted)}`, 9),
    bar("predicted", rows, 20, pixels, ids, spec.colours),
    caption(`${origin}${second}`, 69),
    bar("accounted", compared.state === "failed" ? [] : rows, 80, pixels, ids, spec.colours));
  const parts = rows.map((row) => `${row.name} ${short(row.predicted ?? 0)}`).join(", ");
  svg.setAttribute("aria-label", `Predicted ${short(compared.predicted)}: ${parts}. ${origin}${second}.`);
}

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
  const name = build("span", {}, row.name, row.why ? build("small", {}, row.why) : "");
  return build("tr", {
    role: "row", "data-term": row.name, "data-predicted": row.predicted ?? 0,
    "data-accounted": isReady ? (row.accounted ?? 0) : null, "data-difference": difference,
  },
  build("th", { role: "rowheader", scope: "row" }, build("div", { class: "eb-term" }, swatch, name)),
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

/** What the status line says: the verdict, the error in place of the account, or that it is being taken. */
export function verdict(compared, answer) {
  if (compared.state === "waiting") return "Taking the account of this setting…";
  if (compared.state === "failed") return `No account of this setting: ${answer.error}`;
  const off = compared.rows.filter((row) => (row.predicted ?? 0) !== (row.accounted ?? 0)).map((row) => row.name);
  if (off.length === 0) return `Predicted and ${answer.origin} agree in every term: ${exact(compared.accounted)} bytes.`;
  return `Predicted and ${answer.origin} differ by ${exact(compared.accounted - compared.predicted)} bytes, in ${off.join(", ")}.`;
}

let views = 0; // makes ids unique among the explorers of a page

/** The elements of an explorer. `onChange(value)` hears of each new setting; `draw(value, answer)` shows one. */
export function createView(spec, onChange) {
  const prefix = `eb-${++views}-${Math.random().toString(36).slice(2, 8)}`;
  const ids = Object.fromEntries(Object.keys(spec.colours).map((name, i) => [name, `${prefix}-hatch-${i}`]));
  let shown = {};
  let width = 600; // of the bars, in pixels; the observer below knows better as soon as they are on the page
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
    drawBars(svg, width, spec, compared, origin, scale(spec, value, compared.state === "ready" ? compared.accounted : 0), ids);
    drawTable(table, spec, compared, origin);
    say(verdict(compared, answer));
  }
  const resized = new ResizeObserver(([{ contentRect }]) => {
    width = Math.max(contentRect.width, 200);
    if (shown.value) draw(shown.value, shown.answer);
  });
  resized.observe(svg);
  return { element, draw, close: () => resized.disconnect() };
}
