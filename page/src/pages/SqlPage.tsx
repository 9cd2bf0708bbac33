import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { post, type ApiError } from "../lib/api";
import { fold, marksOf } from "../lib/copy";
import { count, counted, milliseconds, warning, words } from "../lib/format";
import { link } from "../lib/router";
import { asError, assertions, receive, refreshAll, relations } from "../lib/state";
import type { Preview, SqlAnswer } from "../lib/types";
import { CommitTime } from "../parts/CommitTime";
import { Empty, Failure, Icon, Loading, Name, Signs } from "../parts/common";
import type { EditorProps } from "../parts/Editor";
import { Grid } from "../parts/Grid";

const KEY = "viewkeeper.sql";
const stored = (key: string): string => sessionStorage.getItem(key) ?? "";
const draft = signal(typeof sessionStorage === "undefined" ? "" : stored(KEY));
const recent = signal<string[]>(typeof sessionStorage === "undefined" ? [] : JSON.parse(stored(KEY + ".recent") || "[]"));

type Outcome =
  | { kind: "answer"; answer: SqlAnswer; sql: string; took: number }
  | { kind: "preview"; preview: Preview; sql: string }
  | { kind: "error"; error: ApiError; preview: boolean };
const outcome = signal<Outcome | null>(null);
const busy = signal<"" | "run" | "preview">("");

function remember(text: string): void {
  recent.value = [text, ...recent.value.filter((each) => each !== text)].slice(0, 8);
  sessionStorage.setItem(KEY + ".recent", JSON.stringify(recent.value));
}

const changesShape = /\b(create|drop|alter|refresh|activate|deactivate)\b/i;

/** Runs the text; `whole` commits all its statements at once, as a preview shows them. */
async function execute(preview: boolean, whole = false): Promise<void> {
  const text = draft.value.trim();
  if (!text || busy.value) return;
  busy.value = preview ? "preview" : "run";
  const begun = performance.now();
  try {
    const answer = await post<SqlAnswer>("sql", { sql: whole ? `BEGIN;\n${text.replace(/;\s*$/, "")};\nCOMMIT` : text, preview });
    if (preview && answer.preview) outcome.value = { kind: "preview", preview: answer.preview, sql: text };
    else {
      outcome.value = { kind: "answer", answer, sql: text, took: performance.now() - begun };
      remember(text);
      if (answer.commit) receive(answer.commit);
      if (changesShape.test(text)) void refreshAll();
    }
  } catch (error) {
    const problem = asError(error);
    if (whole && problem.place) problem.place = { ...problem.place, line: problem.place.line - 1 };
    outcome.value = { kind: "error", error: problem, preview };
  } finally {
    busy.value = "";
  }
}

export function SqlPage() {
  const [Editor, setEditor] = useState<ComponentType<EditorProps> | null>(null);
  const [failed, setFailed] = useState(false);
  const [turn, setTurn] = useState(0);
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => {
    import("../parts/Editor").then(
      (module) => setEditor(() => module.default),
      () => setFailed(true),
    );
  }, []);
  const schema: Record<string, string[]> = {};
  for (const [name, relation] of relations.value) schema[name] = relation.columns.map((column) => column.name);
  const change = (text: string) => {
    draft.value = text;
    sessionStorage.setItem(KEY, text);
  };
  const run = (preview: boolean, whole = false) =>
    void execute(preview, whole).then(() => {
      if (matchMedia("(max-width: 760px)").matches) result.current?.scrollIntoView({ block: "nearest" });
    });
  const said = outcome.value;
  const error = said?.kind === "error" ? said.error : null;
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>SQL</h1>
        <span class="muted" id="editor-help">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd> runs, <kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>Enter</kbd> previews, <kbd>Ctrl</kbd> <kbd>Space</kbd> completes
        </span>
      </div>
      <div class="card editor-card">
        {Editor ? (
          <Editor
            text={draft.value}
            turn={turn}
            change={change}
            run={() => run(false)}
            preview={() => run(true)}
            schema={schema}
            place={error?.place ?? null}
            message={error?.detail ?? ""}
          />
        ) : failed ? (
          <textarea class="plain-editor" aria-label="SQL statements" value={draft.value} onInput={(event) => change(event.currentTarget.value)} rows={8} />
        ) : (
          <Loading what="the editor" />
        )}
        <div class="editor-bar">
          <button type="button" class="button" disabled={!!busy.value || !draft.value.trim()} onClick={() => run(true)}>
            {busy.value === "preview" ? "Previewing…" : "Preview the effect"}
          </button>
          <button type="button" class="button primary" disabled={!!busy.value || !draft.value.trim()} onClick={() => run(false)}>
            {busy.value === "run" ? "Running…" : "Run and commit"}
          </button>
          <span class="grow" />
          {recent.value.length ? (
            <label class="recent-pick">
              <span class="hidden">Recent statements</span>
              <select
                value=""
                onChange={(event) => {
                  if (event.currentTarget.value) {
                    change(event.currentTarget.value);
                    setTurn(turn + 1);
                  }
                  event.currentTarget.value = "";
                }}
              >
                <option value="">Recent…</option>
                {recent.value.map((each) => (
                  <option key={each} value={each}>
                    {each.replace(/\s+/g, " ").slice(0, 70)}
                  </option>
                ))}
              </select>
            </label>
          ) : null}
        </div>
      </div>
      <div ref={result} class="result" aria-live="polite" aria-busy={busy.value !== ""}>
        {!said ? (
          <Empty title="Nothing has been run yet">
            A preview shows what a statement would do to every view, rule and assertion. Nothing is committed until you say so.
          </Empty>
        ) : said.kind === "error" ? (
          <Failure error={said.error} title={said.preview ? "The preview failed; nothing was changed" : "Nothing was changed"} />
        ) : said.kind === "preview" ? (
          <PreviewOf preview={said.preview} stale={said.sql !== draft.value.trim()} commit={() => run(false, true)} />
        ) : (
          <Answer answer={said.answer} took={said.took} />
        )}
      </div>
    </>
  );
}

function Answer({ answer, took }: { answer: SqlAnswer; took: number }) {
  const { commit, columns, rows } = answer;
  return (
    <>
      {commit ? (
        <section class="card" aria-labelledby="committed">
          <div class="card-head">
            <h2 id="committed">
              Committed as epoch <a href={link("commits", commit.epoch)}>{commit.epoch}</a>
            </h2>
            <span class="muted">{milliseconds(commit.milliseconds ?? took)}</span>
            <span class="grow" />
            <a class="button" href={link("graph", null, { epoch: commit.epoch })}>
              <Icon name="play" /> Run through the graph
            </a>
          </div>
          <div class="chips">
            {Object.entries(commit.changes).map(([name, counts]) => (
              <a key={name} class="chip" href={link("relation", name, { at: commit.epoch })}>
                <span class="name">{name}</span> <Signs counts={counts} />
              </a>
            ))}
            {Object.keys(commit.changes).length === 0 ? <span class="muted">No rows changed.</span> : null}
            {(commit.rules ?? []).map((name) => (
              <span key={name} class="chip">
                <Name name={name} kind="rule" /> <span class="fired">fired</span>
              </span>
            ))}
          </div>
          {commit.warnings?.length ? (
            <ul class="warnings">
              {commit.warnings.map((each, at) => (
                <li key={at}>{warning(each)}</li>
              ))}
            </ul>
          ) : null}
          {Object.keys(commit.report ?? {}).length ? (
            <>
              <h3>Where the time went</h3>
              <CommitTime commit={commit} />
            </>
          ) : null}
        </section>
      ) : null}
      {columns.length ? (
        <section class="card" aria-labelledby="rows">
          <div class="card-head">
            <h2 id="rows">{counted(rows.length, "row")}</h2>
            <span class="muted">{milliseconds(took)}</span>
          </div>
          {rows.length ? <Grid columns={columns} entries={fold(rows)} caption="Result" inOrder /> : <Empty title="No rows" />}
        </section>
      ) : commit ? null : (
        <Empty title="Done, without net effect">No rows changed, so there is no new epoch.</Empty>
      )}
    </>
  );
}

function PreviewOf({ preview, stale, commit }: { preview: Preview; stale: boolean; commit: () => void }) {
  const changes = Object.entries(preview.changes);
  const broken = preview.assertions;
  return (
    <section class="card preview" aria-labelledby="preview">
      <div class="card-head">
        <h2 id="preview">Preview: nothing is committed yet</h2>
        <span class="grow" />
        {stale ? (
          <span class="muted">The text has changed since; preview it again.</span>
        ) : (
          <button type="button" class="button primary" onClick={commit} disabled={!!busy.value}>
            Commit this
          </button>
        )}
      </div>
      {broken.length ? (
        <div class={broken.every(({ assertion }) => assertions.value.data?.find((each) => each.name === assertion)?.violation === "warn") ? "notice soft" : "notice bad"}>
          <div class="notice-title">{counted(broken.length, "assertion")} would be violated</div>
          {broken.map(({ assertion, rows }) => {
            const known = assertions.value.data?.find((each) => each.name === assertion);
            const columns = known?.columns ?? rows[0]?.map((_, at) => ({ name: `column ${at + 1}`, type: "" })) ?? [];
            return (
              <div key={assertion} class="broken">
                <Name name={assertion} kind="assertion" /> <span>{known?.violation === "warn" ? "warns; the commit goes through" : "refuses the commit"}</span>
                {rows.length ? <Grid columns={columns} entries={fold(rows)} caption={`Rows that would violate ${assertion}`} sortable={false} /> : null}
              </div>
            );
          })}
        </div>
      ) : (
        <p class="line">
          <span class="tag good">ok</span> No assertion would be violated.
        </p>
      )}
      {preview.rules.length ? (
        <p class="line">
          <span class="tag">rules</span>{" "}
          {preview.rules.map(({ rule, rows }, at) => (
            <span key={rule}>
              {at ? ", " : ""}
              <Name name={rule} kind="rule" /> would fire{rows == null ? "" : ` for ${counted(rows, "row")}`}
            </span>
          ))}
        </p>
      ) : (
        <p class="line">
          <span class="tag">rules</span> No rule would fire.
        </p>
      )}
      {changes.length === 0 ? <Empty title="No table or view would change" /> : null}
      <div class="preview-changes">
        {changes.map(([name, change]) => {
          const relation = relations.value.get(name);
          const columns = relation?.columns ?? change.updates[0]?.row.map((_, at) => ({ name: `column ${at + 1}`, type: "" })) ?? [];
          const shown = change.updates.reduce((sum, { diff }) => sum + Math.abs(diff), 0);
          const all = (change.inserted ?? 0) + (change.deleted ?? 0);
          return (
            <details key={name} open={changes.length <= 12}>
              <summary>
                <span class="name">{name}</span> <Signs counts={change} />
                <span class="hidden">{words(change)}</span>
              </summary>
              <Grid columns={columns} entries={[]} marks={marksOf(change.updates, -1)} caption={`What would change in ${name}`} keyed={relation?.key} sortable={false} />
              {shown < all ? (
                <p class="muted">
                  The first {count(shown)} of {counted(all, "changed row")}.
                </p>
              ) : null}
            </details>
          );
        })}
      </div>
    </section>
  );
}
