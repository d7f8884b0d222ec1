// Sizes at a setting, of what Expression.tree gives: whole numbers, letters, [sign, left, right]. No text is run as code.
//
// Each part is made a function of the letters once. Without - and / its parts stay below the size, so that Numbers are as exact
// (except beside a factor of 0), and take a fifth of the time; a quotient of two such that is not whole is far enough from it for
// Math.ceil. A power is a product, because JavaScript's own may be off by a last digit. With - or / all is in BigInt, as
// [numerator, denominator]; whatever throws, as a division by zero or a fraction where a size should be, is no size.

const isLetter = (tree) => typeof tree === "string" && !/^\d/.test(tree);

const hasParts = (tree) => Array.isArray(tree) && (tree[0] === "-" || tree[0] === "/" || tree.slice(1).some(hasParts));

const IN_NUMBERS = {
  "+": (left, right) => (named) => left(named) + right(named),
  "*": (left, right) => (named) => left(named) * right(named),
  "^": (base, _, power) => (named) => Array(power).fill(base(named)).reduce((product, factor) => product * factor, 1),
  up: (size, _, multiple) => (named) => multiple * Math.ceil(size(named) / multiple),
};

function inNumbers(tree) {
  if (Array.isArray(tree)) return IN_NUMBERS[tree[0]](inNumbers(tree[1]), inNumbers(tree[2]), tree[2]);
  return isLetter(tree) ? (named) => named[tree] : () => Number(tree);
}

function whole([above, below]) {
  if (above % below || above / below < 0n) throw new RangeError("no size");
  return above / below;
}

function notZero(below) {
  if (!below) throw new RangeError("no size");
  return below;
}

function roundedUp([above, below], multiple) {
  if (multiple !== 1n) return (whole([above, below]) + multiple - 1n) / multiple * multiple;
  if (above * below < 0n) throw new RangeError("no size");
  return above / below + (above % below ? 1n : 0n);
}

const OF_FRACTIONS = {
  "+": ([a, b], [c, d]) => [a * d + c * b, b * d],
  "-": ([a, b], [c, d]) => [a * d - c * b, b * d],
  "*": ([a, b], [c, d]) => [a * c, b * d],
  "/": ([a, b], [c, d]) => [a * d, b * notZero(c)],
  "^": ([a, b], [power]) => [a ** power, b ** power],
  up: (size, [multiple]) => [roundedUp(size, multiple), 1n],
};

function inFractions(tree) {
  if (isLetter(tree)) return (named) => [BigInt(named[tree]), 1n];
  if (!Array.isArray(tree)) return () => [BigInt(tree), 1n];
  const [sign, left, right] = [OF_FRACTIONS[tree[0]], inFractions(tree[1]), inFractions(tree[2])];
  return (named) => sign(left(named), right(named));
}

/** A function of {letter: number} that gives the size: exact below 2**53, NaN where it is no whole number or negative. */
export function sizeAt(tree) {
  if (!hasParts(tree)) return inNumbers(tree);
  const fraction = inFractions(tree);
  return (named) => {
    try {
      return Number(whole(fraction(named)));
    } catch {
      return NaN;
    }
  };
}
