/** The shapes of the server's JSON. */

export type Value = null | boolean | number | bigint | string | Value[] | { [name: string]: Value };
export type Row = Value[];

export interface Column {
  name: string;
  type: string;
  nullable?: boolean;
}

/** How many rows a change inserts and deletes; null where the server does not know without reading them. */
export interface Counts {
  inserted: number | null;
  deleted: number | null;
}

export interface Update {
  row: Row;
  diff: number;
}

export interface Relation {
  name: string;
  kind: string;
  columns: Column[];
  key?: string[];
  rows: number | null;
  bytes?: number | null;
  last_change: number | null;
  last_changed_at: string | null;
  lag?: number | null;
  stale_since?: string | number | null;
  materialized?: boolean;
  language?: "sql" | "datalog";
}

export interface Detail {
  name: string;
  kind: string;
  definition: string | null;
  language: string | null;
  columns: Column[];
  keys: string[][];
  lag: number | null;
  options: Record<string, Value> | null;
  analysis: string | null;
  plan: string | null;
  reads: string[];
  readers: string[];
  epoch: number;
  oldest: number;
}

export interface Rows {
  epoch: number;
  columns: Column[];
  rows: Row[];
  more?: boolean;
}

export interface Report {
  strategy: string;
  reason: string;
  milliseconds: number | null;
  rows_changed: number | null;
}

export interface Commit {
  epoch: number;
  committed_at: string;
  changes: Record<string, Counts>;
  report?: Record<string, Report>;
  levels?: string[][];
  rules?: string[];
  warnings?: Value[];
  created?: string[];
  dropped?: string[];
  milliseconds?: number | null;
}

export interface Rule {
  name: string;
  watched: string;
  when: string | string[];
  coupling: string;
  priority: number | null;
  enabled: boolean;
  action: string;
  definition: string;
}

export interface Firing {
  epoch: number;
  rule: string;
  rows: number | null;
  milliseconds: number | null;
  outcome: string;
}

export interface Assertion {
  name: string;
  condition: string;
  violation: "abort" | "warn";
  violating: number;
  rows: Row[];
  columns: Column[];
}

export interface GraphNode {
  name: string;
  kind: string;
  level: number;
}

export interface Graph {
  epoch: number;
  nodes: GraphNode[];
  edges: { from: string; to: string }[];
}

export interface Preview {
  changes: Record<string, Counts & { updates: Update[] }>;
  rules: { rule: string; rows: number | null }[];
  assertions: { assertion: string; rows: Row[] }[];
}

export interface SqlAnswer {
  columns: Column[];
  rows: Row[];
  commit: Commit | null;
  preview: Preview | null;
}

export interface Problem {
  title: string;
  status: number;
  code: string;
  detail: string;
  hint: string | null;
  place: { line: number; column: number; text: string } | null;
  oldest?: number;
}

export interface Frame {
  type: "frame";
  id: string;
  view: string;
  epoch: number;
  committed_at: string | null;
  snapshot: boolean;
  reset: boolean;
  updates: Update[];
  columns?: Column[];
}
