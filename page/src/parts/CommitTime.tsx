import { counted, milliseconds } from "../lib/format";
import type { Commit, Report } from "../lib/types";
import { Empty, Name } from "./common";

/** Where a commit's time went: a bar per view, with its strategy and the reason for it. */
export function CommitTime({ commit }: { commit: Commit }) {
  const entries = Object.entries(commit.report ?? {}).sort(([, a], [, b]) => (b.milliseconds ?? 0) - (a.milliseconds ?? 0));
  const whole = commit.milliseconds ?? null;
  const longest = Math.max(whole ?? 0, ...entries.map(([, report]) => report.milliseconds ?? 0), 0.001);
  const sum = entries.reduce((all, [, report]) => all + (report.milliseconds ?? 0), 0);
  if (entries.length === 0)
    return (
      <Empty title="No view had to be maintained">
        {whole === null ? "This commit has no report." : `The whole commit took ${milliseconds(whole)}.`}
      </Empty>
    );
  if (whole === null && entries.every(([, report]) => report.milliseconds == null))
    return (
      <>
        <p class="line muted">How long this took is not recorded: the commit was not made through this run of the server.</p>
        <ul class="times untimed" aria-label={`How the views were maintained in epoch ${commit.epoch}`}>
          {entries.map(([name, report]) => (
            <li key={name}>
              <span class="times-name">
                <Name name={name} />
              </span>
              <Why of={report} />
            </li>
          ))}
        </ul>
      </>
    );
  return (
    <ul class="times" aria-label={`Where the time of epoch ${commit.epoch} went`}>
      {whole === null ? null : (
        <li class="whole">
          <span class="times-name">whole commit</span>
          <Bar of={whole} longest={longest} />
          {sum > whole ? <span class="times-why muted">Views are maintained side by side: their times add up to more than this.</span> : null}
        </li>
      )}
      {entries.map(([name, report]) => (
        <li key={name}>
          <span class="times-name">
            <Name name={name} />
          </span>
          <Bar of={report.milliseconds} longest={longest} />
          <Why of={report} />
        </li>
      ))}
    </ul>
  );
}

function Why({ of: report }: { of: Report }) {
  return (
    <span class="times-why">
      <span class="strategy">{report.strategy}</span> <span class="muted">{report.reason}</span>
      {report.rows_changed == null ? null : <span class="muted times-rows">{counted(report.rows_changed, "row")} changed</span>}
    </span>
  );
}

function Bar({ of, longest }: { of: number | null; longest: number }) {
  return (
    <>
      <span class="bar-track" aria-hidden="true">
        <span class="bar-fill" style={{ width: `${Math.max(0.5, (100 * (of ?? 0)) / longest)}%` }} />
      </span>
      <span class="bar-text">{milliseconds(of)}</span>
    </>
  );
}
