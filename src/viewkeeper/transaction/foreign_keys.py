"""Foreign keys: what is there of a table must be there as a key of another, when a transaction commits.

A foreign key is broken by the rows of  σ[no column NULL](child) ▷ parent. Before the transaction there are none, so
what it breaks is what it adds to that, worked out as the change of any anti join is.
"""

from __future__ import annotations

from dataclasses import replace

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Equality, Numbers, conjunction, text
from viewkeeper.algebra.schema import WEIGHT, ForeignKey, Schema
from viewkeeper.catalog.definition import TABLE
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.state import Relation
from viewkeeper.delta.compile import differentiate
from viewkeeper.engine.connect_columns import parsed
from viewkeeper.engine.lowering import Lowering
from viewkeeper.errors import ConstraintViolation, NotFound, SqlError, TypeMismatch
from viewkeeper.maintain.state_reader import StateReader
from viewkeeper.sql.table_references import place_of_name
from viewkeeper.transaction.open_transaction import OpenTransaction


def resolved(tx: OpenTransaction, name: str, schema: Schema, whole: str) -> Schema:
    """A new table's schema with its foreign keys checked against the tables that they name."""
    if not schema.references:
        return schema
    return replace(schema, references=tuple(_resolved(tx, name, schema, key, whole) for key in schema.references))


def _resolved(tx: OpenTransaction, name: str, schema: Schema, key: ForeignKey, whole: str) -> ForeignKey:
    place = place_of_name(key.table, whole)
    parent: Schema
    if key.table.lower() == name.lower():
        called, parent = name, schema
    else:
        there = tx.find(key.table)
        if there is None:
            raise no_such_table(key.table, tx.names(), place)
        if there.kind != TABLE:
            raise SqlError(f"{key} names a {there.kind_words}", place=place, hint="reference a table")
        called, parent = there.name, there.schema
    if not key.referenced and parent.primary_key is None:
        raise SqlError(f"{called} has no PRIMARY KEY", place=place, hint=f"name a key of it: REFERENCES {called} (...)")
    wanted = key.referenced or (parent.primary_key.columns if parent.primary_key is not None else ())
    for column in wanted:
        if parent.find(column) is None:
            raise NotFound(
                f"there is no column '{column}' in {called}",
                place=place,
                hint=f"its columns are {', '.join(parent.names)}",
            )
    names = tuple(parent.column(column).name for column in wanted)
    if set(names) not in [set(declared.columns) for declared in parent.keys]:
        raise SqlError(
            f"({', '.join(names)}) is no key of {called}",
            place=place,
            hint=f"declare it PRIMARY KEY or UNIQUE there; its keys are {', '.join(map(str, parent.keys)) or 'none'}",
        )
    if len(names) != len(key.columns):
        raise SqlError(f"{key} pairs {len(key.columns)} columns with {len(names)}", place=place, hint="name as many")
    for ours, theirs in zip(key.columns, names, strict=True):
        if schema.column(ours).type != parent.column(theirs).type:
            raise TypeMismatch(
                f"{ours} is {schema.column(ours).type}, and {theirs} of {called} is {parent.column(theirs).type}",
                place=place,
                hint="give both the same type",
            )
    return ForeignKey(key.columns, called, names)


def referring(tx: OpenTransaction, relation: Relation) -> list[Relation]:
    """The other tables whose foreign keys name a table."""
    others = [other for other in tx.alive() if other.kind == TABLE and other.id != relation.id]
    return [o for o in others if any(k.table.lower() == relation.name.lower() for k in o.schema.references)]


def check_not_referenced(tx: OpenTransaction, relation: Relation, whole: str) -> None:
    """Refuses to drop a table that foreign keys of others name."""
    others = referring(tx, relation)
    if others:
        names = ", ".join(sorted(other.name for other in others))
        raise SqlError(
            f"{relation.name} cannot be dropped: foreign keys of {names} name it",
            place=place_of_name(relation.name, whole),
            hint="drop those first",
        )


def has_references(tx: OpenTransaction) -> bool:
    """Whether the transaction changes a table that has a foreign key or is named by one."""
    return any(True for _ in _touched(tx))


def check_references(tx: OpenTransaction) -> None:
    """Refuses a transaction that breaks a foreign key."""
    for child, key, parent in _touched(tx):
        _check(tx, child, key, parent)


def _touched(tx: OpenTransaction) -> list[tuple[Relation, ForeignKey, Relation]]:
    changed = tx.changed
    found = []
    for child in tx.alive():
        for key in child.schema.references if child.kind == TABLE else ():
            parent = tx.find(key.table)
            assert parent is not None, "it cannot be dropped while it is referenced"
            if {child.id, parent.id} & changed:
                found.append((child, key, parent))
    return found


def _check(tx: OpenTransaction, child: Relation, key: ForeignKey, parent: Relation) -> None:
    numbers = Numbers()
    ours = [numbers.attribute(name, child.schema.column(name).type) for name in key.columns]
    theirs = [numbers.attribute(name, parent.schema.column(name).type) for name in key.referenced]
    there = tuple(text("{} IS NOT NULL", attribute) for attribute in ours)
    left = n.Filter(_scan(child, ours, key.columns), conjunction(there))
    pairs = tuple(Equality(one, other) for one, other in zip(ours, theirs, strict=True))
    lost = n.Exists(left, _scan(parent, theirs, key.referenced), pairs, negated=True)
    change = differentiate(lost, tx.changed & {child.id, parent.id})
    if change is None:
        return
    engine = tx.store.engine
    lowered = Lowering(engine, StateReader.of(tx)).lower(n.Net(change))
    if lowered.empty:
        return
    broken = engine.fetch(lowered.frame.filter(parsed(f"{WEIGHT} > 0")).limit(1))
    if broken.num_rows:
        values = [broken.column(attribute.label)[0].as_py() for attribute in ours]
        shown = ", ".join(f"{name} = {value!r}" for name, value in zip(key.columns, values, strict=True))
        raise ConstraintViolation(
            f"{key} of {child.name} is broken: {parent.name} has no row for {shown}",
            hint=f"insert it into {parent.name} in the same transaction, or delete what refers to it",
        )


def _scan(relation: Relation, attributes: list[Attribute], names: tuple[str, ...]) -> n.Scan:
    return n.Scan(relation.id, relation.name, tuple(attributes), n.NEW, names)
