// A stand-in for the server while the page is developed: a small shop and a graph of flights, recomputed at every
// commit. It speaks the shapes of the API, understands a few forms of SQL, and serves the built page.
//   PORT=8799  TRAFFIC=1500 (milliseconds between commits; 0: none)  TOKEN=secret  EMPTY=1
import { createServer } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocketServer } from "ws";

const here = dirname(fileURLToPath(import.meta.url));
const built = join(here, "../../src/viewkeeper/server/page");
const port = Number(process.env.PORT ?? 8799);
const token = process.env.TOKEN ?? null;
const traffic = Number(process.env.TRAFFIC ?? 0);
const empty = process.env.EMPTY === "1";

const col = (name, type, nullable = true) => ({ name, type, nullable });
const money = (cents) => (cents / 100).toFixed(2);
const cents = (text) => Math.round(Number(text) * 100);

const tables = {
  customers: { columns: [col("id", "BIGINT", false), col("name", "STRING"), col("region", "STRING", false)], key: ["id"], rows: [] },
  orders: { columns: [col("id", "BIGINT", false), col("customer", "BIGINT"), col("status", "STRING"), col("amount", "DECIMAL(12,2)")], key: ["id"], rows: [] },
  lines: { columns: [col("order_id", "BIGINT"), col("item", "STRING"), col("quantity", "INT")], key: [], rows: [] },
  flights: { columns: [col("src", "STRING"), col("dst", "STRING"), col("carrier", "STRING")], key: ["src", "dst"], rows: [] },
  reminders: { columns: [col("customer", "BIGINT"), col("name", "STRING")], key: [], rows: [] },
};
const closure = (edges) => {
  const seen = new Map(edges.map(([a, b]) => [`${a}>${b}`, [a, b]]));
  for (let grown = true; grown; ) {
    grown = false;
    for (const [a, b] of [...seen.values()])
      for (const [c, d] of edges) if (b === c && !seen.has(`${a}>${d}`)) { seen.set(`${a}>${d}`, [a, d]); grown = true; }
  }
  return [...seen.values()];
};
const views = {
  open_orders: {
    kind: "view", columns: tables.orders.columns, reads: ["orders"], level: 1,
    definition: "CREATE VIEW open_orders AS\nSELECT * FROM orders WHERE status = 'open'",
    of: (db) => db.orders.filter(([, , status]) => status === "open"),
  },
  revenue_by_region: {
    kind: "materialized view", columns: [col("region", "STRING"), col("orders", "BIGINT"), col("revenue", "DECIMAL(22,2)")], reads: ["customers", "orders"], level: 1, key: ["region"],
    definition: "CREATE MATERIALIZED VIEW revenue_by_region AS\nSELECT c.region, count(*) AS orders, sum(o.amount) AS revenue\nFROM orders o JOIN customers c ON o.customer = c.id\nGROUP BY c.region",
    of: (db) => {
      const region = new Map(db.customers.map(([id, , r]) => [id, r]));
      const sums = new Map();
      for (const [, customer, , amount] of db.orders) {
        const r = region.get(customer);
        const s = sums.get(r) ?? [0, 0];
        sums.set(r, [s[0] + 1, s[1] + cents(amount)]);
      }
      return [...sums].map(([r, [n, s]]) => [r, n, money(s)]);
    },
  },
  top_orders: {
    kind: "materialized view", columns: [col("id", "BIGINT"), col("customer", "BIGINT"), col("amount", "DECIMAL(12,2)")], reads: ["orders"], level: 1, key: ["id"],
    definition: "CREATE MATERIALIZED VIEW top_orders AS\nSELECT id, customer, amount FROM orders ORDER BY amount DESC LIMIT 5",
    of: (db) => [...db.orders].sort((a, b) => cents(b[3]) - cents(a[3]) || a[0] - b[0]).slice(0, 5).map(([id, c, , a]) => [id, c, a]),
  },
  no_orders: {
    kind: "materialized view", columns: [col("id", "BIGINT"), col("name", "STRING")], reads: ["customers", "orders"], level: 1, key: ["id"],
    definition: "CREATE MATERIALIZED VIEW no_orders AS\nSELECT id, name FROM customers c\nWHERE NOT EXISTS (SELECT * FROM orders o WHERE o.customer = c.id)",
    of: (db) => { const has = new Set(db.orders.map((o) => o[1])); return db.customers.filter(([id]) => !has.has(id)).map(([id, n]) => [id, n]); },
  },
  items_sold: {
    kind: "materialized view", columns: [col("item", "STRING"), col("sold", "BIGINT")], reads: ["lines", "open_orders"], level: 2, key: ["item"],
    definition: "CREATE MATERIALIZED VIEW items_sold AS\nSELECT l.item, sum(l.quantity) AS sold\nFROM lines l JOIN open_orders o ON l.order_id = o.id GROUP BY l.item",
    of: (db) => { const open = new Set(db.open_orders.map((o) => o[0])); const s = new Map(); for (const [o, i, q] of db.lines) if (open.has(o)) s.set(i, (s.get(i) ?? 0) + q); return [...s]; },
  },
  reachable: {
    kind: "materialized view", language: "datalog", columns: [col("src", "STRING"), col("dst", "STRING")], reads: ["flights"], level: 1, key: ["src", "dst"],
    definition: ".decl reachable(src: symbol, dst: symbol)\n.output reachable\nreachable(x, y) :- flights(x, y, _).\nreachable(x, z) :- reachable(x, y), flights(y, z, _).",
    of: (db) => closure(db.flights.map(([a, b]) => [a, b])),
  },
  hubs: {
    kind: "materialized view", columns: [col("city", "STRING"), col("destinations", "BIGINT")], reads: ["reachable"], level: 2, key: ["city"],
    definition: "CREATE MATERIALIZED VIEW hubs AS\nSELECT src AS city, count(*) AS destinations FROM reachable GROUP BY src HAVING count(*) >= 4",
    of: (db) => { const s = new Map(); for (const [a] of db.reachable) s.set(a, (s.get(a) ?? 0) + 1); return [...s].filter(([, n]) => n >= 4); },
  },
};
const rules = [{ name: "remind", watched: "no_orders", when: "inserted", coupling: "deferred", priority: 0, enabled: true, action: "INSERT INTO reminders SELECT id, name FROM inserted", definition: "CREATE RULE remind ON no_orders WHEN INSERTED\n  DO INSERT INTO reminders SELECT id, name FROM inserted" }];
const assertionsOf = [
  { name: "amounts_positive", violation: "abort", columns: tables.orders.columns, reads: ["orders"], condition: "NOT EXISTS (SELECT * FROM orders WHERE amount < 0)", of: (db) => db.orders.filter((o) => cents(o[3]) < 0) },
  { name: "large_orders_known", violation: "warn", columns: [col("id", "BIGINT"), col("amount", "DECIMAL(12,2)")], reads: ["orders"], condition: "NOT EXISTS (SELECT id, amount FROM orders WHERE amount > 900)", of: (db) => db.orders.filter((o) => cents(o[3]) > 90000).map((o) => [o[0], o[3]]) },
];
if (empty) { for (const each of [tables, views]) for (const name of Object.keys(each)) delete each[name]; rules.length = 0; assertionsOf.length = 0; }

const key = JSON.stringify;
const diff = (before, after) => {
  const counts = new Map();
  for (const row of after) counts.set(key(row), (counts.get(key(row)) ?? 0) + 1);
  for (const row of before) counts.set(key(row), (counts.get(key(row)) ?? 0) - 1);
  return [...counts].filter(([, n]) => n).map(([k, n]) => ({ row: JSON.parse(k), diff: n }));
};
const derive = (base) => {
  const db = { ...base };
  for (const level of [1, 2]) for (const [name, view] of Object.entries(views)) if (view.level === level) db[name] = view.of(db);
  return db;
};
const countsOf = (updates) => ({ inserted: updates.filter((u) => u.diff > 0).reduce((s, u) => s + u.diff, 0), deleted: -updates.filter((u) => u.diff < 0).reduce((s, u) => s + u.diff, 0) });

let epoch = 0;
const states = [derive(Object.fromEntries(Object.keys(tables).map((t) => [t, []])))];
const changes = [{}];
const commits = [];
const firings = [];
const oldest = 0;
const sockets = new Set();

function evaluate(next) {
  const before = states[epoch];
  let after = derive(next);
  const fired = [];
  if (!empty) {
    const gained = diff(before.no_orders, after.no_orders).filter((u) => u.diff > 0);
    if (gained.length && epoch > 3) { fired.push({ rule: "remind", rows: gained.length }); after = derive({ ...next, reminders: [...next.reminders, ...gained.map((u) => u.row)] }); }
  }
  const change = {};
  for (const name of Object.keys(after)) { const updates = diff(before[name], after[name]); if (updates.length) change[name] = updates; }
  const broken = assertionsOf.map((a) => ({ ...a, rows: a.of(after) })).filter((a) => a.rows.length);
  return { after, change, fired, broken };
}
class Problem extends Error { constructor(status, code, detail, hint = null, place = null) { super(detail); Object.assign(this, { status, code, detail, hint, place }); } }
function commit({ after, change, fired, broken }) {
  const abort = broken.find((a) => a.violation === "abort");
  if (abort) throw new Problem(409, "assertion_violated", `the assertion ${abort.name} is violated by ${abort.rows.length} row(s), for example (${abort.rows[0].join(", ")})`, "Mend the rows, or let the assertion warn: ALTER ASSERTION " + abort.name + " ON VIOLATION WARN");
  if (Object.keys(change).length === 0) return null;
  epoch++;
  states[epoch] = after; changes[epoch] = change;
  const report = {};
  for (const name of Object.keys(views)) if (change[name] || Math.random() < 0.3) report[name] = { strategy: name === "reachable" ? "fixpoint" : name === "top_orders" ? "topk" : name === "revenue_by_region" ? "fold" : "differentiate", reason: change[name] ? "the change of its inputs is small" : "its inputs changed, its rows did not", milliseconds: 2 + Math.random() * 60, rows_changed: (change[name] ?? []).length };
  const done = { epoch, committed_at: new Date().toISOString(), changes: Object.fromEntries(Object.entries(change).map(([n, u]) => [n, countsOf(u)])), report, rules: fired.map((f) => f.rule), warnings: broken.map((a) => `the assertion ${a.name} is violated by ${a.rows.length} row(s)`), created: [], dropped: [], milliseconds: 25 + Math.random() * 90 };
  for (const f of fired) firings.unshift({ epoch, ...f, milliseconds: 1 + Math.random() * 5, outcome: "done" });
  commits.unshift(done);
  const levels = [Object.keys(tables).filter((n) => change[n] && n !== "reminders"), ...[1, 2].map((l) => Object.entries(views).filter(([n, v]) => v.level === l && change[n]).map(([n]) => n))].filter((l) => l.length);
  for (const socket of sockets) {
    if (socket.commits) socket.send(JSON.stringify({ type: "commit", ...done, levels }));
    for (const [id, { view, where }] of socket.subscriptions) socket.send(JSON.stringify(change[view] ? frame(id, view, epoch, filtered(view, change[view], where)) : { type: "progress", id, epoch }));
  }
  return done;
}
const filtered = (view, updates, where) => { if (!where) return updates; const test = condition(view, where); return updates.filter((u) => test(u.row)); };
const frame = (id, view, at, updates, extra = {}) => ({ type: "frame", id, view, epoch: at, committed_at: commits.find((c) => c.epoch === at)?.committed_at ?? null, snapshot: false, reset: false, updates, ...extra });
const columnsOf = (name) => (tables[name] ?? views[name] ?? assertionsOf.find((a) => a.name === name))?.columns;
const known = (name, text) => { const columns = columnsOf(name); if (!columns) { const at = (text ?? "").indexOf(name); throw new Problem(404, "not_found", `there is no table or view named ${name}`, `There are ${Object.keys(tables).concat(Object.keys(views)).join(", ")}.`, text ? { line: text.slice(0, at).split("\n").length, column: at - text.lastIndexOf("\n", at), text: text.split("\n")[text.slice(0, at).split("\n").length - 1] } : null); } return columns; };
function condition(name, text) {
  const found = /^\s*(\w+)\s*(=|<|>)\s*('([^']*)'|-?[\d.]+)\s*$/.exec(text);
  if (!found) throw new Problem(400, "sql_error", `the stand-in understands column = value only, not: ${text}`);
  const at = columnsOf(name).findIndex((c) => c.name === found[1]);
  if (at < 0) throw new Problem(400, "sql_error", `${name} has no column ${found[1]}`);
  const value = found[4] ?? Number(found[3]);
  return (row) => { const v = found[4] === undefined ? Number(row[at]) : row[at]; return found[2] === "=" ? v === value : found[2] === "<" ? v < value : v > value; };
}
function run(text, preview) {
  const base = Object.fromEntries(Object.keys(tables).map((t) => [t, states[epoch][t]]));
  let answer = { columns: [], rows: [], commit: null, preview: null };
  let changed = false;
  for (const statement of text.split(";").map((s) => s.trim()).filter(Boolean)) {
    let m;
    if (/^(begin|commit)$/i.test(statement)) continue;
    if ((m = /^insert\s+into\s+(\w+)\s+values\s+([\s\S]+)$/i.exec(statement))) {
      const columns = known(m[1], text);
      const rows = [...m[2].matchAll(/\(([^)]*)\)/g)].map(([, r]) => r.split(",").map((v, i) => { v = v.trim(); return v === "NULL" ? null : v.startsWith("'") ? v.slice(1, -1) : /decimal/i.test(columns[i]?.type) ? money(Math.round(Number(v) * 100)) : Number(v); }));
      base[m[1]] = [...base[m[1]], ...rows]; changed = true;
    } else if ((m = /^delete\s+from\s+(\w+)(?:\s+where\s+([\s\S]+))?$/i.exec(statement))) {
      known(m[1], text); const test = m[2] ? condition(m[1], m[2]) : () => true;
      base[m[1]] = base[m[1]].filter((r) => !test(r)); changed = true;
    } else if ((m = /^select\s+\*\s+from\s+(\w+)(?:\s+where\s+([\s\S]+))?$/i.exec(statement))) {
      const columns = known(m[1], text); const test = m[2] ? condition(m[1], m[2]) : () => true;
      answer = { ...answer, columns, rows: states[epoch][m[1]].filter(test) };
    } else throw new Problem(400, "sql_error", `cannot be read: ${statement.split(/\s+/)[0]}`, "The stand-in understands INSERT ... VALUES, DELETE ... WHERE column = value and SELECT * FROM.", { line: text.slice(0, text.indexOf(statement)).split("\n").length, column: 1, text: statement.split("\n")[0] });
  }
  if (changed) {
    const result = evaluate(base);
    if (preview) answer.preview = { changes: Object.fromEntries(Object.entries(result.change).map(([n, u]) => [n, { ...countsOf(u), updates: u.slice(0, 20) }])), rules: result.fired, assertions: result.broken.map((a) => ({ assertion: a.name, rows: a.rows.slice(0, 20) })) };
    else answer.commit = commit(result);
  }
  return answer;
}
const relation = (name) => {
  const last = commits.find((c) => c.changes[name]);
  return { name, kind: tables[name] ? "table" : views[name].kind, columns: columnsOf(name), key: (tables[name] ?? views[name]).key ?? [], rows: views[name]?.kind === "view" ? null : states[epoch][name].length, bytes: states[epoch][name].length * 31 + 420, last_change: last?.epoch ?? null, last_changed_at: last?.committed_at ?? null };
};
const view = (name) => ({ ...relation(name), lag: 0, stale_since: null, materialized: views[name].kind !== "view", language: views[name].language ?? "sql" });
const graph = () => ({
  epoch,
  nodes: [...Object.keys(tables).map((name) => ({ name, kind: "table", level: 0 })), ...Object.entries(views).map(([name, v]) => ({ name, kind: v.kind, level: v.level })), ...assertionsOf.map(({ name }) => ({ name, kind: "assertion", level: 1 })), ...rules.map(({ name }) => ({ name, kind: "rule", level: 2 }))],
  edges: [...Object.entries(views).flatMap(([to, v]) => v.reads.map((from) => ({ from, to }))), ...assertionsOf.flatMap((a) => a.reads.map((from) => ({ from, to: a.name }))), ...rules.flatMap((r) => [{ from: r.watched, to: r.name }])],
});
const detail = (name) => {
  known(name);
  const v = views[name];
  return { name, kind: v?.kind ?? "table", definition: v?.definition ?? null, language: v?.language ?? "sql", columns: columnsOf(name), keys: (tables[name] ?? v)?.key?.length ? [(tables[name] ?? v).key] : [], lag: 0, options: v ? { refresh: "auto", on: "commit", keep: "7 days" } : {}, reads: v?.reads ?? [], readers: Object.entries(views).filter(([, w]) => w.reads.includes(name)).map(([n]) => n), epoch, oldest,
    analysis: v ? `${name}\n  key          ${(v.key ?? ["none"]).join(", ")}\n  duplicates   ${v.key ? "none: the key is kept" : "possible"}\n\n${v.reads.map((r) => `  ${r}\n    insert     safe: only inserts rows\n    delete     needs a count per group: kept beside the view`).join("\n")}` : null,
    plan: v ? `Fold [${(v.key ?? []).join(", ")}]\n└─ Join on ${v.reads.join(" = ")}\n${v.reads.map((r, i) => `   ${i === v.reads.length - 1 ? "└" : "├"}─ δ ${r}   key lookup, about 10 rows`).join("\n")}` : null };
};
function api(path, query) {
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  switch (parts[0]) {
    case "tables": return { epoch, tables: Object.keys(tables).map(relation) };
    case "views": {
      if (parts.length === 1) return { epoch, views: Object.keys(views).map(view) };
      const name = parts[1];
      known(name);
      if (parts.length === 2) return detail(name);
      if (parts[2] === "rows") {
        const at = query.has("as_of") ? Number(query.get("as_of")) : epoch;
        if (!states[at]) throw new Problem(410, "gone", `epoch ${at} is not kept`);
        const test = query.get("where") ? condition(name, query.get("where")) : () => true;
        const rows = (states[at][name] ?? []).filter(test);
        const limit = Number(query.get("limit") ?? 1000);
        return { epoch: at, columns: columnsOf(name), rows: rows.slice(0, limit), more: rows.length > limit };
      }
      const [since, until] = [Number(query.get("since")), Number(query.get("until") ?? epoch)];
      if (since < 0) throw new Problem(410, "gone", "not kept");
      return { view: name, since, until, updates: diff(states[since][name], states[until][name]) };
    }
    case "rules": return { rules, firings: firings.slice(0, 50) };
    case "assertions": return { assertions: assertionsOf.map(({ of, reads, ...a }) => ({ ...a, violating: of(states[epoch]).length, rows: of(states[epoch]).slice(0, 20) })) };
    case "commits": { const before = Number(query.get("before") ?? Infinity); return { commits: commits.filter((c) => c.epoch < before).slice(0, Number(query.get("limit") ?? 50)) }; }
    case "graph": return graph();
  }
  throw new Problem(404, "not_found", "no such resource");
}
const mime = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".txt": "text/plain" };
const server = createServer((request, response) => {
  const url = new URL(request.url, "http://x");
  const send = (status, body, type = "application/json") => { response.writeHead(status, { "content-type": type }); response.end(typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body)); };
  if (!url.pathname.startsWith("/api/")) {
    const file = join(built, url.pathname === "/" ? "index.html" : url.pathname);
    return existsSync(file) ? send(200, readFileSync(file), mime[extname(file)] ?? "text/plain") : send(404, "not found", "text/plain");
  }
  if (token && request.headers.authorization !== `Bearer ${token}`) return send(401, { title: "Unauthorized", status: 401, code: "unauthorized", detail: "a token is needed" }, "application/problem+json");
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    try {
      const path = url.pathname.replace("/api/v1", "");
      if (path === "/sql") { const { sql, preview } = JSON.parse(body); return send(200, run(sql, preview)); }
      send(200, api(path, url.searchParams));
    } catch (error) {
      send(error.status ?? 500, { type: "about:blank", title: "Error", status: error.status ?? 500, code: error.code ?? "internal", detail: error.message, hint: error.hint ?? null, place: error.place ?? null }, "application/problem+json");
    }
  });
});
const sockets_ = new WebSocketServer({ noServer: true, handleProtocols: (offered) => (offered.has("viewkeeper") ? "viewkeeper" : false) });
server.on("upgrade", (request, socket, head) => {
  const offered = (request.headers["sec-websocket-protocol"] ?? "").split(/,\s*/);
  if (token && !offered.includes(`bearer.${token}`)) { socket.end("HTTP/1.1 401 Unauthorized\r\n\r\n"); return; }
  sockets_.handleUpgrade(request, socket, head, (client) => {
    client.subscriptions = new Map();
    sockets.add(client);
    client.on("close", () => sockets.delete(client));
    client.send(JSON.stringify({ type: "hello", epoch, server: "stand-in" }));
    client.on("message", (data) => {
      const message = JSON.parse(data);
      if (message.type === "commits") client.commits = true;
      if (message.type === "unsubscribe") client.subscriptions.delete(message.id);
      if (message.type === "subscribe") {
        const { id, view: name, since, where } = message;
        if (!columnsOf(name)) return client.send(JSON.stringify({ type: "error", id, code: "not_found", detail: `there is no ${name}` }));
        if (since != null && !states[since]) return client.send(JSON.stringify({ type: "error", id, code: "gone", detail: `epoch ${since} is not kept`, oldest }));
        client.subscriptions.set(id, { view: name, where });
        if (since == null) client.send(JSON.stringify(frame(id, name, epoch, states[epoch][name].map((row) => ({ row, diff: 1 })), { snapshot: true, columns: columnsOf(name) })));
        else for (let at = since + 1; at <= epoch; at++) if (changes[at][name]) client.send(JSON.stringify(frame(id, name, at, filtered(name, changes[at][name], where))));
      }
    });
  });
});

// Contents, and traffic.
let seed = 7;
const random = () => ((seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648);
const pick = (list) => list[Math.floor(random() * list.length)];
const regions = ["Africa", "Americas", "Asia", "Europe", "Oceania"];
const cities = ["AMS", "BER", "CPH", "DUB", "FRA", "LIS", "MAD", "OSL", "PRG", "VIE"];
const items = ["kettle", "lamp", "chair", "desk", "clock", "rug"];
let nextOrder = 1;
const order = (customer) => { const id = nextOrder++; return `INSERT INTO orders VALUES (${id}, ${customer}, '${random() < 0.6 ? "open" : "shipped"}', ${(5 + random() * 600).toFixed(2)}); INSERT INTO lines VALUES (${id}, '${pick(items)}', ${1 + Math.floor(random() * 5)}), (${id}, '${pick(items)}', 1)`; };
function tick() {
  const base = states[epoch];
  const at = random();
  let text;
  if (at < 0.5) text = order(1 + Math.floor(random() * 40));
  else if (at < 0.65 && base.orders.length > 20) text = `DELETE FROM orders WHERE id = ${pick(base.orders)[0]}`;
  else if (at < 0.8) { const [a, b] = [pick(cities), pick(cities)]; if (a !== b && !base.flights.some((f) => f[0] === a && f[1] === b)) text = `INSERT INTO flights VALUES ('${a}', '${b}', '${pick(["KL", "LH", "SK"])}')`; }
  else if (at < 0.95 && base.flights.length > 8) { const f = pick(base.flights); states[epoch]; const rest = base.flights.filter((x) => x !== f); commit(evaluate({ ...tablesOf(base), flights: rest })); return; }
  else text = `INSERT INTO customers VALUES (${100 + epoch}, 'Customer ${100 + epoch}', '${pick(regions)}')`;
  if (text) run(text, false);
}
const tablesOf = (db) => Object.fromEntries(Object.keys(tables).map((t) => [t, db[t]]));
if (!empty) {
  run("INSERT INTO customers VALUES " + Array.from({ length: 42 }, (_, i) => `(${i + 1}, 'Customer ${i + 1}', '${pick(regions)}')`).join(", "), false);
  run(Array.from({ length: 60 }, () => order(1 + Math.floor(random() * 40))).join("; "), false);
  run("INSERT INTO flights VALUES ('AMS','BER','KL'), ('BER','CPH','SK'), ('CPH','OSL','SK'), ('FRA','LIS','LH'), ('LIS','MAD','LH'), ('AMS','FRA','KL'), ('DUB','AMS','KL'), ('PRG','VIE','LH'), ('VIE','PRG','LH')", false);
  for (let i = 0; i < 24; i++) tick();
  run("INSERT INTO orders VALUES (9001, 3, 'open', 950.00)", false);
  if (traffic) setInterval(tick, traffic);
}
server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}/`));
