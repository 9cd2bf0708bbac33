"""CREATE, ALTER and DROP of views, with their auxiliary relations."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Numbers, column
from viewkeeper.algebra.printing import title
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.serial import fingerprint, to_json
from viewkeeper.algebra.types import spelled
from viewkeeper.catalog.active_rules import UPDATED, ActiveRule
from viewkeeper.catalog.definition import AUXILIARY, VIEW, Definition
from viewkeeper.catalog.graph import depending, reading
from viewkeeper.catalog.name_errors import already_exists, refuse_reserved, wrong_kind
from viewkeeper.catalog.relations import (
    AssertionView,
    Auxiliary,
    Derived,
    MaterializedView,
    Relation,
    VirtualView,
    as_derived,
)
from viewkeeper.catalog.state import State
from viewkeeper.delta.exists import asks_for_any_row
from viewkeeper.errors import Name, NotMaintainable, Place, SqlError
from viewkeeper.maintain.declared_keys import declared_keys, foreign_keys
from viewkeeper.maintain.propagation import maintained_node
from viewkeeper.maintain.redefining import compare, compared
from viewkeeper.plan.auxiliary import Split, split
from viewkeeper.plan.by_keys import parents_first, without_needless
from viewkeeper.plan.maintainable import unbound, unsteady
from viewkeeper.plan.neighbor_columns import neighbor_columns, percentiles
from viewkeeper.plan.runner_up_columns import ranked_calls, runner_up_columns
from viewkeeper.query.programs import made_again
from viewkeeper.query.view_queries import Made, define
from viewkeeper.rules.watching import key_of
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.sail_functions import check_on_sail
from viewkeeper.sql.view_statements import does_not_apply
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.trial import try_definitions

# CREATE -------------------------------------------------------------------------------------------


def create_view(tx: OpenTransaction, statement: sql.CreateView) -> None:
    """CREATE [OR REPLACE] [MATERIALIZED] VIEW."""
    refuse_reserved(statement.name)
    there = tx.find(statement.name)
    kind = MaterializedView if statement.materialized else VirtualView
    if there is not None:
        if statement.if_not_exists and isinstance(there, kind):
            return
        if not statement.or_replace:
            raise already_exists(there, statement.name, kind)
        if not isinstance(there, kind):
            raise wrong_kind(there, "DROP", statement.name.place)
    _check_functions(tx, statement.query)
    made = define(tx, statement.query, statement.query.whole, statement.columns, statement.name)
    definition = Definition(
        kind.kind,
        str(statement.query),
        made.names,
        to_json(made.node),
        refresh=statement.options.refresh,
        on=statement.options.on,
        lag=statement.options.lag,
        keep=statement.options.keep,
        uses=made.uses,
        engine=tx.store.engine.kind,
        auxiliary=statement.options.auxiliary,
        lane=statement.options.lane,
    )
    _check_options(statement.name, definition, made.node)
    with tx.defining():
        if there is not None:
            _replace(tx, as_derived(there), definition, made, statement.name.place)
        else:
            create_made(tx, str(statement.name), definition, made)
        try_definitions(tx, lambda _: statement.name.place)


def _check_functions(tx: OpenTransaction, query: SourceText) -> None:
    """Refuses functions that the database's engine does not have, or evaluates differently from the reference."""
    engine = tx.store.engine
    if engine.kind == "sail":
        check_on_sail(query, query.whole, tx.store.known_functions())


def _check_options(name: Name, definition: Definition, node: n.Node) -> None:
    """Refuses options that the query of a view does not allow."""
    alone = definition.is_stored and definition.auxiliary is False
    for call in unsteady(node) if alone and definition.refresh != "full" else ():
        raise NotMaintainable(
            f"{name} cannot be maintained without an auxiliary relation: {call.function} rounds by the order of the "
            "rows, so its value before a change must be stored",
            place=name.place,
            hint="leave out auxiliary = false, or write refresh = 'full'",
        )
    if not definition.is_stored or definition.refresh != "incremental":
        return
    for reason, instead in [*unbound(node), *(_unbound_alone(node) if alone else ())]:
        raise NotMaintainable(
            f"{name} cannot be maintained incrementally: {reason}",
            place=name.place,
            hint=f"{instead}, or leave the choice to refresh = 'auto'",
        )


def _unbound_alone(node: n.Node) -> Iterator[tuple[str, str]]:
    """Why an expression reads all of its input without auxiliary relations, and what to write instead."""
    for part in node.walk():
        if isinstance(part, n.Aggregate) and part.whole:
            yield "an aggregate without GROUP BY and with auxiliary = false is computed over all rows", "leave that out"
        if isinstance(part, n.Top) and part.limit is not None and not part.partition:
            yield "ORDER BY ... LIMIT with auxiliary = false is computed over all rows", "leave that out"
        if isinstance(part, n.Exists) and asks_for_any_row(part) and any(True for _ in n.scans(part.right)):
            yield "EXISTS without an equality and with auxiliary = false reads all rows", "leave that out"


def create_made(tx: OpenTransaction, name: str, definition: Definition, made: Made) -> None:
    """Creates a view; the initial load of a stored one happens at the commit."""
    relation = tx.create(name, made.schema, _with_auxiliaries(tx, definition, made.node))
    tx.untried.add(relation.id)
    if definition.is_stored:
        tx.to_load.add(relation.id)


def _with_auxiliaries(
    tx: OpenTransaction,
    definition: Definition,
    node: n.Node,
    former: Derived | None = None,
    others: Collection[str] = (),
) -> Definition:
    """The definition with its query over auxiliary relations; creates those that do not exist yet.

    `former` is the relation whose definition this one replaces, and `others` are redefined with it. Auxiliary relations
    that only these use are redefined too, if that can be maintained incrementally.
    """
    if not has_auxiliaries(definition):
        # a group-by at the top would be folded into the view's own rows, which lack the counts that a fold needs
        alone = n.Project(node, tuple((a, column(a)) for a in node.outputs)) if isinstance(node, n.Aggregate) else node
        return replace(definition, stored=to_json(alone) if definition.is_stored else None, hidden=())
    there = {**tx.state.relations, **tx.created}
    node = parents_first(without_needless(node, declared_keys(there.get)), foreign_keys(there.get))
    parts = split(node, _new_id, _sorted_by(there.get), tx.store.tuning.topk_slack)
    free = [] if former is None or definition.is_demand or former.definition.is_demand else _free(tx, former, others)
    hidden = _auxiliaries(tx, parts, definition.on, definition.lane, free)
    return replace(definition, stored=to_json(_renamed(parts.node, hidden)), hidden=tuple(hidden.values()))


def _free(tx: OpenTransaction, former: Derived, others: Collection[str]) -> list[Derived]:
    """The auxiliary relations of a view that may be redefined with it, because nothing else uses them."""
    mine = {former.id, *others}
    there = [key for key in former.definition.hidden if key in tx.state.relations and key not in tx.to_load]
    found = [as_derived(tx.by_id(key)) for key in there]
    return [r for r in found if {user.id for user in tx.dependents(r.id) if not isinstance(user, Auxiliary)} <= mine]


def _new_id() -> str:
    return uuid.uuid4().hex[:16]


def has_auxiliaries(definition: Definition) -> bool:
    """Whether a view may have auxiliary relations; one that is always refreshed in full has no use for them."""
    wanted = definition.is_stored if definition.auxiliary is None else definition.auxiliary
    return wanted and definition.refresh != "full"


def _renamed(node: n.Node, ids: Mapping[str, str]) -> n.Node:
    """The expression with scans of planned auxiliary relations replaced by those that exist."""

    def turn(part: n.Node) -> n.Node:
        if isinstance(part, n.Scan) and part.relation in ids:
            return replace(part, relation=ids[part.relation])
        if isinstance(part, n.Fixpoint) and part.stored:
            held = ((name, replace(scan, relation=ids.get(scan.relation, scan.relation))) for name, scan in part.stored)
            return replace(part, stored=tuple(held))
        return part

    return n.transform(node, turn)


def _sorted_by(relations: Callable[[str], Relation | None]) -> Callable[[n.Scan], str | None]:
    """A function that gives the first sort column of a scanned relation; for a planned one, its first column."""

    def first_column(scan: n.Scan) -> str | None:
        relation = relations(scan.relation)
        if relation is None:
            return scan.stored_names[0] if scan.attributes else None
        columns = relation.schema.sort_columns
        return columns[0] if columns else None

    return first_column


def _auxiliaries(tx: OpenTransaction, parts: Split, on: str, lane: str, free: list[Derived]) -> dict[str, str]:
    """Creates the auxiliary relations of a view, or finds equal ones; returns the real id for each planned one.

    A view that is refreshed on demand shares none, because its own are up to date as of its own last refresh; others
    share those of their own lane. `free` ones are redefined where that can be maintained incrementally.
    """
    there_are = (r for r in tx.alive() if isinstance(r, Auxiliary))
    shared = [r for r in there_are if not r.definition.is_demand and r.definition.lane == lane]
    there: dict[str, Derived] = {fingerprint(maintained_node(r)): r for r in shared} if on == "commit" else {}
    ids: dict[str, str] = {}
    for part in parts.auxiliaries:
        key = part.scan.relation
        node = _renamed(part.node, ids)
        print_ = fingerprint(node)
        if print_ in there:
            ids[key] = there[print_].id
            continue
        schema = Schema(tuple(Column(name, a.type) for name, a in zip(part.columns, node.outputs, strict=True)))
        uses = tuple(dict.fromkeys(scan.relation for scan in n.scans(node)))
        again = _reusable(tx, free, node, schema, ids)
        if again is not None:
            free.remove(again)
            ids[key] = again.id
            stored, former = to_json(_renamed(node, ids)), again.definition
            definition = Definition(AUXILIARY, "", tuple(schema.names), {}, stored, uses=uses, lane=lane)
            definition = replace(definition, runners_up=former.runners_up, neighbors=former.neighbors)
            tx.defined[again.id] = definition
            tx.redefined.add(again.id)
            there[print_] = as_derived(tx.by_id(again.id))
            continue
        definition = Definition(AUXILIARY, "", tuple(schema.names), {}, to_json(node), on=on, uses=uses, lane=lane)
        if isinstance(node, n.Aggregate):
            runners_up, neighbors = _beside(tx, node)
            definition = replace(definition, runners_up=runners_up, neighbors=neighbors)
        relation = Auxiliary(key, f"_vk_{key}", schema, tx.state.epoch + 1, definition=definition)
        tx.created[key] = relation
        tx.to_load.add(key)
        there[print_] = relation
        ids[key] = key
    return ids


def _beside(tx: OpenTransaction, node: n.Aggregate) -> tuple[str, str]:
    """Creates the runners-up and the neighbors of a stored group-by; their ids, which are empty if it has none."""
    numbers = Numbers(n.highest(node) + 1_000)
    runners_up = _created(tx, runner_up_columns(node, numbers)) if ranked_calls(node) else ""
    return runners_up, _created(tx, neighbor_columns(node, numbers)) if percentiles(node) else ""


def _created(tx: OpenTransaction, columns: tuple[Attribute, ...]) -> str:
    """The id of a new relation that is changed together with another."""
    names = tuple(f"c{i}" for i in range(len(columns)))
    schema = Schema(tuple(Column(name, a.type) for name, a in zip(names, columns, strict=True)))
    definition = Definition(AUXILIARY, "", names, {}, to_json(n.Rows(columns, ())))
    key = _new_id()
    tx.created[key] = Auxiliary(key, f"_vk_{key}", schema, tx.state.epoch + 1, definition=definition)
    return key


def _reusable(
    tx: OpenTransaction, free: Sequence[Derived], node: n.Node, schema: Schema, ids: dict[str, str]
) -> Derived | None:
    """An auxiliary relation whose redefinition as an expression can be maintained incrementally.

    For one of a recursion, the ids of all of its relations are recorded in `ids`: they refer to each other.
    """
    for relation in free:
        former = as_derived(tx.state.relations[relation.id])
        if former.schema != schema:
            continue
        before = maintained_node(former)
        noted = dict(ids)
        if isinstance(node, n.Fixpoint) and isinstance(before, n.Fixpoint):
            if before.shown != node.shown:
                continue
            held = {name: scan.relation for name, scan in before.stored}
            if not set(held.values()) <= {*(other.id for other in free), *ids.values()}:
                continue
            noted |= {scan.relation: held[name] for name, scan in node.stored if name in held}
        if compare(before, _renamed(node, noted)).follows:
            ids.update(noted)
            return relation
    return None


# ALTER and OR REPLACE -----------------------------------------------------------------------------


def alter_view(tx: OpenTransaction, statement: sql.AlterView) -> None:
    """ALTER [MATERIALIZED] VIEW name AS query."""
    place = statement.name.place
    relation = _view(tx, statement.name, place, "ALTER")
    if isinstance(relation, AssertionView):
        raise SqlError(
            f"{relation.name} is an assertion, whose condition cannot be replaced",
            place=place,
            hint=f"DROP ASSERTION {spelled(relation.name)}, and create it",
        )
    if statement.materialized and not isinstance(relation, MaterializedView):
        raise wrong_kind(relation, "ALTER", place)
    _check_functions(tx, statement.query)
    if isinstance(relation, VirtualView) and (given := [name for name, _ in statement.options if name != "auxiliary"]):
        raise does_not_apply(given[0], place)
    made = define(tx, statement.query, statement.query.whole, None, statement.name)
    definition = replace(
        relation.definition,
        sql=str(statement.query),
        names=made.names,
        query=to_json(made.node),
        uses=made.uses,
        refreshed=0,
        **dict(statement.options),
    )
    _check_options(statement.name, definition, made.node)
    with tx.defining():
        _replace(tx, relation, definition, made, place)
        try_definitions(tx, lambda _: statement.name.place)


def _replace(tx: OpenTransaction, relation: Derived, definition: Definition, made: Made, place: Place) -> None:
    """Replaces the query of a view. With the same columns it stays the same relation; its feed gets the difference."""
    if reading(tx.alive()).reads_itself(relation.id, made.uses):
        raise SqlError(f"{relation.name} would read itself", place=place, hint="use other relations")
    old = [(c.name.lower(), c.type) for c in relation.schema]
    same = old == [(c.name.lower(), c.type) for c in made.schema]
    users = [user.name for user in tx.dependents(relation.id) if not user.is_hidden]
    rules = [f"the rule {rule.name}" for rule in tx.active_rules() if relation.id in rule.needs]
    if not same and (users or rules):
        verb = "use" if rules else "read"
        raise SqlError(
            f"{relation.name} cannot get other columns: {', '.join([*users, *rules])} "
            f"{verb}{'s' if len(users) + len(rules) == 1 else ''} it",
            place=place,
            hint="keep names and types of its columns, or drop those first",
        )
    if same:
        redefine(tx, relation, definition, made)
        if not definition.is_stored:
            reread(tx, relation.id)
    else:
        tx.drop(relation)
        create_made(tx, relation.name, definition, made)
        _drop_unused(tx, relation.definition.hidden)


def redefine(
    tx: OpenTransaction, relation: Derived, definition: Definition, made: Made, others: Collection[str] = ()
) -> None:
    """Replaces the definition of a view by one with the same columns; leaves the views that read it alone.

    A stored view is maintained incrementally if possible; else it is refreshed in full. `others` are redefined with it.
    A suspended view is maintained from then on.
    """
    definition = replace(definition, suspended=0)
    tx.suspended.discard(relation.id)
    if reading(tx.alive()).reads_itself(relation.id, made.uses):
        raise SqlError(f"{relation.name} would read itself through a view", hint="write the recursion as rules")
    before = relation.definition.hidden
    tx.defined[relation.id] = _with_auxiliaries(tx, definition, made.node, relation, others)
    tx.untried.add(relation.id)
    if definition.is_stored:
        _schedule(tx, relation.id)
    _drop_unused(tx, before)
    if key_of(tx, tx.by_id(relation.id)) is None:
        _check_updates(tx, relation)


def _check_updates(tx: OpenTransaction, relation: Relation) -> None:
    """Refuses to take the key of a view whose updated rows a rule reacts to."""
    for rule in tx.active_rules():
        if rule.relation == relation.id and UPDATED in rule.events:
            raise SqlError(
                f"rows of {relation.name} would have no key, by which the rule {rule.name} finds the updated ones",
                hint=f"keep a key among the columns, or DROP RULE {spelled(rule.name)} first",
            )


def create_hidden_view(tx: OpenTransaction, name: str, query: str, called: Name) -> Relation:
    """A virtual view that users do not see, which an active rule watches; `called` names it in errors."""
    made = define(tx, query, query.whole if isinstance(query, SourceText) else query, None, called)
    definition = Definition(
        VIEW, str(query), made.names, to_json(made.node), uses=made.uses, engine=tx.store.engine.kind
    )
    create_made(tx, name, definition, made)
    return tx.relation(name)


def _schedule(tx: OpenTransaction, key: str) -> None:
    """Decides whether the commit maintains a redefined view incrementally or computes it from its inputs."""
    tx.redefined.discard(key)
    former = tx.state.relations.get(key)
    new = former is None or as_derived(former).definition.is_demand or key in tx.to_load
    if not new and compared(tx, as_derived(tx.by_id(key))).follows:
        tx.redefined.add(key)
    else:
        tx.to_load.add(key)


def reread(tx: OpenTransaction, key: str) -> None:
    """Translates the queries of the views over a replaced virtual view again, under its new definition."""
    users = tx.dependents(key)
    for user in users:
        made = made_again(tx, user)
        definition = replace(user.definition, query=to_json(made.node), uses=made.uses)
        redefine(tx, user, definition, made, [other.id for other in users])
        if not definition.is_stored:
            reread(tx, user.id)


# DROP ---------------------------------------------------------------------------------------------


def drop_view(tx: OpenTransaction, statement: sql.DropView) -> None:
    """DROP [MATERIALIZED] VIEW."""
    there = tx.find(statement.name)
    if there is None and statement.if_exists:
        return
    place = statement.name.place
    relation = _view(tx, statement.name, place, "DROP")
    if isinstance(relation, AssertionView):
        raise wrong_kind(relation, "DROP", place)
    if statement.materialized and not isinstance(relation, MaterializedView):
        raise wrong_kind(relation, "DROP", place)
    _drop(tx, relation, place, cascade=statement.cascade)


def drop_table_with_dependents(tx: OpenTransaction, statement: sql.DropTable) -> None:
    """DROP TABLE, with what views and rules say to it."""
    place = statement.name.place
    _drop(tx, tx.table(statement.name, place), place, cascade=statement.cascade)


def _drop(tx: OpenTransaction, relation: Relation, place: Place | None, *, cascade: bool) -> None:
    above = depending(tx.alive()).all_dependents([relation.id])
    users = [user for user in map(tx.by_id, above) if not isinstance(user, Auxiliary)]
    rules = [rule for rule in tx.active_rules() if not {relation.id, *above}.isdisjoint(rule.needs)]
    named = [*(user.name for user in users if not user.is_hidden), *(f"the rule {rule.name}" for rule in rules)]
    if named and not cascade:
        them, verb = ("it", "reads") if len(named) == 1 else ("them", "read")
        if rules:
            verb = "uses" if len(named) == 1 else "use"
        raise SqlError(
            f"{relation.name} cannot be dropped: {', '.join(sorted(named))} {verb} it",
            place=place,
            hint=f"DROP {relation.kind_words.upper()} {spelled(relation.name)} CASCADE drops {them} too",
        )
    for rule in rules:
        drop_active_rule(tx, rule)
    there = {each.id for each in tx.alive()}
    _drop_all(tx, [user for user in [*users, relation] if user.id in there])


def drop_named(tx: OpenTransaction, relation: Relation, place: Place | None) -> None:
    """Drops a relation that nothing else uses."""
    _drop(tx, relation, place, cascade=False)


def drop_active_rule(tx: OpenTransaction, rule: ActiveRule) -> None:
    """Drops a rule, the hidden relations that it has for itself, and its firings that wait."""
    tx.rules[rule.id] = None
    mine = [firing for firing in tx.state.waiting if firing.rule == rule.id]
    tx.waiting += [firing.ended(rule.name, "dropped with its rule", firing.rows) for firing in mine]
    _drop_all(tx, [relation for relation in map(tx.by_id, rule.own) if relation.is_hidden])


def _drop_all(tx: OpenTransaction, relations: Sequence[Relation]) -> None:
    hidden: list[str] = []
    for gone in relations:
        hidden += gone.definition.hidden if isinstance(gone, Derived) else ()
        tx.to_load.discard(gone.id)
        tx.drop(gone)
    _drop_unused(tx, tuple(hidden))


def _drop_unused(tx: OpenTransaction, keys: tuple[str, ...]) -> None:
    """Drops auxiliary relations that no view needs any more, each before those that it reads."""
    for key in reversed(keys):
        if any(relation.id == key for relation in tx.alive()) and not tx.dependents(key):
            tx.to_load.discard(key)
            relation = as_derived(tx.by_id(key))
            tx.drop(relation)
            _drop_unused(tx, relation.definition.beside)


def _view(tx: OpenTransaction, name: str, place: Place | None, verb: str) -> Derived:
    relation = tx.relation(name, place)
    if not isinstance(relation, Derived):
        raise wrong_kind(relation, verb, place)
    return relation


# EXPLAIN --------------------------------------------------------------------------------------------


def would_save(state: State, relation: Relation) -> str | None:
    """What WITH (auxiliary = true) would save for a virtual view that has none, in one line; None if nothing."""
    if not isinstance(relation, VirtualView) or relation.definition.hidden:
        return None
    parts = split(relation.definition.as_written, _new_id, _sorted_by(state.relations.get)).auxiliaries
    if not parts:
        return None
    scans = [scan for part in parts for scan in n.scans(part.node)]
    names = dict.fromkeys(state.relations[scan.relation].name for scan in scans if scan.relation in state.relations)
    stored = ", ".join(title(part.node) for part in parts)
    return f"WITH (auxiliary = true) would store {stored}: a change would no longer read {' and '.join(names)} for them"
