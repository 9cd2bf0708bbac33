"""Random queries: joins of all kinds, set operations, groups, windows, limits, and subqueries nested in each other."""

from __future__ import annotations

import random

TABLES = {"t": ["a", "b"], "u": ["a", "c"], "k": ["id", "v"], "e": ["a", "c"]}
Source = tuple[str, list[str]]
Scopes = list[list[Source]]


class Maker:
    """Makes one query from a seed. Scopes are the FROM clauses around a place, the innermost last."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.count = 0

    def alias(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # values ----------------------------------------------------------------------------------------

    def column(self, scopes: Scopes, own: float = 0.7) -> str:
        """A column of the query itself, or of one around it."""
        scope = scopes[-1] if len(scopes) == 1 or self.chance(own) else self.rng.choice(scopes[:-1])
        name, columns = self.rng.choice(scope)
        return f"{name}.{self.rng.choice(columns)}"

    def value(self, scopes: Scopes, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.6:
            return self.column(scopes)
        if kind < 0.75:
            return str(self.rng.choice((0, 1, 2, 3, 10, 100)))
        if kind < 0.9 or depth <= 0:
            return f"({self.column(scopes)} + {self.rng.choice((1, 2, 10))})"
        return self.scalar(scopes, depth - 1)

    def scalar(self, scopes: Scopes, depth: int) -> str:
        source, inside, where = self.source(scopes, depth)
        if self.chance(0.3):
            column = self.column(inside, 0.95)
            return f"(SELECT {column} FROM {source}{where} ORDER BY {column} LIMIT 1)"
        call = self.rng.choice(
            ("count(*)", "sum({})", "min({})", "coalesce(sum({}), 0)", "count({}) + 1", "count(DISTINCT {})")
        )
        return f"(SELECT {call.format(self.column(inside, 0.9))} FROM {source}{where})"

    # conditions ------------------------------------------------------------------------------------

    def condition(self, scopes: Scopes, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.35 and len(scopes) > 1:
            operator = self.rng.choice(("=", "=", "=", "<", ">", "<>"))
            return f"{self.column(scopes, 1)} {operator} {self.column(scopes, 0)}"
        if kind < 0.5 or depth <= 0:
            return f"{self.value(scopes, depth)} {self.rng.choice(('=', '<', '>=', '<>'))} {self.value(scopes, depth)}"
        if kind < 0.6:
            word = self.rng.choice(("AND", "OR"))
            return f"({self.condition(scopes, depth - 1)} {word} {self.condition(scopes, depth - 1)})"
        if kind < 0.65:
            return f"NOT ({self.condition(scopes, depth - 1)})"
        if kind < 0.7:
            return f"{self.column(scopes)} IS {self.rng.choice(('NULL', 'NOT NULL'))}"
        return self.subquery(scopes, depth - 1)

    def subquery(self, scopes: Scopes, depth: int) -> str:
        word = self.rng.choice(("", "NOT "))
        kind = self.rng.random()
        if kind < 0.4:
            return f"{word}EXISTS ({self.query(scopes, depth, 1)})"
        if kind < 0.75:
            return f"{self.value(scopes, 0)} {word}IN ({self.query(scopes, depth, 1)})"
        if kind < 0.85:
            return f"({self.value(scopes, 0)}, {self.value(scopes, 0)}) {word}IN ({self.query(scopes, depth, 2)})"
        operator, quantifier = self.rng.choice(("<", ">", "=", "<>")), self.rng.choice(("ANY", "ALL"))
        return f"{self.value(scopes, 0)} {operator} {quantifier} ({self.query(scopes, depth, 1)})"

    # FROM ------------------------------------------------------------------------------------------

    def source(self, scopes: Scopes, depth: int) -> tuple[str, Scopes, str]:
        """FROM, the scopes inside it, and WHERE."""
        own: list[Source] = []
        parts: list[str] = []
        for _ in range(1 if self.chance(0.7) else 2):
            name = self.alias()
            if depth > 0 and self.chance(0.15):
                parts.append(f"({self.query([], depth - 1, 2, named=True)}) {name}")
                own.append((name, ["p1", "p2"]))
            else:
                table = self.rng.choice(("t", "t", "u", "u", "k", "e"))
                parts.append(f"{table} {name}")
                own.append((name, TABLES[table]))
        inside = [*scopes, own]
        where = f" WHERE {self.condition(inside, depth)}" if self.chance(0.85) else ""
        return self.joined(parts, own), inside, where

    def joined(self, parts: list[str], own: list[Source]) -> str:
        if len(parts) == 1:
            return parts[0]
        kind = self.rng.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ","))
        if kind == ",":
            return ", ".join(parts)
        sides = [f"{name}.{self.rng.choice(columns)}" for name, columns in own]
        more = f" AND {self.condition([own], 0)}" if self.chance(0.3) else ""
        return f"{parts[0]} {kind} {parts[1]} ON {sides[0]} = {sides[1]}{more}"

    # queries ---------------------------------------------------------------------------------------

    def query(self, scopes: Scopes, depth: int, width: int, *, named: bool = False) -> str:
        """A query of so many columns; `named` calls them p1, p2."""
        kind = self.rng.random()
        if depth > 0 and kind < 0.1:
            left, right = (self.query(scopes, depth - 1, width, named=named) for _ in range(2))
            word = self.rng.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"))
            return f"SELECT * FROM ({left}) {self.alias()} {word} SELECT * FROM ({right}) {self.alias()}"
        if depth > 0 and kind > 0.93:
            return self.lateral(scopes, depth, width, named=named)
        source, inside, where = self.source(scopes, depth)
        calls = ("count(*)", "max({})", "sum({})")
        if kind < 0.25:
            key = self.column(inside, 1)
            items = [key, *(self.rng.choice(calls).format(self.column(inside, 1)) for _ in range(width - 1))]
            having = f" HAVING count(*) {self.rng.choice('><')} {self.rng.choice((1, 2))}" if self.chance(0.4) else ""
            return f"SELECT {listed(items, named)} FROM {source}{where} GROUP BY {key}{having}"
        if kind < 0.32:
            items = [self.rng.choice(calls).format(self.column(inside, 1)) for _ in range(width)]
            return f"SELECT {listed(items, named)} FROM {source}{where}"
        if kind < 0.36:
            items = [self.column(inside, 0.9) for _ in range(width)]
            order = ", ".join(f"{i + 1}{self.rng.choice(('', ' DESC'))}" for i in range(width))
            limit = self.rng.choice((1, 2, 3))
            return f"SELECT {listed(items, named)} FROM {source}{where} ORDER BY {order} LIMIT {limit}"
        items = [self.value(inside, 0 if scopes else depth) for _ in range(width)]
        if not scopes and not named and depth > 0 and self.chance(0.15):
            tests = [self.subquery(inside, depth - 1) for _ in range(2)]
            items[0] = f"CASE WHEN {tests[0]} THEN 1 WHEN {tests[1]} THEN 2 END"
        if self.chance(0.1):
            items[-1] = f"rank() OVER (PARTITION BY {self.column(inside, 1)} ORDER BY {self.column(inside, 1)})"
        word = "DISTINCT " if self.chance(0.15) else ""
        return f"SELECT {word}{listed(items, named)} FROM {source}{where}"

    def lateral(self, scopes: Scopes, depth: int, width: int, *, named: bool) -> str:
        source, inside, _ = self.source(scopes, depth - 1)
        name = self.alias()
        derived = self.query(inside, depth - 1, 2, named=True)
        form = self.rng.choice((", LATERAL ({}) {}", " LEFT JOIN LATERAL ({}) {} ON true"))
        seen = [*inside[:-1], [*inside[-1], (name, ["p1", "p2"])]]
        where = f" WHERE {self.condition(seen, 0)}" if self.chance(0.4) else ""
        items = [self.column(seen, 1) for _ in range(width)]
        return f"SELECT {listed(items, named)} FROM {source}{form.format(derived, name)}{where}"


def listed(items: list[str], named: bool) -> str:
    return ", ".join(f"{item} AS p{i + 1}" if named else item for i, item in enumerate(items))
