import { batch, computed, effect, signal, type Signal } from "@preact/signals";
import { ApiError, base, get, onUnauthorized, token } from "./api";
import { sentence } from "./format";
import { route } from "./router";
import { Stream, type Connection } from "./stream";
import type { Assertion, Commit, Firing, Graph, Relation, Rule } from "./types";

/** Something from the server: not there yet, there, or refused. */
export interface Loaded<T> {
  data: T | null;
  error: ApiError | null;
}

const nothing = <T>(): Signal<Loaded<T>> => signal<Loaded<T>>({ data: null, error: null });

export const connection = signal<Connection>({ state: "connecting" });
export const everLive = signal(false);
export const epoch = signal<number | null>(null);
export const tables = nothing<Relation[]>();
export const views = nothing<Relation[]>();
export const graph = nothing<Graph>();
export const rules = nothing<{ rules: Rule[]; firings: Firing[] }>();
export const assertions = nothing<Assertion[]>();
/** Known commits, latest first. */
export const commits = nothing<Commit[]>();
export const allCommits = signal(false);
/** The last commit that arrived while the page was open. */
export const arrived = signal<Commit | null>(null);
export const problem = signal<string | null>(null);
export const now = signal(Date.now());
export const announcement = signal("");

export const relations = computed(() => {
  const all = new Map<string, Relation>();
  for (const each of tables.value.data ?? []) all.set(each.name, each);
  for (const each of views.value.data ?? []) all.set(each.name, each);
  return all;
});

/** When a relation changed last: the time of that commit, where it is known. */
export const changedAt = ({ last_change, last_changed_at }: Relation): string | null =>
  commits.value.data?.find((commit) => commit.epoch === last_change)?.committed_at ?? last_changed_at;

export const asError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError({ detail: String((error as Error)?.message ?? error) });

async function load<T>(into: Signal<Loaded<T>>, path: string, pick: (answer: never) => T): Promise<void> {
  try {
    const answer = await get<never>(path);
    into.value = { data: pick(answer), error: null };
  } catch (error) {
    // What was there stays: it is still true as of its epoch.
    into.value = { data: into.value.data, error: asError(error) };
  }
}

export const refreshTables = () => load(tables, "tables", (answer: { tables: Relation[] }) => answer.tables);
export const refreshViews = () => load(views, "views", (answer: { views: Relation[] }) => answer.views);
export const refreshGraph = () => load(graph, "graph", (answer: Graph) => answer);
export const refreshRules = () => load(rules, "rules", (answer: { rules: Rule[]; firings: Firing[] }) => answer);
export const refreshAssertions = () =>
  load(assertions, "assertions", (answer: { assertions: Assertion[] }) => answer.assertions);

/** Whether a commit says how long its views took. */
const isTimed = ({ report }: Commit): boolean => Object.values(report ?? {}).some(({ milliseconds }) => milliseconds != null);

/** Joins two lists of commits: latest first, each epoch once, the one that says more. */
export function joined(known: Commit[], more: Commit[]): Commit[] {
  const all = new Map<number, Commit>();
  for (const commit of known) all.set(commit.epoch, commit);
  for (const commit of more) {
    const there = all.get(commit.epoch);
    const said = Object.fromEntries(Object.entries(commit).filter(([, value]) => value != null));
    if (there && !isTimed(commit) && isTimed(there)) delete said["report"];
    all.set(commit.epoch, there ? { ...there, ...said } : commit);
  }
  return [...all.values()].sort((a, b) => b.epoch - a.epoch);
}

const PAGE = 50;

export const refreshCommits = () =>
  load(commits, `commits?limit=${PAGE}`, (answer: { commits: Commit[] }) => {
    if (answer.commits.length < PAGE) allCommits.value = true;
    return joined(commits.value.data ?? [], answer.commits);
  });

export async function olderCommits(): Promise<void> {
  const oldest = commits.value.data?.at(-1)?.epoch;
  if (oldest === undefined || allCommits.value) return;
  await load(commits, `commits?limit=${PAGE}&before=${oldest}`, (answer: { commits: Commit[] }) => {
    if (answer.commits.length < PAGE) allCommits.value = true;
    return joined(commits.value.data ?? [], answer.commits);
  });
}

export async function refreshAll(): Promise<void> {
  await Promise.all([refreshTables(), refreshViews(), refreshGraph(), refreshCommits(), refreshRules(), refreshAssertions()]);
}

/** Runs at most once per period, and once more after the last call. */
export function throttled(action: () => void, period: number): () => void {
  let timer: ReturnType<typeof setTimeout> | null = null;
  let last = 0;
  return () => {
    if (timer) return;
    const wait = Math.max(0, last + period - Date.now());
    timer = setTimeout(() => {
      timer = null;
      last = Date.now();
      action();
    }, wait);
  };
}

// Assertions are queries of their own: asked again only where they are shown.
const soon = throttled(() => void Promise.all([refreshTables(), refreshViews(), route.value.page === "rules" ? refreshAssertions() : null]), 3000);
const soonRules = throttled(() => void refreshRules(), 1500);
const soonShape = throttled(() => void Promise.all([refreshGraph(), refreshTables(), refreshViews(), refreshRules(), refreshAssertions()]), 700);

/** Rows, epoch and time of a relation after a commit. */
export function after(relation: Relation, commit: Commit): Relation {
  const counts = commit.changes?.[relation.name];
  if (!counts || (relation.last_change ?? -1) >= commit.epoch) return relation;
  return {
    ...relation,
    rows: relation.rows === null || counts.inserted === null || counts.deleted === null ? relation.rows : relation.rows + counts.inserted - counts.deleted,
    last_change: commit.epoch,
    last_changed_at: commit.committed_at,
  };
}

let spoken = 0;
let missed = 0;

function announce(commit: Commit): void {
  const time = Date.now();
  if (time - spoken < 4000) {
    missed++;
    return;
  }
  announcement.value = (missed > 0 ? `${missed} more commits. ` : "") + sentence(commit);
  spoken = time;
  missed = 0;
}

const soonCommits = throttled(() => void refreshCommits(), 4000);

/** What a frame or progress tells of the epoch; those who may not follow commits hear of it in no other way. */
export function advance(at: number): void {
  if (at <= (epoch.value ?? -1)) return;
  epoch.value = at;
  soon();
}

export function receive(commit: Commit): void {
  const known = commits.value.data?.some((each) => each.epoch === commit.epoch);
  const latest = commits.value.data?.[0]?.epoch;
  // One was missed, or its times are not known yet: the list knows better a little later.
  if ((latest !== undefined && commit.epoch > latest + 1) || commit.milliseconds == null) soonCommits();
  batch(() => {
    commits.value = { data: joined(commits.value.data ?? [], [commit]), error: null };
    if (commit.epoch > (epoch.value ?? -1)) epoch.value = commit.epoch;
    if (known) return;
    for (const list of [tables, views])
      if (list.value.data) list.value = { ...list.value, data: list.value.data.map((each) => after(each, commit)) };
    arrived.value = commit;
  });
  if (!known) announce(commit);
  const names = Object.keys(commit.changes ?? {});
  const shape =
    names.length === 0 || commit.created?.length || commit.dropped?.length || names.some((name) => !relations.value.has(name));
  if (shape) soonShape();
  else soon();
  if (commit.rules?.length) soonRules();
}

export const stream = new Stream({
  open: () => {
    const url = new URL("stream", base());
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const bearer = token.get();
    return new WebSocket(url, bearer ? ["viewkeeper", `bearer.${bearer}`] : ["viewkeeper"]);
  },
  probe: async () => {
    try {
      await get("commits?limit=1");
      return "fine";
    } catch (error) {
      return asError(error).unauthorized ? "unauthorized" : "unreachable";
    }
  },
  connection: (state) => {
    connection.value = state;
    if (state.state === "live") everLive.value = true;
  },
  hello: (at) => {
    if (at != null) epoch.value = Math.max(at, epoch.value ?? 0);
    problem.value = null;
    void refreshAll();
  },
  commit: receive,
  epoch: advance,
  error: (error) => {
    // A token for single views may not follow commits: the page does without.
    if (error.code !== "forbidden") problem.value = error.detail;
  },
});

/** Uses another token, or none, and starts again. */
export function signIn(value: string | null): void {
  token.set(value);
  stream.connect();
}

export async function start(): Promise<void> {
  onUnauthorized(() => {
    stream.close();
    connection.value = { state: "unauthorized" };
  });
  setInterval(() => (now.value = Date.now()), 1000);
  addEventListener("online", () => stream.retry());
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible" && connection.value.state === "waiting") stream.retry();
  });
  // A first plain request: a missing token shows as 401 here, but not on a WebSocket.
  await refreshCommits();
  if (connection.value.state !== "unauthorized") stream.connect();
}

/** The theme: what the system says, or what was chosen here. */
export type Theme = "system" | "light" | "dark";
export const theme = signal<Theme>(
  typeof localStorage === "undefined" ? "system" : ((localStorage.getItem("viewkeeper.theme") as Theme | null) ?? "system"),
);

if (typeof document !== "undefined")
  effect(() => {
    const chosen = theme.value;
    if (chosen === "system") {
      delete document.documentElement.dataset["theme"];
      localStorage.removeItem("viewkeeper.theme");
    } else {
      document.documentElement.dataset["theme"] = chosen;
      localStorage.setItem("viewkeeper.theme", chosen);
    }
  });
