"""Foreign keys: assertions that every referenced key exists when a transaction commits.

A foreign key is broken by the rows of  σ[no column NULL](child) ▷ parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Equality, Numbers, conjunction, not_null
from viewkeeper.algebra.schema import ForeignKey, Schema
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.relations import Relation, Table
from viewkeeper.errors import ConstraintViolation, NotFound, Place, SqlError, TypeMismatch, place_of
from viewkeeper.transaction.assertions import Assertion
from viewkeeper.transaction.open_transaction import OpenTransaction


def resolved(tx: OpenTransaction, name: str, schema: Schema) -> Schema:
    """A new table's schema with its foreign keys checked against the tables that they name."""
    if not schema.references:
        return schema
    return replace(schema, references=tuple(_resolved(tx, name, schema, key) for key in schema.references))


def _resolved(tx: OpenTransaction, name: str, schema: Schema, key: ForeignKey) -> ForeignKey:
    place = place_of(key.table)
    parent: Schema
    if key.table.lower() == name.lower():
        called, parent = str(name), schema
    else:
        there = tx.find(key.table)
        if there is None:
            raise no_such_table(key.table, tx.names(), place)
        if not isinstance(there, Table):
            raise SqlError(f"{key} names a {there.kind_words}", place=place, hint="reference a table")
        called, parent = there.name, there.schema
    if not key.referenced and parent.primary_key is None:
        raise SqlError(f"{called} has no PRIMARY KEY", place=place, hint=f"name a key of it: REFERENCES {called} (...)")
    wanted = key.referenced or (parent.primary_key.columns if parent.primary_key is not None else ())
    for column in wanted:
        if parent.find(column) is None:
            raise NotFound(
                f"there is no column '{column}' in {called}",
                place=place_of(column),
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
    """The other tables whose foreign keys reference a table."""
    others = [other for other in tx.alive() if isinstance(other, Table) and other.id != relation.id]
    return [o for o in others if any(k.table.lower() == relation.name.lower() for k in o.schema.references)]


def check_not_referenced(tx: OpenTransaction, relation: Relation, place: Place | None) -> None:
    """Refuses to drop a table that foreign keys of other tables reference."""
    others = referring(tx, relation)
    if others:
        names = ", ".join(sorted(other.name for other in others))
        raise SqlError(
            f"{relation.name} cannot be dropped: foreign keys of {names} name it",
            place=place,
            hint="drop those first",
        )


def assertions(tx: OpenTransaction) -> list[Assertion]:
    """The foreign keys from or to a table that the transaction changes."""
    changed = tx.changed
    found = []
    for child in tx.alive():
        for key in child.schema.references if isinstance(child, Table) else ():
            parent = tx.find(key.table)
            assert parent is not None, "it cannot be dropped while it is referenced"
            if {child.id, parent.id} & changed:
                found.append(_assertion(child, key, parent))
    return found


def _assertion(child: Relation, key: ForeignKey, parent: Relation) -> Assertion:
    """σ[no column NULL](child) ▷ parent is empty."""
    numbers = Numbers()
    ours = [numbers.attribute(name, child.schema.column(name).type) for name in key.columns]
    theirs = [numbers.attribute(name, parent.schema.column(name).type) for name in key.referenced]
    present = tuple(not_null(attribute) for attribute in ours)
    left = n.Filter(_scan(child, ours, key.columns), conjunction(present))
    pairs = tuple(Equality(one, other) for one, other in zip(ours, theirs, strict=True))
    lost = n.Exists(left, _scan(parent, theirs, key.referenced), pairs, negated=True)

    def violated(rows: Sequence[Mapping[str, Any]]) -> ConstraintViolation:
        row = rows[0]
        shown = ", ".join(f"{name} = {row[name]!r}" for name in key.columns)
        return ConstraintViolation(
            f"{key} of {child.name} is broken: {parent.name} has no row for {shown}",
            hint=f"insert it into {parent.name} in the same transaction, or delete what refers to it",
        )

    return Assertion(lost, violated)


def _scan(relation: Relation, attributes: list[Attribute], names: tuple[str, ...]) -> n.Scan:
    return n.Scan(relation.id, relation.name, tuple(attributes), n.NEW, names)
