import { milliseconds, counted } from "../lib/format";
import type { Commit } from "../lib/types";
import { Empty, Name } from "./common";

/** Where a commit's time went: a bar per view, with its strategy and the reason for it. */
export function CommitTime({ commit }: { commit: Commit }) {
  const entries = Object.entries(commit.report ?? {}).sort(([, a], [, b]) => (b.milliseconds ?? 0) - (a.milliseconds ?? 0));
  const known = commit.milliseconds ?? null;
  const longest = Math.max(known ?? 0, ...entries.map(([, report]) => report.milliseconds ?? 0), 0.001);
  if (entries.length === 0)
    return (
      <Empty title="No view had to be maintained">
        {known === null ? "This commit has no report." : `The whole commit took ${milliseconds(known)}.`}
      </Empty>
    );
  return (
    <div class="scroll" role="region" aria-label={`Time of epoch ${commit.epoch} per view`} tabIndex={0}>
      <table class="bars">
        <caption class="hidden">Where the time of epoch {commit.epoch} went, per view</caption>
        <thead>
          <tr>
            <th scope="col">View</th>
            <th scope="col" class="bar-column">
              Time
            </th>
            <th scope="col">Strategy and reason</th>
            <th scope="col" class="number">
              Rows changed
            </th>
          </tr>
        </thead>
        <tbody>
          {known === null ? null : (
            <tr class="whole">
              <th scope="row">whole commit</th>
              <td>
                <Bar of={known} longest={longest} />
              </td>
              <td class="muted">views may be maintained side by side, so their times need not add up</td>
              <td />
            </tr>
          )}
          {entries.map(([name, report]) => (
            <tr key={name}>
              <th scope="row">
                <Name name={name} />
              </th>
              <td>
                <Bar of={report.milliseconds} longest={longest} />
              </td>
              <td>
                <span class="strategy">{report.strategy}</span> <span class="muted">{report.reason}</span>
              </td>
              <td class="number" title={report.rows_changed == null ? "" : counted(report.rows_changed, "row")}>
                {report.rows_changed ?? "–"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Bar({ of, longest }: { of: number | null; longest: number }) {
  return (
    <span class="bar">
      <span class="bar-track" aria-hidden="true">
        <span class="bar-fill" style={{ width: `${Math.max(0.5, (100 * (of ?? 0)) / longest)}%` }} />
      </span>
      <span class="bar-text">{milliseconds(of)}</span>
    </span>
  );
}
