"""Random chains of joins of all kinds, each with an equality, so that no small change has to read a table in full."""

from __future__ import annotations

import random
from dataclasses import dataclass

TABLES = ("t0", "t1", "t2", "t3", "t4")
COLUMNS = ("id", "k", "j", "v")
KEYS = ("id", "k", "j")
"""The columns that are compared; of a table, few rows share a value of one."""

JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
HALVES = ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
SUBQUERIES = ("EXISTS", "NOT EXISTS", "IN", "NOT IN")


@dataclass(frozen=True)
class Side:
    """One side of a join: its text, the alias, its columns, and whether a join may pad it with NULLs."""

    text: str
    alias: str
    columns: tuple[str, ...] = COLUMNS
    padded: bool = False


class Chains:
    """Queries of joins; each seed gives others."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._count = 0

    def query(self) -> str:
        """A query of two to five tables, in one of four cases with one of them more than once."""
        many = self.rng.randint(2, len(TABLES))
        tables = self.rng.sample(TABLES, many) if self.rng.random() < 0.75 else self.rng.choices(TABLES, k=many)
        return self._using(tables) if self.rng.random() < 0.15 else self._chain(tables)

    def _alias(self) -> str:
        self._count += 1
        return f"a{self._count}"

    def _table(self, name: str) -> Side:
        alias = self._alias()
        return Side(f"{name} AS {alias}", alias)

    def _using(self, tables: list[str]) -> str:
        """Joins by USING: the key stands once, merged from all tables."""
        sides = [self._table(name) for name in tables[:4]]
        text = sides[0].text + "".join(f" {self.rng.choice(JOINS)} {side.text} USING (k)" for side in sides[1:])
        return f"SELECT k, {', '.join(f'{side.alias}.id AS i{n}' for n, side in enumerate(sides))} FROM {text}"

    def _side(self, tables: list[str]) -> Side:
        """A table, or a subquery that joins two of them; those that it takes leave the list."""
        first = self._table(tables.pop())
        if not tables or self.rng.random() < 0.75:
            return first
        second = self._table(tables.pop())
        kind = self.rng.choice((*JOINS, *HALVES))
        items = [f"{first.alias}.{name} AS {name}1" for name in KEYS]
        if kind in JOINS:
            items += [f"{second.alias}.{name} AS {name}2" for name in KEYS]
        alias = self._alias()
        on = self._on([first], second, kind)
        text = f"(SELECT {', '.join(items)} FROM {first.text} {kind} {second.text} ON {on}) AS {alias}"
        columns = tuple(item.rsplit(" ", 1)[1] for item in items)
        return Side(text, alias, columns, padded=kind in JOINS[1:])

    def _key(self, side: Side) -> str:
        return f"{side.alias}.{self.rng.choice([name for name in side.columns if name != 'v'])}"

    def _on(self, before: list[Side], side: Side, kind: str) -> str:
        """An equality, sometimes two, sometimes with another condition; by <=> only where few rows have NULL."""
        rng = self.rng
        other = rng.choice(before)
        is_safe = not (other.padded or side.padded)
        parts = [f"{self._key(other)} {'<=>' if is_safe and rng.random() < 0.1 else '='} {self._key(side)}"]
        if rng.random() < 0.1:
            parts.append(f"{self._key(rng.choice(before))} = {self._key(side)}")
        if kind != "FULL JOIN" and rng.random() < 0.15:
            parts.append(f"{self._key(other)} {rng.choice(('<', '<>', '>='))} {self._key(side)} + 3")
        return " AND ".join(parts)

    def _chain(self, tables: list[str]) -> str:
        rng = self.rng
        visible = [self._side(tables)]
        text = visible[0].text
        conditions = []
        while tables:
            if rng.random() < 0.2:
                conditions.append(self._subquery(rng.choice(visible), tables.pop()))
                continue
            kind = rng.choice((*JOINS, *JOINS, *HALVES))
            side = self._side(tables)
            text += f" {kind} {side.text} ON {self._on(visible, side, kind)}"
            if kind in ("RIGHT JOIN", "FULL JOIN"):
                visible = [Side(one.text, one.alias, one.columns, True) for one in visible]
            if kind in JOINS:
                visible.append(
                    Side(side.text, side.alias, side.columns, side.padded or kind in ("LEFT JOIN", "FULL JOIN"))
                )
        if rng.random() < 0.15:
            one = self._key(rng.choice(visible))
            conditions.append(rng.choice((f"{one} IS NULL", f"{one} IS NOT NULL", f"{one} % 3 <> 1")))
        items = [f"{side.alias}.{name} AS o{n}_{name}" for n, side in enumerate(visible) for name in side.columns[:2]]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {', '.join(items)} FROM {text}{where}"

    def _subquery(self, outer: Side, table: str) -> str:
        """A condition with a subquery over a table. NOT IN has no NULLs: all rows would depend on the first one."""
        kind = self.rng.choice(SUBQUERIES)
        alias = self._alias()
        where = f" WHERE {alias}.v > 2" if self.rng.random() < 0.3 else ""
        if kind.endswith("IN"):
            inner = f"{alias}.id" if kind == "NOT IN" else f"{alias}.{self.rng.choice(KEYS)}"
            return f"{self._key(outer)} {kind} (SELECT {inner} FROM {table} AS {alias}{where})"
        equal = f"{alias}.{self.rng.choice(KEYS)} = {self._key(outer)}"
        return f"{kind} (SELECT 1 FROM {table} AS {alias} WHERE {equal}{where.replace(' WHERE', ' AND')})"
