// What the status line of an explorer says of predicted beside accounted.

import { exact } from "./formula.js";

const amount = (n) => `${n > 0 ? "+" : ""}${exact(n)}`;

function agreement({ stages, whole }, origin) {
  if (stages[0].name === "") return `Predicted and ${origin} agree in every term: ${exact(stages[0].accounted)} bytes.`;
  if (whole) return `Predicted and ${origin} agree in every term of every part: ${exact(whole.accounted)} bytes in total.`;
  const largest = stages.reduce((best, stage) => (stage.accounted > best.accounted ? stage : best));
  return `Predicted and ${origin} agree in every term of every stage. Of these moments, ${largest.name} has the most: ${exact(largest.accounted)} bytes.`;
}

const inTotal = (whole, origin) => {
  if (!whole) return "";
  const predicted = whole.unsized ? "" : `${exact(whole.predicted)} bytes predicted, `;
  return ` In total: ${predicted}${exact(whole.accounted)} bytes ${origin}.`;
};

/** What the status line says: the verdict, the error in place of the account, or that it is being taken. */
export function verdict(compared, answer) {
  const { state, stages, whole, misfit } = compared;
  const start = misfit ? `${misfit} ` : "";
  if (state === "waiting") return `${start}Taking the account of this setting…`;
  if (state === "failed") return [answer.error, misfit].filter(Boolean).join(" ");
  const off = stages.map((stage) => ({ ...stage, rows: stage.rows.filter(({ difference }) => difference) })).filter(({ rows }) => rows.length);
  if (off.length === 0) return misfit || agreement(compared, answer.origin);
  if (off[0].name === "") {
    return `${start}Predicted and ${answer.origin} differ by ${exact(off[0].difference)} bytes, in ${off[0].rows.map(({ name }) => name).join(", ")}.`;
  }
  const places = off.map(({ name, rows }) => `in ${name}: ${rows.map((row) => `${row.name} by ${amount(row.difference)}`).join(", ")}`);
  return `${start}Predicted and ${answer.origin} differ, in bytes, ${places.join("; ")}.${inTotal(whole, answer.origin)}`;
}
