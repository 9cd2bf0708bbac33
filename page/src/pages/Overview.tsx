import { useState } from "preact/hooks";
import { ago, bytes, clock, count, counted, milliseconds } from "../lib/format";
import { link } from "../lib/router";
import { arrived, changedAt, commits, now, refreshAll, tables, views, type Loaded } from "../lib/state";
import type { Relation } from "../lib/types";
import { Empty, Failure, Kind, Loading, Name, Signs } from "../parts/common";

export function Overview() {
  const [filter, setFilter] = useState("");
  const all = (tables.value.data?.length ?? 0) + (views.value.data?.length ?? 0);
  if (tables.value.data && views.value.data && all === 0) return <Welcome />;
  return (
    <div class="overview">
      <div class="page-head">
        <h1 tabIndex={-1}>Overview</h1>
        <label class="filter">
          <span class="hidden">Filter tables and views by name</span>
          <input type="search" placeholder="Filter by name" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        </label>
      </div>
      <div class="split">
        <div>
          <List title="Views" of={views.value} filter={filter} withLag />
          <List title="Tables" of={tables.value} filter={filter} />
        </div>
        <aside class="recent" aria-labelledby="recent">
          <h2 id="recent">Latest commits</h2>
          <Recent />
        </aside>
      </div>
    </div>
  );
}

function Welcome() {
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Overview</h1>
      </div>
      <Empty title="This database is empty">
        Create a table and a view over it, and watch the view follow: open the <a href={link("sql")}>SQL page</a> and run
        <pre class="code">{`CREATE TABLE orders (id BIGINT PRIMARY KEY, region STRING, amount DECIMAL(12,2));

CREATE MATERIALIZED VIEW totals AS
  SELECT region, count(*) AS orders, sum(amount) AS total
  FROM orders GROUP BY region;

INSERT INTO orders VALUES (1, 'EU', 12.50), (2, 'US', 7);`}</pre>
      </Empty>
    </>
  );
}

function List({ title, of, filter, withLag = false }: { title: string; of: Loaded<Relation[]>; filter: string; withLag?: boolean }) {
  const id = `list-${title.toLowerCase()}`;
  const matching = (of.data ?? []).filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
  return (
    <section aria-labelledby={id} class="card">
      <div class="card-head">
        <h2 id={id}>{title}</h2>
        {of.data ? <span class="muted">{of.data.length === matching.length ? count(of.data.length) : `${matching.length} of ${of.data.length}`}</span> : null}
      </div>
      {of.error && !of.data ? <Failure error={of.error} retry={() => void refreshAll()} title={`${title} could not be loaded`} /> : null}
      {!of.data ? (
        of.error ? null : <Loading what={title.toLowerCase()} />
      ) : matching.length === 0 ? (
        <Empty title={filter ? `No name has “${filter}” in it` : `No ${title.toLowerCase()} yet`} />
      ) : (
        <div class="scroll">
          <table class="list">
            <caption class="hidden">{title}</caption>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col" class="number">
                  Rows
                </th>
                {withLag ? (
                  <th scope="col" class="narrow-hide">
                    Lag
                  </th>
                ) : (
                  <th scope="col" class="number narrow-hide">
                    Size
                  </th>
                )}
                <th scope="col">Last change</th>
              </tr>
            </thead>
            <tbody>
              {matching.map((relation) => {
                const counts = arrived.value?.changes?.[relation.name];
                return (
                  <tr key={relation.name}>
                    <th scope="row">
                      <span class="list-name">
                        <Kind kind={relation.kind} />
                        <Name name={relation.name} kind={relation.kind} />
                        {relation.language === "datalog" ? <span class="tag">Datalog</span> : null}
                      </span>
                    </th>
                    <td class="number">{relation.rows === null ? <span class="muted">{relation.materialized === false ? "virtual" : "–"}</span> : count(relation.rows)}</td>
                    {withLag ? (
                      <td class="narrow-hide">
                        <Lag of={relation} />
                      </td>
                    ) : (
                      <td class="number narrow-hide muted">{bytes(relation.bytes)}</td>
                    )}
                    <td>
                      <span class="last">
                        {relation.last_change === null ? (
                          <span class="muted">–</span>
                        ) : (
                          <>
                            <a href={link("commits", relation.last_change)} title={`epoch ${relation.last_change}`}>
                              {relation.last_change}
                            </a>{" "}
                            <span class="muted" title={clock(changedAt(relation))}>
                              {ago(changedAt(relation), now.value)}
                            </span>
                          </>
                        )}
                        {counts ? <Signs key={arrived.value!.epoch} counts={counts} class="fresh" /> : null}
                      </span>
                      {withLag && (relation.lag || relation.stale_since) ? (
                        <span class="narrow-show">
                          <Lag of={relation} />
                        </span>
                      ) : null}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

export function Lag({ of }: { of: Pick<Relation, "lag" | "stale_since" | "materialized"> }) {
  if (of.stale_since) return <span class="tag warn">stale since {typeof of.stale_since === "number" ? `epoch ${of.stale_since}` : clock(of.stale_since)}</span>;
  if (of.lag) return <span class="tag warn">{counted(of.lag, "epoch")} behind</span>;
  return <span class="muted">up to date</span>;
}

function Recent() {
  const { data, error } = commits.value;
  if (!data) return error ? <Failure error={error} /> : <Loading what="commits" lines={3} />;
  if (data.length === 0) return <Empty title="No commits yet" />;
  return (
    <ol class="commit-list">
      {data.slice(0, 12).map((commit) => {
        const changes = Object.entries(commit.changes ?? {});
        return (
          <li key={commit.epoch} class={arrived.value?.epoch === commit.epoch ? "fresh-row" : ""}>
            <a class="commit-link" href={link("commits", commit.epoch)}>
              <span class="commit-epoch">
                <span class="hidden">epoch </span>
                {commit.epoch}
              </span>
              <span class="muted">{ago(commit.committed_at, now.value)}</span>
              <span class="muted commit-ms">{commit.milliseconds == null ? "" : milliseconds(commit.milliseconds)}</span>
            </a>
            <div class="commit-changes">
              {changes.slice(0, 5).map(([name, counts]) => (
                <span key={name} class="commit-change">
                  <Name name={name} /> <Signs counts={counts} />
                </span>
              ))}
              {changes.length > 5 ? <span class="muted">and {changes.length - 5} more</span> : null}
              {changes.length === 0 ? <span class="muted">{describe(commit.created, commit.dropped)}</span> : null}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

export function describe(created: string[] | undefined, dropped: string[] | undefined): string {
  const parts = [];
  if (created?.length) parts.push(`created ${created.join(", ")}`);
  if (dropped?.length) parts.push(`dropped ${dropped.join(", ")}`);
  return parts.join("; ") || "no rows changed";
}
