import { parse as parseLossless } from "lossless-json";

/** Parses JSON; integers that a double cannot hold become bigint. */
export function parse(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return parseLossless(text, undefined, (digits) => {
    const number = Number(digits);
    return /^-?\d+$/.test(digits) && !Number.isSafeInteger(number) ? BigInt(digits) : number;
  });
}

/** A text that is equal for equal values only: the identity of a row. */
export function identity(value: unknown): string {
  return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? { $big: each.toString() } : each));
}
