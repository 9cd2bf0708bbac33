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

export const NODE = { width: 172, height: 46 };

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

/** Places nodes and edges, sources on the left (or at the top). */
export function place(graph: Graph, direction: "LR" | "TB"): Layout {
  const g = new dagre.graphlib.Graph();
  const labels = { width: 56, height: 16, labelpos: "c" as const };
  g.setGraph({
    rankdir: direction,
    nodesep: direction === "LR" ? 20 : 16,
    ranksep: direction === "LR" ? 56 : 44,
    edgesep: 12,
    marginx: 12,
    marginy: 16,
    ranker: "network-simplex",
  });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) g.setNode(node.name, { ...NODE });
  for (const { from, to } of graph.edges) if (g.hasNode(from) && g.hasNode(to)) g.setEdge(from, to, { ...labels });
  dagre.layout(g);
  const size = g.graph();
  return {
    width: Math.max(size.width ?? 0, NODE.width),
    height: Math.max(size.height ?? 0, NODE.height),
    nodes: graph.nodes.map((node) => {
      const { x = 0, y = 0 } = g.node(node.name);
      return { ...node, x, y };
    }),
    edges: g.edges().map(({ v, w }) => ({ from: v, to: w, points: g.edge(v, w).points ?? [] })),
  };
}

/** A smooth path through the points of an edge. */
export function path(points: { x: number; y: number }[]): string {
  if (points.length < 2) return "";
  const at = ({ x, y }: { x: number; y: number }) => `${x.toFixed(1)},${y.toFixed(1)}`;
  let text = `M${at(points[0]!)}`;
  for (let i = 1; i < points.length - 1; i++) {
    const [a, b] = [points[i]!, points[i + 1]!];
    const end = i === points.length - 2 ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
    text += `Q${at(a)} ${at(end)}`;
  }
  if (points.length === 2) text += `L${at(points[1]!)}`;
  return text;
}

export const middle = (points: { x: number; y: number }[]): { x: number; y: number } => points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 };

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
