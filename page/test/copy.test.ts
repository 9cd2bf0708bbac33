import { describe, expect, it } from "vitest";
import { Copy, fold, marksOf, net, OutOfStep, shown } from "../src/lib/copy";

const frame = (epoch: number, updates: [unknown[], number][], extra = {}) => ({
  epoch,
  committed_at: "2026-01-01T00:00:00Z",
  snapshot: false,
  reset: false,
  updates: updates.map(([row, diff]) => ({ row: row as never, diff })),
  ...extra,
});

describe("a copy", () => {
  it("takes a snapshot with multiplicities", () => {
    const copy = new Copy();
    copy.apply(frame(3, [[["a", 1], 2], [["b", 2], 1]], { snapshot: true }));
    expect(copy.size).toBe(3);
    expect(copy.epoch).toBe(3);
    expect(copy.marks).toBeNull();
  });

  it("adds and takes away by weight, and forgets a row with none left", () => {
    const copy = new Copy();
    copy.load([["a"], ["a"], ["b"]], 1);
    expect(copy.apply(frame(2, [[["a"], -1], [["b"], -1], [["c"], 1]]))).toBe(true);
    expect(copy.rows().map(({ row, count }) => [row[0], count])).toEqual([["a", 1], ["c", 1]]);
    expect(copy.marks).toMatchObject({ epoch: 2, inserted: [{ row: ["c"], count: 1 }], deleted: [{ row: ["a"], count: 1 }, { row: ["b"], count: 1 }] });
  });

  it("ignores an epoch that it has already", () => {
    const copy = new Copy();
    copy.load([["a"]], 5);
    expect(copy.apply(frame(5, [[["a"], 1]]))).toBe(false);
    expect(copy.apply(frame(4, [[["a"], 1]]))).toBe(false);
    expect(copy.size).toBe(1);
  });

  it("begins again with a reset", () => {
    const copy = new Copy();
    copy.load([["a"]], 5);
    copy.apply(frame(9, [[["z"], 1]], { reset: true, snapshot: true }));
    expect(copy.rows().map(({ row }) => row)).toEqual([["z"]]);
    expect(copy.epoch).toBe(9);
  });

  it("refuses to delete a row that it does not have, and stays as it was", () => {
    const copy = new Copy();
    copy.load([["a"]], 1);
    expect(() => copy.apply(frame(2, [[["a"], -1], [["b"], -1]]))).toThrow(OutOfStep);
    expect(copy.rows().map(({ row }) => row)).toEqual([["a"]]);
    expect(copy.epoch).toBe(1);
  });

  it("of the first rows only, lets go of rows that it never had", () => {
    const copy = new Copy();
    copy.load([["a"]], 1, false);
    copy.apply(frame(2, [[["b"], -1], [["a"], -1]]));
    expect(copy.size).toBe(0);
  });

  it("keeps the last marks over an epoch without a change", () => {
    const copy = new Copy();
    copy.load([], 1);
    copy.apply(frame(2, [[["a"], 1]]));
    copy.apply(frame(3, []));
    expect(copy.marks?.epoch).toBe(2);
    expect(copy.epoch).toBe(3);
  });

  it("tells apart 1, '1', NULL and large integers", () => {
    const copy = new Copy();
    copy.load([[1], ["1"], [null], [9007199254740993n], [9007199254740992n]], 1);
    expect(copy.rows()).toHaveLength(5);
  });

  it("ends where the relation is after many random frames", () => {
    let seed = 1;
    const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
    const truth = new Map<number, number>();
    const copy = new Copy();
    copy.load([], 0);
    for (let epoch = 1; epoch <= 300; epoch++) {
      const updates: [unknown[], number][] = [];
      for (let i = 0; i < 4; i++) {
        const value = Math.floor(random() * 12);
        const there = truth.get(value) ?? 0;
        const diff = random() < 0.5 && there > 0 ? -1 : 1;
        truth.set(value, there + diff);
        updates.push([[value], diff]);
      }
      copy.apply(frame(epoch, updates));
    }
    for (const [value, count] of truth) expect(copy.rows().find(({ row }) => row[0] === value)?.count ?? 0).toBe(count);
  });
});

describe("marks", () => {
  it("are net: what comes and goes in one change is not marked", () => {
    expect([...net([{ row: [1], diff: 1 }, { row: [1], diff: -1 }]).values()]).toEqual([]);
    expect(marksOf([{ row: [1], diff: 2 }, { row: [2], diff: -3 }], 7)).toMatchObject({ epoch: 7, inserted: [{ count: 2 }], deleted: [{ count: 3 }] });
  });

  it("stand beside each other when a row is replaced, the deleted one first", () => {
    const marks = marksOf([{ row: ["EU", 2], diff: 1 }, { row: ["EU", 1], diff: -1 }], 4);
    const lines = shown(fold([["AS", 9], ["EU", 2], ["US", 3]]), marks);
    expect(lines.map(({ row, mark }) => [mark, ...row])).toEqual([["", "AS", 9], ["−", "EU", 1], ["+", "EU", 2], ["", "US", 3]]);
  });

  it("keep the old row of a key before the new one, whatever their values", () => {
    const marks = marksOf([{ row: ["EU", 1], diff: 1 }, { row: ["EU", 2], diff: -1 }], 4);
    const lines = shown(fold([["AS", 9], ["EU", 1]]), marks, null, false, [0]);
    expect(lines.map(({ row, mark }) => [mark, ...row])).toEqual([["", "AS", 9], ["−", "EU", 2], ["+", "EU", 1]]);
  });

  it("split a row of which only some copies are new", () => {
    const lines = shown(fold([["a"], ["a"], ["a"]]), marksOf([{ row: ["a"], diff: 1 }], 2));
    expect(lines.map(({ mark, count }) => [mark, count])).toEqual([["", 2], ["+", 1]]);
  });

  it("alone show both sides of a preview", () => {
    const lines = shown([], marksOf([{ row: [1], diff: 1 }, { row: [2], diff: -1 }], -1));
    expect(lines.map(({ mark }) => mark)).toEqual(["+", "−"]);
  });

  it("follow the order that was chosen", () => {
    const lines = shown(fold([["a", 1], ["b", 3], ["c", 2], ["d", null]]), null, 1, true);
    expect(lines.map(({ row }) => row[0])).toEqual(["d", "b", "c", "a"]);
  });
});
