// What an explorer computes: exact numbers as text, the formula at a setting, predicted beside accounted.
//
// Plain functions of three plain objects, which the other files pass on; a page without a kernel calls them too.
//   spec    {title, controls, formulas: [{when, terms: [{name, why, text, js}]}], colours: {name: {light, dark, hatch}}}
//   value   {symbol: number or name of an option}
//   answer  {request, settings, terms: {name: bytes} or null, origin, badge, error}: an account and the value it is for

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
  return 2 ** Math.ceil(Math.log2(Math.max(...totals, accounted ?? 0, 4)));
}
