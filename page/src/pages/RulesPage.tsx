import { useEffect } from "preact/hooks";
import { fold } from "../lib/copy";
import { counted, milliseconds } from "../lib/format";
import { link, route } from "../lib/router";
import { assertions, refreshAssertions, refreshRules, rules } from "../lib/state";
import { Empty, Failure, Loading, Name } from "../parts/common";
import { Grid } from "../parts/Grid";

const RULE = `CREATE RULE reorder ON low_stock WHEN INSERTED
  DO INSERT INTO purchases SELECT item, 100 FROM inserted;`;
const ASSERTION = `CREATE ASSERTION not_negative
  CHECK (NOT EXISTS (SELECT * FROM items WHERE quantity < 0));`;

export function RulesPage() {
  useEffect(() => {
    void refreshRules();
    void refreshAssertions();
  }, []);
  const chosen = route.value.name;
  useEffect(() => {
    if (chosen) document.getElementById(`item-${chosen}`)?.scrollIntoView({ block: "start" });
  }, [chosen, rules.value.data === null, assertions.value.data === null]);
  const { data, error } = rules.value;
  const firings = data?.firings ?? [];
  return (
    <>
      <div class="page-head">
        <h1 tabIndex={-1}>Rules and assertions</h1>
      </div>
      <section aria-labelledby="assertions" class="card">
        <div class="card-head">
          <h2 id="assertions">Assertions</h2>
        </div>
        {!assertions.value.data ? (
          assertions.value.error ? (
            <Failure error={assertions.value.error} retry={() => void refreshAssertions()} />
          ) : (
            <Loading what="assertions" lines={2} />
          )
        ) : assertions.value.data.length === 0 ? (
          <Empty title="No assertions yet">
            A condition that no transaction may break:
            <pre class="code">{ASSERTION}</pre>
          </Empty>
        ) : (
          <ul class="items">
            {assertions.value.data.map((assertion) => (
              <li key={assertion.name} id={`item-${assertion.name}`} class={chosen === assertion.name ? "on" : ""}>
                <div class="item-head">
                  <h3 class="item-name">{assertion.name}</h3>
                  <span class="tag">{assertion.violation === "abort" ? "aborts the commit" : "warns"}</span>
                  {assertion.violating > 0 ? (
                    <span class="tag bad">violated by {counted(assertion.violating, "row")}</span>
                  ) : (
                    <span class="tag good">holds</span>
                  )}
                </div>
                {/^\s*select\b/i.test(assertion.condition) ? <div class="muted">No row may be in</div> : null}
                <pre class="code">{assertion.condition}</pre>
                {assertion.rows.length > 0 ? (
                  <>
                    <h4>Violating rows</h4>
                    <Grid columns={assertion.columns} entries={fold(assertion.rows)} caption={`Rows that violate ${assertion.name}`} />
                    {assertion.violating > assertion.rows.length ? (
                      <p class="muted">The first {assertion.rows.length} of {counted(assertion.violating, "row")}.</p>
                    ) : null}
                  </>
                ) : null}
              </li>
            ))}
          </ul>
        )}
      </section>
      <div class="split even">
        <section aria-labelledby="rules" class="card">
          <div class="card-head">
            <h2 id="rules">Rules</h2>
          </div>
          {!data ? (
            error ? <Failure error={error} retry={() => void refreshRules()} /> : <Loading what="rules" lines={3} />
          ) : data.rules.length === 0 ? (
            <Empty title="No rules yet">
              A rule acts on the exact change of a table, view or query:
              <pre class="code">{RULE}</pre>
            </Empty>
          ) : (
            <ul class="items">
              {data.rules.map((rule) => {
                const last = firings.find((firing) => firing.rule === rule.name);
                return (
                  <li key={rule.name} id={`item-${rule.name}`} class={chosen === rule.name ? "on" : ""}>
                    <div class="item-head">
                      <h3 class="item-name">{rule.name}</h3>
                      {rule.enabled ? null : <span class="tag warn">disabled</span>}
                      <span class="tag">{rule.coupling?.toLowerCase()}</span>
                      {rule.priority == null ? null : <span class="tag">priority {rule.priority}</span>}
                      {last ? (
                        <span class="muted">
                          last fired in epoch <a href={link("commits", last.epoch)}>{last.epoch}</a>
                        </span>
                      ) : (
                        <span class="muted">has not fired</span>
                      )}
                    </div>
                    <div class="muted">
                      on {/^\w+$/.test(rule.watched) ? <Name name={rule.watched} /> : <code>{rule.watched}</code>} when{" "}
                      {(Array.isArray(rule.when) ? rule.when.join(" or ") : rule.when).toLowerCase()}
                    </div>
                    <pre class="code">{rule.definition || rule.action}</pre>
                  </li>
                );
              })}
            </ul>
          )}
        </section>
        <section aria-labelledby="firings" class="card">
          <div class="card-head">
            <h2 id="firings">Firings</h2>
          </div>
          {!data ? (
            <Loading what="firings" lines={3} />
          ) : firings.length === 0 ? (
            <Empty title="No rule has fired yet" />
          ) : (
            <div class="scroll" role="region" aria-label="Firings of rules" tabIndex={0}>
              <table class="list">
                <caption class="hidden">Firings, latest first</caption>
                <thead>
                  <tr>
                    <th scope="col">Epoch</th>
                    <th scope="col">Rule</th>
                    <th scope="col" class="number">
                      Rows
                    </th>
                    <th scope="col" class="number">
                      Time
                    </th>
                    <th scope="col">Outcome</th>
                  </tr>
                </thead>
                <tbody>
                  {firings.map((firing, at) => (
                    <tr key={at}>
                      <td>
                        <a href={link("commits", firing.epoch)}>{firing.epoch}</a>
                      </td>
                      <th scope="row">{firing.rule}</th>
                      <td class="number">{firing.rows ?? "–"}</td>
                      <td class="number">{milliseconds(firing.milliseconds)}</td>
                      <td>
                        <span class={/fail|error|refus/i.test(firing.outcome) ? "tag bad" : ""}>{firing.outcome}</span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </section>
      </div>
    </>
  );
}
