"""EXPLAIN VIEW: what is stored, the change that each table leads to, what it reads, and the cost of either refresh."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import contents, title, tree
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.analysis.dependencies import keys_of
from viewkeeper.analysis.polarity import Kinds, relevant_kinds
from viewkeeper.catalog.display_names import needed_by, numbered
from viewkeeper.catalog.relations import Derived, VirtualView, as_derived
from viewkeeper.catalog.state import State
from viewkeeper.delta.compile import differentiate
from viewkeeper.maintain.declared_keys import declared_keys
from viewkeeper.maintain.divergence import remark_on
from viewkeeper.maintain.failures import known_as
from viewkeeper.maintain.planning import followed, plan_of, refresh_of, rows_of, stored_of
from viewkeeper.maintain.propagation import maintained_node
from viewkeeper.maintain.recursions import strategy_for
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.maintain.strategies import strategy_of
from viewkeeper.plan.by_keys import needless
from viewkeeper.plan.choice import Choice, choose, count, span, turns
from viewkeeper.plan.cost import Changed, Reading, full_seconds, incremental_seconds
from viewkeeper.plan.sharing import Sharing
from viewkeeper.plan.strategy_names import FIXPOINT, differentiated
from viewkeeper.recursion.printed_rules import maintenance_rules
from viewkeeper.recursion.rod import Rederivation
from viewkeeper.recursion.row_sets import Workspace
from viewkeeper.statements.auxiliary_relations import has_auxiliaries
from viewkeeper.statements.define_views import would_save
from viewkeeper.store.store import Store
from viewkeeper.transaction.suspension import stale_remarks

SHOWN = (1, 1_000, 100_000)
"""The numbers of changed rows for which the cost of an incremental refresh is shown."""


_BESIDE = {
    "runners_up": "runners-up, which replace deleted extrema of large groups",
    "neighbors": "neighbors, among which the percentiles of large groups move",
}
"""What stands beside a stored group-by."""


@dataclass
class Part:
    """An auxiliary relation of a view."""

    name: str
    contents: str
    shared: list[str]
    rows: int
    files: int
    tree: list[str]
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    runners_up: dict[str, int] | None = None
    neighbors: dict[str, int] | None = None


def explain(store: Store, state: State, name: str, form: str) -> str:
    """How a view is maintained, as text or JSON."""
    relation = state.find(name)
    assert isinstance(relation, Derived)
    definition = relation.definition
    query = definition.as_written
    names = numbered(relation)
    body: dict[str, Any] = {
        "view": relation.name,
        "kind": relation.kind,
        "options": definition.options,
        "sql": definition.sql,
        "columns": {column.name: str(column.type) for column in relation.schema},
        "keys": [list(key) for key in keys_of(query, definition.names, declared_keys(state.relations.get))],
        "query": list(tree(query)),
        "auxiliary": [_part(store, state, relation, names, key).__dict__ for key in names],
        "changes": _changes(store, state, relation, names),
        "cost": _recompute(state, query),
    }
    if definition.group_state is not None:
        body["state"] = f"its own rows are the state of {title(definition.group_state.node)}"
        body["runners_up"] = _size(state, definition.runners_up)
        body["neighbors"] = _size(state, definition.neighbors)
    body["relevant"] = {
        kind.name.lower(): _relevant(state, query, kind) for kind in (Kinds.ADDITIONS, Kinds.REMOVALS) if kind.name
    }
    if definition.is_stored and has_auxiliaries(definition):
        body["by keys"] = needless(query, declared_keys(state.relations.get))
    if definition.is_demand:
        body["true as of epoch"] = definition.refreshed
    if stale := stale_remarks(state, [relation], state.epoch):
        body["stale"] = stale
    if isinstance(relation, VirtualView) and (rules := _rederived(store, state, query)):
        body["maintenance rules"] = rules
    recursions = _strategies(store, state, relation)
    if recursions:
        body["recursion"] = recursions
    shared = _shared_joins(state, relation)
    if shared:
        body["in common"] = shared
    saved = would_save(state, relation)
    if saved is not None:
        body["auxiliary = true"] = saved
    return json.dumps(body, indent=2, ensure_ascii=False) if form == "json" else _text(relation, body, store.tuning)


def _relevant(state: State, query: n.Node, wanted: Kinds) -> dict[str, list[str]]:
    """Per table, the kinds of its changes that can lead to a kind of change of the view."""
    words = {Kinds.ADDITIONS: "insertions", Kinds.REMOVALS: "deletions"}
    return {
        state.relations[key].name: [word for kind, word in words.items() if kind in kinds]
        for key, kinds in relevant_kinds(query, wanted).items()
    }


def _shared_joins(state: State, relation: Derived) -> list[dict[str, Any]]:
    """The joins that a stored view shares with others: their changes are derived once for all of them."""
    own = {relation.id, *relation.definition.hidden}
    there = state.alive()
    stored = [r for r in there if isinstance(r, Derived) and r.definition.is_stored and not r.definition.is_demand]
    incremental = [r for r in stored if refresh_of(r, state.dependents) != "full"]
    found = []
    for common in Sharing((r.id, maintained_node(r)) for r in incremental).commons.values():
        others = {known_as(state.alive(), as_derived(state.relations[key])) for key in common.users - own}
        if common.users & own and others - {relation.name}:
            found.append({"join": str(common), "with": sorted(others - {relation.name})})
    return found


def _part(store: Store, state: State, view: Derived, names: Mapping[str, str], key: str) -> Part:
    relation = as_derived(state.relations[key])
    node = _named(maintained_node(relation), names)
    return Part(
        names[key],
        contents(node),
        [user.name for user in needed_by(state.alive(), relation) if user.id != view.id],
        rows_of(relation),
        len(relation.files),
        list(tree(node)),
        _changes(store, state, relation, names),
        _size(state, relation.definition.runners_up),
        _size(state, relation.definition.neighbors),
    )


def _size(state: State, key: str) -> dict[str, int] | None:
    """The size of a relation; None if there is none."""
    return {"rows": rows_of(state.relations[key]), "files": len(state.relations[key].files)} if key else None


def _named(node: n.Node, names: Mapping[str, str]) -> n.Node:
    """An expression in which auxiliary relations have the names that the view's EXPLAIN gives them."""

    def rename(part: n.Node) -> n.Node:
        return replace(part, name=names[part.relation]) if isinstance(part, n.Scan) and part.relation in names else part

    return n.transform(node, rename)


def _reading(state: State, names: Mapping[str, str], reading: Reading) -> str:
    """A reading; of an auxiliary relation, by the columns that it holds."""
    if reading.relation not in names:
        return str(reading)
    relation = as_derived(state.relations[reading.relation])
    columns = dict(zip(relation.schema.names, maintained_node(relation).outputs, strict=True))
    shown = tuple(columns[name].name for name in reading.columns)
    return str(replace(reading, name=names[reading.relation], columns=shown))


def _changes(store: Store, state: State, relation: Derived, names: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Per relation that the expression reads: the symbolic change, what deriving it reads, and what it costs."""
    node = _named(maintained_node(relation), names)
    strategy = strategy_of(relation)
    found: dict[str, dict[str, Any]] = {}
    for key in dict.fromkeys(scan.relation for scan in n.scans(node)):
        name = names.get(key, state.relations[key].name)
        if strategy.name == FIXPOINT:
            text, entered = strategy.formula(node, key)
            found[name] = {"change": text, "reads": entered, "lane": _lane_of_rounds(store, relation), "cost": None}
            continue
        plan = plan_of(store.engine, state.relations.__getitem__, relation, key)
        if plan is None:
            continue
        text, more = strategy.formula(node, key)
        reads = [_reading(state, names, reading) for reading in plan.readings if reading.relation != relation.id]
        if differentiate(differentiated(node, strategy.name), {key}, {key}) is None:
            more = [*more, "rows that are only inserted do not matter: foreign keys cannot refer to them yet"]
        lane = {"small change": plan.lane, "on the engine": list(plan.left)}
        cost = _cost(store, state, relation, key)
        found[name] = {"change": text, "reads": reads + more, "lane": lane, "cost": cost}
    return found


def _lane_of_rounds(store: Store, relation: Derived) -> dict[str, Any]:
    """The lane of a small change of a recursion: each round has its own."""
    most = store.tuning.tuple_rows if relation.definition.lane == "auto" else 0
    left = [f"rounds that join more than {most:,} rows, or rows of which only the engine can tell that they match"]
    left = left if most else ["every round"]
    return {"small change": "driver" if most else "engine", "on the engine": left}


def _rederived(store: Store, state: State, query: n.Node) -> list[dict[str, Any]]:
    """The rules that derive the changes of the recursions in a virtual view."""
    found = []
    reader = StateReader(store, state.relations.__getitem__, state.epoch, state.epoch)
    for part in query.walk():
        if isinstance(part, n.Fixpoint) and not part.bag:
            work = Rederivation(Workspace(store.engine, reader), part)
            found.append({"relation": part.shown, "rules": maintenance_rules(work)})
    return found


def _strategies(store: Store, state: State, relation: Derived) -> list[dict[str, Any]]:
    """How the recursions of a view are maintained: their rules, and the algorithm that derives deleted rows."""
    found = []
    for key in (relation.id, *relation.definition.hidden):
        stored = as_derived(state.relations[key])
        node = maintained_node(stored)
        if strategy_of(stored).name != FIXPOINT:
            continue
        assert isinstance(node, n.Fixpoint)
        body: dict[str, Any] = {"relation": node.shown, "rules": [rule.text for rule in node.rules]}
        if not node.bag:
            how = strategy_for(node, lambda scan: rows_of(state.relations[scan.relation]), store.tuning)
            body |= {"strategy": how.name, "reason": how.reason}
        remark = remark_on(node)
        if remark is not None:
            body["remark"] = remark
        found.append(body)
    return found


def _cost(store: Store, state: State, relation: Derived, key: str) -> dict[str, Any]:
    """Expected seconds of an incremental refresh, for some numbers of changed rows, and of a full one.

    "full from" is the break-even of `auto`: None if full never becomes cheaper, or if refresh is not 'auto'.
    """
    engine, find = store.engine, state.relations.__getitem__
    rates, tuning = engine.rates, engine.tuning

    def followed_by(rows: int) -> list[Changed]:
        return followed(engine, find, relation, {key: rows})

    def chosen(rows: int) -> Choice:
        stored = stored_of(find, relation, {key: rows}, tuning)
        return choose("auto", rows, stored, rates, tuning, lambda: followed_by(rows))

    by_rows = {
        f"{r}": incremental_seconds(stored_of(find, relation, {key: r}, tuning), followed_by(r), rates) for r in SHOWN
    }
    refresh = None if isinstance(relation, VirtualView) else refresh_of(relation, state.dependents)
    most = max(2 * rows_of(find(key)), SHOWN[-1])
    return {
        "incremental": {rows: round(seconds, 4) for rows, seconds in by_rows.items()},
        "full": round(full_seconds(stored_of(find, relation, {}, tuning), 0, rates), 4),
        "refresh": refresh,
        "full from": turns(chosen, most) if refresh == "auto" else None,
    }


def _recompute(state: State, query: n.Node) -> dict[str, Any]:
    read = {scan.relation: state.relations[scan.relation] for scan in n.scans(query)}
    rows = {relation.name: rows_of(relation) for relation in read.values()}
    return {"full": f"reads {sum(rows.values()):,} stored rows", "rows": rows}


def _text(relation: Derived, body: dict[str, Any], tuning: Tuning) -> str:
    options = ", ".join(f"{name} = {value}" for name, value in body["options"].items())
    lines = [f"{body['view']}: {relation.kind_words}{f' ({options})' if options else ''}"]
    if "true as of epoch" in body:
        lines.append(f"up to date as of epoch {body['true as of epoch']}")
    lines += body.get("stale", ())
    lines.append("columns: " + ", ".join(f"{name} {kind}" for name, kind in body["columns"].items()))
    keys = "; ".join(f"({', '.join(key)})" for key in body["keys"])
    lines.append(f"keys: {keys or 'none known: rows may repeat'}")
    lines += ["query:", *(f"  {line}" for line in body["query"])]
    lines += body.get("by keys", ())
    for part in body["auxiliary"]:
        files = f"{part['files']} file{'' if part['files'] == 1 else 's'}"
        shared = f", shared with {', '.join(part['shared'])}" if part["shared"] else ""
        lines.append(f"{part['name']} ({part['contents']}){shared}: {count(part['rows'])} in {files}")
        lines += [f"  {line}" for line in part["tree"]]
        lines += [f"  {line}" for line in _change_lines(part["changes"])]
        lines += [f"  {line}" for line in _beside_lines(part)]
    if "state" in body:
        lines.append(f"state: {body['state']}")
        lines += [f"  {line}" for line in _beside_lines(body)]
    for rederived in body.get("maintenance rules", ()):
        lines.append(f"changes of {rederived['relation']} are derived on demand, by these rules:")
        lines += [f"  ({kind}) {rule}" for kind, rules in rederived["rules"].items() for rule in rules]
    for recursion in body.get("recursion", ()):
        lines.append(f"recursion of {recursion['relation']}:")
        lines += [f"  {rule}" for rule in recursion["rules"]]
        if "strategy" in recursion:
            lines.append(f"  deletions are derived by {recursion['strategy']}: {recursion['reason']}")
        if "remark" in recursion:
            lines.append(f"  {recursion['remark']}")
    lines += _change_lines(body["changes"])
    for kind, tables in body["relevant"].items():
        if any(len(words) == 1 for words in tables.values()):
            lines.append(f"{kind} can only come from {', '.join(_from(words, name) for name, words in tables.items())}")
    for shared in body.get("in common", ()):
        lines.append(f"shared with {', '.join(shared['with'])}: {shared['join']}")
        lines.append(f"  its change is derived once for all when more than {tuning.shared_rows:,} rows change")
    if "auxiliary = true" in body:
        lines.append(body["auxiliary = true"])
    lines.append(f"full recompute: {body['cost']['full']}")
    lines.append(
        "δR = ΔR − ∇R: inserted rows less deleted ones; @old and @new: before and after; ⋉K: only touched keys"
    )
    return "\n".join(lines)


def _beside_lines(body: Mapping[str, Any]) -> Iterator[str]:
    """What EXPLAIN says of the relations beside a stored group-by."""
    for kind, what in _BESIDE.items():
        if (held := body[kind]) is not None:
            yield f"{what}: {count(held['rows'])} in {held['files']} file{'' if held['files'] == 1 else 's'}"


def _from(words: list[str], table: str) -> str:
    return f"{' and '.join(words)} {'into' if words == ['insertions'] else 'from'} {table}"


def _change_lines(changes: dict[str, dict[str, Any]]) -> list[str]:
    lines = []
    for table, change in changes.items():
        lines.append(f"when {table} changes, δ = {change['change']}")
        lines += [f"  {read}" for read in change["reads"] or ["reads nothing but the change"]]
        lane, left = change["lane"]["small change"], "; ".join(change["lane"]["on the engine"])
        lines.append(f"  lane of a small change: {lane}{f' (on the engine: {left})' if left else ''}")
        cost = change["cost"]
        if cost is None:
            continue
        sizes = [f"{span(seconds)} for {count(int(rows))}" for rows, seconds in cost["incremental"].items()]
        lines.append(f"  cost, incremental: about {', '.join(sizes)}; full: about {span(cost['full'])}")
        if cost["refresh"] == "auto":
            least = cost["full from"]
            how = "is always incremental" if least is None else f"is full from about {count(least)} changed on"
            lines.append(f"  refresh = 'auto' {how}")
        elif cost["refresh"] is not None:
            lines.append(f"  refresh = '{cost['refresh']}' decides, whatever it costs")
    return lines
