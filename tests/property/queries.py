"""Random schemas and random queries, as Spark SQL whose meaning DuckDB shares.

Written down, the common ground is: integers, strings, dates and decimals with + - * only (no division, no floats but
the mean of integers, cast to a decimal wide enough that nothing is rounded at a tie); NULLs wherever they may be; every
kind of join; EXISTS, IN, NOT IN, ANY, ALL and scalar subqueries, correlated or not, in WHERE and in CASE; set
operations ALL and DISTINCT; grouping with count, sum, min, max, avg, count distinct, HAVING, and ROLLUP (with a HAVING
that keeps the total of nothing out: the engines differ there); window functions that do not depend on the order of
ties, also named ones that are defined by others; joins in brackets; lateral subqueries; SELECT without FROM; GROUPING
SETS in all spellings; sums of floats over windows, which nothing else uses; LIMIT only under a total order.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.property.joins import Joins
from tests.property.schemas import (
    COMPARISONS,
    DEC,
    INT,
    Column,
    Query,
)


class Generator(Joins):
    """Makes queries over the relations it is given."""

    def query(self, depth: int) -> Query:
        """A query of at most so many operators on top of each other."""
        self.aliases = 0
        self.used = set()
        self.operators = []
        text, columns = self._select(depth)
        return Query(text, columns, frozenset(self.used), tuple(self.operators))

    def _select(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        if depth <= 0:
            return self._project(0)
        makers: list[tuple[Callable[[int], tuple[str, tuple[Column, ...]]], int]] = [
            (self._project, 3),
            (self._join, 6),
            (self._outer_join, 5),
            (self._using, 2),
            (self._semi, 2),
            (self._with_subquery, 7),
            (self._scalar_column, 3),
            (self._set_operation, 5),
            (self._distinct, 2),
            (self._group, 7),
            (self._rollup, 2),
            (self._total, 2),
            (self._window, 4),
            (self._top, 3),
            (self._common, 2),
            (self._bracketed, 2),
            (self._named_window, 2),
            (self._no_from, 1),
            (self._lateral, 1),
            (self._float_window, 1),
            (self._chain, 1),
            (self._wide, 1),
        ]
        maker = self.rng.choices([m for m, _ in makers], [w for _, w in makers])[0]
        self.operators.append(maker.__name__.strip("_"))
        return maker(depth)

    def _calls(self, columns: list[Column], first: int) -> tuple[list[str], list[Column]]:
        rng = self.rng
        items, made = [], []
        for number in range(first, first + rng.randint(1, 3)):
            column = rng.choice(columns)
            choices = [("count(*)", INT), (f"count({column.name})", INT), (f"count(DISTINCT {column.name})", INT)]
            choices += [(f"{f}({column.name})", column.kind) for f in ("min", "max")] * 2
            if column.kind in (INT, DEC):
                choices += [(f"sum({column.name})", column.kind)] * 3
            if column.kind == INT:
                choices += [(f"CAST(avg({column.name}) AS DECIMAL(20,8))", "DECIMAL(20,8)")]
            call, kind = rng.choice(choices)
            if "avg" not in call and "DISTINCT" not in call and rng.random() < 0.12:
                call += f" FILTER (WHERE {self._atom(columns)})"
            items.append(f"{call} AS c{number}")
            made.append(Column(f"c{number}", kind))
        return items, made

    def _having(self, columns: list[Column]) -> str:
        rng = self.rng
        numbers = self._of_kind(columns, INT)
        choices = [f"count(*) {rng.choice(COMPARISONS)} {rng.randint(1, 3)}"]
        if numbers:
            choices.append(f"sum({rng.choice(numbers).name}) {rng.choice(COMPARISONS)} {rng.randint(-1, 5)}")
            choices.append(f"max({rng.choice(numbers).name}) IS {rng.choice(('', 'NOT '))}NULL")
        return rng.choice(choices)

    def _group(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(depth - 1)
        groups = self.rng.sample(columns, self.rng.randint(1, min(2, len(columns))))
        keys = [f"{c.name} AS c{n}" for n, c in enumerate(groups)]
        items, made = self._calls(columns, len(groups))
        where = f" WHERE {self._condition(columns)}" if self.rng.random() < 0.3 else ""
        having = f" HAVING {self._having(columns)}" if self.rng.random() < 0.3 else ""
        by = ", ".join(c.name for c in groups)
        outputs = (*(Column(f"c{n}", c.kind) for n, c in enumerate(groups)), *made)
        return f"SELECT {', '.join([*keys, *items])} FROM {source}{where} GROUP BY {by}{having}", outputs

    def _rollup(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(depth - 1)
        groups = self.rng.sample(columns, min(2, len(columns)))
        keys = [f"{c.name} AS c{n}" for n, c in enumerate(groups)]
        items, made = self._calls([c for c in columns if c not in groups] or columns, len(groups))
        names = ", ".join(c.name for c in groups)
        sets = f"{names} GROUPING SETS (({names}), ({groups[-1].name}))"
        by = self.rng.choice((f"ROLLUP ({names})", f"CUBE ({names})", f"{names} WITH ROLLUP", sets))
        outputs = (*(Column(f"c{n}", c.kind) for n, c in enumerate(groups)), *made)
        return f"SELECT {', '.join([*keys, *items])} FROM {source} GROUP BY {by} HAVING count(*) > 0", outputs

    def _total(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(depth - 1)
        items, made = self._calls(columns, 0)
        where = f" WHERE {self._condition(columns)}" if self.rng.random() < 0.4 else ""
        return f"SELECT {', '.join(items)} FROM {source}{where}", tuple(made)

    def _window(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        rng = self.rng
        source, columns = self._from(depth - 1)
        partition, order = rng.choice(columns), rng.choice(columns)
        down = rng.choice(("", " DESC", " NULLS LAST", " DESC NULLS FIRST"))
        over = f"OVER (PARTITION BY {partition.name} ORDER BY {order.name}{down})"
        numbers = self._of_kind(columns, INT)
        calls = [f"rank() {over}", f"dense_rank() {over}", f"count(*) {over}"]
        if numbers:
            name = rng.choice(numbers).name
            calls += [f"sum({name}) {over}", f"max({name}) OVER (PARTITION BY {partition.name})"]
        every = ", ".join(c.name for c in columns)
        calls += [f"row_number() OVER (PARTITION BY {partition.name} ORDER BY {every})"]
        if numbers:
            calls += [f"lag({rng.choice(numbers).name}) OVER (PARTITION BY {partition.name} ORDER BY {every})"]
        call = rng.choice(calls)
        kept = [f"{c.name} AS c{n}" for n, c in enumerate(columns[:3])]
        made = (*(Column(f"c{n}", c.kind) for n, c in enumerate(columns[:3])), Column("w", INT))
        text = f"SELECT {', '.join(kept)}, {call} AS w FROM {source}"
        if rng.random() < 0.3:
            return f"{text} QUALIFY w <= {rng.randint(1, 2)}", made
        return text, made

    def _top(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        rng = self.rng
        source, columns = self._from(depth - 1)
        items, made = self._outputs(columns, 3)
        order = list(made)
        rng.shuffle(order)
        keys = ", ".join(c.name + rng.choice(("", " DESC", " NULLS LAST", " DESC NULLS FIRST")) for c in order)
        offset = f" OFFSET {rng.randint(1, 2)}" if rng.random() < 0.25 else ""
        alias = self._alias()
        names = ", ".join(c.name for c in made)
        inner = f"SELECT {items} FROM {source}"
        return f"SELECT {names} FROM ({inner}) AS {alias} ORDER BY {keys} LIMIT {rng.randint(1, 4)}{offset}", made

    def _common(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A common table expression used twice."""
        text, columns = self._select(depth - 1)
        if text.startswith("WITH"):
            return text, columns
        cte, x, y = self._alias(), self._alias(), self._alias()
        first = [Column(f"{x}.{c.name}", c.kind) for c in columns]
        second = [Column(f"{y}.{c.name}", c.kind) for c in columns]
        items, made = self._outputs([*first, *second])
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        on = self._on(first, second, 1.0)
        return f"WITH {cte} AS ({text}) SELECT {items} FROM {cte} AS {x} {kind} {cte} AS {y} ON {on}", made

    def _renamed(self, depth: int, letter: str) -> tuple[str, list[Column]]:
        """A derived table whose columns have names of their own."""
        source, columns = self._from(depth)
        items = ", ".join(f"{c.name} AS {letter}{n}" for n, c in enumerate(columns))
        alias = self._alias()
        made = [Column(f"{letter}{n}", c.kind) for n, c in enumerate(columns)]
        return f"(SELECT {items} FROM {source}) AS {alias}", made

    def _bracketed(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A join in brackets, with a name or without, alone or beside another table."""
        rng = self.rng
        left, left_columns = self._renamed(depth - 1, "l")
        right, right_columns = self._renamed(0, "r")
        kind = rng.choice(("JOIN", "LEFT JOIN"))
        columns = [*left_columns, *right_columns]
        text = f"({left} {kind} {right} ON {self._on(left_columns, right_columns, 0.95)})"
        if rng.random() < 0.6:
            text += f" AS {self._alias()}"
        if rng.random() < 0.3:
            third, third_columns = self._renamed(0, "m")
            on = self._on(third_columns, columns, 0.95)
            text, columns = f"{third} {rng.choice(('JOIN', 'LEFT JOIN'))} {text} ON {on}", [*third_columns, *columns]
        items, made = self._outputs(columns)
        return f"SELECT {items} FROM {text}", made

    def _named_window(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A window that is defined by another."""
        rng = self.rng
        source, columns = self._from(depth - 1)
        partition, order = rng.choice(columns).name, rng.choice(columns).name
        numbers = self._of_kind(columns, INT)
        call = rng.choice(["count(*)", *(f"sum({c.name})" for c in numbers)])
        windows = rng.choice(
            (
                f"w1 AS (PARTITION BY {partition}), w2 AS (w1 ORDER BY {order})",
                f"w1 AS (PARTITION BY {partition} ORDER BY {order}), w2 AS (w1)",
            )
        )
        kept = [f"{c.name} AS c{n}" for n, c in enumerate(columns[:3])]
        made = (*(Column(f"c{n}", c.kind) for n, c in enumerate(columns[:3])), Column("w", INT))
        return f"SELECT {', '.join(kept)}, {call} OVER w2 AS w FROM {source} WINDOW {windows}", made

    def _no_from(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """One row, or none."""
        source, columns = self._from(depth - 1)
        where = f" WHERE {self._condition(columns)}" if self.rng.random() < 0.5 else ""
        inside = f"SELECT 1 FROM {source}{where}"
        if self.rng.random() < 0.3:
            return f"SELECT (SELECT count(*) FROM {source}{where}) AS c0", (Column("c0", INT),)
        word = self.rng.choice(("EXISTS", "NOT EXISTS", "NOT EXISTS"))
        return f"SELECT {self.rng.randint(0, 3)} AS c0 WHERE {word} ({inside})", (Column("c0", INT),)

    def _lateral(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A subquery for each row, joined with a condition."""
        rng = self.rng
        left, outer = self._from(depth - 1)
        source, inner = self._from(0)
        pairs = [(o, i) for o in outer for i in inner if o.kind == i.kind]
        if not pairs:
            return self._project(depth)
        o, i = rng.choice(pairs)
        other, alias = rng.choice(inner), self._alias()
        found = Column(f"{alias}.m", other.kind)
        inside = f"SELECT {other.name} AS m FROM {source} WHERE {i.name} = {o.name}"
        on = rng.choice(("true", self._atom([found, *outer])))
        items, made = self._outputs([*outer, found])
        return (
            f"SELECT {items} FROM {left} {rng.choice(('JOIN', 'LEFT JOIN'))} LATERAL ({inside}) AS {alias} ON {on}",
            made,
        )

    def _float_window(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """Sums of floats over partitions. Queries around it do not use them: engines differ in their last digits."""
        rng = self.rng
        source, columns = self._from(depth - 1)
        numbers = self._of_kind(columns, INT)
        if not numbers:
            return self._window(depth)
        partition, order, name = rng.choice(columns).name, rng.choice(columns).name, rng.choice(numbers).name
        call = rng.choice(("sum", "avg"))
        over = rng.choice((f"PARTITION BY {partition}", f"PARTITION BY {partition} ORDER BY {order}"))
        kept = [f"{c.name} AS c{n}" for n, c in enumerate(columns[:3])]
        made = tuple(Column(f"c{n}", c.kind) for n, c in enumerate(columns[:3]))
        value = f"CAST({name} AS DOUBLE) * 0.1D"
        return f"SELECT {', '.join(kept)}, {call}({value}) OVER ({over}) AS f FROM {source}", made

    def _chain(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A condition of more terms than a message can be nested."""
        source, columns = self._from(depth - 1)
        word = self.rng.choice((" AND ", " OR "))
        terms = [f"({self._atom(columns)} OR {self._atom(columns)})" for _ in range(3)] * 18
        items, made = self._outputs(columns)
        return f"SELECT {items} FROM {source} WHERE {word.join(terms)}", made

    def _wide(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A set operation over more columns than a message can be nested; the first ones are handed on."""
        table = self._base()
        word = self.rng.choice(("EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL", "UNION"))
        repeated = [table.columns[n % len(table.columns)] for n in range(52)]
        items = ", ".join(f"{column.name} AS w{n}" for n, column in enumerate(repeated))
        sides = [f"SELECT {items} FROM {table.text} WHERE {self._atom(list(table.columns))}" for _ in range(2)]
        made = tuple(Column(f"w{n}", column.kind) for n, column in enumerate(repeated[:3]))
        names = ", ".join(column.name for column in made)
        return f"SELECT {names} FROM ({sides[0]} {word} {sides[1]}) AS {self._alias()}", made
