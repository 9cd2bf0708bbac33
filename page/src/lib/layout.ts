import dagre from "@dagrejs/dagre";
import type { Commit, Graph, GraphNode } from "./types";

export interface Placed extends GraphNode {
  x: number;
  y: number;
}

export interface PlacedEdge {
  from: string;
  to: string;
  points: { x: number; y: number }[];
}

export interface Layout {
  width: number;
  height: number;
  nodes: Placed[];
  edges: PlacedEdge[];
}

export interface Size {
  width: number;
  height: number;
  /** The space between two levels: the labels of edges have to fit. */
  between: number;
}

export const LARGE: Size = { width: 172, height: 46, between: 96 };
export const SMALL: Size = { width: 134, height: 42, between: 58 };

/** The graph without the nodes of a kind; what they connected stays connected. */
export function without(graph: Graph, hidden: (node: GraphNode) => boolean): Graph {
  let edges = graph.edges;
  for (const node of graph.nodes.filter(hidden)) {
    const into = edges.filter(({ to }) => to === node.name).map(({ from }) => from);
    const out = edges.filter(({ from }) => from === node.name).map(({ to }) => to);
    const through = into.flatMap((from) => out.filter((to) => to !== from).map((to) => ({ from, to })));
    edges = edges.filter(({ from, to }) => from !== node.name && to !== node.name).concat(through);
  }
  const seen = new Set<string>();
  edges = edges.filter(({ from, to }) => {
    const key = JSON.stringify([from, to]);
    return !seen.has(key) && seen.add(key);
  });
  return { ...graph, nodes: graph.nodes.filter((node) => !hidden(node)), edges };
}

const ROOT = "\0root";

/** Places nodes and edges: tables on the left, what reads them further to the right. */
export function place(graph: Graph, size: Size): Layout {
  const g = new dagre.graphlib.Graph();
  g.setGraph({ rankdir: "LR", nodesep: 18, ranksep: size.between, edgesep: 14, marginx: 8, marginy: 10, ranker: "network-simplex" });
  g.setDefaultEdgeLabel(() => ({}));
  const { width, height } = size;
  for (const node of graph.nodes) g.setNode(node.name, { width, height });
  for (const { from, to } of graph.edges) if (g.hasNode(from) && g.hasNode(to) && from !== to) g.setEdge(from, to, { width: 1, height: 16, labelpos: "c" });
  // One invisible node before all tables keeps them in the first column.
  g.setNode(ROOT, { width: 0, height: 0 });
  for (const node of graph.nodes) if (node.kind === "table") g.setEdge(ROOT, node.name, { weight: 20 });
  dagre.layout(g);
  const placed = new Map(graph.nodes.map((node) => [node.name, g.node(node.name)]));
  const left = Math.min(...[...placed.values()].map(({ x = 0 }) => x)) - width / 2 - 8;
  const right = Math.max(...[...placed.values()].map(({ x = 0 }) => x)) + width / 2 + 8;
  const top = Math.min(...[...placed.values()].map(({ y = 0 }) => y)) - height / 2 - 8;
  const bottom = Math.max(...[...placed.values()].map(({ y = 0 }) => y)) + height / 2 + 8;
  const at = (x = 0, y = 0) => ({ x: x - left, y: y - top });
  return {
    width: right - left,
    height: bottom - top,
    nodes: graph.nodes.map((node) => ({ ...node, ...at(placed.get(node.name)!.x, placed.get(node.name)!.y) })),
    edges: g
      .edges()
      .filter(({ v }) => v !== ROOT)
      .map(({ v, w }) => {
        const [a, b] = [placed.get(v)!, placed.get(w)!];
        const forward = (b.x ?? 0) > (a.x ?? 0) ? 1 : -1;
        // From the side of one box to the side of the other: straight to the next column, else through the bends that
        // the layout found around the boxes in between.
        const near = Math.abs((b.x ?? 0) - (a.x ?? 0)) < 1.5 * (width + size.between);
        const bends = near ? [] : (g.edge(v, w).points ?? []).slice(1, -1).map((point: { x: number; y: number }) => at(point.x, point.y));
        const ends = [at((a.x ?? 0) + (forward * width) / 2, a.y), at((b.x ?? 0) - (forward * width) / 2, b.y)] as const;
        return { from: v, to: w, points: [ends[0], ...bends, ends[1]] };
      }),
  };
}

/** The same, with more space between the levels where there is room for it. */
export function placeWithin(graph: Graph, size: Size, width: number): Layout {
  const tight = place(graph, size);
  const levels = new Set(tight.nodes.map(({ x }) => Math.round(x))).size;
  const spare = Math.min(110, (width - tight.width) / Math.max(1, levels - 1));
  return levels < 2 || spare < 8 ? tight : place(graph, { ...size, between: size.between + spare });
}

/** A smooth path through the points of an edge, level at each of them. */
export function path(points: { x: number; y: number }[]): string {
  if (points.length < 2) return "";
  let text = `M${points[0]!.x.toFixed(1)},${points[0]!.y.toFixed(1)}`;
  for (let i = 1; i < points.length; i++) {
    const [a, b] = [points[i - 1]!, points[i]!];
    const half = ((a.x + b.x) / 2).toFixed(1);
    text += `C${half},${a.y.toFixed(1)} ${half},${b.y.toFixed(1)} ${b.x.toFixed(1)},${b.y.toFixed(1)}`;
  }
  return text;
}

/** Where the label of an edge stands: in its last part, where edges from one box have parted. */
export function labelled(points: { x: number; y: number }[]): { x: number; y: number } {
  const [a, b] = [points.at(-2), points.at(-1)];
  if (!a || !b) return { x: 0, y: 0 };
  const t = 0.66;
  const level = 3 * t ** 2 - 2 * t ** 3; // of the curve that is level at both ends
  return { x: a.x + (b.x - a.x) * (1.5 * t * (1 - t) + t ** 3), y: a.y + (b.y - a.y) * level };
}

/**
 * The steps of a commit through the graph: the relations that it changed, level by level. What the commit itself says
 * comes first; else the levels of the graph.
 */
export function steps(commit: Commit, graph: Graph): string[][] {
  const changed = new Set([...Object.keys(commit.changes ?? {}), ...(commit.rules ?? [])]);
  const level = new Map(graph.nodes.map((node) => [node.name, node.level]));
  const said = (commit.levels ?? []).map((names) => names.filter((name) => changed.has(name))).filter((names) => names.length);
  const placed = new Set(said.flat());
  const rest = new Map<number, string[]>();
  for (const name of changed)
    if (!placed.has(name)) rest.set(level.get(name) ?? 0, [...(rest.get(level.get(name) ?? 0) ?? []), name]);
  if (said.length === 0) return [...rest.entries()].sort(([a], [b]) => a - b).map(([, names]) => names);
  // Names the commit left out (rules, as a rule) run after all the others.
  const later = [...rest.entries()].sort(([a], [b]) => a - b).flatMap(([, names]) => names);
  return later.length ? [...said, later] : said;
}
