// An explorer on a page without a kernel: it draws the accounts that were stored with the page, takes those
// of programs whose requests are known, and predicts all others.
//
// A page loads this script and, for each explorer, one that calls `everyByte.explorer(name, data)`:
//   data  {spec, value: the setting at first, shared: what answers have unless they say otherwise, answers: {key: answer},
//         sequences: what sequence.js plays, or null} where a key is the setting's items in the order of the controls, and an
//         answer lacks `request` and `settings`; numbers that follow one another in a timeline are stored as differences.

import { build } from "./elements.js";
import { enabled, isMeant } from "./formula.js";
import { accountAt } from "./sequence.js";
import { createView } from "./view.js";

/** The key of a value's account; a control without effect on it stands where it starts. */
const keyOf = (spec, first, value) =>
  spec.controls.map((control) => (isMeant(control, value) && !control.judges ? value : first)[control.symbol]).join("|");

const summed = (differences) => {
  let n = 0;
  return differences.map((difference) => (n += difference));
};

function unpacked(timeline) {
  if (!timeline) return timeline;
  const columns = Object.fromEntries(Object.entries(timeline.columns).map(([name, numbers]) => [name, summed(numbers)]));
  return { ...timeline, columns, reserved: summed(timeline.reserved), places: summed(timeline.places) };
}

/** How far a stored setting `a` is from `b`: for each control that differs 1, and for numbers how often they are doubled; of
 * equal ones the first controls decide, as the model. */
function distance(spec, a, b) {
  const apart = ({ symbol, kind, when, judges }) =>
    a[symbol] === b[symbol] || !isMeant({ when }, b) || judges ? 0 : kind === "range" ? Math.min(1, Math.abs(Math.log2(a[symbol] / b[symbol])) / 8) : 1;
  return spec.controls.reduce((total, control, place) => total + apart(control) * (1 + 1e-9 / (1 + place)), 0);
}

/** The setting of a key, as a value. */
function valueOf(spec, key) {
  const items = key.split("|");
  return Object.fromEntries(spec.controls.map(({ symbol, kind }, i) => [symbol, kind === "range" ? Number(items[i]) : items[i]]));
}

/** The stored setting that is nearest to a value, with the same verdict chosen. */
function nearest(spec, keys, value) {
  const all = keys.map((key) => valueOf(spec, key));
  const found = all.reduce((best, one) => (distance(spec, one, value) < distance(spec, best, value) ? one : best));
  return Object.fromEntries(spec.controls.map(({ symbol, judges }) => [symbol, (judges ? value : found)[symbol]]));
}

// ---------------------------------------------------------------------------- the setting in the page's address

const ADDRESS_AFTER_MS = 150;

/** A setting that the address asks for, and what it asks for in vain, [[symbol, text]]; null if it asks for nothing. */
function readAddress(name, spec, value) {
  const [found, query] = location.hash.slice(1).split("?");
  if (found !== name || query === undefined) return null;
  const next = { ...value };
  const inVain = [];
  for (const [symbol, text] of new URLSearchParams(query)) {
    const control = spec.controls.find((known) => known.symbol === symbol);
    const item = control?.kind === "range" ? numberIn(control, text) : control && enabled(control).find((option) => option === text);
    if (item === undefined) inVain.push([symbol, text]);
    else next[symbol] = item;
  }
  return { next, inVain };
}

function numberIn({ minimum, maximum, step }, text) {
  const number = Number(text);
  const isPossible = Number.isInteger(number) && number >= minimum && number <= maximum && (number - minimum) % step === 0;
  return isPossible && text.trim() ? number : undefined;
}

/** What a reader is told of items of the address that no control can take. */
const askedInVain = (inVain) =>
  inVain.length ? `The address asks for ${inVain.map(([symbol, text]) => `${symbol} = ${text}`).join(", ")}, which cannot be set here; the rest of it is shown.` : "";

/** The address as the page's explorers left it, or as the reader last asked for it. */
let known = null;

/** A function that puts a setting into the address, once no other has followed for a while. */
function createAddress(name, spec) {
  let timer = 0;
  let value = null;
  known ??= location.hash;
  const write = () => {
    clearTimeout(timer);
    if (!value || location.hash !== known) return; // what the reader asks for now, `hashchange` will tell
    const query = new URLSearchParams(spec.controls.map(({ symbol }) => [symbol, value[symbol]]));
    try {
      history.replaceState(null, "", `#${name}?${query}`);
      known = location.hash;
    } catch {
      // some browsers let a page do so a hundred times in half a minute: the address is then one of before
    }
    value = null;
  };
  window.addEventListener("hashchange", () => {
    value = null; // the reader has asked for another
    known = location.hash;
  });
  return (next) => {
    value = next;
    clearTimeout(timer);
    timer = setTimeout(write, ADDRESS_AFTER_MS);
  };
}

// ------------------------------------------------------------------------------------------------ the view as Python

const literal = (item) => (typeof item === "number" ? String(item) : JSON.stringify(item));

/** A program that shows what the view shows. */
export function program(name, spec, value) {
  const settings = spec.controls.map(({ symbol }) => `${symbol}=${literal(value[symbol])}`).join(", ");
  return `from utils.explorers.gallery import explorer\n\nview = explorer(${JSON.stringify(name)}, ${settings})\nprint(view.table())  # in Jupyter, \`view\` alone is the explorer\n`;
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(text);
    said.textContent = "Copied.";
  } catch {
    said.textContent = "The browser does not let the page copy: select the text above.";
  }
}

function createProgram(textOf) {
  const code = build("pre", { tabindex: "0", "aria-label": "the view as Python" });
  const said = build("span", { role: "status" });
  const button = build("button", { type: "button", class: "eb-copy" }, "copy");
  button.addEventListener("click", () => copy(code.textContent, said));
  const element = build("details", { class: "eb-program" }, build("summary", {}, "This view as Python"), code, button, " ", said);
  const draw = (value) => {
    code.textContent = textOf(value);
    said.textContent = "";
  };
  return { element, draw };
}

// -------------------------------------------------------------------------------------------------------- the page

const ABSENCE = "Not recorded here: the page has the accounts of some settings only.";
const NOT_KNOWN = "Not known here: what the program asks for at this setting is in no sequence of this page.";

function mount(root, name, { spec, value: first, shared, answers, sequences }) {
  const keys = Object.keys(answers);
  const origin = sequences ? "simulated" : Object.values(answers).find((answer) => answer.origin)?.origin; // one word for all, recorded here or not
  let value = first;
  const refused = build("p", { class: "eb-complaint", role: "alert" });
  function takeAddress() {
    const asked = readAddress(name, spec, value);
    if (!asked) return false;
    value = asked.next;
    refused.textContent = askedInVain(asked.inVain);
    return true;
  }
  const jump = build("button", { type: "button", class: "eb-jump", hidden: "" }, "to the nearest stored setting");
  const writeAddress = createAddress(name, spec);
  const written = createProgram((now) => program(name, spec, now));

  const absent = { terms: null, error: "", absence: sequences ? NOT_KNOWN : ABSENCE, badge: spec.asked ? "" : "prediction alone", origin };
  const known = new Map(); // unpacked once, so that a drawing knows what it has drawn
  function answerAt(now) {
    const key = keyOf(spec, first, now);
    if (!known.has(key) && key in answers) known.set(key, { ...shared, ...answers[key], timeline: unpacked(answers[key].timeline) });
    return { ...(known.get(key) ?? (sequences && accountAt(name, sequences, spec, now)) ?? absent), settings: now };
  }
  function draw() {
    const answer = answerAt(value);
    view.draw(value, answer);
    jump.hidden = !answer.absence;
    written.draw(value);
  }
  const go = (next) => {
    value = next;
    refused.textContent = "";
    draw();
    writeAddress(value);
  };
  const view = createView(spec, go);
  jump.addEventListener("click", () => {
    go(keys.length ? nearest(spec, keys, value) : first);
    view.element.querySelector("input, select").focus(); // the button goes
  });
  view.element.querySelector(".eb-controls").before(refused);
  view.element.querySelector(".eb-status").after(jump);
  view.element.append(written.element);
  window.addEventListener("hashchange", () => {
    if (!takeAddress()) return;
    draw();
    view.element.scrollIntoView();
  });
  const stored = build("div", { class: "eb-stored" }, ...root.childNodes); // for print
  root.replaceChildren(view.element, stored);
  const isAsked = takeAddress();
  draw();
  if (isAsked) view.element.scrollIntoView();
}

/** Draws an explorer in each element of the page that asks for it by name. */
export function explorer(name, data) {
  const start = () => document.querySelectorAll(`[data-explorer="${name}"]`).forEach((root) => mount(root, name, data));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}

globalThis.everyByte = { explorer };
