// The controls of an explorer: native inputs, so that keyboard, touch and screen readers work as everywhere.

import { build } from "./elements.js";
import { counted, exact } from "./numbers.js";

const LONG_NAME = 28; // characters: more than a list in one column has room for

function rangeControl(control, id, change) {
  const { symbol, label, minimum, maximum, step, stops, unit } = control;
  const log = !!stops;
  const nearest = (n) => stops.reduce((best, stop, i) => (Math.abs(Math.log(stop / n)) < Math.abs(Math.log(stops[best] / n)) ? i : best), 0);
  const slider = build("input", {
    type: "range", id, "data-symbol": symbol,
    min: log ? 0 : minimum, max: log ? stops.length - 1 : maximum, step: log ? 1 : step,
  });
  const field = build("input", {
    type: "number", "data-exact": symbol, "aria-label": `${label}, exact value`, min: minimum, max: maximum, step,
    "aria-describedby": `${id}-complaint`,
  });
  const complaint = build("p", { class: "eb-complaint", id: `${id}-complaint`, role: "alert" });
  const complain = (isRefused) => {
    field.setAttribute("aria-invalid", String(isRefused));
    const rule = `a whole number from ${exact(minimum)} to ${exact(maximum)}${step > 1 ? ` in steps of ${step}` : ""}`;
    const text = isRefused ? `${label} must be ${rule}; still at ${exact(shown)}.` : "";
    if (complaint.textContent !== text) complaint.textContent = text; // an Enter is heard twice, and announced once
  };
  slider.addEventListener("input", () => change(symbol, log ? stops[slider.value] : Number(slider.value)));
  const commit = () => {
    const isRefused = !field.validity.valid || field.value === "";
    complain(isRefused);
    if (!isRefused) change(symbol, Number(field.value));
  };
  field.addEventListener("change", commit);
  field.addEventListener("blur", () => {
    if (field.getAttribute("aria-invalid") !== "true") return;
    field.value = shown; // what is drawn, rather than what was refused; the complaint stays, for the one who looks up now
    field.setAttribute("aria-invalid", "false");
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.stopPropagation(); // JupyterLab would go to the cell's editor
    commit();
  });
  let shown = null;
  const name = build("label", { for: id }, ...labelled(symbol, label));
  const element = build("div", { class: "eb-control" }, name, field, slider, complaint);
  const show = (number) => {
    if (number === shown) return; // an answer has come in, not a setting: leave a half-typed number alone
    shown = number;
    slider.value = log ? nearest(number) : number;
    slider.setAttribute("aria-valuetext", counted(number, unit));
    field.value = number;
    complain(false);
  };
  return { element, show, forget: () => complain(false) };
}

/** A label, after the letter that it has in formulas. */
function labelled(letter, label) {
  return letter?.length === 1 ? [build("i", {}, letter), " ", label] : [label]; // a longer one is no letter
}

/** The letter that a choice stands for, if it is one. */
function letterOf({ numbers }) {
  const letters = Object.keys(Object.values(numbers ?? {})[0] ?? {});
  return letters.length === 1 ? letters[0] : "";
}

/** Where the reasons of disabled options stand, for what has the focus to name; null where there are none. */
const reasonsOf = ({ disabled }, id) => (Object.keys(disabled ?? {}).length ? `${id}-reasons` : null);

function choiceControl(control, id, change) {
  const { symbol, label, options, disabled = {} } = control;
  const option = (name) => build("option", { disabled: name in disabled ? "" : null }, name);
  const select = build("select", { id, "data-symbol": symbol, "aria-describedby": reasonsOf(control, id) }, ...options.map(option));
  select.addEventListener("change", () => change(symbol, select.value));
  const element = build("div", { class: "eb-control" }, build("label", { for: id }, ...labelled(letterOf(control), label)), select);
  return { element, show: (name) => (select.value = name) };
}

function radioControl(control, id, change) {
  const { symbol, label, options } = control;
  const radios = options.map((name) => build("input", { type: "radio", name: id, value: name, "data-symbol": symbol }));
  radios.forEach((radio) => radio.addEventListener("change", () => change(symbol, radio.value)));
  const labels = radios.map((radio) => build("label", {}, radio, radio.value));
  const group = build("div", { class: "eb-radios", role: "radiogroup", "aria-labelledby": id, "aria-describedby": reasonsOf(control, id) }, ...labels);
  const element = build("div", { class: "eb-control" }, build("span", { id }, ...labelled(letterOf(control), label)), group);
  return { element, show: (name) => radios.forEach((radio) => (radio.checked = radio.value === name)) };
}

function toggleControl({ symbol, label, options: [off, on] }, id, change) {
  const box = build("input", { type: "checkbox", id, "data-symbol": symbol });
  box.addEventListener("change", () => change(symbol, box.checked ? on : off));
  const element = build("div", { class: "eb-control eb-toggle" }, box, build("label", { for: id }, label));
  return { element, show: (name) => (box.checked = name === on) };
}

const kindOf = ({ kind, options }) => ({ range: rangeControl, toggle: toggleControl })[kind] ?? (options.length <= 4 ? radioControl : choiceControl);

/** Where a control has an effect, in words: with those options, or without the others if these are fewer. */
function condition({ when }, controls) {
  const parts = Object.entries(when).map(([symbol, names]) => {
    const { label, options } = controls.find((control) => control.symbol === symbol);
    const others = options.filter((name) => !names.includes(name));
    const [start, named] = others.length < names.length ? ["not used where", others] : ["used only where", names];
    return `${start} “${label}” is ${named.map((name) => `“${name}”`).join(" or ")}`;
  });
  const said = parts.join("; ");
  return `${said[0].toUpperCase()}${said.slice(1)}.`;
}

/** A control's element, `show(setting, isMeant)` to set it, and to disable or hide it where it has no effect, and `forget()` of
 * what it refused. It calls `change(symbol, setting)`. */
export function createControl(control, id, change, { controls }) {
  const { element, show, forget = () => {} } = kindOf(control)(control, id, change);
  const reasons = Object.values(control.disabled ?? {}).join(" ");
  const isLong = control.kind === "choice" && control.options.some((name) => name.length > LONG_NAME);
  if (isLong || reasons || Object.keys(control.live ?? {}).length) element.classList.add("eb-wide");
  if (reasons) element.append(build("small", { class: "eb-reasons", id: reasonsOf(control, id) }, reasons));
  const hint = build("small", { class: "eb-hint" });
  if (Object.keys(control.when).length) {
    hint.textContent = condition(control, controls);
    element.append(hint);
  }
  return {
    element,
    forget,
    show: (setting, isMeant) => {
      show(setting);
      if (!isMeant) forget();
      hint.hidden = isMeant;
      element.hidden = !isMeant && !!control.hides;
      for (const input of element.querySelectorAll("input, select")) input.disabled = !isMeant || (input.type === "radio" && input.value in (control.disabled ?? {}));
    },
  };
}
