import { useEffect, useRef, useState } from "preact/hooks";
import { token } from "./lib/api";
import { count } from "./lib/format";
import { link, route } from "./lib/router";
import { announcement, arrived, connection, epoch, everLive, now, problem, signIn, stream, tables, theme, views, type Theme } from "./lib/state";
import type { Relation } from "./lib/types";
import { Hidden, Icon, Kind, Name, Signs } from "./parts/common";
import { CommitsPage } from "./pages/CommitsPage";
import { GraphPage } from "./pages/GraphPage";
import { Overview } from "./pages/Overview";
import { RelationPage } from "./pages/RelationPage";
import { RulesPage } from "./pages/RulesPage";
import { SqlPage } from "./pages/SqlPage";

const pages = [
  ["overview", "Overview"],
  ["graph", "Graph"],
  ["sql", "SQL"],
  ["rules", "Rules"],
  ["commits", "Commits"],
] as const;

export function App() {
  const { page, name } = route.value;
  useEffect(() => {
    const title = name ?? pages.find(([id]) => id === page)?.[1] ?? "Viewkeeper";
    document.title = `${title} · Viewkeeper`;
  }, [page, name]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header />
      <Banner />
      <div class="frame">
        <Sidebar />
        <main id="main">
          {page === "graph" ? (
            <GraphPage />
          ) : page === "sql" ? (
            <SqlPage />
          ) : page === "rules" ? (
            <RulesPage />
          ) : page === "commits" ? (
            <CommitsPage />
          ) : page === "relation" && name ? (
            <RelationPage key={name} name={name} />
          ) : (
            <Overview />
          )}
        </main>
      </div>
      <div class="hidden" role="status" aria-live="polite">
        {announcement.value}
      </div>
      {connection.value.state === "unauthorized" ? <TokenDialog /> : null}
    </>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  focusHeading();
}

/** Puts the focus on the heading of the page, as a new page would. */
export function focusHeading(): void {
  document.querySelector<HTMLElement>("main h1")?.focus();
}

function Header() {
  return (
    <header class="top">
      <a class="brand" href={link("overview")}>
        <svg viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="7" />
          <path d="M7 9l9 14 9-14" class="brand-v" />
          <path d="M12.5 9h7" class="brand-bar" />
        </svg>
        <span>Viewkeeper</span>
      </a>
      <nav class="pages" aria-label="Pages">
        {pages.map(([id, label]) => {
          const current = route.value.page === id;
          return (
            <a key={id} href={link(id)} aria-current={current ? "page" : undefined}>
              <Icon name={id} />
              <span>{label}</span>
            </a>
          );
        })}
      </nav>
      <span class="grow" />
      <State />
      <ThemeSwitch />
    </header>
  );
}

function State() {
  const { state } = connection.value;
  const label = state === "live" ? "live" : state === "unauthorized" ? "token needed" : state === "connecting" && !everLive.value ? "connecting" : "disconnected";
  return (
    <span class={`state ${label.replace(" ", "-")}`}>
      <span class="dot" aria-hidden="true" />
      <span class="state-label">{label}</span>
      {epoch.value !== null ? (
        <span class="state-epoch">
          epoch <b>{count(epoch.value)}</b>
        </span>
      ) : null}
    </span>
  );
}

function ThemeSwitch() {
  const order: Theme[] = ["system", "light", "dark"];
  const next = order[(order.indexOf(theme.value) + 1) % 3]!;
  const icon = theme.value === "light" ? "sun" : theme.value === "dark" ? "moon" : "system";
  const label = `Theme: ${theme.value === "system" ? "as the system" : theme.value}. Change to ${next === "system" ? "as the system" : next}`;
  return (
    <button type="button" class="tool theme" onClick={() => (theme.value = next)} aria-label={label} title={label}>
      <Icon name={icon} />
    </button>
  );
}

function Banner() {
  const at = connection.value;
  if (problem.value && at.state === "live")
    return (
      <div class="banner" role="alert">
        <span>{problem.value}</span>
        <button type="button" class="button" onClick={() => (problem.value = null)}>
          Close
        </button>
      </div>
    );
  if (at.state === "live" || at.state === "unauthorized") return null;
  if (at.state === "connecting" && !everLive.value) return null;
  const left = at.state === "waiting" ? Math.max(0, Math.ceil((at.retryAt - now.value) / 1000)) : 0;
  return (
    <div class="banner" role="status">
      <span>
        <b>No connection to the server.</b>{" "}
        {everLive.value ? `What you see is as of epoch ${epoch.value ?? "–"}; it goes on from there.` : "Is it running?"}{" "}
        <span aria-hidden="true">{at.state === "connecting" ? "Connecting…" : left > 0 ? `Next try in ${left} s.` : "Trying now…"}</span>
      </span>
      <button type="button" class="button" onClick={() => stream.retry()}>
        Try now
      </button>
    </div>
  );
}

function Sidebar() {
  return (
    <nav class="side" aria-label="Tables and views">
      <SideList title="Views" of={views.value.data} />
      <SideList title="Tables" of={tables.value.data} />
      {views.value.data?.length === 0 && tables.value.data?.length === 0 ? <p class="muted side-empty">Tables and views will be listed here.</p> : null}
    </nav>
  );
}

function SideList({ title, of }: { title: string; of: Relation[] | null }) {
  if (!of || of.length === 0) return null;
  return (
    <section>
      <h2>{title}</h2>
      <ul>
        {of.map((relation) => {
          const counts = arrived.value?.changes?.[relation.name];
          const current = route.value.page === "relation" && route.value.name === relation.name;
          return (
            <li key={relation.name} class={current ? "on" : ""}>
              <Kind kind={relation.kind} />
              {current ? (
                <a class="name" href={link("relation", relation.name)} aria-current="page">
                  {relation.name}
                </a>
              ) : (
                <Name name={relation.name} kind={relation.kind} />
              )}
              {counts ? <Signs key={arrived.value!.epoch} counts={counts} class="fresh" /> : null}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function TokenDialog() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [value, setValue] = useState("");
  const refused = token.get() !== null;
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="token-title" onCancel={(event) => event.preventDefault()}>
      <form
        method="dialog"
        onSubmit={(event) => {
          event.preventDefault();
          if (value.trim()) signIn(value.trim());
        }}
      >
        <h2 id="token-title">This server asks for a token</h2>
        {refused ? (
          <p class="notice bad" role="alert">
            The token was refused. Check it, or ask for another one.
          </p>
        ) : (
          <p class="muted">It is the one that was given to <code>viewkeeper serve --token</code>, or that an administrator made for you.</p>
        )}
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
        <p class="muted small">It is kept in this tab only, and forgotten when you close it.</p>
        <div class="dialog-bar">
          <button type="submit" class="button primary" disabled={!value.trim()}>
            Connect
          </button>
        </div>
      </form>
      <Hidden>The page needs a token before it can show anything.</Hidden>
    </dialog>
  );
}
