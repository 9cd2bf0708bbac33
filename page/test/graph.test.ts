import { describe, expect, it } from "vitest";
import { nodeColumns } from "../src/lib/edges";
import { labelled, LARGE, path, place, placeWithin, steps, without } from "../src/lib/layout";
import { link, read } from "../src/lib/router";
import type { Graph } from "../src/lib/types";

const graph: Graph = {
  epoch: 1,
  nodes: [
    { name: "orders", kind: "table", level: 0 },
    { name: "lines", kind: "table", level: 0 },
    { name: "aux", kind: "auxiliary", level: 1 },
    { name: "totals", kind: "materialized view", level: 1 },
    { name: "top", kind: "view", level: 2 },
    { name: "remind", kind: "rule", level: 3 },
  ],
  edges: [
    { from: "orders", to: "aux" },
    { from: "aux", to: "totals" },
    { from: "totals", to: "top" },
    { from: "lines", to: "top" },
    { from: "top", to: "remind" },
  ],
};
const columns = (...of: [string, string][]) => of.map(([name, type]) => ({ name, type }));

describe("the layout", () => {
  it("puts tables into one column, and readers to the right of what they read", () => {
    const layout = place(graph, LARGE);
    const at = new Map(layout.nodes.map((node) => [node.name, node]));
    expect(at.get("orders")!.x).toBeCloseTo(at.get("lines")!.x);
    for (const { from, to } of graph.edges) expect(at.get(to)!.x).toBeGreaterThan(at.get(from)!.x);
    for (const { x, y } of layout.nodes) {
      expect(x).toBeGreaterThan(0);
      expect(y).toBeGreaterThan(0);
      expect(x).toBeLessThan(layout.width);
      expect(y).toBeLessThan(layout.height);
    }
    expect(layout.edges).toHaveLength(5);
    expect(path(layout.edges[0]!.points)).toMatch(/^M[\d.]+,[\d.]+C/);
  });

  it("leaves out auxiliary relations without cutting what they connect", () => {
    const shape = without(graph, ({ kind }) => kind === "auxiliary");
    expect(shape.nodes.map(({ name }) => name)).not.toContain("aux");
    expect(shape.edges).toContainEqual({ from: "orders", to: "totals" });
  });

  it("uses the room that there is, and not more", () => {
    const tight = place(graph, LARGE);
    expect(placeWithin(graph, LARGE, 100).width).toBe(tight.width);
    const wide = placeWithin(graph, LARGE, tight.width + 120);
    expect(wide.width).toBeGreaterThan(tight.width + 100);
    expect(wide.width).toBeLessThanOrEqual(tight.width + 121);
  });

  it("puts labels near the end of an edge", () => {
    const at = labelled([{ x: 0, y: 0 }, { x: 100, y: 50 }]);
    expect(at.x).toBeGreaterThan(50);
    expect(at.x).toBeLessThan(80);
    expect(at.y).toBeGreaterThan(30);
  });

  it("copes with a cycle, an edge to itself and an unknown end", () => {
    const odd = { ...graph, edges: [...graph.edges, { from: "top", to: "orders" }, { from: "top", to: "top" }, { from: "nowhere", to: "top" }] };
    expect(place(odd, LARGE).nodes).toHaveLength(6);
  });
});

describe("the steps of a commit", () => {
  const one = { inserted: 1, deleted: 0 };
  it("are those that the commit tells, then the rules", () => {
    const commit = { epoch: 2, committed_at: "", changes: { orders: one, totals: one, top: one }, levels: [["orders"], ["totals", "unchanged"], ["top"]], rules: ["remind"] };
    expect(steps(commit, graph)).toEqual([["orders"], ["totals"], ["top"], ["remind"]]);
  });
  it("are the levels of the graph when the commit tells none", () => {
    const commit = { epoch: 2, committed_at: "", changes: { top: one, orders: one, totals: one } };
    expect(steps(commit, graph)).toEqual([["orders"], ["totals"], ["top"]]);
  });
  it("are none for a commit without a change", () => {
    expect(steps({ epoch: 2, committed_at: "", changes: {} }, graph)).toEqual([]);
  });
});

describe("columns of nodes", () => {
  it("are found by their names and types", () => {
    expect(nodeColumns(columns(["src", "STRING"], ["dst", "STRING"], ["km", "INT"]))).toEqual([0, 1]);
    expect(nodeColumns(columns(["id", "INT"], ["parent", "INT"], ["child", "INT"]))).toEqual([1, 2]);
    expect(nodeColumns(columns(["whole", "STRING"], ["part", "STRING"]))).toEqual([0, 1]);
    expect(nodeColumns(columns(["one", "STRING"], ["other", "STRING"]))).toEqual([0, 1]);
  });
  it("are not found where there are none", () => {
    expect(nodeColumns(columns(["id", "BIGINT"], ["customer", "BIGINT"]))).toBeNull();
    expect(nodeColumns(columns(["region", "STRING"], ["total", "DECIMAL(12,2)"]))).toBeNull();
    expect(nodeColumns(columns(["src", "STRING"], ["dst", "INT"]))).toBeNull();
  });
});

describe("addresses", () => {
  it("go there and back", () => {
    expect(read(link("relation", "a/b ü?", { at: 4, tab: null }))).toMatchObject({ page: "relation", name: "a/b ü?" });
    expect(read(link("relation", "v", { at: 4 })).parameters.get("at")).toBe("4");
    expect(read("").page).toBe("overview");
    expect(read("#/commits/12").name).toBe("12");
    expect(read("#/relation/%E0%A4%A").name).toBe("%E0%A4%A");
  });
});
