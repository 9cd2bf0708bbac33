import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { delay, LONGEST, Stream, type Connection, type Socket } from "../src/lib/stream";
import type { Commit, Frame } from "../src/lib/types";

class Fake implements Socket {
  onopen: Socket["onopen"] = null;
  onmessage: Socket["onmessage"] = null;
  onclose: Socket["onclose"] = null;
  onerror: Socket["onerror"] = null;
  sent: Record<string, unknown>[] = [];
  closed = false;
  send(text: string) {
    this.sent.push(JSON.parse(text));
  }
  close() {
    this.closed = true;
  }
  say(message: object) {
    this.onmessage?.({ data: JSON.stringify(message) } as never);
  }
  die() {
    this.onclose?.({} as never);
  }
}

const sockets: Fake[] = [];
const states: Connection[] = [];
const commits: Commit[] = [];
let why: "unauthorized" | "unreachable" | "fine" = "unreachable";

const make = () =>
  new Stream({
    open: () => {
      const socket = new Fake();
      sockets.push(socket);
      return socket;
    },
    probe: async () => why,
    connection: (state) => states.push(state),
    commit: (commit) => commits.push(commit),
    hello: () => {},
    error: () => {},
    random: () => 1,
  });

beforeEach(() => {
  vi.useFakeTimers();
  sockets.length = states.length = commits.length = 0;
  why = "unreachable";
});
afterEach(() => vi.useRealTimers());

const frame = (id: unknown, epoch: number, extra = {}) => ({ type: "frame", id, view: "v", epoch, committed_at: null, snapshot: false, reset: false, updates: [], ...extra });

describe("the stream", () => {
  it("subscribes after the greeting, and follows commits", () => {
    const stream = make();
    stream.subscribe("v", { frame: () => {} }, { since: 4, where: "a = 1" });
    stream.connect();
    expect(sockets[0]!.sent).toEqual([]);
    sockets[0]!.say({ type: "hello", epoch: 9 });
    expect(sockets[0]!.sent).toEqual([
      { type: "commits" },
      { type: "subscribe", id: "s1", view: "v", since: 4, snapshot: false, where: "a = 1" },
    ]);
    sockets[0]!.say({ type: "commit", epoch: 10, changes: {} });
    expect(commits[0]!.epoch).toBe(10);
    expect(states.at(-1)).toEqual({ state: "live" });
  });

  it("asks for a snapshot when there is nothing to resume from", () => {
    const stream = make();
    stream.connect();
    sockets[0]!.say({ type: "hello", epoch: 9 });
    stream.subscribe("v", { frame: () => {} });
    expect(sockets[0]!.sent.at(-1)).toMatchObject({ since: null, snapshot: true });
  });

  it("comes back by itself and resumes after the last epoch, frame or progress", async () => {
    const seen: number[] = [];
    const stream = make();
    stream.subscribe("v", { frame: ({ epoch }: Frame) => seen.push(epoch) }, { since: 4 });
    stream.connect();
    sockets[0]!.say({ type: "hello", epoch: 4 });
    sockets[0]!.say(frame("s1", 5));
    sockets[0]!.say({ type: "progress", id: "s1", epoch: 7 });
    sockets[0]!.die();
    expect(states.at(-1)).toMatchObject({ state: "waiting", attempt: 0 });
    await vi.advanceTimersByTimeAsync(600);
    expect(sockets).toHaveLength(2);
    sockets[1]!.say({ type: "hello", epoch: 8 });
    expect(sockets[1]!.sent.at(-1)).toMatchObject({ type: "subscribe", since: 7, snapshot: false });
    sockets[1]!.say(frame("s1", 7)); // sent again: not shown again
    sockets[1]!.say(frame("s1", 8));
    expect(seen).toEqual([5, 8]);
  });

  it("waits longer from try to try, but not for ever", async () => {
    const stream = make();
    stream.connect();
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      sockets.at(-1)!.die();
      const state = states.at(-1) as { retryAt: number };
      waits.push(state.retryAt - Date.now());
      await vi.advanceTimersByTimeAsync(LONGEST + 1);
    }
    expect(waits.slice(0, 4)).toEqual([500, 1000, 2000, 4000]);
    expect(waits.at(-1)).toBe(LONGEST);
    expect(delay(3, () => 0)).toBe(3000);
  });

  it("begins with the short delay again after it was connected", async () => {
    const stream = make();
    stream.connect();
    sockets[0]!.die();
    await vi.advanceTimersByTimeAsync(600);
    sockets[1]!.say({ type: "hello", epoch: 1 });
    sockets[1]!.die();
    expect(states.at(-1)).toMatchObject({ state: "waiting", attempt: 0 });
  });

  it("asks for a token instead of trying on and on", async () => {
    why = "unauthorized";
    const stream = make();
    stream.connect();
    sockets[0]!.die();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(states.at(-1)).toEqual({ state: "unauthorized" });
    expect(sockets).toHaveLength(1);
  });

  it("tells a subscriber that its epoch is gone, and forgets the subscription", () => {
    const errors: string[] = [];
    const stream = make();
    stream.subscribe("v", { frame: () => {}, error: ({ code }) => errors.push(code) }, { since: 1 });
    stream.connect();
    sockets[0]!.say({ type: "hello", epoch: 90 });
    sockets[0]!.say({ type: "error", id: "s1", code: "gone", detail: "no longer kept", oldest: 50 });
    expect(errors).toEqual(["gone"]);
    sockets[0]!.say(frame("s1", 91));
  });

  it("lets go of a subscription, also before the greeting", () => {
    const stream = make();
    const stop = stream.subscribe("v", { frame: () => {} });
    stop();
    stream.connect();
    sockets[0]!.say({ type: "hello", epoch: 1 });
    expect(sockets[0]!.sent).toEqual([{ type: "commits" }]);
    stream.subscribe("w", { frame: () => {} })();
    expect(sockets[0]!.sent.at(-1)).toEqual({ type: "unsubscribe", id: "s2" });
  });

  it("keeps large integers of frames", () => {
    const rows: unknown[] = [];
    const stream = make();
    stream.subscribe("v", { frame: ({ updates }) => rows.push(...updates.map(({ row }) => row[0])) });
    stream.connect();
    sockets[0]!.say({ type: "hello", epoch: 1 });
    sockets[0]!.onmessage?.({ data: '{"type":"frame","id":"s1","epoch":2,"updates":[{"row":[9007199254740993],"diff":1}]}' } as never);
    expect(rows).toEqual([9007199254740993n]);
  });
});
