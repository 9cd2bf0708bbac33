import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { signs, words } from "../src/lib/format";
import { after, joined, throttled } from "../src/lib/state";
import type { Commit, Relation } from "../src/lib/types";

const commit = (epoch: number, more: Partial<Commit> = {}): Commit => ({ epoch, committed_at: "2026-01-01T00:00:00Z", changes: {}, ...more });
const report = (milliseconds: number | null) => ({ v: { strategy: "incremental", reason: "few", milliseconds, rows_changed: 1 } });

describe("lists of commits", () => {
  it("are joined latest first, each epoch once", () => {
    expect(joined([commit(5), commit(3)], [commit(4), commit(5)]).map(({ epoch }) => epoch)).toEqual([5, 4, 3]);
  });

  it("keep what one of them knows and the other does not", () => {
    const [known] = joined([commit(5, { levels: [["t"]], milliseconds: 12 })], [commit(5, { created: ["v"], milliseconds: null })]);
    expect(known).toMatchObject({ levels: [["t"]], milliseconds: 12, created: ["v"] });
  });

  it("keep the times of views, whichever comes first", () => {
    const timed = commit(5, { report: report(7) });
    const untimed = commit(5, { report: report(null) });
    expect(joined([timed], [untimed])[0]!.report!["v"]!.milliseconds).toBe(7);
    expect(joined([untimed], [timed])[0]!.report!["v"]!.milliseconds).toBe(7);
  });
});

describe("a relation after a commit", () => {
  const relation: Relation = { name: "v", kind: "view", columns: [], rows: 10, last_change: 4, last_changed_at: null };
  it("has other rows and another last change", () => {
    const changed = after(relation, commit(5, { changes: { v: { inserted: 3, deleted: 1 } } }));
    expect(changed).toMatchObject({ rows: 12, last_change: 5, last_changed_at: "2026-01-01T00:00:00Z" });
  });
  it("is the same when the commit did not change it, or is known already", () => {
    expect(after(relation, commit(5, { changes: { w: { inserted: 3, deleted: 1 } } }))).toBe(relation);
    expect(after(relation, commit(4, { changes: { v: { inserted: 3, deleted: 1 } } }))).toBe(relation);
  });
  it("keeps its number of rows where the counts are not known", () => {
    const unknown = { inserted: null, deleted: null };
    expect(after(relation, commit(5, { changes: { v: unknown } }))).toMatchObject({ rows: 10, last_change: 5 });
    expect([signs(unknown), words(unknown)]).toEqual(["±…", "changed"]);
  });
});

describe("throttled", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  it("runs at most once per period, and once more after the last call", () => {
    let runs = 0;
    const call = throttled(() => runs++, 1000);
    for (let i = 0; i < 20; i++) {
      call();
      vi.advanceTimersByTime(100);
    }
    vi.advanceTimersByTime(5000);
    expect(runs).toBeGreaterThanOrEqual(2);
    expect(runs).toBeLessThanOrEqual(4);
    const before = runs;
    vi.advanceTimersByTime(5000);
    expect(runs).toBe(before);
  });
});
