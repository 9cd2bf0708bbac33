"""CREATE, ALTER and DROP of views, with their auxiliary relations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.printing import title
from viewkeeper.algebra.serial import to_json
from viewkeeper.algebra.types import spelled
from viewkeeper.catalog.active_rules import UPDATED, ActiveRule
from viewkeeper.catalog.definition import VIEW, Definition
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
from viewkeeper.maintain.redefining import compared
from viewkeeper.plan.auxiliary import split
from viewkeeper.plan.group_state import group_by_of, group_state
from viewkeeper.plan.maintainable import unbound, unsteady
from viewkeeper.query.programs import made_again
from viewkeeper.query.view_queries import Made, define
from viewkeeper.rules.watching import key_of
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.dialect import SourceText
from viewkeeper.sql.sail_functions import check_on_sail
from viewkeeper.sql.view_statements import does_not_apply
from viewkeeper.statements.auxiliary_relations import new_id, sorted_by, with_auxiliaries
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
    state = group_state(node)
    below = node if state is None else state.node.input  # the view itself stores what is above
    for call in unsteady(below) if alone and definition.refresh != "full" else ():
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
        if isinstance(part, n.Aggregate) and part.whole and not (part is group_by_of(node) and _is_sum(node)):
            yield "an aggregate without GROUP BY and with auxiliary = false is computed over all rows", "leave that out"
        if isinstance(part, n.Top) and part.limit is not None and not part.partition:
            yield "ORDER BY ... LIMIT with auxiliary = false is computed over all rows", "leave that out"
        if isinstance(part, n.Exists) and asks_for_any_row(part) and any(True for _ in n.scans(part.right)):
            yield "EXISTS without an equality and with auxiliary = false reads all rows", "leave that out"


def _is_sum(node: n.Node) -> bool:
    """Whether a view holds the state of a group-by of counts and sums, which never reads its input again."""
    state = group_state(node)
    return state is not None and all(c.text is None and c.function in ("count", "sum") for c in state.node.calls)


def create_made(tx: OpenTransaction, name: str, definition: Definition, made: Made) -> None:
    """Creates a view; the initial load of a stored one happens at the commit."""
    definition = with_auxiliaries(tx, definition, made.node)
    state = definition.group_state
    schema = made.schema if state is None else replace(made.schema, order=state.order(made.schema.names))
    relation = tx.create(name, schema, definition)
    tx.untried.add(relation.id)
    if definition.is_stored:
        tx.to_load.add(relation.id)


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
        _drop_unused(tx, _serving(relation))


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
    before = _serving(relation)
    tx.defined[relation.id] = with_auxiliaries(tx, definition, made.node, relation, others)
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
        hidden += _serving(gone) if isinstance(gone, Derived) else ()
        tx.to_load.discard(gone.id)
        tx.drop(gone)
    _drop_unused(tx, tuple(hidden))


def _serving(relation: Derived) -> tuple[str, ...]:
    """The ids of the hidden relations that a view or auxiliary relation needs."""
    definition = relation.definition
    return (*definition.hidden, *definition.beside)


def _drop_unused(tx: OpenTransaction, keys: tuple[str, ...]) -> None:
    """Drops auxiliary relations that no view needs any more, each before those that it reads."""
    for key in reversed(keys):
        if any(relation.id == key for relation in tx.alive()) and not tx.dependents(key):
            tx.to_load.discard(key)
            relation = as_derived(tx.by_id(key))
            tx.drop(relation)
            _drop_unused(tx, _serving(relation))


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
    query = relation.definition.as_written
    parts = split(query, new_id, sorted_by(state.relations.get), holds=lambda _: False).auxiliaries
    if not parts:
        return None
    scans = [scan for part in parts for scan in n.scans(part.node)]
    names = dict.fromkeys(state.relations[scan.relation].name for scan in scans if scan.relation in state.relations)
    stored = ", ".join(title(part.node) for part in parts)
    return f"WITH (auxiliary = true) would store {stored}: a change would no longer read {' and '.join(names)} for them"
