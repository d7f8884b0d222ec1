// The controls of an explorer: native inputs, so that keyboard, touch and screen readers work as everywhere.

import { build } from "./elements.js";
import { counted, exact } from "./formula.js";

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
  const commit = () => {
    const { valid } = field.validity;
    field.setAttribute("aria-invalid", String(!valid || field.value === ""));
    if (valid && field.value !== "") change(symbol, Number(field.value));
    else say(`${label} must be a whole number from ${exact(minimum)} to ${exact(maximum)}${step > 1 ? ` in steps of ${step}` : ""}.`);
  };
  field.addEventListener("change", commit);
  field.addEventListener("blur", () => {
    if (field.getAttribute("aria-invalid") !== "true") return;
    field.value = shown; // what is drawn, rather than what was refused
    field.setAttribute("aria-invalid", "false");
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.stopPropagation(); // JupyterLab would go to the cell's editor
    commit();
  });
  let shown = null;
  const name = build("label", { for: id }, build("i", {}, symbol), ` ${label}`);
  const element = build("div", { class: "eb-control" }, name, field, slider);
  const show = (number) => {
    if (number === shown) return; // an answer has come in, not a setting: leave a half-typed number alone
    shown = number;
    slider.value = log ? nearest(number) : number;
    slider.setAttribute("aria-valuetext", counted(number, unit));
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

/** A control's element, and `show(setting)` to set it. It calls `change(symbol, setting)`, and `say(text)` if refused. */
export function createControl(control, ...rest) {
  if (control.kind === "range") return rangeControl(control, ...rest);
  if (control.kind === "toggle") return toggleControl(control, ...rest);
  return (control.options.length <= 4 ? radioControl : choiceControl)(control, ...rest);
}
