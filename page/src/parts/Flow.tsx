import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, signs, words } from "../lib/format";
import { labelled, LARGE, path, placeWithin, SMALL, steps, without, type Layout } from "../lib/layout";
import { relations } from "../lib/state";
import type { Commit, Graph } from "../lib/types";
import { addressOf, Icon, kindClass, kinds } from "./common";

const PACE = 420;
const reduced = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

interface Run {
  commit: Commit;
  levels: string[][];
  /** How many levels the commit has passed; all of them at the end. */
  passed: number;
}

/** Runs a commit through the graph, level by level; without motion it is at its end at once. */
function useRun(commit: Commit | null, graph: Graph, turn: number): Run | null {
  const [run, setRun] = useState<Run | null>(null);
  useEffect(() => {
    if (!commit) {
      setRun(null);
      return;
    }
    const levels = steps(commit, graph);
    if (reduced() || document.visibilityState === "hidden") {
      setRun({ commit, levels, passed: levels.length });
      return;
    }
    setRun({ commit, levels, passed: 1 });
    let passed = 1;
    const timer = setInterval(() => {
      passed++;
      setRun({ commit, levels, passed });
      if (passed >= levels.length) clearInterval(timer);
    }, PACE);
    return () => clearInterval(timer);
  }, [commit?.epoch, turn]);
  return run;
}

const short = (name: string, most: number): string => (name.length > most ? name.slice(0, most - 1) + "…" : name);

export function Flow({ graph, commit, turn, auxiliary, children }: {
  graph: Graph;
  commit: Commit | null;
  turn: number;
  auxiliary: boolean;
  children: ComponentChildren;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState<number | null>(null);
  const shape = useMemo(() => (auxiliary ? graph : without(graph, ({ kind }) => kind === "auxiliary")), [graph, auxiliary]);
  const compact = width > 0 && width < 640;
  const NODE = compact ? SMALL : LARGE;
  const layout: Layout = useMemo(() => placeWithin(shape, NODE, width - 14), [shape, NODE, width]);
  const run = useRun(commit, shape, turn);

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);

  const room = Math.max(360, innerHeight * 0.66) - 14;
  const fitting = width ? Math.min(1, Math.max(0.62, Math.min((width - 14) / layout.width, room / layout.height))) : 1;
  const scale = zoom ?? fitting;
  const reached = new Set(run?.levels.slice(0, run.passed).flat());
  const front = new Set(run && run.passed < run.levels.length ? run.levels[run.passed - 1] : []);
  const changes = run?.commit.changes ?? {};
  const fired = new Set(run?.commit.rules ?? []);

  const move = (event: KeyboardEvent, name: string) => {
    const at = layout.nodes.find((node) => node.name === name);
    if (!at) return;
    let to: string | undefined;
    if (event.key === "ArrowRight") to = shape.edges.find(({ from }) => from === name)?.to;
    else if (event.key === "ArrowLeft") to = shape.edges.find(({ to: end }) => end === name)?.from;
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      const column = layout.nodes.filter((node) => Math.abs(node.x - at.x) < NODE.width / 2).sort((a, b) => a.y - b.y);
      to = column[column.findIndex((node) => node.name === name) + (event.key === "ArrowDown" ? 1 : -1)]?.name;
    } else return;
    event.preventDefault();
    if (to) frame.current?.querySelector<SVGAElement>(`[data-node="${CSS.escape(to)}"]`)?.focus();
  };

  return (
    <div class="flow">
      <div class="flow-bar">
        {children}
        <div class="flow-tools" role="group" aria-label="Zoom">
          <button type="button" class="tool" onClick={() => setZoom(Math.min(2, scale * 1.25))} aria-label="Zoom in">
            <Icon name="plus" />
          </button>
          <button type="button" class="tool" onClick={() => setZoom(Math.max(0.3, scale / 1.25))} aria-label="Zoom out">
            <Icon name="minus" />
          </button>
          <button type="button" class="tool" onClick={() => setZoom(null)} aria-label="Fit the graph">
            <Icon name="fit" />
          </button>
        </div>
      </div>
      <div class="flow-frame" ref={frame} tabIndex={0} role="region" aria-label="Dependency graph: arrow keys move along it">
        <svg
          class={`flow-svg${run ? " running" : ""}`}
          width={layout.width * scale}
          height={layout.height * scale}
          viewBox={`0 0 ${layout.width} ${layout.height}`}
          role="group"
          aria-label={`${shape.nodes.length} relations and ${shape.edges.length} dependencies`}
          data-epoch={run?.commit.epoch}
          data-passed={run ? `${Math.min(run.passed, run.levels.length)}/${run.levels.length}` : undefined}
        >
          <defs>
            <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
              <path d="M0.5,0.8L7,4L0.5,7.2z" class="arrow" />
            </marker>
            <marker id="arrow-on" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto-start-reverse">
              <path d="M0.5,0.8L7,4L0.5,7.2z" class="arrow on" />
            </marker>
          </defs>
          {layout.edges.map(({ from, to, points }) => {
            const carries = reached.has(from) && changes[from] !== undefined;
            return (
              <path
                key={`${from}>${to}`}
                d={path(points)}
                class={`edge${carries ? " on" : ""}${front.has(from) ? " front" : ""}`}
                marker-end={carries ? "url(#arrow-on)" : "url(#arrow)"}
                aria-hidden="true"
              />
            );
          })}
          {layout.nodes.map((node) => {
            const counts = reached.has(node.name) ? changes[node.name] : undefined;
            const fires = reached.has(node.name) && fired.has(node.name);
            const rows = relations.value.get(node.name)?.rows;
            const kind = kinds[node.kind]?.long ?? node.kind;
            const said = counts ? words(counts) : fires ? "fired" : "";
            return (
              <g key={node.name} transform={`translate(${node.x - NODE.width / 2},${node.y - NODE.height / 2})`}>
                <a
                  href={addressOf(node.name, node.kind)}
                  data-node={node.name}
                  class={`node ${kindClass(node.kind)}${counts || fires ? " on" : ""}${front.has(node.name) ? " front" : ""}`}
                  aria-label={`${node.name}, ${kind}${rows == null ? "" : `, ${count(rows)} rows`}${said ? `, ${said}` : ""}`}
                  onKeyDown={(event) => move(event, node.name)}
                >
                  <title>{`${node.name} (${kind})`}</title>
                  <rect class="node-box" width={NODE.width} height={NODE.height} rx="5" />
                  <rect class="node-side" width="4" height={NODE.height} rx="1.5" />
                  <text class="node-name" x="14" y="19">
                    {short(node.name, compact ? 15 : 20)}
                  </text>
                  <text class="node-kind" x="14" y="35">
                    {node.kind === "materialized view" ? "materialized" : node.kind}
                  </text>
                  {counts ? (
                    <text class="node-change" x={NODE.width - 9} y="35" text-anchor="end">
                      {counts.inserted ? <tspan class="ins">{signs({ inserted: counts.inserted, deleted: 0 })}</tspan> : null}
                      {counts.inserted && counts.deleted ? " " : null}
                      {counts.deleted ? <tspan class="del">{signs({ inserted: 0, deleted: counts.deleted })}</tspan> : null}
                    </text>
                  ) : fires ? (
                    <text class="node-change fired" x={NODE.width - 9} y="35" text-anchor="end">
                      fired
                    </text>
                  ) : rows != null ? (
                    <text class="node-rows" x={NODE.width - 9} y="35" text-anchor="end">
                      {count(rows)}
                    </text>
                  ) : null}
                </a>
              </g>
            );
          })}
          {layout.edges.map(({ from, to, points }) => {
            const counts = reached.has(from) ? changes[from] : undefined;
            if (!counts) return null;
            const { x, y } = labelled(points);
            const text = signs(counts);
            const wide = text.length * 6.4 + 10;
            return (
              <g key={`${from}>${to}`} class="edge-label" transform={`translate(${x},${y})`} aria-hidden="true" data-edge={`${from}>${to}`}>
                <rect x={-wide / 2} y="-9" width={wide} height="18" rx="9" />
                <text text-anchor="middle" y="4">
                  {counts.inserted ? <tspan class="ins">{signs({ inserted: counts.inserted, deleted: 0 })}</tspan> : null}
                  {counts.inserted && counts.deleted ? " " : null}
                  {counts.deleted ? <tspan class="del">{signs({ inserted: 0, deleted: counts.deleted })}</tspan> : null}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
    </div>
  );
}
