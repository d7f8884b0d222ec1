// Judges the exercises of a page that ask for numbers, in the words of their judges: utils/exercises/judge.py is followed here.

import { exact, short } from "./numbers.js";

/** Every digit, with the short form behind it, as every_byte.units.exact. */
export function bytes(n) {
  const count = `${exact(n)} byte${Math.abs(n) === 1 ? "" : "s"}`;
  return Math.abs(n) < 1024 ? count : `${count} (${short(n)})`;
}

/** Two digits of a number, as Python's f"{times:.2g}": a tie goes to the even digit. */
function twoDigits(times) {
  const [digits, exponent] = times.toExponential(60).split("e"); // all that a number here has
  const [first, second, ...others] = digits.replace(".", "");
  const isTie = /^50*$/.test(others.join("")) && Number(second) % 2 === 0;
  return isTie ? Number(`${first}.${second}e${exponent}`) : Number(times.toPrecision(2));
}

/** Too many or too few, and roughly by what: never so exactly that the answer follows. */
export function howFar(answer, truth) {
  const side = answer > truth ? "too many" : "too few";
  const times = truth > 0 ? answer / truth : 0;
  if (Math.abs(times - 1) < 0.1) return `${side}, though close: within ${Math.abs(times - 1) < 0.01 ? "a hundredth" : "a tenth"}`;
  if (!(times > 0.01 && times < 100)) return `far ${side}`;
  return `${side}, about ${twoDigits(times)} times the right answer`;
}

/** What is said of numbers, null for one that is missing: of the first that is wrong, or that all are right. */
export function verdict({ fields, right }, answers) {
  for (const [i, { name, truth, mistakes, says }] of fields.entries()) {
    const answer = answers[i];
    if (answer === null) return `No answer yet: type a number${fields.length > 1 ? ` for ${name}` : ""}.`;
    if (!Number.isInteger(answer)) return `${says}bytes are a whole number.`;
    if (answer !== truth) return `${says}${bytes(answer)} is ${howFar(answer, truth)}.${mistakes[answer] ? ` ${mistakes[answer]}` : ""}`;
  }
  return right;
}

/** Puts a judge below each exercise that has one. */
export function judgeExercises(root) {
  for (const box of root.querySelectorAll("[data-judge]")) {
    const judge = JSON.parse(box.dataset.judge);
    const form = box.querySelector("form");
    const said = form.querySelector("output");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const typed = [...form.querySelectorAll("input")].map(({ value }) => (value.trim() ? everyBytePredictions.parse(value) ?? NaN : null));
      said.textContent = verdict(judge, typed);
      said.dataset.right = said.textContent === judge.right;
    });
  }
}

if (typeof document !== "undefined") judgeExercises(document);
