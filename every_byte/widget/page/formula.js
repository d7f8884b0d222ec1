// What an explorer computes: the formula at a setting, and predicted beside accounted.
//
// Plain functions of three plain objects, which the other files pass on; a page without a kernel calls them too.
//   spec    {title, controls, stages: [name], parts, limits: {stage: [{when, letters, size, reason}]},
//            terms: [{stage, name, why, text, letters, size}], formulas: [[place of a term]], which: [place of a formula],
//            curves: [{when, curves}], colours: {name: {light, dark, hatch}}, capacity: {symbol, bytes} or null};
//            what has no stages has one, "", and its terms leave it out; parts: the stages add up to one whole; which: for
//            each combination of the choices that select, as if counting with them, the last choice fastest; an option that is
//            disabled, {name: reason}, is not counted; live: {name: the GPU's} are the options measured on this machine; of a
//            choice that judges the verdict alone depends, and an account, of its first option, has one for each; asked: there are
//            no formulas here, and an answer has that of its own setting, `formula`: terms whose size is a number
//   value   {symbol: number or name of an option}
//   answer  {request, settings, terms: {name: bytes}, {stage: {name: bytes}} or null, origin, badge, error, timeline, map, fit,
//            fit_with, remark, beside}: an account and the value it is for; timeline and map as timeline.js and moving_map.js draw
//            them, fit: {fits, headline, reasons}, or null; fit_with: {option: fit} for the other options of a choice that judges,
//            as far as they were asked for, or null; remark: what else there is to say of it, or ""; beside: another account, {terms, origin, badge}, or null

import { exact, sum } from "./numbers.js";
import { sizeAt } from "./sizes.js";

/** Does a control have an effect at this value, or a limit a say? */
export const isMeant = ({ when }, value) => Object.entries(when).every(([symbol, names]) => names.includes(value[symbol]));

/** The options of a choice that can be set. */
export const enabled = ({ options, disabled }) => options.filter((name) => !(name in (disabled ?? {})));

/** Have two values of one explorer the same account? */
export const same = (spec, a, b) => !!a && !!b && spec.controls.every(({ symbol, judges }) => judges || a[symbol] === b[symbol]);

/** The verdict of an answer for the option that is chosen of what judges, whether it is still to be asked for, and the `first`
 * option in words, where it is another. */
export function judged({ controls }, value, answer) {
  const judge = answer?.fit_with && controls.find(({ judges }) => judges);
  const isFirst = !judge || value[judge.symbol] === judge.options[0];
  const fit = isFirst ? answer?.fit : answer.fit_with[value[judge.symbol]];
  return { fit, isToAsk: !!judge && !fit && !answer.error, first: isFirst ? "" : `${judge.label} ${judge.options[0]}` };
}

/** The name of this machine's GPU where a value has it chosen, or "": then accounts are measured. */
export const liveAt = ({ controls }, value) => controls.map(({ symbol, live }) => live?.[value[symbol]]).find(Boolean) ?? "";

/** The letters of the formula: each slider's own, and those that a choice stands for. */
export function letters(spec, value) {
  const found = {};
  for (const control of spec.controls) {
    if (control.kind === "range") found[control.symbol] = value[control.symbol];
    else Object.assign(found, control.numbers?.[value[control.symbol]]);
  }
  return found;
}

const compiled = new WeakMap(); // term or limit -> function: each is compiled once

function evaluate(term, named) {
  if (!compiled.has(term)) compiled.set(term, sizeAt(term.size));
  return compiled.get(term)(named);
}

/** Of several entries with a `when`, the one for the choices of this value. */
export const chosen = (entries, value) =>
  entries.find(({ when }) => Object.entries(when).every(([symbol, name]) => value[symbol] === name));

/** Where the terms of the formula for the choices of this value are among all. */
function placesAt({ controls, which, formulas }, value) {
  const choices = controls.filter(({ selects }) => selects);
  return formulas[which[choices.reduce((n, control) => {
    const options = enabled(control);
    return n * options.length + options.indexOf(value[control.symbol]);
  }, 0)]];
}

/** The stages whose formula does not hold at this value, each {stage, reason}. */
export function beyond(spec, value) {
  const named = letters(spec, value);
  const isBroken = (limit) => isMeant(limit, value) && Number.isNaN(evaluate(limit, named));
  const limits = Object.entries(spec.limits ?? {}).map(([stage, limits]) => [stage, limits.find(isBroken)]);
  return limits.filter(([, limit]) => limit).map(([stage, { reason }]) => ({ stage, reason }));
}

/** The formula that came with an answer, if it is for this value; null where there is none. */
const formulaOf = (spec, value, answer) => (same(spec, answer?.settings, value) ? (answer.formula ?? null) : null);

/** The terms of the formula that the value selects, or that came with its answer, each with its bytes; NaN where the letters give no size, and where
 * the formula of its stage does not hold. */
export function predict(spec, value, answer) {
  const named = letters(spec, value);
  if (spec.asked) return (formulaOf(spec, value, answer) ?? []).map((term) => ({ ...term, bytes: term.size }));
  const out = beyond(spec, value).map(({ stage }) => stage);
  const terms = placesAt(spec, value).map((place) => spec.terms[place]);
  return terms.map((term) => ({ stage: "", ...term, bytes: out.includes(term.stage) ? NaN : evaluate(term, named) }));
}

/** Why there is no prediction: the first term whose size is negative or no whole number, with its letters; or "". */
function misfit(spec, value, terms, out) {
  const term = terms.find(({ stage, bytes }) => Number.isNaN(bytes) && !out.some((limit) => limit.stage === stage));
  if (!term) return "";
  const named = letters(spec, value);
  const setting = term.letters.map((letter) => `${letter} = ${exact(named[letter])}`).join(", ");
  return `No prediction of this setting: ${term.text} must be a whole number, 0 or more; it is not for ${setting}.`;
}

const sized = (bytes) => (Number.isNaN(bytes) ? { predicted: null, unsized: true } : { predicted: bytes });

const withDifference = (row, state) =>
  ({ ...row, difference: state === "ready" && !row.unsized ? (row.accounted ?? 0) - (row.predicted ?? 0) : null });

/** `off`: by how much the account is more than the one beside it; null where there is none. */
const withBeside = (row, beside, state) =>
  ({ ...row, beside: beside ?? null, off: beside === undefined || state !== "ready" ? null : (row.accounted ?? 0) - beside });

function compareStage(name, terms, isKnown, counted, beside, state) {
  const isSurprise = (term) => state === "ready" && !terms.some((known) => known.name === term);
  const surprises = Object.keys({ ...counted, ...beside }).filter(isSurprise);
  const rows = [
    ...terms.map((term) => ({ ...term, ...sized(term.bytes) })),
    ...surprises.map((term) => ({ stage: name, name: term, text: "", ...(isKnown ? { why: "not in the formula", predicted: null } : { why: "", predicted: null, unsized: true }) })),
  ].map((row) => withDifference({ ...row, accounted: counted?.[row.name] ?? null }, state))
    .map((row) => withBeside(row, beside && (beside[row.name] ?? 0), state));
  const accounted = counted ? sum(Object.values(counted)) : null;
  const whole = withDifference({ name, rows, ...sized(isKnown ? sum(terms.map(({ bytes }) => bytes)) : NaN), accounted }, state);
  return withBeside(whole, beside && sum(Object.values(beside)), state);
}

/** All stages together, which have a sum only if they are parts of one whole. */
function compareWhole(stages, state) {
  const predicted = sized(sum(stages.map((stage) => (stage.unsized ? NaN : stage.predicted))));
  const accounted = state === "ready" ? sum(stages.map((stage) => stage.accounted)) : null;
  const beside = stages.every((stage) => stage.beside !== null) ? sum(stages.map((stage) => stage.beside)) : undefined;
  return withBeside(withDifference({ name: "total", ...predicted, accounted }, state), beside, state);
}

/** Predicted beside accounted: each stage and each of its rows has `predicted` (null: unknown; `unsized`: the letters
 * give no size), `accounted` (null: none), `difference` (null: one of them is missing), `beside` (null: there is no such
 * account) and `off`; so has `whole`, of parts (null: they are none). `state` is "waiting" (the answer is for another
 * value), "failed", "absent" (there is no account of this value, and none will come) or "ready"; `beyond` as above;
 * `besideOrigin`: that of the account beside, or "". */
export function compare(spec, value, answer) {
  const terms = predict(spec, value, answer);
  const isAsked = spec.asked && !formulaOf(spec, value, answer);
  const out = beyond(spec, value);
  const state = !same(spec, answer?.settings, value) ? "waiting" : answer.error ? "failed" : answer.terms ? "ready" : "absent";
  const staged = (found) => (spec.stages[0] === "" && found ? { "": found } : found);
  const counted = staged(answer?.terms);
  const isBeside = state === "ready" || (state === "waiting" && liveAt(spec, value)); // then it is an earlier setting's
  const beside = isBeside ? staged(answer?.beside?.terms) : null;
  const isKnown = (name) => !spec.asked || !(isAsked || out.some(({ stage }) => stage === name));
  const stages = spec.stages.map((name) => compareStage(name, terms.filter(({ stage }) => stage === name), isKnown(name), counted?.[name], beside?.[name], state));
  return {
    state, stages, whole: spec.parts ? compareWhole(stages, state) : null, misfit: misfit(spec, value, terms, out), beyond: out,
    besideOrigin: beside ? answer.beside.origin : "",
  };
}

/** The most that is predicted at once, {name, predicted} of its stage, beside the capacity of what must hold it; null where
 * there is no capacity or no prediction, and where some stage has none and the others fit. */
export function fullest({ capacity }, value, { stages, beyond }) {
  if (!capacity) return null;
  const n = capacity.symbol ? capacity.bytes[value[capacity.symbol]] : capacity.bytes;
  const sized = stages.filter(({ unsized }) => !unsized);
  const [most] = sized.sort((a, b) => b.predicted - a.predicted);
  if (!most || (most.predicted <= n && (beyond.length || sized.length < stages.length))) return null;
  return { name: most.name, predicted: most.predicted, capacity: n };
}

const powerOfTwo = (n) => 2 ** Math.ceil(Math.log2(Math.max(n, 4)));

/** The bytes at the bars' right end: a power of two with room for each stage of every formula at these letters, so that
 * bars shrink when another choice keeps less; but at most twice what the stages shown need. */
export function scale(spec, value, { state, stages }) {
  const named = letters(spec, value);
  const evaluated = spec.terms.map((term) => ({ stage: "", ...term, bytes: evaluate(term, named) }));
  const totals = spec.formulas.flatMap((places) => {
    const terms = places.map((place) => evaluated[place]);
    return spec.stages.map((name) => sum(terms.map(({ stage, bytes }) => (stage === name && bytes) || 0)));
  });
  const shown = stages.flatMap((stage) => [stage.predicted ?? 0, stage.beside ?? 0, state === "ready" ? stage.accounted : 0]);
  return Math.min(powerOfTwo(Math.max(...totals, ...shown)), 2 * powerOfTwo(Math.max(...shown)));
}
