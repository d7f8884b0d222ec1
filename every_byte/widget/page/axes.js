// The axes of a plot: a scale from numbers to pixels, and round numbers along it.

const SIZES = [1, 2, 5, 10];

/** From the least to the greatest number, with a little air; around a single number, one above and one below. */
function domain(numbers) {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const air = high > low ? 0.05 * (high - low) : 1;
  return [low - air, high + air];
}

/** As a reader writes it, with a real minus. */
const written = (n, decimals) => n.toFixed(decimals).replace(/^-(?=.*[1-9])/, "−").replace(/^-/, "");

/** {at, ticks: [{at, text, isZero}]}: `at(n)` is the pixel of a number between `from` and `to`, which may run downwards;
 * the ticks are multiples of 1, 2 or 5 times a power of ten, and `room` pixels or more apart. */
export function createAxis(numbers, from, to, room) {
  const [low, high] = domain(numbers);
  const at = (n) => from + ((to - from) * (n - low)) / (high - low);
  const least = ((high - low) * room) / Math.abs(to - from);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = SIZES.find((size) => size * power >= least * 0.9999) * power;
  const decimals = Math.max(0, -Math.floor(Math.log10(step * 1.0001)));
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) ticks.push({ at: at(i * step), text: written(i * step, decimals), isZero: i === 0 });
  return { at, ticks };
}
