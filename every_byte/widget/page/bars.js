// The bars of an explorer: predicted above accounted, an account beside it between them, stage under stage, all on one scale;
// and their legend.

import { build, pattern, tone } from "./elements.js";
import { exact, short } from "./numbers.js";

const ALONE = { height: 26, character: 6.6 }; // a stage without a name; the width of a character tells what fits
const STACKED = { height: 14, character: 5.9, className: "eb-thin" };
const CAPTION = 6.6; // width of one of a caption's characters
const NAME = 7.5; // and of one of a stage's name, which is bold

/** A box in a term's colour and hatch with the first of the texts that fits. */
function segment(texts, x, width, { height, character, className = "" }, colour, hatch) {
  const box = { x, y: 0, width, height };
  const text = texts.find((candidate) => candidate.length * character + 10 <= width) ?? "";
  return build("g", { class: `eb-segment ${className}`, style: tone(colour) },
    build("rect", { ...box, class: "eb-fill" }),
    colour?.hatch ? build("rect", { ...box, fill: `url(#${hatch})` }) : "",
    build("text", { x: x + 6, y: height / 2 }, text));
}

function bar(kind, rows, y, size, pixels, spec, ids) {
  let x = 0;
  const parts = [];
  for (const row of rows) {
    const bytes = row[kind];
    if (!bytes) continue;
    const width = pixels(bytes);
    const texts = [`${row.number} ${row.name} · ${short(bytes)}`, `${row.number} ${row.name}`, `${row.number}`];
    const isRepeated = size === STACKED && kind !== "predicted"; // right below the same words
    const part = segment(isRepeated ? texts.slice(2) : texts, x, width, size, spec.colours[row.name], ids[row.name]);
    part.prepend(build("title", {}, `${row.name}: ${exact(bytes)} bytes`));
    parts.push(part);
    x += width;
  }
  return build("g", { class: `eb-bar eb-${kind}`, transform: `translate(0 ${y})` }, ...parts);
}

const caption = (y, text, x = 0) => build("text", { class: "eb-caption", x, y }, text);
const title = (stage) => `predicted ${stage.unsized ? "–" : short(stage.predicted)}`;
const accountTitle = (bytes, state, origin) =>
  `${origin}${{ waiting: " …", failed: ": no account", absent: ": not recorded here", ready: ` ${short(bytes ?? 0)}` }[state]}`;

/** What a stage's bars say, from above to below. */
const titles = (stage, { state, origin, besideOrigin }) =>
  [title(stage), ...(besideOrigin ? [accountTitle(stage.beside, state, besideOrigin)] : []), accountTitle(stage.accounted, state, origin)];

/** Bars, each below its caption. */
function alone(stage, around) {
  const captions = titles(stage, around);
  return {
    bottom: 60 * captions.length - 14,
    parts: captions.map((text, i) => caption(9 + 60 * i, text)),
    bars: captions.map((_, i) => 20 + 60 * i),
  };
}

/** The captions in one line where there is room for them, else in several. */
function joined(captions, width) {
  const lines = [];
  for (const text of captions) {
    const longer = lines.length ? `${lines.at(-1)} · ${text}` : text;
    if (lines.length && longer.length * CAPTION > width) lines.push(text);
    else lines.splice(-1, 1, longer);
  }
  return lines;
}

/** The caption with all totals and the change since the stage before, and the bars close together. */
function stacked(stage, before, top, around) {
  const { width, longest } = around;
  const captions = titles(stage, around);
  const change = before && !stage.unsized && !before.unsized ? stage.predicted - before.predicted : 0;
  const beside = longest * NAME + 12;
  const isNarrow = beside + (captions.join(" · ").length + 14) * CAPTION > width; // then the totals have lines of their own
  const name = caption(top + 11, build("tspan", { class: "eb-name" }, stage.name));
  const lines = isNarrow
    ? joined(captions, width).map((text, i) => caption(top + 26 + 15 * i, text))
    : [caption(top + 11, captions.join(" · "), beside)];
  const arrow = `${change > 0 ? "▲" : "▼"} ${short(Math.abs(change))}`;
  if (change) (isNarrow ? name : lines[0]).append(build("tspan", { class: "eb-change", dx: 10 }, arrow));
  const below = top + 18 + (isNarrow ? 15 * lines.length : 0);
  const bars = captions.map((_, i) => below + i * (STACKED.height + 1));
  return { bottom: bars.at(-1) + STACKED.height, parts: [name, ...lines], bars };
}

function ticks(end, bottom, pixels) {
  return [0, 1, 2, 3, 4].flatMap((quarter) => {
    const x = pixels((end * quarter) / 4);
    const anchor = ["start", "middle", "middle", "middle", "end"][quarter];
    return [
      build("line", { class: "eb-tick", x1: x, x2: x, y1: 0, y2: bottom + 10 }),
      build("text", { class: "eb-caption", x, y: bottom + 21, "text-anchor": anchor }, quarter ? short((end * quarter) / 4) : "0"),
    ];
  });
}

function inWords(stage, around) {
  const parts = stage.rows.map((row) => `${row.name} ${row.unsized ? "–" : short(row.predicted ?? 0)}`).join(", ");
  const start = stage.name ? `${stage.name}: ${title(stage)}` : title(stage).replace("p", "P");
  return `${start}${parts ? `: ${parts}` : ""}. ${titles(stage, around).slice(1).join(", ")}.`;
}

/** The bars of what `compare` found, `end` bytes wide, drawn into `svg`. */
function drawBars(svg, width, spec, compared, origin, end, ids) {
  const { state, stages, whole, besideOrigin } = compared;
  const pixels = (bytes) => ((width - 1) * bytes) / end;
  const kinds = besideOrigin ? ["predicted", "beside", "accounted"] : ["predicted", "accounted"];
  const around = { state, origin, besideOrigin, width, longest: Math.max(...stages.map(({ name }) => name.length)) };
  let bottom = -14;
  const placed = stages.map((stage, i) => {
    const before = spec.parts ? null : stages[i - 1]; // parts lie side by side: no change leads from one to the next
    const place = stage.name ? stacked(stage, before, bottom + 14, around) : alone(stage, around);
    bottom = place.bottom;
    return place;
  });
  const drawn = stages.flatMap(({ name, rows, unsized }, i) => {
    const size = name ? STACKED : ALONE;
    const isUnknown = (kind) => (kind === "predicted" ? unsized : kind === "accounted" && state === "failed");
    const rowsOf = (kind) => (isUnknown(kind) ? [] : rows); // some of a sum's terms are no bar
    return [...placed[i].parts, ...kinds.map((kind, k) => bar(kind, rowsOf(kind), placed[i].bars[k], size, pixels, spec, ids))];
  });
  svg.setAttribute("height", bottom + 28);
  svg.setAttribute("aria-label", [...stages, ...(whole ? [{ ...whole, rows: [] }] : [])].map((stage) => inWords(stage, around)).join(" "));
  svg.replaceChildren(
    build("defs", {}, ...Object.entries(spec.colours).map(([name, { hatch }]) => pattern(ids[name], hatch))),
    ...ticks(end, bottom, pixels),
    ...drawn);
}

function key(name, number, colour, hatch) {
  const width = number < 10 ? 20 : 26; // room for two digits
  const box = segment([`${number}`], 0, width, { ...ALONE, height: 20 }, colour, hatch);
  return build("li", {}, build("svg", { width, height: 20, "aria-hidden": "true" }, box), name);
}

/** `elements` for the page, the `svg` among them, and `draw`. Stages with names have one legend for all. */
export function createBars(spec, prefix) {
  const ids = Object.fromEntries(Object.keys(spec.colours).map((name, i) => [name, `${prefix}-hatch-${i}`]));
  const svg = build("svg", { role: "img", class: "eb-bars" });
  const keys = build("ul", {});
  const which = build("p", {});
  const legend = spec.stages[0] === "" ? [] : [build("div", { class: "eb-legend" }, keys, which)];
  function draw(width, compared, origin, end) {
    const rows = compared.stages.flatMap((stage) => stage.rows);
    const numbers = [...new Map(rows.map(({ name, number }) => [name, number]))].sort(([, a], [, b]) => a - b);
    keys.replaceChildren(...numbers.map(([name, number]) => key(name, number, spec.colours[name], ids[name])));
    const change = spec.parts ? "" : " ▲ ▼: predicted change from the stage before.";
    const middle = compared.besideOrigin ? ` Middle bars: ${compared.besideOrigin}.` : "";
    which.textContent = `Upper bars: predicted.${middle} Lower bars: ${origin}.${change}`;
    drawBars(svg, width, spec, compared, origin, end, ids);
  }
  return { elements: [...legend, svg], svg, draw };
}
