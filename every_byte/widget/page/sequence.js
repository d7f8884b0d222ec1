// A simulated GPU in the page: what a program asks of the allocator at a setting, played through the allocator's rules.
//
// data is what tools/sequences stores of an explorer, whose program asks for the same at all settings of its sliders but for sizes:
//   choices    the symbols of its choices; which: for each combination, the last choice fastest, the place of its branches
//   branches   lists of [conditions, place of a sequence, or -1 for none]; a condition is [place of a size, whether it has to be one]
//   sequences  {kinds: [[place of a size, place of an operation, the term it counts as at first]], steps}; a step is
//                kind                   a request
//                [kind, place]          a free: of the kind's blocks in use 0 is the newest, 1 the one before; -1 the oldest, -2 the next
//                [kind, place, term]    from now on it counts as this term's, "" for none
//                {stage, terms, …}      the account of a stage is taken; of these terms, whatever else counts as one; host: bytes
//                                       that are elsewhere; blocks: whether whole blocks count
//                {times, of}            steps that follow so often, times the place of a size
//                {parts, numbers}       the program is refused with a sentence: its parts, and the places of the numbers between them
//   sizes, operations, gpus: {name: {total, context, said, workspace, rules}}

import { Allocator, blockFor, segmentFor } from "./allocator.js";
import { enabled, letters } from "./formula.js";
import { exact, short } from "./numbers.js";
import { sizeAt } from "./sizes.js";

const LONGEST = 400; // characters of what an error says

/** The first sentences of a long text, as many as there is room for, as every_byte.failures.sentence. */
const shortened = (text) => (text.length <= LONGEST ? text : `${text.slice(0, text.slice(0, LONGEST).lastIndexOf(". "))}.`);

/** As every_byte.units.exact. */
const inFull = (n) => (n < 1024 ? `${exact(n)} byte${n === 1 ? "" : "s"}` : `${exact(n)} bytes (${short(n)})`);

/** What the GPU says of a request for which it has no room, as every_byte.gpu.memory.out_of_memory. */
function outOfMemory(allocator, requested, operation, gpu, name) {
  const segment = segmentFor(blockFor(requested));
  const cached = allocator.reserved - allocator.allocated;
  const needs = segment > blockFor(requested) ? `, which needs a new segment of ${inFull(segment)}` : "";
  const advice = cached >= requested ? "What is reserved but not allocated would do, in one piece: try expandable_segments:True. " : "";
  return shortened(`CUDA out of memory (simulated ${name}): ${operation || "an allocation"} asked for ${inFull(requested)}${needs}. `
    + `The GPU has ${inFull(gpu.total)}, of which the CUDA context takes ${inFull(gpu.context)} (${gpu.said}) and PyTorch holds `
    + `${inFull(allocator.reserved)}: ${inFull(allocator.allocated)} allocated, ${inFull(cached)} reserved but not allocated. `
    + `${inFull(allocator.capacity - allocator.reserved)} are free. ${advice}Use a smaller batch or sequence, fewer bytes per element, or a larger GPU.`);
}

/** One run of a sequence; `terms` and `error` are what an account has of it, `peaks` the most that was allocated up to each stage,
 * from the one before. */
class Run {
  constructor({ sizes, operations }, { kinds }, named, gpu, name) {
    this.sizeOf = (place) => sizeAt(sizes[place])(named);
    this.kinds = kinds.map(([size, operation, term]) => ({ size: this.sizeOf(size), operation: operations[operation], term, blocks: [] }));
    this.allocator = new Allocator(gpu.total - gpu.context);
    Object.assign(this, { gpu, name, named: new Map(), terms: {}, peaks: new Map(), error: "" });
  }

  /** Step by step, to the end or the first error. */
  play(steps) {
    for (const step of steps) {
      if (typeof step === "number") this.request(this.kinds[step]);
      else if (Array.isArray(step)) this.change(...step);
      else if (step.of) for (let left = this.sizeOf(step.times); left > 0 && !this.error; left--) this.play(step.of);
      else if (step.parts) this.refuse(step);
      else this.take(step);
      if (this.error) return;
    }
  }

  request({ size, operation, term, blocks }) {
    const block = this.allocator.malloc(size);
    if (block) blocks.push(block);
    if (block && term) this.named.set(block, term);
    if (!block) this.error = outOfMemory(this.allocator, size, operation, this.gpu, this.name);
  }

  /** Free a block, or give it a name. */
  change(kind, place, term) {
    const { blocks } = this.kinds[kind];
    const at = place < 0 ? -1 - place : blocks.length - 1 - place;
    const block = blocks[at];
    if (term) this.named.set(block, term);
    else this.named.delete(block);
    if (term !== undefined) return;
    blocks.splice(at, 1);
    this.allocator.free(block);
  }

  /** The bytes that each term has now. */
  take({ stage, terms, host, blocks }) {
    const found = Object.fromEntries(terms.map((term) => [term, host[term] ?? 0]));
    for (const [block, term] of this.named) found[term] = (found[term] ?? 0) + (blocks ? block.size : block.requested);
    if (stage) this.terms[stage] = found;
    else this.terms = found;
    this.peaks.set(stage, this.allocator.peak);
    this.allocator.peak = this.allocator.allocated;
  }

  refuse({ parts, numbers }) {
    const filled = parts.map((part, i) => part + (i < numbers.length ? this.sizeOf(numbers[i]) : ""));
    this.error = filled.join("").replace("{gpu}", this.name);
  }
}

/** The place of a value's choices among all combinations. */
function combination({ choices }, spec, value) {
  const options = choices.map((symbol) => [symbol, enabled(spec.controls.find((control) => control.symbol === symbol))]);
  return options.reduce((n, [symbol, names]) => n * names.length + names.indexOf(value[symbol]), 0);
}

/** The run of a value; null where it is not known what its program asks for. */
export function runAt(data, spec, value) {
  const gpu = data.gpus[value.gpu];
  const named = { ...letters(spec, value), W: gpu.workspace };
  const isMet = ([size, holds]) => Number.isNaN(sizeAt(data.sizes[size])(named)) !== holds;
  const [, place] = data.branches[data.which[combination(data, spec, value)]].find(([conditions]) => conditions.every(isMet)) ?? [[], -1];
  if (place < 0) return null;
  const sequence = data.sequences[place];
  const run = new Run(data, sequence, named, gpu, value.gpu);
  run.play(sequence.steps);
  return run;
}

/** What else an account says of a run, by the name of its explorer: the words of its Python. */
const REMARKS = {
  phases: ({ peaks }) => {
    const [phase, most] = ["forward", "backward", "step", "zero_grad"].map((name) => [name, peaks.get(name)])
      .reduce((highest, one) => (one[1] > highest[1] ? one : highest));
    return `The second iteration peaks in ${phase}, at ${inFull(most)}.`;
  },
};

/** The account of a value as an answer of this explorer has it; null as above. */
export function accountAt(name, data, spec, value) {
  const run = runAt(data, spec, value);
  if (!run) return null;
  const { terms, error, gpu } = run;
  const nothing = { timeline: null, map: null, fit: null, fit_with: null, remark: "", beside: null };
  if (error) return { ...nothing, settings: value, terms: null, origin: "", badge: "", error };
  const remark = REMARKS[name]?.(run) ?? "";
  return { ...nothing, settings: value, terms, origin: "simulated", badge: `simulated on ${value.gpu}, ${gpu.rules}; in this page`, error, remark };
}
