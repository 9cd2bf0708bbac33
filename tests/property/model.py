"""A plain model of a database: tables as bags of row tuples, and the few SQL forms the random driver uses.

Rows are compared as in GROUP BY: NaN is the mark NAN, -0.0 is 0.0, nested values are tuples.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

NAN = ("NaN",)

Row = tuple[Any, ...]
Bag = Counter  # of Row


class Refused(Exception):
    """The statement must fail and change nothing."""


def plain(value: Any) -> Any:
    """A value as the model keeps it."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(sorted((plain(k), plain(v)) for k, v in value.items()))
    if isinstance(value, list | tuple) and value != NAN:
        return tuple(plain(part) for part in value)
    return value


def plain_row(row: Iterable[Any]) -> Row:
    return tuple(plain(value) for value in row)


def bag(rows: Iterable[Iterable[Any]]) -> Bag:
    return Counter(plain_row(row) for row in rows)


def difference(after: Bag, before: Bag) -> dict[Row, int]:
    """The net change from one bag to another: row and weight, zeros left out."""
    rows = {*after, *before}
    return {row: after[row] - before[row] for row in rows if after[row] != before[row]}


@dataclass(frozen=True)
class Spec:
    """How a table is declared: columns with their kinds, the primary key, and unique keys by position."""

    name: str
    columns: tuple[tuple[str, str], ...]
    primary: tuple[int, ...] = ()
    unique: tuple[tuple[int, ...], ...] = ()

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def ddl(self) -> str:
        parts = [f"{name} {kind}" for name, kind in self.columns]
        if self.primary:
            parts.append(f"PRIMARY KEY ({', '.join(self.names[i] for i in self.primary)})")
        parts += [f"UNIQUE ({', '.join(self.names[i] for i in key)})" for key in self.unique]
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"

    def check(self, rows: Bag) -> None:
        """Raises Refused if the rows break a key."""
        for key in (self.primary, *self.unique):
            seen: set[Row] = set()
            for row, count in rows.items():
                value = tuple(row[i] for i in key)
                if not key or (key is not self.primary and None in value):
                    continue
                if None in value or count > 1 or value in seen:
                    raise Refused
                seen.add(value)


@dataclass
class Model:
    """All tables: their declarations and rows."""

    specs: dict[str, Spec] = field(default_factory=dict)
    rows: dict[str, Bag] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model(dict(self.specs), {name: Counter(rows) for name, rows in self.rows.items()})

    def create(self, spec: Spec) -> None:
        self.specs[spec.name] = spec
        self.rows[spec.name] = Counter()

    def drop(self, name: str) -> None:
        del self.specs[name], self.rows[name]

    def put(self, name: str, rows: Bag) -> None:
        """Makes these the rows of a table, if they keep its keys."""
        rows = +rows
        self.specs[name].check(rows)
        self.rows[name] = rows

    def insert(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        self.put(name, self.rows[name] + bag(rows))

    def delete(self, name: str, rows: Iterable[Iterable[Any]], *, ignore: bool) -> None:
        wanted = bag(rows)
        held = self.rows[name]
        if not ignore and any(held[row] < count for row, count in wanted.items()):
            raise Refused
        self.put(name, held - wanted)

    def upsert(self, name: str, rows: Iterable[Iterable[Any]]) -> None:
        key = self.specs[name].primary
        last = {tuple(row[i] for i in key): row for row in map(plain_row, rows)}
        kept = Counter({row: n for row, n in self.rows[name].items() if tuple(row[i] for i in key) not in last})
        self.put(name, kept + Counter(last.values()))

    def delete_by_key(self, name: str, keys: Iterable[Row], *, ignore: bool) -> None:
        key = self.specs[name].primary
        wanted = {plain_row(value) for value in keys}
        held = {tuple(row[i] for i in key) for row in self.rows[name]}
        if not ignore and wanted - held:
            raise Refused
        self.put(
            name,
            Counter({row: n for row, n in self.rows[name].items() if tuple(row[i] for i in key) not in wanted}),
        )

    def update(self, name: str, where: Callable[[Row], bool | None], change: Callable[[Row], Row]) -> None:
        after: Bag = Counter()
        for row, count in self.rows[name].items():
            after[change(row) if where(row) is True else row] += count
        self.put(name, after)

    def remove(self, name: str, where: Callable[[Row], bool | None]) -> None:
        self.put(name, Counter({row: n for row, n in self.rows[name].items() if where(row) is not True}))


# SQL's three-valued logic, as Python ------------------------------------------------------------


def compare(left: Any, sign: str, right: Any) -> bool | None:
    """A comparison as Spark has it: NULL gives NULL, NaN equals itself and is the greatest."""
    if left is None or right is None:
        return None
    order = (left == NAN) - (right == NAN) if NAN in (left, right) else (left > right) - (left < right)
    return {"=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def contrary(value: bool | None) -> bool | None:
    return None if value is None else not value


def literal(value: Any, kind: str) -> str:
    """A model value as SQL."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if value == NAN:
        return f"CAST('NaN' AS {kind})"
    if isinstance(value, tuple):
        inner = kind[kind.index("<") + 1 : -1]
        return f"CAST(array({', '.join(literal(part, inner) for part in value)}) AS {kind})"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS {kind})"
    return str(value)
