import { useState } from "preact/hooks";
import { shown, type Entry, type Marks } from "../lib/copy";
import { count, counted, isNumeric } from "../lib/format";
import type { Column } from "../lib/types";
import { Cell, Hidden } from "./common";

const STEP = 200;

/**
 * Rows as a table. The last change is marked: inserted rows with + and green, deleted ones with −, red, and struck
 * through; those who cannot see it hear the words.
 */
export function Grid({ columns, entries, marks, caption, keyed, sortable = true, inOrder = false }: {
  columns: Column[];
  entries: Entry[];
  marks?: Marks | null;
  caption: string;
  /** The columns of a key: the old and the new row of one key stand together. */
  keyed?: string[] | undefined;
  sortable?: boolean;
  /** Leaves the rows in their order until a column is chosen. */
  inOrder?: boolean;
}) {
  const [by, setBy] = useState<number | null>(null);
  const [descending, setDescending] = useState(false);
  const [limit, setLimit] = useState(STEP);
  const positions = (keyed ?? []).map((name) => columns.findIndex((column) => column.name === name)).filter((position) => position >= 0);
  const lines = inOrder && by === null ? entries.map((entry) => ({ ...entry, mark: "" as const })) : shown(entries, marks ?? null, by, descending, positions);
  const sort = (at: number) => {
    if (by !== at) {
      setBy(at);
      setDescending(false);
    } else if (!descending) setDescending(true);
    else {
      setBy(null);
      setDescending(false);
    }
  };
  return (
    <>
      <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
        <table class="grid">
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              <th class="gutter" scope="col">
                <Hidden>Change and number</Hidden>
              </th>
              {columns.map((column, at) => (
                <th
                  key={at}
                  scope="col"
                  class={isNumeric(column.type) ? "number" : ""}
                  aria-sort={by === at ? (descending ? "descending" : "ascending") : undefined}
                >
                  {sortable ? (
                    <button type="button" onClick={() => sort(at)} title={`${column.type}; sort by ${column.name}`}>
                      <span class="column-name">{column.name}</span>
                      <span class="column-type">{column.type.toLowerCase()}</span>
                      <span class="sort" aria-hidden="true">
                        {by === at ? (descending ? "▾" : "▴") : ""}
                      </span>
                    </button>
                  ) : (
                    <span title={column.type}>{column.name}</span>
                  )}
                </th>
              ))}
              <th class="filler" aria-hidden="true" />
            </tr>
          </thead>
          <tbody>
            {lines.slice(0, limit).map((line) => (
              <tr key={line.mark + line.key} class={line.mark === "+" ? "inserted" : line.mark === "−" ? "deleted" : ""}>
                <td class="gutter">
                  {line.mark ? (
                    <span class="mark">
                      <span aria-hidden="true">{line.mark}</span>
                      <Hidden>{line.mark === "+" ? "inserted" : "deleted"}</Hidden>
                    </span>
                  ) : null}
                  {line.count > 1 ? <span class="times" title={`${count(line.count)} equal rows`}>×{count(line.count)}</span> : null}
                </td>
                {columns.map((column, at) => (
                  <td key={at} class={isNumeric(column.type) ? "number" : ""}>
                    {line.mark === "−" ? (
                      <s>
                        <Cell value={line.row[at] ?? null} />
                      </s>
                    ) : (
                      <Cell value={line.row[at] ?? null} />
                    )}
                  </td>
                ))}
                <td class="filler" aria-hidden="true" />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {lines.length > limit ? (
        <div class="more">
          <button type="button" class="button" onClick={() => setLimit(limit + 5 * STEP)}>
            Show more
          </button>
          <span class="muted">
            {count(limit)} of {counted(lines.length, "row")} shown
          </span>
        </div>
      ) : null}
    </>
  );
}
