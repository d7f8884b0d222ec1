// What an explorer says of predicted beside accounted, in its status line, and of whether the setting fits on the GPU.

import { build } from "./elements.js";
import { exact } from "./formula.js";

const amount = (n) => `${n > 0 ? "+" : ""}${exact(n)}`;

function agreement({ stages, whole, beyond }, origin) {
  if (stages[0].name === "") return `Predicted and ${origin} agree in every term: ${exact(stages[0].accounted)} bytes.`;
  if (whole) return `Predicted and ${origin} agree in every term of every part: ${exact(whole.accounted)} bytes in total.`;
  const largest = stages.reduce((best, stage) => (stage.accounted > best.accounted ? stage : best));
  const most = `Of these moments, ${largest.name} has the most: ${exact(largest.accounted)} bytes.`;
  if (beyond.length === stages.length) return most;
  const which = beyond.length ? "every stage that has a prediction" : "every stage";
  return `Predicted and ${origin} agree in every term of ${which}. ${most}`;
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
  const { state, stages, whole, misfit } = compared;
  const start = misfit ? `${misfit} ` : "";
  if (state === "waiting") return `${start}Taking the account of this setting…`;
  if (state === "absent") return [misfit, answer.absence].filter(Boolean).join(" ");
  if (state === "failed") return [answer.error, misfit].filter(Boolean).join(" ");
  const off = stages.map((stage) => ({ ...stage, rows: stage.rows.filter(({ difference }) => difference) })).filter(({ rows }) => rows.length);
  if (off.length === 0) return misfit || agreement(compared, answer.origin);
  if (off[0].name === "") {
    return `${start}Predicted and ${answer.origin} differ by ${exact(off[0].difference)} bytes, in ${off[0].rows.map(({ name }) => name).join(", ")}.`;
  }
  const places = off.map(({ name, rows }) => `in ${name}: ${rows.map((row) => `${row.name} by ${amount(row.difference)}`).join(", ")}`);
  return `${start}Predicted and ${answer.origin} differ, in bytes, ${places.join("; ")}.${inTotal(whole, answer.origin)}`;
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

/** `element` for the page, empty as long as there is no verdict, and `draw(state, fit, most)`: `most` as fullest says. */
export function createFit() {
  const headline = build("strong", {});
  const reasons = build("span", {});
  const element = build("p", { class: "eb-fit", "aria-live": "polite", hidden: "" }, headline, " ", reasons);
  function draw(state, known, most) {
    const fit = known ?? (state === "absent" ? foretold(most) : null);
    element.hidden = !fit;
    if (!fit) return;
    const isWaiting = state === "waiting"; // then the verdict is another setting's
    element.dataset.fits = isWaiting ? "waiting" : String(fit.fits);
    const text = isWaiting ? "Does it fit? Training on the simulated GPU…" : `${fit.headline}.`;
    if (headline.textContent !== text) headline.textContent = text;
    reasons.textContent = isWaiting ? "" : fit.reasons;
  }
  return { element, draw };
}
