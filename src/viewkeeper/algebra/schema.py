"""Schemas: the columns and keys of a relation. Names keep their case and are compared without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.types import Type, parse_type, quote
from viewkeeper.errors import NotFound, SqlError, TypeMismatch, place_of

WEIGHT = "_weight"
EPOCH = "_epoch"
RESERVED = ("_weight", "_epoch", "_diff", "_progressed")
RESERVED_PREFIX = "_vk"

SORTED = 4
"""Most columns that files are sorted by, unless they are a key."""


@dataclass(frozen=True)
class Column:
    """A column: its name, type, and whether it may be NULL."""

    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint. NULLs of a UNIQUE are distinct from each other."""

    columns: tuple[str, ...]
    primary: bool

    def __str__(self) -> str:
        return f"{'PRIMARY KEY' if self.primary else 'UNIQUE'} ({', '.join(self.columns)})"


@dataclass(frozen=True)
class ForeignKey:
    """FOREIGN KEY (columns) REFERENCES table (referenced): values that are not NULL must exist as a key of the table.

    `referenced` is empty where the PRIMARY KEY is meant and not yet looked up.
    """

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = f" ({', '.join(self.referenced)})" if self.referenced else ""
        return f"FOREIGN KEY ({', '.join(self.columns)}) REFERENCES {self.table}{named}"


@dataclass(frozen=True)
class Schema:
    """The columns and keys of a relation. `order`: the columns that sort files, if keys or positions do not decide."""

    columns: tuple[Column, ...]
    keys: tuple[Key, ...] = ()
    references: tuple[ForeignKey, ...] = ()
    order: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def names(self) -> list[str]:
        """Column names in order."""
        return [column.name for column in self.columns]

    @cached_property
    def primary_key(self) -> Key | None:
        """The PRIMARY KEY, if there is one."""
        return next((key for key in self.keys if key.primary), None)

    def key_among(self, names: Collection[str]) -> tuple[str, ...]:
        """The columns of the PRIMARY KEY, if all of them are among some columns: they tell rows apart; else none."""
        key = self.primary_key
        return key.columns if key is not None and set(key.columns) <= set(names) else ()

    @cached_property
    def is_set(self) -> bool:
        """Whether no row can occur twice: some key has no column that may be NULL."""
        return any(not any(self.column(name).nullable for name in key.columns) for key in self.keys)

    @cached_property
    def sort_columns(self) -> tuple[str, ...]:
        """The columns that sort files: `order`, the primary key, the first key, or the first columns with an order."""
        if self.order:
            return self.order
        if self.keys:
            return (self.primary_key or self.keys[0]).columns
        return tuple(column.name for column in self.columns if not column.type.is_nested)[:SORTED]

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of plain rows."""
        return pa.schema([pa.field(column.name, column.type.arrow) for column in self.columns])

    @cached_property
    def signed_arrow(self) -> pa.Schema:
        """The Arrow schema of signed rows: the columns and a weight."""
        return self.arrow.append(pa.field(WEIGHT, pa.int64()))

    @cached_property
    def stored_arrow(self) -> pa.Schema:
        """The Arrow schema of a batch file: the columns, a weight and an epoch."""
        return self.signed_arrow.append(pa.field(EPOCH, pa.int64()))

    @cached_property
    def ddl(self) -> str:
        """The columns as a Spark schema text."""
        return ", ".join(f"{quote(column.name)} {column.type.ddl}" for column in self.columns)

    def find(self, name: str) -> Column | None:
        """The column of that name, without regard to case."""
        return self._by_name.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name.lower(): column for column in reversed(self.columns)}

    def column(self, name: str, relation: str = "") -> Column:
        """The column of that name, or NotFound, which lists the columns."""
        found = self.find(name)
        if found is None:
            where = f" in {relation}" if relation else ""
            hint = f"its columns are {', '.join(self.names)}"
            raise NotFound(f"there is no column '{name}'{where}", place=place_of(name), hint=hint)
        return found

    def subset(self, names: Iterable[str]) -> Schema:
        """A schema of some columns, without keys."""
        return Schema(tuple(self.column(name) for name in names))

    def to_json(self) -> dict[str, object]:
        """The schema as JSON, for the ledger."""
        body: dict[str, object] = {
            "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in self.columns],
            "keys": [{"columns": list(key.columns), "primary": key.primary} for key in self.keys],
        }
        if self.references:
            body["references"] = [
                {"columns": list(key.columns), "table": key.table, "referenced": list(key.referenced)}
                for key in self.references
            ]
        if self.order:
            body["order"] = list(self.order)
        return body

    @staticmethod
    def from_json(body: dict[str, Any]) -> Schema:
        """The inverse of to_json."""
        columns = tuple(
            Column(str(c["name"]), parse_type(str(c["type"])), bool(c["nullable"])) for c in body["columns"]
        )
        keys = tuple(Key(tuple(k["columns"]), bool(k["primary"])) for k in body["keys"])
        references = tuple(
            ForeignKey(tuple(k["columns"]), str(k["table"]), tuple(k["referenced"])) for k in body.get("references", ())
        )
        return Schema(columns, keys, references, tuple(body.get("order", ())))


def make_schema(columns: Iterable[Column], keys: Iterable[Key], references: Iterable[ForeignKey] = ()) -> Schema:
    """A checked schema: names unique and not reserved, keys on columns that have an equality, key columns NOT NULL.

    An error points at the wrong name in the user's text. Names of tables in foreign keys keep their positions.
    """
    listed = list(columns)
    keyed = list(keys)
    if not listed:
        raise SqlError("a table needs at least one column")
    seen: set[str] = set()
    for column in listed:
        _check_name(column.name, seen)
    by_name = {column.name.lower(): column for column in listed}
    checked: list[Key] = []
    for key in keyed:
        names = []
        for name in key.columns:
            found = by_name.get(name.lower())
            if found is None:
                raise NotFound(
                    f"{key} names a column '{name}' that the table does not have",
                    place=place_of(name),
                    hint=f"its columns are {', '.join(c.name for c in listed)}",
                )
            if found.type.has_map():
                raise TypeMismatch(
                    f"column '{found.name}' of type {found.type} cannot be in a key: a MAP has no order",
                    place=place_of(name),
                    hint="take another column, or keep the map's entries as ARRAY<STRUCT<...>>",
                )
            names.append(str(found.name))
        checked.append(Key(tuple(names), key.primary))
    if sum(key.primary for key in checked) > 1:
        second = [key for key in keyed if key.primary][1]
        raise SqlError(
            "a table has at most one PRIMARY KEY", place=place_of(second.columns[0]), hint="declare the others UNIQUE"
        )
    primary = {name for key in checked if key.primary for name in key.columns}
    final = tuple(Column(str(c.name), c.type, c.nullable and c.name not in primary) for c in listed)
    refers = tuple(ForeignKey(_named(key, by_name), key.table, key.referenced) for key in references)
    return Schema(final, tuple(dict.fromkeys(checked)), refers)


def _named(key: ForeignKey, by_name: dict[str, Column]) -> tuple[str, ...]:
    for name in key.columns:
        if name.lower() not in by_name:
            raise NotFound(
                f"{key} names a column '{name}' that the table does not have",
                place=place_of(name),
                hint=f"its columns are {', '.join(c.name for c in by_name.values())}",
            )
    return tuple(str(by_name[name.lower()].name) for name in key.columns)


def is_reserved(name: str) -> bool:
    """Whether a name is reserved: no column of a user can have it."""
    return name.lower() in RESERVED or name.lower().startswith(RESERVED_PREFIX)


def _check_name(name: str, seen: set[str]) -> None:
    lowered = name.lower()
    if is_reserved(name):
        raise SqlError(
            f"'{name}' is a reserved column name",
            place=place_of(name),
            detail=f"reserved are {', '.join(RESERVED)} and names that begin with {RESERVED_PREFIX}",
            hint=f"call it for instance '{name.lstrip('_')}'",
        )
    if not name.strip() or any(ord(letter) < 32 for letter in name):
        hint = "give it at least one visible character"
        raise SqlError(f"{str(name)!r} is not a usable column name", place=place_of(name), hint=hint)
    if lowered in seen:
        hint = "names are compared without case"
        raise SqlError(f"there are two columns named '{name}'", place=place_of(name), hint=hint)
    seen.add(lowered)
