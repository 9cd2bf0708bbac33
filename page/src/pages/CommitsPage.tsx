import { ago, clock, milliseconds, warning } from "../lib/format";
import { link, route } from "../lib/router";
import { allCommits, commits, now, olderCommits, refreshCommits } from "../lib/state";
import { CommitTime } from "../parts/CommitTime";
import { Empty, Failure, Icon, Loading, Name, Signs } from "../parts/common";
import { describe } from "./Overview";

export function CommitsPage() {
  const { data, error } = commits.value;
  const chosen = route.value.name === null ? data?.[0] : data?.find((each) => String(each.epoch) === route.value.name);
  const longest = Math.max(0.001, ...(data ?? []).map((each) => each.milliseconds ?? 0));
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Commits</h1>
      </div>
      {!data ? (
        error ? <Failure error={error} retry={() => void refreshCommits()} /> : <Loading what="commits" />
      ) : data.length === 0 ? (
        <Empty title="No commits yet">
          The first one will appear here: <a href={link("sql")}>run some SQL</a>.
        </Empty>
      ) : (
        <div class="split commits">
          <section class="card commit-detail" aria-labelledby="commit-title">
            {chosen ? (
              <>
                <div class="card-head">
                  <h2 id="commit-title">Epoch {chosen.epoch}</h2>
                  <span class="muted">
                    {clock(chosen.committed_at)}
                    {chosen.milliseconds == null ? "" : ` · ${milliseconds(chosen.milliseconds)}`}
                  </span>
                  <span class="grow" />
                  <a class="button" href={link("graph", null, { epoch: chosen.epoch })}>
                    <Icon name="play" /> Run through the graph
                  </a>
                </div>
                <div class="chips">
                  {Object.entries(chosen.changes ?? {}).map(([name, counts]) => (
                    <a key={name} class="chip" href={link("relation", name, { at: chosen.epoch })}>
                      <span class="name">{name}</span> <Signs counts={counts} />
                    </a>
                  ))}
                  {(chosen.rules ?? []).map((name) => (
                    <span key={name} class="chip">
                      <Name name={name} kind="rule" /> <span class="fired">fired</span>
                    </span>
                  ))}
                  {chosen.created?.length || chosen.dropped?.length ? <span class="muted">{describe(chosen.created, chosen.dropped)}</span> : null}
                </div>
                {chosen.warnings?.length ? (
                  <ul class="warnings">
                    {chosen.warnings.map((each, at) => (
                      <li key={at}>{warning(each)}</li>
                    ))}
                  </ul>
                ) : null}
                <h3>Where the time went</h3>
                <CommitTime commit={chosen} />
              </>
            ) : (
              <>
                <h2 id="commit-title">Epoch {route.value.name}</h2>
                <Empty title="This epoch is not among the commits loaded">
                  It may be older than those below, or no longer kept.
                </Empty>
              </>
            )}
          </section>
          <section class="card" aria-labelledby="all-commits">
            <div class="card-head">
              <h2 id="all-commits">All commits</h2>
            </div>
            <ol class="commit-rows">
              {data.map((commit) => {
                const changes = Object.entries(commit.changes ?? {});
                const current = commit.epoch === chosen?.epoch;
                return (
                  <li key={commit.epoch}>
                    <a href={link("commits", commit.epoch)} aria-current={current ? "true" : undefined} class={current ? "on" : ""}>
                      <span class="commit-epoch">
                        <span class="hidden">epoch </span>
                        {commit.epoch}
                      </span>
                      <span class="commit-what">
                        {changes.length
                          ? changes[0]![0] + (changes.length > 1 ? ` and ${changes.length - 1} more` : "")
                          : describe(commit.created, commit.dropped)}
                      </span>
                      <span class="commit-side">
                        <span class="muted">{ago(commit.committed_at, now.value)}</span>
                        <span class="mini" aria-hidden="true">
                          <span style={{ width: `${(100 * (commit.milliseconds ?? 0)) / longest}%` }} />
                        </span>
                        <span class="muted commit-ms">{commit.milliseconds == null ? "" : milliseconds(commit.milliseconds)}</span>
                      </span>
                    </a>
                  </li>
                );
              })}
            </ol>
            {allCommits.value ? null : (
              <div class="more">
                <button type="button" class="button" onClick={() => void olderCommits()}>
                  Older commits
                </button>
              </div>
            )}
          </section>
        </div>
      )}
    </>
  );
}
