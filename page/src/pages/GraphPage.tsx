import { useState } from "preact/hooks";
import { clock, milliseconds, warning } from "../lib/format";
import { link, route } from "../lib/router";
import { arrived, commits, graph, refreshGraph } from "../lib/state";
import { CommitTime } from "../parts/CommitTime";
import { Empty, Failure, Icon, kinds, Loading, Name, Signs } from "../parts/common";
import { Flow } from "../parts/Flow";

export function GraphPage() {
  const [turn, setTurn] = useState(0);
  const [auxiliary, setAuxiliary] = useState(false);
  const { data, error } = graph.value;
  const known = commits.value.data ?? [];
  const chosen = route.value.parameters.get("epoch");
  const commit = chosen ? (known.find((each) => String(each.epoch) === chosen) ?? null) : (arrived.value ?? known.find((each) => Object.keys(each.changes ?? {}).length > 0) ?? null);
  const present = new Set(data?.nodes.map((node) => node.kind));
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Dependency graph</h1>
      </div>
      {!data ? (
        error ? <Failure error={error} retry={() => void refreshGraph()} title="The graph could not be loaded" /> : <Loading what="the graph" lines={6} />
      ) : data.nodes.length === 0 ? (
        <Empty title="Nothing depends on anything yet">
          Tables and views appear here when there are some: <a href={link("sql")}>create one</a>.
        </Empty>
      ) : (
        <Flow graph={data} commit={commit} turn={turn} auxiliary={auxiliary}>
          <div class="legend" aria-label="Kinds" role="group">
            {Object.entries(kinds)
              .filter(([kind]) => present.has(kind) && (kind !== "auxiliary" || auxiliary))
              .map(([kind, { long }]) => (
                <span key={kind} class={`legend-item kind-${kind.replace(/ /g, "-")}`}>
                  {long}
                </span>
              ))}
            {present.has("auxiliary") ? (
              <label class="check">
                <input type="checkbox" checked={auxiliary} onChange={(event) => setAuxiliary(event.currentTarget.checked)} />
                auxiliary relations
              </label>
            ) : null}
          </div>
        </Flow>
      )}
      {commit ? (
        <section class="card run" aria-labelledby="run-title">
          <div class="card-head">
            <h2 id="run-title">
              {chosen ? "Commit" : "Last commit"}: epoch {commit.epoch}
            </h2>
            <span class="muted">
              {clock(commit.committed_at)}
              {commit.milliseconds == null ? "" : ` · ${milliseconds(commit.milliseconds)}`}
            </span>
            <span class="grow" />
            {chosen ? (
              <a class="button" href={link("graph")}>
                Follow live
              </a>
            ) : null}
            <button type="button" class="button" onClick={() => setTurn(turn + 1)}>
              <Icon name="play" /> Run again
            </button>
          </div>
          <div class="chips">
            {Object.entries(commit.changes ?? {}).map(([name, counts]) => (
              <span key={name} class="chip">
                <Name name={name} /> <Signs counts={counts} />
              </span>
            ))}
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
          <CommitTime commit={commit} />
        </section>
      ) : null}
    </>
  );
}
