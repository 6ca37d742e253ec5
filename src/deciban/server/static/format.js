// Numbers and times in words. Nothing is computed here that the server has not stated.

const MINUS = "\u2212";

export const count = (n) => Number(n).toLocaleString("en-GB", { maximumFractionDigits: 1 });

// At most `digits` significant digits, without an exponent for everyday numbers.
export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value.replace("-infinity", `${MINUS}∞`).replace("infinity", "∞");
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 1e-4 || size >= 1e7)
      ? value.toExponential(digits - 1)
      : Number(value.toPrecision(digits)).toLocaleString("en-GB", { maximumSignificantDigits: digits });
  return text.replace("-", MINUS);
}

export function decibans(value) {
  if (typeof value === "string") return value.startsWith("-") ? `${MINUS}∞ dB` : "+∞ dB";
  return `${value < 0 ? MINUS : "+"}${Math.abs(value).toFixed(1)} dB`;
}

// A probability in per cent; never 0 % or 100 %, which it is not.
export function percent(p, digits = 1) {
  if (p === null || p === undefined) return "–";
  const shown = (100 * p).toFixed(digits);
  const least = 10 ** -digits;
  if (p < 1 && Number(shown) >= 100) return `> ${(100 - least).toFixed(digits)}\u00a0%`;
  if (p > 0 && Number(shown) <= 0) return `< ${least.toFixed(digits)}\u00a0%`;
  return `${shown}\u00a0%`;
}

export function odds(p) {
  const better = Math.max(p, 1 - p);
  const ratio = better / (1 - better);
  const sides = (n) => (p >= 0.5 ? `${n} to 1` : `1 to ${n}`);
  if (!(ratio < 1e6)) return sides("more than a million");
  return sides(ratio < 10 ? number(ratio, 2) : count(Math.round(Number(ratio.toPrecision(2)))));
}

// What a probability means, if it is right.
export function meaning(p) {
  const wrong = 1 - p;
  if (wrong < 1e-6) return "Fewer than one in a million such predictions would be wrong.";
  const every = 1 / wrong;
  if (every >= 10) return `About 1 in ${count(Math.round(Number(every.toPrecision(2))))} such predictions would be wrong.`;
  return `About ${count(Math.round(10 * wrong))} in 10 such predictions would be wrong.`;
}

export function when(seconds) {
  if (!seconds) return "never";
  return new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

export function clock(seconds) {
  const then = new Date(seconds * 1000);
  const today = then.toDateString() === new Date().toDateString();
  const style = today ? { timeStyle: "short" } : { dateStyle: "medium" };
  return then.toLocaleString("en-GB", style);
}

export function bytes(size) {
  if (size < 1e3) return `${size} bytes`;
  return size < 1e6 ? `${number(size / 1e3)} kB` : `${number(size / 1e6)} MB`;
}

export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

export function shortened(text, most = 160) {
  const letters = Array.from(text.slice(0, 2 * most));
  return letters.length > most ? `${letters.slice(0, most).join("")}…` : letters.join("");
}
