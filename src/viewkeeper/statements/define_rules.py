"""Active rules as definitions: creating, changing, activating and dropping them."""

from __future__ import annotations

import difflib
import re
import secrets
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from viewkeeper.algebra.cast import cast_table
from viewkeeper.algebra.rows import canonical, signed
from viewkeeper.algebra.schema import Column, Key, make_schema
from viewkeeper.algebra.types import parse_type, spelled
from viewkeeper.catalog.active_rules import (
    DETACHED,
    INSERTED,
    PYTHON,
    SQL,
    UPDATED,
    WEBHOOK,
    Action,
    ActiveRule,
)
from viewkeeper.catalog.relations import Relation, Table
from viewkeeper.errors import (
    AlreadyExists,
    ConstraintViolation,
    EngineError,
    Name,
    NotFound,
    Place,
    SqlError,
    TypeMismatch,
    ViewkeeperError,
    place_of,
)
from viewkeeper.query.frames import at_place, select_frame
from viewkeeper.rules.actions import CONDITION_BEGINS, Actions
from viewkeeper.rules.bound_texts import bound, check_names, literal, parameters_in, unbound
from viewkeeper.rules.transitions import TABLES
from viewkeeper.rules.watching import PARAMETER, key_of
from viewkeeper.rules.webhooks import url_problem
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.dialect import OLD_STATE, SourceText, parse_after
from viewkeeper.sql.query_text import QueryText
from viewkeeper.sql.rule_effects import CHANGING, queries_in
from viewkeeper.sql.table_references import find_references
from viewkeeper.sql.tokens import Statement, split
from viewkeeper.statements.define_views import create_hidden_view, drop_active_rule
from viewkeeper.statements.triggering_rules import remarks_on
from viewkeeper.store.bounds import Keys
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.row_changes import apply_rows
from viewkeeper.transaction.trial import try_definitions


def find_rule(tx: OpenTransaction, name: str) -> ActiveRule | None:
    """The rule of a name, without regard to case."""
    return next((rule for rule in tx.active_rules() if rule.name.lower() == name.lower()), None)


def rule_named(tx: OpenTransaction, name: str) -> ActiveRule:
    """The rule of a name, or NotFound with the nearest one."""
    found = find_rule(tx, name)
    if found is None:
        names = [rule.name for rule in tx.active_rules()]
        near = difflib.get_close_matches(name.lower(), [known.lower() for known in names], 1)
        hint = f"did you mean '{near[0]}'?" if near else "SHOW RULES lists the rules"
        raise NotFound(f"there is no rule named '{name}'", place=place_of(name), hint=hint)
    return found


# creating -----------------------------------------------------------------------------------------


def create_rule(tx: OpenTransaction, statement: sql.CreateRule, actions: Actions) -> None:
    """CREATE [OR REPLACE] RULE."""
    there = find_rule(tx, statement.name)
    if there is not None and not statement.or_replace:
        raise AlreadyExists(
            f"there is already a rule named '{there.name}'",
            place=statement.name.place,
            hint=f"DROP RULE {spelled(there.name)}, or CREATE OR REPLACE RULE",
        )
    _check_options(statement)
    with tx.defining():
        if there is not None:
            drop_active_rule(tx, there)
        rule = _made(tx, statement)
        tx.rules[rule.id] = rule
        if isinstance(statement.action, sql.Webhook) and statement.action.secret is None:
            tx.remarks.append(f"the secret that signs the documents is {rule.action.secret}: it is not shown again")
        try:
            _check_texts(tx, statement, rule)
        except ViewkeeperError as problem:
            if problem.place is not None and isinstance(statement.action, SourceText):
                problem.place = replace(problem.place, text=statement.action.whole)
            raise
        try_definitions(tx, lambda _: statement.name.place)
        _check_action(tx, statement, rule, actions)
    tx.remarks += remarks_on(tx, statement.name)


def _check_options(statement: sql.CreateRule) -> None:
    place = statement.name.place
    if statement.nervous and statement.events != (INSERTED,):
        raise SqlError(
            "a nervous rule reacts to inserted rows alone", place=place, hint="write WHEN INSERTED, or STRICT"
        )
    if isinstance(statement.action, sql.Webhook):
        if statement.coupling != DETACHED:
            raise SqlError(
                "a webhook cannot be called inside a transaction, which may still be rolled back",
                place=place,
                hint=f"CREATE RULE {spelled(statement.name)} DETACHED ...",
            )
        problem = url_problem(statement.action.url)
        if problem is not None:
            raise SqlError(problem, place=place, hint="DO WEBHOOK 'https://example.com/hook'")
        if statement.each_row:
            hint = "leave out FOR EACH ROW: the document has all rows of a firing"
            raise SqlError("a webhook is called once for a firing", place=place, hint=hint)


def _made(tx: OpenTransaction, statement: sql.CreateRule) -> ActiveRule:
    """The rule, with the hidden relations that it needs."""
    key = uuid.uuid4().hex[:16]
    source = statement.source
    if isinstance(source, SourceText):
        check_names(source, source.whole, source.start, {f":{name.lower()}": "" for name, _ in statement.parameters})
    activations: Relation | None = None
    if not isinstance(source, Name):
        check_names(source, source.whole, source.start, {f":{name.lower()}": "" for name, _ in statement.parameters})
    if statement.parameters:
        activations = _activations(tx, statement, key)
    if isinstance(source, Name):
        relation = tx.relation(source, source.place)
        hint = "declare a PRIMARY KEY" if isinstance(relation, Table) else "give the view the key of a table"
    else:
        hint = "select the key of a table too"
        relation = _query_view(tx, statement, f"_vk_rule_{key}", source, activations)
    rule = ActiveRule(
        key,
        str(statement.name),
        relation.id,
        relation.id,
        statement.events,
        statement.coupling,
        statement.nervous,
        statement.priority,
        1 + max((rule.order for rule in tx.active_rules()), default=0),
        str(statement.condition) if statement.condition is not None else None,
        statement.each_row,
        _action(statement),
        tuple((str(name), kind.ddl) for name, kind in statement.parameters),
        None if activations is None else activations.id,
        text=statement.text,
        query="" if isinstance(source, Name) else str(source),
    )
    if UPDATED in statement.events and key_of(tx, relation) is None:
        raise SqlError(
            f"rows of {_called(statement)} have no key, so none of them can be seen to be updated",
            place=statement.name.place,
            hint=f"{hint}, or write WHEN INSERTED OR DELETED",
        )
    if rule.nervous or (isinstance(relation, Table) and key_of(tx, relation) is not None):
        return rule
    try:
        distinct = _view(tx, statement, f"_vk_distinct_{key}", f"SELECT DISTINCT * FROM {spelled(relation.name)}")
    except ViewkeeperError as problem:
        problem.place = statement.name.place
        raise
    return replace(rule, watched=distinct.id)


def _called(statement: sql.CreateRule) -> str:
    return str(statement.source) if isinstance(statement.source, Name) else "the query"


def _action(statement: sql.CreateRule) -> Action:
    action = statement.action
    if isinstance(action, sql.PythonAction):
        return Action(PYTHON, action.name)
    if isinstance(action, sql.Webhook):
        secret = action.secret if action.secret is not None else secrets.token_hex(32)
        return Action(WEBHOOK, action.url, secret, action.timeout, action.allow_private)
    return Action(SQL, str(action))


def _activations(tx: OpenTransaction, statement: sql.CreateRule, key: str) -> Relation:
    """The table with one row for each activation."""
    used = parameters_in(statement.source) if not isinstance(statement.source, Name) else set()
    for name, _ in statement.parameters:
        if name.lower() not in used:
            raise SqlError(
                f"the parameter {name} is not used by the query that the rule watches",
                place=name.place,
                hint=f"ON (SELECT ... WHERE column = :{name})",
            )
    columns = [Column(str(name), kind, nullable=False) for name, kind in statement.parameters]
    schema = make_schema(columns, [Key(tuple(column.name for column in columns), primary=True)])
    return tx.create(f"_vk_activations_{key}", schema)


def _query_view(
    tx: OpenTransaction, statement: sql.CreateRule, name: str, query: SourceText, activations: Relation | None
) -> Relation:
    """The virtual view of a query in brackets; one with parameters is joined with the activations."""
    if activations is None:
        return _view(tx, statement, name, query)
    given = {f":{column.name.lower()}": f"_vk_a.{spelled(column.name)}" for column in activations.schema}
    columns = ", ".join(f"_vk_a.{spelled(c.name)} AS {spelled(PARAMETER + c.name)}" for c in activations.schema)
    before = f"SELECT {columns}, _vk_q.* FROM {activations.name} _vk_a, LATERAL ("
    try:
        return _view(tx, statement, name, f"{before}{bound(query, given)}) _vk_q")
    except ViewkeeperError as problem:
        _locate(problem, statement, query, given, len(before))
        raise


def _view(tx: OpenTransaction, statement: sql.CreateRule, name: str, query: str) -> Relation:
    rule = statement.name
    return create_hidden_view(tx, name, query, Name.at(f"the query of {rule}", rule.text, rule.start, rule.end))


# checking texts -----------------------------------------------------------------------------------


def _known_names(tx: OpenTransaction, rule: ActiveRule) -> dict[str, str]:
    """SQL for the parameters, and for the columns of a row: NULL of their types."""
    found = {f":{name.lower()}": literal(None, parse_type(kind)) for name, kind in rule.parameters}
    if rule.each_row:
        for column in _shown(tx, rule):
            for row in ("new", "old"):
                found[f"{row}.{column.name.lower()}"] = literal(None, column.type)
    return found


def _shown(tx: OpenTransaction, rule: ActiveRule) -> list[Column]:
    """The columns of the transition tables."""
    return [column for column in tx.by_id(rule.watched).schema if not column.name.startswith(PARAMETER)]


def _check_texts(tx: OpenTransaction, statement: sql.CreateRule, rule: ActiveRule) -> None:
    """Raises for what the condition and the action name and is not there; notes the relations that they use."""
    known = _known_names(tx, rule)
    uses: dict[str, None] = {}
    texts = [text for text in (statement.condition, statement.action) if isinstance(text, SourceText)]
    for text in texts:
        check_names(text, text.whole, text.start, known)
    trees: list[exp.Expr] = []
    if statement.condition is not None:
        trees.append(parse_after("SELECT 1 WHERE (", statement.condition, ")"))
    for part in _parts(statement.action) if isinstance(statement.action, SourceText) else ():
        with _shown_in(part.text):
            parsed = sql.parse(part)
            if not isinstance(parsed, CHANGING):
                raise SqlError(
                    f"the action of a rule changes tables: {part.tokens[0].text.upper()} cannot stand in it",
                    place=Place.at(part.text, part.start, len(part.tokens[0].text)),
                    hint="use INSERT, UPDATE, DELETE, MERGE or TRUNCATE",
                )
            uses[_changed(tx, parsed.table).id] = None
            trees += queries_in(parsed)
            source = parsed.source if isinstance(parsed, sql.Merge) else None
            if isinstance(source, Name) and source.lower() not in TABLES:
                uses[tx.relation(source, source.place).id] = None
    for tree in trees:
        for reference in find_references(tree):
            name = reference.name.removesuffix(OLD_STATE)
            if name.lower() not in TABLES and (found := tx.find(name)) is not None:
                uses[found.id] = None
    tx.rules[rule.id] = replace(rule, uses=tuple(uses))


def _changed(tx: OpenTransaction, name: Name) -> Relation:
    """The table that a statement of an action changes."""
    if name.lower() in TABLES and tx.find(name) is None:
        raise SqlError(
            f"{name} is a transition table: an action can only read it",
            place=name.place,
            hint="change the table that the rule watches, or another one",
        )
    return tx.table(name, name.place)


@contextmanager
def _shown_in(text: str) -> Iterator[None]:
    """Lets errors show their position in a text of which only one statement was read."""
    try:
        yield
    except ViewkeeperError as problem:
        problem.place = problem.place and replace(problem.place, text=text)
        raise


def _locate(
    problem: ViewkeeperError, statement: sql.CreateRule, piece: SourceText, values: Mapping[str, str], shift: int = 0
) -> None:
    """Sets the position of an error in a text that has values in it, after `shift` letters, to that in the piece."""
    place, problem.place = problem.place, statement.name.place
    if place is None:
        return
    at = place.offset - shift
    start, end = unbound(piece, values, at, at + place.length)
    if not 0 <= start < end <= len(piece):
        return
    problem.place = Place.at(piece.whole, piece.start + start, end - start)
    if not statement.each_row and re.search(r"\b(new|old)\.\w+$", piece[:end], re.IGNORECASE):
        problem.hint = "without FOR EACH ROW, new and old are tables: SELECT ... FROM new"


def _parts(action: SourceText) -> list[Statement]:
    """The statements of an action, with their places in the whole text."""
    before = "\n".join(" " * len(line) for line in action.whole[: action.start].split("\n"))
    return [replace(part, text=action.whole) for part in split(before + action)]


def _check_action(tx: OpenTransaction, statement: sql.CreateRule, rule: ActiveRule, actions: Actions) -> None:
    """Runs the condition and the action once where all tables are empty: what the engine refuses is refused here."""
    there = {relation.id: replace(relation, files=()) for relation in tx.alive()}
    trial = OpenTransaction(tx.store, replace(tx.state, relations=there, rules={}))
    known = _known_names(tx, rule)
    columns = _shown(tx, rule)
    schema = make_schema((Column(c.name, c.type) for c in columns), ())
    empty = tx.store.engine.arrow(schema.arrow.empty_table(), schema, "")
    trial.given = dict.fromkeys(TABLES, empty)
    try:
        if statement.condition is not None:
            with _found_in("condition", statement, statement.condition, known, len(CONDITION_BEGINS)):
                actions.holds(trial, bound(statement.condition, known))
        if isinstance(statement.action, SourceText):
            with _found_in("action", statement, statement.action, known):
                actions.statements(trial, bound(statement.action, known))
    finally:
        trial.discard()


@contextmanager
def _found_in(
    what: str, statement: sql.CreateRule, piece: SourceText, values: Mapping[str, str], shift: int = 0
) -> Iterator[None]:
    """Lets errors of a trial name the part of the rule, and show their position in it; some need not happen later."""
    try:
        yield
    except ViewkeeperError as problem:
        if _depends_on_values(problem):
            return
        _locate(problem, statement, piece, values, shift)
        where = f"found in the {what} of the rule"
        problem.detail = f"{problem.detail}; {where}" if problem.detail else where
        problem.statement = None
        raise


def _depends_on_values(problem: ViewkeeperError) -> bool:
    """Whether an error may be due to the NULLs that stand for values: a wrong number of columns is not."""
    if isinstance(problem, TypeMismatch):
        return problem.place is None
    return isinstance(problem, (ConstraintViolation, EngineError))


# changing and dropping ----------------------------------------------------------------------------


def alter_rule(tx: OpenTransaction, statement: sql.AlterRule) -> None:
    """ALTER RULE name ENABLE | DISABLE."""
    rule = rule_named(tx, statement.name)
    if rule.enabled != statement.enabled:
        tx.rules[rule.id] = replace(rule, enabled=statement.enabled)


def drop_rule(tx: OpenTransaction, statement: sql.DropRule) -> None:
    """DROP RULE [IF EXISTS]."""
    if statement.if_exists and find_rule(tx, statement.name) is None:
        return
    drop_active_rule(tx, rule_named(tx, statement.name))


def activate(tx: OpenTransaction, statement: sql.Activate) -> int:
    """ACTIVATE and DEACTIVATE RULE name (values); how many activations it made or ended."""
    rule = rule_named(tx, statement.name)
    if rule.activations is None:
        raise SqlError(
            f"the rule {rule.name} has no parameters: it is active",
            place=statement.name.place,
            hint=f"ALTER RULE {spelled(rule.name)} DISABLE or ENABLE",
        )
    table = tx.by_id(rule.activations)
    assert isinstance(table, Table)
    row = _values(tx, statement, table)
    there = tx.key_weights(table, Keys(row, table.schema.subset(table.schema.names), tx.store.tuning))
    present = there.num_rows > 0
    if present == statement.active:
        return 0
    apply_rows(tx, table, signed(row, 1 if statement.active else -1))
    return 1


def _values(tx: OpenTransaction, statement: sql.Activate, table: Table) -> pa.Table:
    """The values of an activation as a row of its table."""
    query = QueryText.of(f"SELECT {statement.values}")
    try:
        given = tx.store.engine.collect(select_frame(tx, query))
    except ViewkeeperError as problem:
        found = at_place(problem, None)
        found.place, found.hint = statement.name.place, "give values, not columns"
        raise found from None
    if given.num_columns != len(table.schema):
        raise TypeMismatch(
            f"{statement.name} takes {_counted(len(table.schema))}, {given.num_columns} given",
            place=statement.name.place,
            hint=_parameters(table),
        )
    missing = [name for name, column in zip(table.schema.names, given.columns, strict=True) if column.null_count]
    if missing:
        raise TypeMismatch(
            f"the parameter {missing[0]} of {statement.name} cannot be NULL",
            place=statement.name.place,
            hint=_parameters(table),
        )
    try:
        row = cast_table(given.rename_columns(table.schema.names), table.schema, statement.name, tx.zone)
    except TypeMismatch as problem:
        problem.message = problem.message.replace("column", "parameter", 1)
        problem.place, problem.hint = statement.name.place, _parameters(table)
        raise
    return canonical(row, table.schema)


def _counted(number: int) -> str:
    return f"{number} value" if number == 1 else f"{number} values"


def _parameters(table: Table) -> str:
    names = ", ".join(f"{c.name} {c.type}" for c in table.schema)
    return f"its parameter is {names}" if len(table.schema) == 1 else f"its parameters are {names}"


def retry(tx: OpenTransaction, statement: sql.RetryRule) -> int:
    """RETRY RULE name [EPOCH n]: parked firings are due again; how many they are."""
    rule = rule_named(tx, statement.name)
    parked = [firing for firing in tx.state.waiting if firing.rule == rule.id and firing.parked]
    chosen = [firing for firing in parked if statement.epoch in (None, firing.epoch)]
    if statement.epoch is not None and not chosen:
        epochs = ", ".join(str(firing.epoch) for firing in parked)
        hint = f"its parked firings are of epoch {epochs}" if parked else "SHOW RULE FIRINGS lists the firings"
        raise NotFound(
            f"{rule.name} has no parked firing of epoch {statement.epoch}", place=statement.name.place, hint=hint
        )
    for firing in chosen:
        tx.waiting.append(replace(firing, attempts=0, due=0.0, parked="", problem="").to_json())
    return len(chosen)
