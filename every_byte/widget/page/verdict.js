// What an explorer says of predicted beside accounted, in its status line, and of whether the setting fits on the GPU.

import { build } from "./elements.js";
import { amount, exact } from "./numbers.js";

/** `who` agree: "Predicted and simulated", or all three. */
function agreement({ stages, whole, beyond }, who) {
  if (stages[0].name === "") return `${who} agree in every term: ${exact(stages[0].accounted)} bytes.`;
  if (whole) return `${who} agree in every term of every part: ${exact(whole.accounted)} bytes in total.`;
  const largest = stages.reduce((best, stage) => (stage.accounted > best.accounted ? stage : best));
  const most = `Of these moments, ${largest.name} has the most: ${exact(largest.accounted)} bytes.`;
  if (beyond.length === stages.length) return most;
  const which = beyond.length ? "every stage that has a prediction" : "every stage";
  return `${who} agree in every term of ${which}. ${most}`;
}

const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

/** Where rows differ, by the difference named so: "in forward: input by +512; in …". */
function places(stages, kind) {
  const off = stages.map(({ name, rows }) => [name, rows.filter((row) => row[kind])]).filter(([, rows]) => rows.length);
  return off.map(([name, rows]) => `${name ? `in ${name}: ` : ""}${rows.map((row) => `${row.name} by ${amount(row[kind])}`).join(", ")}`).join("; ");
}

/** Whether the one beside agrees with the account or the prediction, where that is not said yet. */
function ofBeside({ stages, besideOrigin }, origin) {
  const where = places(stages, "off");
  const isPredicted = stages.every(({ rows }) => rows.every(({ unsized, predicted, beside }) => !unsized && beside === (predicted ?? 0)));
  if (where && isPredicted) return `${capital(besideOrigin)} is as predicted.`;
  return where ? `${capital(besideOrigin)} and ${origin} differ, in bytes, ${where}.` : `${capital(besideOrigin)} and ${origin} agree in every term.`;
}

const inTotal = (whole, origin) => {
  if (!whole) return "";
  const predicted = whole.unsized ? "" : `${exact(whole.predicted)} bytes predicted, `;
  return ` In total: ${predicted}${exact(whole.accounted)} bytes ${origin}.`;
};

/** What the status line says: the verdict, the error in place of the account, or that it is being taken. */
export function verdict(compared, answer) {
  const stages = new Map(); // by reason
  for (const { stage, reason } of compared.beyond) stages.set(reason, [...(stages.get(reason) ?? []), stage]);
  const limits = [...stages].map(([reason, names]) => `No prediction of ${names.join(", ")}: ${reason}`);
  const compares = comparison(compared, answer);
  // where there is no account either, the reason is what a reader wants to know first
  return (compared.state === "absent" ? [...limits, compares] : [compares, ...limits]).join(" ");
}

function comparison(compared, answer) {
  const { state, stages, beyond, besideOrigin, misfit, live } = compared;
  const start = misfit ? `${misfit} ` : "";
  if (state === "waiting") return start + (live ? `Measuring on ${live}…` : "Taking the account of this setting…");
  if (state === "absent") return [misfit, answer.absence].filter(Boolean).join(" ");
  if (state === "failed") return [answer.error, misfit].filter(Boolean).join(" ");
  const isOff = (kind) => stages.some(({ rows }) => rows.some((row) => row[kind]));
  const isOne = besideOrigin && !misfit && beyond.length < stages.length && !isOff("difference") && !isOff("off");
  if (isOne) return agreement(compared, `Predicted, ${besideOrigin} and ${answer.origin}`);
  const said = isOff("difference") ? start + disagreement(compared, answer.origin) : misfit || agreement(compared, `Predicted and ${answer.origin}`);
  return besideOrigin ? `${said} ${ofBeside(compared, answer.origin)}` : said;
}

function disagreement({ stages, whole }, origin) {
  const [{ name, rows, difference }] = stages;
  if (name) return `Predicted and ${origin} differ, in bytes, ${places(stages, "difference")}.${inTotal(whole, origin)}`;
  const off = rows.filter((row) => row.difference).map((row) => row.name);
  return `Predicted and ${origin} differ by ${exact(difference)} bytes, in ${off.join(", ")}.`;
}

/** `element` for the page, hidden where there is nothing else to say, and `draw(remark)`. */
export function createRemark() {
  const element = build("p", { class: "eb-remark", "aria-live": "polite", hidden: "" });
  function draw(remark) {
    element.hidden = !remark;
    if (element.textContent !== (remark ?? "")) element.textContent = remark ?? "";
  }
  return { element, draw };
}

/** What a prediction alone says of whether it fits: what is asked for is never less than what is predicted. */
function foretold(most) {
  if (!most) return null;
  const where = most.name ? ` at ${most.name}` : "";
  const reasons = `${exact(most.predicted)} bytes are predicted${where}; there are ${exact(most.capacity)}.`;
  if (most.predicted > most.capacity) return { fits: false, headline: "It does not fit", reasons };
  const what = most.name ? "What is held between these moments, and what" : "What";
  return { fits: "unknown", headline: "It may fit", reasons: `${reasons} ${what} the allocator keeps unused, an account alone tells.` };
}

/** `element` for the page, empty as long as there is no verdict, and `draw(compared, fit, isToAsk, most)`: `isToAsk`, whether
 * it is still to come, `most` as fullest says. */
export function createFit() {
  const headline = build("strong", {});
  const reasons = build("span", {});
  const element = build("p", { class: "eb-fit", "aria-live": "polite", hidden: "" }, headline, " ", reasons);
  function draw({ state, live }, known, isToAsk, most) {
    const fit = known ?? (state === "absent" ? foretold(most) : null);
    element.hidden = !fit && !isToAsk;
    if (element.hidden) return;
    const isWaiting = !fit || state === "waiting"; // of a setting that waits the verdict is another's
    element.dataset.fits = isWaiting ? "waiting" : String(fit.fits);
    const text = isWaiting ? `Does it fit? Training on ${live || "the simulated GPU"}…` : `${fit.headline}.`;
    if (headline.textContent !== text) headline.textContent = text;
    reasons.textContent = isWaiting ? "" : fit.reasons;
  }
  return { element, draw };
}
