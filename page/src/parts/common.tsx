import type { ComponentChildren, JSX } from "preact";
import { signs, text, words } from "../lib/format";
import { link } from "../lib/router";
import { graph, relations } from "../lib/state";
import type { ApiError } from "../lib/api";
import type { Counts, Value } from "../lib/types";

export const Hidden = ({ children }: { children: ComponentChildren }) => <span class="hidden">{children}</span>;

/** "+3 −1", read out as "3 inserted, 1 deleted". */
export function Signs({ counts, class: extra = "" }: { counts: Counts; class?: string }) {
  return (
    <span class={`signs ${extra}`} title={words(counts)}>
      <span aria-hidden="true">
        {counts.inserted ? <span class="ins">{signs({ inserted: counts.inserted, deleted: 0 })}</span> : null}
        {counts.inserted && counts.deleted ? " " : null}
        {counts.deleted ? <span class="del">{signs({ inserted: 0, deleted: counts.deleted })}</span> : null}
        {!counts.inserted && !counts.deleted ? signs(counts) : null}
      </span>
      <Hidden>{words(counts)}</Hidden>
    </span>
  );
}

export const kinds: Record<string, { short: string; long: string }> = {
  table: { short: "T", long: "table" },
  view: { short: "V", long: "view" },
  "materialized view": { short: "M", long: "materialized view" },
  assertion: { short: "A", long: "assertion" },
  rule: { short: "R", long: "rule" },
  auxiliary: { short: "X", long: "auxiliary relation" },
};

export function kindOf(name: string): string {
  return relations.value.get(name)?.kind ?? graph.value.data?.nodes.find((node) => node.name === name)?.kind ?? "table";
}

export const kindClass = (kind: string): string => `kind-${kind.replace(/[^a-z]+/gi, "-")}`;

/** A small sign for the kind of a relation; the letter says it too. */
export function Kind({ kind }: { kind: string }) {
  const { short, long } = kinds[kind] ?? { short: kind.slice(0, 1).toUpperCase(), long: kind };
  return (
    <span class={`kind ${kindClass(kind)}`} title={long}>
      <span aria-hidden="true">{short}</span>
      <Hidden>{long}</Hidden>
    </span>
  );
}

export const addressOf = (name: string, kind: string): string =>
  kind === "rule" || kind === "assertion" ? link("rules", name) : link("relation", name);

export function Name({ name, kind }: { name: string; kind?: string }) {
  return (
    <a class="name" href={addressOf(name, kind ?? kindOf(name))}>
      {name}
    </a>
  );
}

export function Cell({ value }: { value: Value }) {
  if (value === null) return <span class="null">NULL</span>;
  const shown = text(value);
  if (shown === "") return <span class="null">empty text</span>;
  return shown.length > 120 ? <span title={shown}>{shown.slice(0, 120)}…</span> : <>{shown}</>;
}

/** What is wrong, where, and a hint. */
export function Failure({ error, retry, title }: { error: ApiError; retry?: () => void; title?: string }) {
  return (
    <div class="notice bad" role="alert">
      <div class="notice-title">{title ?? (error.unreachable ? "No connection" : "That did not work")}</div>
      <div class="prose">{error.detail}</div>
      {error.place ? (
        <div class="place">
          Line {error.place.line}, column {error.place.column}
          {error.place.text ? (
            <>
              : <code>{error.place.text}</code>
            </>
          ) : null}
        </div>
      ) : null}
      {error.hint ? <div class="hint">Hint: {error.hint}</div> : null}
      {retry ? (
        <button class="button" type="button" onClick={retry}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <div class="empty-title">{title}</div>
      {children ? <div class="empty-text">{children}</div> : null}
    </div>
  );
}

/** Grey lines where rows will be; says "Loading" to those who cannot see them. */
export function Loading({ what, lines = 4 }: { what: string; lines?: number }) {
  return (
    <div class="loading" role="status">
      <Hidden>Loading {what}</Hidden>
      {Array.from({ length: lines }, (_, i) => (
        <div key={i} class="bone" aria-hidden="true" style={{ width: `${88 - ((i * 17) % 40)}%` }} />
      ))}
    </div>
  );
}

export function Icon({ name }: { name: keyof typeof icons }) {
  return (
    <svg class="icon" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      {icons[name]}
    </svg>
  );
}

const stroke = (d: string): JSX.Element => <path d={d} />;
const icons = {
  overview: stroke("M3 5h14M3 10h14M3 15h14M7.5 5v10"),
  graph: (
    <>
      <rect x="2.5" y="3.5" width="5" height="4" rx="1" />
      <rect x="2.5" y="12.5" width="5" height="4" rx="1" />
      <rect x="12.5" y="8" width="5" height="4" rx="1" />
      <path d="M7.5 5.5c3 0 2 4.5 5 4.5M7.5 14.5c3 0 2-4.5 5-4.5" />
    </>
  ),
  sql: stroke("M4 6l4 4-4 4M10 15h6"),
  rules: stroke("M10 2.8l6 2.2v4.6c0 3.6-2.6 6.3-6 7.6-3.4-1.3-6-4-6-7.6V5zM7.3 9.9l2 2 3.5-3.8"),
  commits: (
    <>
      <circle cx="10" cy="10" r="3" />
      <path d="M10 2.5V7M10 13v4.5" />
    </>
  ),
  sun: (
    <>
      <circle cx="10" cy="10" r="3.2" />
      <path d="M10 2.5v2M10 15.5v2M2.5 10h2M15.5 10h2M4.7 4.7l1.4 1.4M13.9 13.9l1.4 1.4M4.7 15.3l1.4-1.4M13.9 6.1l1.4-1.4" />
    </>
  ),
  moon: stroke("M16.5 11.8A7 7 0 0 1 8.2 3.5a7 7 0 1 0 8.3 8.3z"),
  system: (
    <>
      <rect x="2.5" y="4" width="15" height="10" rx="1.5" />
      <path d="M7 17h6" />
    </>
  ),
  back: stroke("M12 4.5L6.5 10l5.5 5.5"),
  next: stroke("M8 4.5l5.5 5.5L8 15.5"),
  play: stroke("M6.5 4.5l9 5.5-9 5.5z"),
  pause: stroke("M7 4.5v11M13 4.5v11"),
  plus: stroke("M10 4.5v11M4.5 10h11"),
  minus: stroke("M4.5 10h11"),
  fit: stroke("M3.5 7.5v-4h4M12.5 3.5h4v4M16.5 12.5v4h-4M7.5 16.5h-4v-4"),
  close: stroke("M5 5l10 10M15 5L5 15"),
};
