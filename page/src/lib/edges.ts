import type { Column } from "./types";

const pairs: [RegExp, RegExp][] = [
  [/^(src|source|from|origin|tail)(_|$)/i, /^(dst|dest|destination|target|to|head)(_|$)/i],
  [/^(parent|ancestor|whole|manager|boss|upstream)(_|$)/i, /^(child|descendant|part|employee|report|downstream)(_|$)/i],
  [/^(x|a|u|left)$/i, /^(y|z|b|v|right)$/i],
];
const nodes = /^(string|varchar|char|int|integer|bigint|long|smallint|tinyint|symbol|number)/i;

/**
 * The two columns whose values are the nodes of a graph, or null: two columns of one type that are named like the ends
 * of an edge, or the only two columns of a relation when both are texts.
 */
export function nodeColumns(columns: Column[]): [number, number] | null {
  const fits = (a: number, b: number) =>
    nodes.test(columns[a]!.type) && columns[a]!.type.toLowerCase() === columns[b]!.type.toLowerCase();
  for (const [from, to] of pairs) {
    const a = columns.findIndex(({ name }) => from.test(name));
    const b = columns.findIndex(({ name }, at) => at !== a && to.test(name));
    if (a >= 0 && b >= 0 && fits(a, b)) return [a, b];
  }
  if (columns.length === 2 && /^(string|varchar|char|symbol)/i.test(columns[0]!.type) && fits(0, 1)) return [0, 1];
  return null;
}
