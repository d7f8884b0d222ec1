// Numbers as text: exact, and in short with a unit.

const grouped = new Intl.NumberFormat("en-US"); // made once: toLocaleString makes one for each number

/** Every digit, as Python's f"{n:,d}". */
export const exact = (n) => grouped.format(n);

/** A difference, as "+512". */
export const amount = (n) => `${n > 0 ? "+" : ""}${exact(n)}`;

/** A number with what it counts, of which the plural is given: "1 sequence", "1 entry", "1 class"; "1 MiB" as it is. */
export function counted(n, unit) {
  const one = unit.replace(/ies$/, "y").replace(/(ss|x|ch|sh)es$/, "$1").replace(/([^s])s$/, "$1");
  return `${exact(n)} ${n === 1 ? one : unit}`.trim();
}

/** Three to four digits and a unit, as every_byte.units.short: halves go to the even digit, in integers. */
export function short(n) {
  const units = [[2n ** 30n, "GiB"], [2n ** 20n, "MiB"], [2n ** 10n, "KiB"]];
  const magnitude = BigInt(Math.abs(n));
  const [size, name] = units.find(([size]) => magnitude >= size) ?? [1n, "B"];
  const decimals = name === "B" ? 0 : Math.max(0, 3 - String(magnitude / size).length);
  const scaled = magnitude * 10n ** BigInt(decimals);
  const rest = (scaled % size) * 2n;
  const digits = scaled / size + (rest > size || (rest === size && (scaled / size) % 2n) ? 1n : 0n);
  const text = grouped.format(Number(digits) / 10 ** decimals);
  return `${n < 0 ? "-" : ""}${text} ${name}`;
}

/** Their sum; what is missing counts as 0. */
export const sum = (numbers) => numbers.reduce((total, n) => total + (n ?? 0), 0);
