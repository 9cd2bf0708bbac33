import type { Row, Value } from "./types";

const collator = new Intl.Collator(undefined, { numeric: true });
const rank = (value: Value): number =>
  value === null ? 3 : typeof value === "number" || typeof value === "bigint" ? 0 : typeof value === "boolean" ? 1 : 2;
const numeric = /^-?\d+(\.\d+)?$/;

/** Orders two values: numbers, then booleans, then texts, NULL last. */
export function compareValues(a: Value, b: Value): number {
  const [left, right] = [rank(a), rank(b)];
  if (left !== right) return left - right;
  if (left === 0) return (a as number) < (b as number) ? -1 : (a as number) > (b as number) ? 1 : 0;
  if (left === 3) return 0;
  if (typeof a === "string" && typeof b === "string") {
    // Decimals come as strings: compared as numbers.
    if (numeric.test(a) && numeric.test(b)) return Number(a) - Number(b) || (a < b ? -1 : a > b ? 1 : 0);
    return collator.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
  }
  const [x, y] = [JSON.stringify(a, big), JSON.stringify(b, big)];
  return x < y ? -1 : x > y ? 1 : 0;
}

const big = (_: string, value: unknown) => (typeof value === "bigint" ? value.toString() : value);

/** Orders two rows by one column, then by all of them from the left. */
export function compareRows(a: Row, b: Row, by: number | null, descending: boolean): number {
  if (by !== null) {
    const order = compareValues(a[by] ?? null, b[by] ?? null);
    if (order !== 0) return descending ? -order : order;
  }
  for (let i = 0; i < a.length; i++) {
    const order = compareValues(a[i] ?? null, b[i] ?? null);
    if (order !== 0) return order;
  }
  return 0;
}
