import { describe, expect, it } from "vitest";
import { ago, bytes, clock, count, counted, isNumeric, milliseconds, sentence, signs, text, warning, words } from "../src/lib/format";
import { identity, parse } from "../src/lib/json";
import { compareValues } from "../src/lib/order";

describe("values", () => {
  it("are shown as they are stored", () => {
    expect(text(null)).toBe("NULL");
    expect(text("12.50")).toBe("12.50");
    expect(text(true)).toBe("true");
    expect(text("NaN")).toBe("NaN");
    expect(text(9007199254740993n)).toBe("9007199254740993");
    expect(text([1, [null, "x"]])).toBe('[1,[null,"x"]]');
    expect(text({ a: 9007199254740993n })).toBe('{"a":"9007199254740993"}');
  });

  it("keep large integers when they are parsed", () => {
    expect(parse('{"rows":[[9007199254740993, 12, 1.5, "9007199254740993"]]}')).toEqual({ rows: [[9007199254740993n, 12, 1.5, "9007199254740993"]] });
    expect(parse("[0.1234567890123456789]")).toEqual([0.12345678901234568]);
    expect(identity([9007199254740993n])).not.toBe(identity(["9007199254740993"]));
  });

  it("are ordered by number where they are numbers", () => {
    expect(["10.50", "9.25", "-3"].sort(compareValues)).toEqual(["-3", "9.25", "10.50"]);
    expect([null, 2, 10n, 1].sort(compareValues)).toEqual([1, 2, 10n, null]);
    expect(["item 10", "item 9"].sort(compareValues)).toEqual(["item 9", "item 10"]);
  });

  it("stand on the right when they are numbers", () => {
    expect(isNumeric("DECIMAL(12,2)")).toBe(true);
    expect(isNumeric("bigint")).toBe(true);
    expect(isNumeric("STRING")).toBe(false);
    expect(isNumeric("array<int>")).toBe(false);
  });
});

describe("numbers in sentences", () => {
  it("have signs and words", () => {
    expect(signs({ inserted: 1234, deleted: 1 })).toBe("+1,234 −1");
    expect(signs({ inserted: 0, deleted: 0 })).toBe("±0");
    expect(words({ inserted: 2, deleted: 1 })).toBe("2 inserted, 1 deleted");
    expect(counted(1, "row")).toBe("1 row");
    expect(counted(0, "row")).toBe("0 rows");
    expect(count(null)).toBe("–");
  });

  it("have units that fit", () => {
    expect([0.42, 12.4, 1234, 12345, 125_000, null].map(milliseconds)).toEqual(["0.4 ms", "12 ms", "1.23 s", "12.3 s", "2 min 5 s", "–"]);
    expect([0, 999, 1500, 123_456_789].map(bytes)).toEqual(["0 B", "999 B", "1.5 kB", "123 MB"]);
  });

  it("tell how long ago", () => {
    const now = Date.parse("2026-05-01T12:00:00Z");
    expect(["2026-05-01T11:59:59Z", "2026-05-01T11:59:20Z", "2026-05-01T11:50:00Z", "2026-05-01T02:00:00Z", "2026-04-01T00:00:00Z"].map((at) => ago(at, now))).toEqual(["now", "40 s ago", "10 min ago", "10 h ago", "2026-04-01"]);
    expect(ago(null, now)).toBe("–");
  });

  it("tell the time, with the date when it is another day", () => {
    const now = new Date(2026, 4, 1, 15, 0, 0).getTime();
    expect(clock(new Date(2026, 4, 1, 14, 3, 7).toISOString(), now)).toBe("14:03:07");
    expect(clock(new Date(2026, 3, 30, 14, 3, 7).toISOString(), now)).toBe("2026-04-30 14:03:07");
  });

  it("say a commit in one sentence", () => {
    expect(sentence({ epoch: 7, committed_at: "", changes: { v: { inserted: 1, deleted: 1 } } })).toBe("Epoch 7: v 1 inserted, 1 deleted.");
    expect(sentence({ epoch: 8, committed_at: "", changes: {} })).toBe("Epoch 8: no rows changed.");
  });

  it("take warnings in any shape", () => {
    expect(warning("x")).toBe("x");
    expect(warning({ message: "y" })).toBe("y");
    expect(warning({ assertion: "a" })).toBe('{"assertion":"a"}');
  });
});
