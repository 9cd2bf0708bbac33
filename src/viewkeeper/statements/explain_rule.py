"""EXPLAIN RULE: what it watches, when it is considered, what it does, and the network through which changes reach it.

The network is that of Risch and Skold (1999): tables at level 0, stored views above them, what is watched on top. Each
edge says which kinds of change it carries (+ inserted, − deleted rows) and what is pruned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from viewkeeper.advice.change_paths import (
    LEGEND,
    differential,
    filters_at_the_door,
    only_leads_to,
    unread_columns,
)
from viewkeeper.algebra import nodes as n
from viewkeeper.analysis.polarity import Kinds, relevant_kinds
from viewkeeper.analysis.triggering_graph import kinds_of
from viewkeeper.catalog.active_rules import DELETED, DETACHED, IMMEDIATE, INSERTED, PYTHON, UPDATED, WEBHOOK, ActiveRule
from viewkeeper.catalog.relations import Derived, Relation, Table, VirtualView, as_derived
from viewkeeper.delta.positive import needed_kinds
from viewkeeper.maintain.propagation import watched_query
from viewkeeper.query.frames import select_frame
from viewkeeper.rules.watching import expanded_query, key_of
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.tokens import split
from viewkeeper.transaction.open_transaction import OpenTransaction


def explain_rule(tx: OpenTransaction, rule: ActiveRule) -> list[str]:
    """A rule and its propagation network, as lines."""
    names = _names(tx, rule)
    lines = [*_head(tx, rule, names), *_network(tx, rule, names)]
    for hidden, shown in sorted(names.items(), key=lambda pair: -len(pair[0])):
        lines = [line.replace(hidden, shown) for line in lines]
    return lines


def _names(tx: OpenTransaction, rule: ActiveRule) -> dict[str, str]:
    """What the hidden relations of a rule are called."""
    relation, watched = tx.by_id(rule.relation), tx.by_id(rule.watched)
    found: dict[str, str] = {}
    if relation.is_hidden:
        found[relation.name] = "the query of the rule"
    if watched is not relation:
        shown = found.get(relation.name, relation.name)
        found[watched.name] = f"the distinct rows of {shown}" if key_of(tx, relation) is None else shown
    if rule.activations is not None:
        found[tx.by_id(rule.activations).name] = "activations"
    return found


# the rule itself ----------------------------------------------------------------------------------------


def _head(tx: OpenTransaction, rule: ActiveRule, names: Mapping[str, str]) -> Iterator[str]:
    state = "" if rule.enabled else ", disabled"
    yield f"{rule.name}: an active rule, {'nervous' if rule.nervous else 'strict'}, {rule.coupling}{state}"
    relation = tx.by_id(rule.relation)
    if relation.name in names:
        assert isinstance(relation, Derived)
        yield "watches a query:"
        yield from (f"  {line}" for line in _query_text(rule).splitlines())
    else:
        yield f"watches {relation.name}, a {relation.kind_words}"
    yield f"triggered by {' and by '.join(_EVENTS[event] for event in rule.events)}"
    if rule.nervous:
        yield "  also by rows that were there before, if a change has touched them and they are there after it"
    else:
        yield f"  {_updates(tx, rule)}"
    yield f"considered {_CONSIDERED.get(rule.coupling, 'before the commit')}, with priority {rule.priority}"
    if rule.parameters:
        kinds = ", ".join(f":{name} {kind}" for name, kind in rule.parameters)
        count = _activations(tx, rule)
        yield f"parameters {kinds}; {count:,} activation{'' if count == 1 else 's'}"
    if rule.condition is not None:
        yield f"condition: {rule.condition}"
    yield from _action(rule)


_EVENTS = {INSERTED: "inserted rows", DELETED: "deleted rows", UPDATED: "updated rows"}
_CONSIDERED = {
    IMMEDIATE: "after each statement and before the commit",
    DETACHED: "after the commit, in a transaction of its own",
}


def _query_text(rule: ActiveRule) -> str:
    """The query after ON, as it was written."""
    (statement,) = split(rule.text)
    parsed = sql.parse(statement)
    assert isinstance(parsed, sql.CreateRule)
    return str(parsed.source)


def _updates(tx: OpenTransaction, rule: ActiveRule) -> str:
    key = key_of(tx, tx.by_id(rule.relation))
    if key is None:
        return "it has no key: there are no updates, and a row counts once however often it occurs"
    if not key:
        return "it has one row: when that differs before and after, it is an update, neither inserted nor deleted"
    if set(key) == set(tx.by_id(rule.relation).schema.names):
        return "its key has all columns: there are no updates"
    shown = [name.removeprefix(":") for name in key]
    return f"rows with the same ({', '.join(shown)}) before and after are updates, neither inserted nor deleted"


def _activations(tx: OpenTransaction, rule: ActiveRule) -> int:
    assert rule.activations is not None
    query = QueryText.of(f"SELECT count(*) AS n FROM {tx.by_id(rule.activations).name}")
    return int(tx.store.engine.fetch(select_frame(tx, query))["n"][0].as_py())


def _action(rule: ActiveRule) -> Iterator[str]:
    action = rule.action
    each = "for each row" if rule.each_row else "once for all rows"
    each = f"{each} of an activation" if rule.parameters else each
    if action.kind == WEBHOOK:
        yield f"action: POST to {action.text}, signed, within {action.timeout:g} seconds"
    elif action.kind == PYTHON:
        yield f"action: calls the Python function {action.text}, {each}"
        yield "  which tables it changes is not known: warnings of cycles and of order do not take it into account"
    else:
        yield f"action, {each}:"
        yield from (f"  {line}" for line in action.text.splitlines())


# the network --------------------------------------------------------------------------------------------


def _network(tx: OpenTransaction, rule: ActiveRule, names: Mapping[str, str]) -> Iterator[str]:
    top = _top(tx, rule)
    wanted = kinds_of(rule.events)
    if isinstance(top, Table):
        yield "propagation network:"
        yield f"  level 0, {top.name}: the rule sees its own change, of which it wants {_carried(wanted)}"
        yield "stored for the rule: nothing"
        return
    node = _node(tx, rule, top)
    kinds = needed_kinds(node) if rule.nervous else relevant_kinds(node, wanted)
    levels = _levels(tx, top.id, {top.id: list(kinds)})
    needed = _needed(tx, levels, top.id, kinds)
    yield "propagation network:"
    tables = [tx.by_id(key).name for key in levels[0]]
    yield f"  level 0, tables: {', '.join(tables)}"
    for number, level in enumerate(levels[1:-1], 1):
        for key in level:
            yield from _stored_level(tx, number, key, needed)
    yield f"  level {len(levels) - 1}, {top.name}: {_top_words(top, rule)}"
    for key, carried in kinds.items():
        yield from _edge(tx, rule, top, node, key, carried)
    if isinstance(top, VirtualView) and not rule.nervous and any(k != Kinds.BOTH for k in kinds.values()):
        yield "  a transaction with nothing but pruned changes derives nothing; beside others they may cancel rows"
    yield f"stored for the rule: {'its activations' if rule.activations else 'nothing'}"
    yield _NERVOUS_LEGEND if rule.nervous else LEGEND


_NERVOUS_LEGEND = "N: the rows that are there after the change and were touched by it; ΔR: inserted rows; " + LEGEND


def _top(tx: OpenTransaction, rule: ActiveRule) -> Relation:
    """What the rule watches; a stored relation itself where its rows are known to be distinct."""
    watched = tx.by_id(rule.watched)
    if rule.nervous or not isinstance(watched, VirtualView):
        return watched
    node = watched_query(tx, watched)
    while isinstance(node, n.Project) and all(e.attribute is not None for _, e in node.columns):
        node = node.input
    return tx.by_id(node.relation) if isinstance(node, n.Scan) else watched


def _node(tx: OpenTransaction, rule: ActiveRule, top: Relation) -> n.Node:
    """The query whose change the rule sees; a nervous rule looks through stored views, down to tables."""
    return expanded_query(tx, tx, top) if rule.nervous else watched_query(tx, as_derived(top))


def _levels(tx: OpenTransaction, top: str, known: dict[str, list[str]]) -> list[list[str]]:
    """The relations below what is watched, in levels: tables first, each above all that it reads."""
    height: dict[str, int] = {}

    def look(key: str) -> int:
        if key not in height:
            relation = tx.by_id(key)
            below = known.get(key) or (_inputs(relation) if isinstance(relation, Derived) else [])
            height[key] = 1 + max((look(each) for each in below), default=-1)
        return height[key]

    look(top)
    return [[key for key, level in height.items() if level == number] for number in range(height[top] + 1)]


def _inputs(relation: Derived) -> list[str]:
    return list(dict.fromkeys(scan.relation for scan in n.scans(relation.definition.as_written)))


def _needed(tx: OpenTransaction, levels: list[list[str]], top: str, kinds: Mapping[str, Kinds]) -> dict[str, Kinds]:
    """Per relation, the kinds of its change that can reach the rule."""
    found = dict(kinds)
    for level in reversed(levels[1:-1]):
        for key in level:
            relation = tx.by_id(key)
            assert isinstance(relation, Derived)
            for below, more in relevant_kinds(relation.definition.as_written, found[key]).items():
                found[below] = found.get(below, Kinds.NONE) | more
    return found


def _stored_level(tx: OpenTransaction, number: int, key: str, needed: Mapping[str, Kinds]) -> Iterator[str]:
    view = tx.by_id(key)
    assert isinstance(view, Derived)
    yield f"  level {number}, {view.name}: a {view.kind_words}, maintained anyway (EXPLAIN VIEW {view.name})"
    for below, carried in relevant_kinds(view.definition.as_written, needed[key]).items():
        relation = tx.by_id(below)
        yield f"    {relation.name} → {view.name} carries {_carried(carried)}"
        if carried != Kinds.BOTH:
            rest = Kinds.BOTH & ~carried
            yield f"      {_carried(rest)} cannot trigger the rule: {_only(rest, relation, needed[key])}"


def _top_words(top: Relation, rule: ActiveRule) -> str:
    if isinstance(top, VirtualView):
        return "not stored; its change is derived when one of these changes"
    if rule.nervous:
        return f"a {top.kind_words}; the rows that changes of tables touch are derived for the rule"
    return f"a {top.kind_words}, maintained anyway (EXPLAIN VIEW {top.name}); the rule sees its change"


def _edge(
    tx: OpenTransaction, rule: ActiveRule, top: Relation, node: n.Node, key: str, carried: Kinds
) -> Iterator[str]:
    relation = tx.by_id(key)
    if key == rule.activations:
        yield f"    {relation.name} → {top.name} carries nothing: an activation counts from the next transaction on"
        return
    yield f"    {relation.name} → {top.name} carries {_carried(carried)}"
    is_derived = rule.nervous or isinstance(top, VirtualView)
    if carried != Kinds.BOTH:
        rest = Kinds.BOTH & ~carried
        verb = "is pruned" if is_derived else "cannot trigger the rule"
        why = "no operator counts or negates rows" if rule.nervous else _only(rest, relation, kinds_of(rule.events))
        yield f"      {_carried(rest)} {verb}: {why}"
    if not is_derived:
        return
    unread = unread_columns(node, key, relation.schema.names)
    if unread:
        verb = "it is" if len(unread) == 1 else "they are"
        yield f"      updates of {', '.join(unread)} are pruned: {verb} not read"
    condition = filters_at_the_door(node, key)
    if condition is not None:
        yield f"      rows without {condition} are pruned before anything is read"
    yield from (f"      {line}" for line in differential(node, key, nervous=rule.nervous))


def _only(kind: Kinds, relation: Relation, wanted: Kinds) -> str:
    """Why a kind of change of a relation leads to none that is wanted."""
    return only_leads_to(kind, relation.name, "delete rows" if wanted == Kinds.ADDITIONS else "insert rows")


def _carried(kinds: Kinds) -> str:
    return {Kinds.ADDITIONS: "+", Kinds.REMOVALS: "−", Kinds.BOTH: "+ and −"}[kinds]
