"""EXPLAIN VIEW: what is kept, the change that each table leads to, what is read for it, and what either way costs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.printing import formula, tree
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.analysis.keys import keys_of
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.engine import Engine
from viewkeeper.engine.lowered import Binding, Lowered
from viewkeeper.engine.lowering import Lowering
from viewkeeper.store.definition import KIND_WORDS, VIEW
from viewkeeper.store.state import Relation, State
from viewkeeper.store.store import Store
from viewkeeper.transaction.propagation import maintained_node
from viewkeeper.transaction.reading import schema_of


@dataclass
class Reading:
    """A relation that a change makes a plan read: in which state, and by which columns."""

    relation: str
    state: str
    columns: tuple[str, ...]
    sorted: bool
    rows: int

    def __str__(self) -> str:
        if not self.rows:
            return f"{self.relation}@{self.state}: holds nothing"
        if not self.columns:
            return f"{self.relation}@{self.state}: reads all {self.rows:,} rows"
        how = "files picked by it" if self.sorted else "all files, rows picked by it"
        return f"{self.relation}@{self.state}: by {', '.join(self.columns)} ({how})"


class PlanReader:
    """Stands in for stored relations while a plan is laid out: notes what would be read, and reads nothing."""

    def __init__(self, engine: Engine, state: State) -> None:
        self.engine = engine
        self.state = state
        self.readings: list[Reading] = []

    def scan(self, scan: n.Scan, binding: Binding | None) -> Lowered:
        """Notes a read; gives a frame that is never run."""
        if scan.state == n.CHANGE:
            return self._pretend(scan.outputs, weighted=True)
        relation = self.state.relations[scan.relation]
        names = dict(zip(scan.outputs, scan.stored_names, strict=True))
        columns = tuple(names[a] for a in binding.columns) if binding is not None else ()
        first = relation.schema.sort_columns[:1]
        by_file = any(name.lower() == column.lower() for name in columns for column in first)
        self.readings.append(Reading(scan.name, scan.state, columns, by_file, self.size(scan)))
        return self._pretend(scan.outputs, known=binding is not None)

    def size(self, scan: n.Scan) -> int:
        """How many signed rows are stored of a relation."""
        return sum(file.rows for file in self.state.relations[scan.relation].files)

    def keep(self, lowered: Lowered) -> Lowered:
        """What was computed is on the driver, and so are its keys."""
        return self._pretend(lowered.outputs, weighted=lowered.weighted)

    def _pretend(self, outputs: tuple[Attribute, ...], *, weighted: bool = False, known: bool = True) -> Lowered:
        schema = schema_of(outputs)
        table = (schema.signed_arrow if weighted else schema.arrow).empty_table()
        frame = self.engine.arrow(table, schema, f"{WEIGHT} bigint" if weighted else "")
        keys = pa.table([pa.nulls(1, a.type.arrow) for a in outputs], names=[a.label for a in outputs])
        return Lowered(frame, outputs, weighted, (keys,) if known else (), known)


@dataclass
class Part:
    """A stored relation of a view: the view itself, or an auxiliary one."""

    name: str
    rows: int
    files: int
    tree: list[str]
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)


def explain(store: Store, state: State, name: str, form: str) -> str:
    """How a view is kept, as text or JSON."""
    relation = state.find(name)
    assert relation is not None
    assert relation.definition is not None
    definition = relation.definition
    query = definition.as_written
    body: dict[str, Any] = {
        "view": relation.name,
        "kind": relation.kind,
        "options": definition.options,
        "sql": definition.sql,
        "columns": {column.name: str(column.type) for column in relation.schema},
        "keys": [list(key) for key in keys_of(query, _keys_in(state))],
        "query": list(tree(query)),
        "auxiliary": [_part(store, state, state.relations[key]).__dict__ for key in definition.hidden],
        "changes": _changes(store, state, relation),
        "cost": _cost(state, query),
    }
    if definition.is_demand:
        body["true as of epoch"] = definition.refreshed
    return json.dumps(body, indent=2, ensure_ascii=False) if form == "json" else _text(body)


def _keys_in(state: State) -> Any:
    def keys(scan: n.Scan) -> list[tuple[str, ...]]:
        schema = state.relations[scan.relation].schema
        return [key.columns for key in schema.keys if not any(schema.column(c).nullable for c in key.columns)]

    return keys


def _part(store: Store, state: State, relation: Relation) -> Part:
    node = maintained_node(relation)
    rows = sum(file.rows for file in relation.files)
    return Part(relation.name, rows, len(relation.files), list(tree(node)), _changes(store, state, relation))


def _changes(store: Store, state: State, relation: Relation) -> dict[str, dict[str, Any]]:
    """Per relation that the expression reads: the symbolic change, and what working it out reads."""
    assert relation.definition is not None
    node = maintained_node(relation)
    found: dict[str, dict[str, Any]] = {}
    folded = isinstance(node, n.Aggregate) and relation.kind != VIEW
    for key in dict.fromkeys(scan.relation for scan in n.scans(node)):
        target = node.input if folded and isinstance(node, n.Aggregate) else node
        change = differentiate(target, {key})
        if change is None:
            continue
        reader = PlanReader(store.engine, state)
        Lowering(store.engine, reader, looks=False).lower(change)
        text = formula(change)
        reads = [str(reading) for reading in reader.readings]
        if folded and isinstance(node, n.Aggregate):
            if all(call.text is None for call in node.calls):
                text = f"(γ@old⋉K ⊕ Σ({text})) − γ@old⋉K"
                if any(call.function in ("min", "max") for call in node.calls):
                    reads.append("the groups whose extremum was deleted and not reached again, by group")
            else:
                text = f"γ(S@new⋉K) − γ@old⋉K with K from {text}"
                reads.append("the touched groups, by group")
        whole = sum(reading.rows for reading in reader.readings if not reading.columns)
        by_key = sum(1 for reading in reader.readings if reading.columns)
        cost = f"{by_key} read{'' if by_key == 1 else 's'} by key for every changed row, {whole:,} rows in full"
        found[state.relations[key].name] = {"change": text, "reads": reads, "cost": cost}
    return found


def _cost(state: State, query: n.Node) -> dict[str, Any]:
    read = {scan.relation: state.relations[scan.relation] for scan in n.scans(query)}
    rows = {relation.name: sum(file.rows for file in relation.files) for relation in read.values()}
    return {"full": f"reads {sum(rows.values()):,} stored rows", "rows": rows}


def _text(body: dict[str, Any]) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in body["options"].items())
    lines = [f"{body['view']}: {KIND_WORDS[body['kind']]}{f' ({options})' if options else ''}"]
    if "true as of epoch" in body:
        lines.append(f"true as of epoch {body['true as of epoch']}")
    lines.append("columns: " + ", ".join(f"{name} {kind}" for name, kind in body["columns"].items()))
    keys = "; ".join(f"({', '.join(key)})" for key in body["keys"])
    lines.append(f"keys: {keys or 'none known: rows may repeat'}")
    lines += ["query:", *(f"  {line}" for line in body["query"])]
    for part in body["auxiliary"]:
        lines.append(f"auxiliary relation {part['name']}: {part['rows']:,} rows in {part['files']} files")
        lines += [f"  {line}" for line in part["tree"]]
        lines += [f"  {line}" for line in _change_lines(part["changes"])]
    lines += _change_lines(body["changes"])
    lines.append(f"full recompute: {body['cost']['full']}")
    lines.append(
        "δR = ΔR − ∇R: inserted rows less deleted ones; @old and @new: before and after; ⋉K: only touched keys"
    )
    return "\n".join(lines)


def _change_lines(changes: dict[str, dict[str, Any]]) -> list[str]:
    lines = []
    for table, told in changes.items():
        lines.append(f"when {table} changes, δ = {told['change']}")
        lines += [f"  {read}" for read in told["reads"] or ["reads nothing but the change"]]
        lines.append(f"  cost: {told['cost']}")
    return lines
