import { parse } from "./json";
import type { Commit, Frame } from "./types";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "waiting"; retryAt: number; attempt: number }
  | { state: "unauthorized" };

export interface StreamError {
  code: string;
  detail: string;
  hint?: string | null;
  oldest?: number;
}

export interface Listener {
  frame(frame: Frame): void;
  progress?(epoch: number): void;
  /** code `gone`: the epoch to resume from is no longer kept. */
  error?(error: StreamError): void;
}

export interface Options {
  /** Only what happened after this epoch; without it a snapshot comes first. */
  since?: number | null;
  where?: string | null;
}

interface Subscription extends Options {
  id: string;
  view: string;
  listener: Listener;
}

/** What the stream uses of a WebSocket. */
export interface Socket {
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(): void;
}

export interface Surroundings {
  open(): Socket;
  /** Tells why no connection comes about: a token is missing or wrong, or the server does not answer. */
  probe(): Promise<"unauthorized" | "unreachable" | "fine">;
  connection(now: Connection): void;
  commit(commit: Commit): void;
  /** An epoch that a frame or progress tells of. */
  epoch?(epoch: number): void;
  hello(epoch: number): void;
  error(error: StreamError): void;
  random?: () => number;
}

export const FIRST = 500;
export const LONGEST = 15_000;

/** How long to wait before the nth attempt: doubles, up to 15 seconds, spread by a quarter. */
export const delay = (attempt: number, random = Math.random): number =>
  Math.min(LONGEST, FIRST * 2 ** Math.min(attempt, 10)) * (0.75 + 0.25 * random());

/** One WebSocket for all subscriptions of the page. It reconnects by itself, and resumes each after its last epoch. */
export class Stream {
  private socket: Socket | null = null;
  private greeted = false;
  private attempt = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private stopped = false;
  private next = 0;
  private readonly subscriptions = new Map<string, Subscription>();

  constructor(private readonly around: Surroundings) {}

  connect(): void {
    this.stopped = false;
    if (this.timer) clearTimeout(this.timer);
    this.timer = null;
    this.drop();
    this.around.connection({ state: "connecting" });
    let socket: Socket;
    try {
      socket = this.around.open();
    } catch {
      void this.lost();
      return;
    }
    this.socket = socket;
    this.greeted = false;
    socket.onmessage = (event: { data: unknown }) => {
      if (this.socket === socket && typeof event.data === "string") this.receive(event.data);
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = null;
      void this.lost();
    };
    socket.onerror = () => {};
  }

  close(): void {
    this.stopped = true;
    if (this.timer) clearTimeout(this.timer);
    this.drop();
  }

  /** Tries at once instead of at the end of the delay. */
  retry(): void {
    if (!this.greeted || !this.socket) this.connect();
  }

  /** Follows a relation; returns how to stop. */
  subscribe(view: string, listener: Listener, options: Options = {}): () => void {
    const subscription: Subscription = { id: `s${++this.next}`, view, listener, ...options };
    this.subscriptions.set(subscription.id, subscription);
    if (this.greeted) this.ask(subscription);
    return () => {
      if (this.subscriptions.delete(subscription.id) && this.greeted)
        this.send({ type: "unsubscribe", id: subscription.id });
    };
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    this.greeted = false;
    socket?.close();
  }

  private send(message: object): void {
    this.socket?.send(JSON.stringify(message));
  }

  private ask({ id, view, since, where }: Subscription): void {
    this.send({ type: "subscribe", id, view, since: since ?? null, snapshot: since == null, where: where || null });
  }

  private async lost(): Promise<void> {
    this.greeted = false;
    if (this.stopped) return;
    const attempt = this.attempt++;
    const wait = delay(attempt, this.around.random);
    this.around.connection({ state: "waiting", retryAt: Date.now() + wait, attempt });
    this.timer = setTimeout(() => this.connect(), wait);
    const timer = this.timer;
    const why = await this.around.probe();
    if (why === "unauthorized" && this.timer === timer && !this.stopped) {
      clearTimeout(timer);
      this.timer = null;
      this.around.connection({ state: "unauthorized" });
    }
  }

  private receive(text: string): void {
    const message = parse(text) as { type: string; id?: string | null } & Record<string, unknown>;
    const subscription = message.id == null ? undefined : this.subscriptions.get(message.id);
    switch (message.type) {
      case "hello":
        this.greeted = true;
        this.attempt = 0;
        this.around.connection({ state: "live" });
        this.around.hello(message["epoch"] as number);
        this.send({ type: "commits" });
        for (const each of this.subscriptions.values()) this.ask(each);
        break;
      case "frame": {
        const frame = message as unknown as Frame;
        if (!subscription) break;
        // What was seen already is not shown twice, whatever a restart of the server sends again.
        const fresh = frame.snapshot || frame.reset || subscription.since == null || frame.epoch > subscription.since;
        if (!fresh) break;
        subscription.since = frame.epoch;
        this.around.epoch?.(frame.epoch);
        subscription.listener.frame(frame);
        break;
      }
      case "progress": {
        const epoch = message["epoch"] as number;
        if (!subscription) break;
        this.around.epoch?.(epoch);
        if (subscription.since != null && epoch > subscription.since) subscription.since = epoch;
        subscription.listener.progress?.(epoch);
        break;
      }
      case "commit":
        this.around.commit(message as unknown as Commit);
        break;
      case "error": {
        const error = message as unknown as StreamError;
        if (subscription) {
          this.subscriptions.delete(subscription.id);
          subscription.listener.error?.(error);
        } else this.around.error(error);
        break;
      }
    }
  }
}
