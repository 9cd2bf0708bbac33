import { identity } from "./json";
import { compareRows, compareValues } from "./order";
import type { Row, Update } from "./types";

export interface Entry {
  key: string;
  row: Row;
  count: number;
}

/** The net change that one epoch made to a relation, as marks for its rows. */
export interface Marks {
  epoch: number;
  committedAt: string | null;
  inserted: Entry[];
  deleted: Entry[];
}

/** A row to show: as it is in the copy, or marked as inserted or deleted by the last change. */
export interface Shown extends Entry {
  mark: "" | "+" | "−";
}

export interface Incoming {
  epoch: number;
  committed_at?: string | null;
  snapshot?: boolean;
  reset?: boolean;
  updates: Update[];
}

/** Raised when a frame deletes a row that an entire copy does not have. */
export class OutOfStep extends Error {}

/** Adds up updates: equal rows become one entry with the sum of their diffs. */
export function net(updates: Update[]): Map<string, Entry> {
  const sums = new Map<string, Entry>();
  for (const { row, diff } of updates) {
    const key = identity(row);
    const entry = sums.get(key);
    if (entry) entry.count += diff;
    else sums.set(key, { key, row, count: diff });
  }
  for (const [key, { count }] of sums) if (count === 0) sums.delete(key);
  return sums;
}

/** The marks of a change: its inserted and its deleted rows, with positive counts. */
export function marksOf(updates: Update[], epoch: number, committedAt: string | null = null): Marks {
  const entries = [...net(updates).values()];
  return {
    epoch,
    committedAt,
    inserted: entries.filter(({ count }) => count > 0),
    deleted: entries.filter(({ count }) => count < 0).map((entry) => ({ ...entry, count: -entry.count })),
  };
}

/** A copy of a relation: a multiset of rows, moved from epoch to epoch by frames. */
export class Copy {
  epoch = -1;
  marks: Marks | null = null;
  private readonly entries = new Map<string, Entry>();

  /** entire: the copy has all rows; otherwise the first ones, and frames may delete rows that it never had. */
  constructor(public entire = true) {}

  get size(): number {
    let sum = 0;
    for (const { count } of this.entries.values()) sum += count;
    return sum;
  }

  /** Replaces the contents by these rows, duplicates repeated. */
  load(rows: Row[], epoch: number, entire = true): void {
    this.entries.clear();
    for (const row of rows) this.add(identity(row), row, 1);
    this.epoch = epoch;
    this.entire = entire;
    this.marks = null;
  }

  /** Applies a frame; returns false when the copy has it already. */
  apply(frame: Incoming): boolean {
    if (frame.snapshot || frame.reset) {
      this.entries.clear();
      for (const entry of net(frame.updates).values()) this.add(entry.key, entry.row, entry.count);
      this.epoch = frame.epoch;
      this.entire = true;
      this.marks = null;
      return true;
    }
    if (frame.epoch <= this.epoch) return false;
    const marks = marksOf(frame.updates, frame.epoch, frame.committed_at ?? null);
    for (const { key, count } of marks.deleted)
      if (this.entire && (this.entries.get(key)?.count ?? 0) < count)
        throw new OutOfStep(`epoch ${frame.epoch} deletes a row that this copy does not have: ${key}`);
    for (const { key, row, count } of marks.deleted) this.add(key, row, -count);
    for (const { key, row, count } of marks.inserted) this.add(key, row, count);
    this.epoch = frame.epoch;
    if (marks.inserted.length + marks.deleted.length > 0) this.marks = marks;
    return true;
  }

  rows(): Entry[] {
    return [...this.entries.values()];
  }

  private add(key: string, row: Row, count: number): void {
    const entry = this.entries.get(key);
    const sum = (entry?.count ?? 0) + count;
    if (sum > 0) this.entries.set(key, { key, row, count: sum });
    else this.entries.delete(key);
  }
}

/** Folds rows, duplicates repeated, into entries. */
export function fold(rows: Row[]): Entry[] {
  return [...net(rows.map((row) => ({ row, diff: 1 }))).values()];
}

/**
 * The rows to show, sorted, with the last change marked: an inserted row once with its sign, a deleted row still in the
 * place where it was. Of a row that occurs several times, what is left unmarked and what is marked are two lines. With
 * the positions of a key, the old and the new row of one key stand together, the old one first.
 */
export function shown(entries: Entry[], marks: Marks | null, by: number | null = null, descending = false, key: number[] = []): Shown[] {
  const lines: Shown[] = [];
  const inserted = new Map(marks?.inserted.map((entry) => [entry.key, entry.count]));
  for (const entry of entries) {
    const fresh = Math.min(inserted.get(entry.key) ?? 0, entry.count);
    if (entry.count > fresh) lines.push({ ...entry, count: entry.count - fresh, mark: "" });
    if (fresh > 0) lines.push({ ...entry, count: fresh, mark: "+" });
  }
  // A preview has marks only: what would be inserted is in no copy yet.
  if (entries.length === 0) for (const entry of marks?.inserted ?? []) lines.push({ ...entry, mark: "+" });
  for (const entry of marks?.deleted ?? []) lines.push({ ...entry, mark: "−" });
  const order = { "−": 0, "": 1, "+": 2 };
  const compareKeys = (a: Shown, b: Shown) => {
    for (const at of key) {
      const compared = compareValues(a.row[at] ?? null, b.row[at] ?? null);
      if (compared !== 0) return compared;
    }
    return order[a.mark] - order[b.mark];
  };
  return lines.sort(
    (a, b) =>
      (by === null && key.length ? compareKeys(a, b) : 0) || compareRows(a.row, b.row, by, descending) || order[a.mark] - order[b.mark],
  );
}
