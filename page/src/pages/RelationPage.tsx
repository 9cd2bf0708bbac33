import { useEffect, useRef, useState } from "preact/hooks";
import { get, relationPath, type ApiError } from "../lib/api";
import { changeOf, LIMIT, useContents, type Contents } from "../lib/contents";
import type { Marks } from "../lib/copy";
import { nodeColumns } from "../lib/edges";
import { ago, clock, count, counted, text } from "../lib/format";
import { link, replace, route } from "../lib/router";
import { asError, changedAt, commits, now, relations } from "../lib/state";
import type { Detail } from "../lib/types";
import { Empty, Failure, Kind, kinds, Loading, Name, Signs } from "../parts/common";
import { EdgeGraph } from "../parts/EdgeGraph";
import { Grid } from "../parts/Grid";
import { Scrubber } from "../parts/Scrubber";
import { Lag } from "./Overview";

const counts = (marks: Marks) => ({
  inserted: marks.inserted.reduce((sum, entry) => sum + entry.count, 0),
  deleted: marks.deleted.reduce((sum, entry) => sum + entry.count, 0),
});

export function RelationPage({ name }: { name: string }) {
  const [detail, setDetail] = useState<Detail | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [turn, setTurn] = useState(0);
  const [where, setWhere] = useState("");
  const [draft, setDraft] = useState("");
  const relation = relations.value.get(name);
  const { parameters } = route.value;
  const at = parameters.has("at") ? Number(parameters.get("at")) : null;
  const contents = useContents(name, at, where, turn);

  useEffect(() => {
    let gone = false;
    setError(null);
    get<Detail>(relationPath(name)).then(
      (answer) => !gone && setDetail(answer),
      (reason) => !gone && setError(asError(reason)),
    );
    return () => {
      gone = true;
    };
  }, [name, turn]);
  useEffect(() => {
    setDetail(null);
    setWhere("");
    setDraft("");
  }, [name]);

  const kind = detail?.kind ?? relation?.kind ?? "view";
  const columns = contents.columns.length ? contents.columns : (detail?.columns ?? relation?.columns ?? []);
  const ends = nodeColumns(columns);
  const isTable = kind === "table";
  const tabs: [string, string][] = [
    ["contents", "Contents"],
    ...(ends ? [["edges", "Edges"] as [string, string]] : []),
    ["changes", "Changes"],
    ["definition", "Definition"],
    ...(isTable && !detail?.analysis ? [] : [["analysis", "Analysis"] as [string, string]]),
    ...(isTable && !detail?.plan ? [] : [["plan", "Plan"] as [string, string]]),
  ];
  const asked = parameters.get("tab") ?? "contents";
  const tab = tabs.some(([id]) => id === asked) ? asked : "contents";
  const go = (next: { tab?: string; at?: number | null }) => {
    const to = { tab: next.tab ?? tab, at: next.at === undefined ? at : next.at };
    replace(link("relation", name, { tab: to.tab === "contents" ? null : to.tab, at: to.at }));
  };

  if (error?.status === 404)
    return (
      <>
        <div class="page-head">
          <h1 tabIndex={-1}>{name}</h1>
        </div>
        <Empty title={`There is no table or view named ${name}`}>
          It may have been dropped. <a href={link("overview")}>See all tables and views</a>.
        </Empty>
      </>
    );

  return (
    <>
      <div class="page-head relation-head">
        <Kind kind={kind} />
        <h1 tabIndex={-1} class="mono">
          {name}
        </h1>
        <span class="muted">{kinds[kind]?.long ?? kind}</span>
        <dl class="facts">
          <div>
            <dt>Rows</dt>
            <dd>{count(relation?.rows ?? (contents.more ? null : sum(contents)))}</dd>
          </div>
          {isTable ? null : (
            <div>
              <dt>Lag</dt>
              <dd>
                <Lag of={relation ?? { lag: detail?.lag ?? 0 }} />
              </dd>
            </div>
          )}
          <div>
            <dt>Last change</dt>
            <dd>
              {relation?.last_change == null ? (
                contents.feed[0] ? <a href={link("commits", contents.feed[0].epoch)}>epoch {contents.feed[0].epoch}</a> : "–"
              ) : (
                <>
                  <a href={link("commits", relation.last_change)}>epoch {relation.last_change}</a> <span class="muted">{ago(changedAt(relation), now.value)}</span>
                </>
              )}
            </dd>
          </div>
        </dl>
      </div>
      <Tabs tabs={tabs} chosen={tab} choose={(next) => go({ tab: next })} />
      <div class="panel" role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`}>
        {tab === "contents" || tab === "edges" ? (
          <>
            <Scrubber name={name} oldest={detail?.oldest ?? 0} at={at} seen={contents.feed.map((marks) => marks.epoch)} virtual={kind === "view"} choose={(epoch) => go({ at: epoch })} />
            <Status contents={contents} at={at} />
            {contents.error ? (
              <Failure
                error={contents.error}
                retry={() => setTurn(turn + 1)}
                title={contents.error.code === "gone" ? "This epoch is no longer kept" : "The rows could not be loaded"}
              />
            ) : null}
            {contents.loading && contents.columns.length === 0 ? (
              contents.error ? null : <Loading what="rows" lines={7} />
            ) : tab === "edges" && ends ? (
              <EdgeGraph columns={columns} entries={contents.entries} marks={contents.marks} ends={ends} name={name} />
            ) : (
              <div class={contents.loading ? "card contents faded" : "card contents"}>
                <form
                  class="where"
                  onSubmit={(event) => {
                    event.preventDefault();
                    setWhere(draft.trim());
                  }}
                >
                  <label for="where">
                    WHERE<span class="hidden"> (a condition in SQL)</span>
                  </label>
                  <input id="where" type="text" spellcheck={false} autocomplete="off" value={draft} placeholder={example(columns)} onInput={(event) => setDraft(event.currentTarget.value)} />
                  {where || draft.trim() ? (
                    <button type="submit" class="button" disabled={draft.trim() === where}>
                      Apply
                    </button>
                  ) : null}
                  {where ? (
                    <button
                      type="button"
                      class="button"
                      onClick={() => {
                        setDraft("");
                        setWhere("");
                      }}
                    >
                      Clear
                    </button>
                  ) : null}
                </form>
                {contents.entries.length === 0 && !contents.marks ? (
                  contents.error ? null : <Empty title={where ? "No row meets this condition" : at === null ? "No rows" : `No rows at epoch ${at}`} />
                ) : (
                  <Grid columns={columns} entries={contents.entries} marks={contents.marks} caption={`Rows of ${name}${at === null ? "" : ` at epoch ${at}`}`} keyed={detail?.keys[0]} />
                )}
              </div>
            )}
          </>
        ) : null}
        {tab === "changes" ? <Changes name={name} contents={contents} keyed={detail?.keys[0]} /> : null}
        {tab === "definition" || tab === "analysis" || tab === "plan" ? (
          !detail ? (
            error ? <Failure error={error} retry={() => setTurn(turn + 1)} /> : <Loading what={tab} lines={6} />
          ) : tab === "definition" ? (
            <Definition detail={detail} />
          ) : (
            <Text text={tab === "analysis" ? detail.analysis : detail.plan} none={tab === "analysis" ? "There is no analysis for this relation" : "There is no plan for this relation"} />
          )
        ) : null}
      </div>
    </>
  );
}

const sum = (contents: Contents): number => contents.entries.reduce((all, entry) => all + entry.count, 0);

function example(columns: { name: string; type: string }[]): string {
  const column = columns.find(({ type }) => /^(string|varchar|char)/i.test(type));
  return column ? `${column.name} = '…'` : columns[0] ? `${columns[0].name} > 10` : "id > 10";
}

function Status({ contents, at }: { contents: Contents; at: number | null }) {
  const marks = contents.marks;
  const reading = at === null ? contents.epoch === null : contents.epoch !== at;
  return (
    <p class="status" role="status">
      {reading ? (
        <span class="muted">{contents.error ? "" : at === null ? "Reading…" : `Reading epoch ${at}…`}</span>
      ) : at === null ? (
        marks ? (
          <>
            Epoch {marks.epoch} changed this: <Signs counts={counts(marks)} /> <span class="muted">{marks.committedAt ? ago(marks.committedAt, now.value) : ""}</span>
          </>
        ) : (
          <span class="muted">Live. The next change will be marked here.</span>
        )
      ) : (
        <>
          As it was at epoch {at}.{" "}
          {marks ? (
            <>
              That epoch changed it: <Signs counts={counts(marks)} />
            </>
          ) : (
            <span class="muted">That epoch did not change it.</span>
          )}
        </>
      )}
      {contents.more && !reading ? <span class="muted"> The first {count(LIMIT)} rows are shown; changes to them are followed.</span> : null}
    </p>
  );
}

function Tabs({ tabs, chosen, choose }: { tabs: [string, string][]; chosen: string; choose: (id: string) => void }) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector(`#tab-${chosen}`)?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }, [chosen]);
  const move = (event: KeyboardEvent) => {
    const at = tabs.findIndex(([id]) => id === chosen);
    const to =
      event.key === "ArrowRight" ? (at + 1) % tabs.length
      : event.key === "ArrowLeft" ? (at + tabs.length - 1) % tabs.length
      : event.key === "Home" ? 0
      : event.key === "End" ? tabs.length - 1
      : -1;
    if (to < 0) return;
    event.preventDefault();
    choose(tabs[to]![0]);
    list.current?.querySelector<HTMLElement>(`#tab-${tabs[to]![0]}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Aspects of this relation" ref={list} onKeyDown={move}>
      {tabs.map(([id, label]) => (
        <button key={id} type="button" role="tab" id={`tab-${id}`} aria-selected={id === chosen} aria-controls={id === chosen ? "panel" : undefined} tabIndex={id === chosen ? 0 : -1} onClick={() => choose(id)}>
          {label}
        </button>
      ))}
    </div>
  );
}

function Text({ text: shown, none }: { text: string | null; none: string }) {
  return shown ? (
    <div class="card">
      <pre class="code long" tabIndex={0}>
        {shown}
      </pre>
    </div>
  ) : (
    <Empty title={none} />
  );
}

function Definition({ detail }: { detail: Detail }) {
  const options = Object.entries(detail.options ?? {});
  return (
    <div class="split definition">
      <div>
        {detail.definition ? (
          <section class="card" aria-labelledby="definition-title">
            <div class="card-head">
              <h2 id="definition-title">Definition</h2>
              {detail.language ? <span class="tag">{detail.language === "datalog" ? "Datalog" : "SQL"}</span> : null}
            </div>
            <pre class="code long" tabIndex={0}>
              {detail.definition}
            </pre>
          </section>
        ) : null}
        <section class="card" aria-labelledby="columns-title">
          <div class="card-head">
            <h2 id="columns-title">Columns</h2>
          </div>
          <div class="scroll">
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Type</th>
                  <th scope="col">Key</th>
                </tr>
              </thead>
              <tbody>
                {detail.columns.map((column) => (
                  <tr key={column.name}>
                    <th scope="row" class="mono">
                      {column.name}
                    </th>
                    <td class="mono muted">
                      {column.type.toLowerCase()}
                      {column.nullable === false ? " not null" : ""}
                    </td>
                    <td>{detail.keys.some((key) => key.includes(column.name)) ? "key" : ""}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      </div>
      <div>
        <section class="card" aria-labelledby="around-title">
          <div class="card-head">
            <h2 id="around-title">Around it</h2>
          </div>
          <dl class="around">
            <dt>Reads</dt>
            <dd>{detail.reads.length ? detail.reads.map((each) => <Name key={each} name={each} />) : <span class="muted">nothing</span>}</dd>
            <dt>Read by</dt>
            <dd>{detail.readers.length ? detail.readers.map((each) => <Name key={each} name={each} />) : <span class="muted">nothing</span>}</dd>
            <dt>Keys</dt>
            <dd>{detail.keys.length ? detail.keys.map((key) => <code key={key.join()}>({key.join(", ")})</code>) : <span class="muted">none</span>}</dd>
            {options.map(([key, value]) => (
              <>
                <dt key={key}>{key}</dt>
                <dd class="mono">{text(value)}</dd>
              </>
            ))}
          </dl>
        </section>
      </div>
    </div>
  );
}

/** The changes of a relation, latest first: those that arrived, and those that the commits tell of. */
function Changes({ name, contents, keyed }: { name: string; contents: Contents; keyed: string[] | undefined }) {
  const [most, setMost] = useState(10);
  const arrived = new Map(contents.feed.map((marks) => [marks.epoch, marks]));
  const told = (commits.value.data ?? []).filter((commit) => commit.changes?.[name]).map((commit) => commit.epoch);
  const epochs = [...new Set([...arrived.keys(), ...told])].sort((a, b) => b - a);
  if (epochs.length === 0) return <Empty title="No changes yet">They appear here as they are committed, each with its epoch.</Empty>;
  return (
    <>
      <ol class="changes" aria-live="polite" aria-relevant="additions">
        {epochs.slice(0, most).map((epoch) => (
          <ChangeOf key={epoch} name={name} epoch={epoch} arrived={arrived.get(epoch) ?? null} contents={contents} keyed={keyed} />
        ))}
      </ol>
      {epochs.length > most ? (
        <div class="more">
          <button type="button" class="button" onClick={() => setMost(most + 20)}>
            Older changes
          </button>
          <span class="muted">{counted(epochs.length - most, "more")}</span>
        </div>
      ) : null}
    </>
  );
}

function ChangeOf({ name, epoch, arrived, contents, keyed }: { name: string; epoch: number; arrived: Marks | null; contents: Contents; keyed: string[] | undefined }) {
  const [marks, setMarks] = useState<Marks | null>(arrived);
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    if (arrived) setMarks(arrived);
    else
      changeOf(name, epoch).then(setMarks, (reason) => setError(asError(reason)));
  }, [name, epoch, arrived]);
  const commit = (commits.value.data ?? []).find((each) => each.epoch === epoch);
  const columns = contents.columns.length ? contents.columns : (relations.value.get(name)?.columns ?? []);
  return (
    <li class="card change">
      <div class="card-head">
        <h2>
          <a href={link("commits", epoch)}>Epoch {epoch}</a>
        </h2>
        <span class="muted">{clock(commit?.committed_at ?? marks?.committedAt)}</span>
        {marks ? <Signs counts={counts(marks)} /> : commit?.changes?.[name] ? <Signs counts={commit.changes[name]!} /> : null}
      </div>
      {marks ? (
        <Grid columns={columns} entries={[]} marks={marks} caption={`Change of ${name} in epoch ${epoch}`} keyed={keyed} sortable={false} />
      ) : error ? (
        <p class="muted">{error.code === "gone" ? "The rows of this change are no longer kept." : error.detail}</p>
      ) : (
        <Loading what={`epoch ${epoch}`} lines={2} />
      )}
    </li>
  );
}
