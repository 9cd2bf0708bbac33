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

import random
from collections.abc import Callable
from dataclasses import dataclass

INT, TEXT, DEC, DATE = "INT", "STRING", "DECIMAL(8,2)", "DATE"

WORDS = ("a", "b", "ab", "", "C", "é")
DAYS = ("2024-01-01", "2024-02-29", "1999-12-31")
COMPARISONS = ("=", "<", ">", "<=", ">=", "<>")
SIZE = 900
"""The longest text of a subquery that may be put into another."""


@dataclass(frozen=True)
class Column:
    name: str
    kind: str


@dataclass(frozen=True)
class Relation:
    """Something to select from: a name, or a query in parentheses."""

    text: str
    columns: tuple[Column, ...]
    uses: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    keyed: bool

    @property
    def ddl(self) -> str:
        columns = ", ".join(
            f"{c.name} {c.kind}{' PRIMARY KEY' if self.keyed and n == 0 else ''}" for n, c in enumerate(self.columns)
        )
        return f"CREATE TABLE {self.name} ({columns})"

    @property
    def relation(self) -> Relation:
        return Relation(self.name, self.columns, frozenset([self.name]))


@dataclass(frozen=True)
class Query:
    """A SELECT and its columns."""

    text: str
    columns: tuple[Column, ...]
    uses: frozenset[str]
    operators: tuple[str, ...]


def random_literal(rng: random.Random, kind: str, *, null: float = 0.2) -> str:
    """A value of a small domain, so that values meet; often NULL."""
    if rng.random() < null:
        return "NULL"
    match kind:
        case "INT":
            return str(rng.randint(-2, 4))
        case "STRING":
            return f"'{rng.choice(WORDS)}'"
        case "DATE":
            return f"DATE'{rng.choice(DAYS)}'"
        case _:
            return rng.choice(("0.50", "-1.25", "2.00", "10.75"))


def random_schema(rng: random.Random) -> list[Table]:
    """Two to four tables of two to four columns; some have a key."""
    tables = []
    for number in range(rng.randint(2, 4)):
        keyed = rng.random() < 0.3
        more = rng.choices((INT, TEXT, DEC, DATE), (4, 3, 2, 1), k=rng.randint(0, 2))
        kinds = [INT, rng.choice((INT, TEXT)), *more]
        columns = tuple(Column(f"{'abcd'[n]}{number}", kind) for n, kind in enumerate(kinds))
        tables.append(Table(f"t{number}", columns, keyed))
    return tables


class Generator:
    """Makes queries over the relations it is given."""

    def __init__(self, rng: random.Random, relations: list[Relation]) -> None:
        self.rng = rng
        self.relations = relations
        self.aliases = 0
        self.used: set[str] = set()
        self.operators: list[str] = []

    def query(self, depth: int) -> Query:
        """A query of at most so many operators on top of each other."""
        self.aliases = 0
        self.used = set()
        self.operators = []
        text, columns = self._select(depth)
        return Query(text, columns, frozenset(self.used), tuple(self.operators))

    # sources ---------------------------------------------------------------------------------------

    def _alias(self) -> str:
        self.aliases += 1
        return f"q{self.aliases}"

    def _base(self) -> Relation:
        relation = self.rng.choice(self.relations)
        self.used |= relation.uses
        return relation

    def _source(self, depth: int) -> Relation:
        """A relation, or a subquery if there is depth left."""
        if depth > 0 and self.rng.random() < 0.75:
            text, columns = self._select(depth - 1)
            if len(text) <= SIZE:
                return Relation(f"({text})", columns)
        return self._base()

    def _from(self, depth: int) -> tuple[str, list[Column]]:
        """A FROM item with an alias, and its columns by their full names."""
        relation, alias = self._source(depth), self._alias()
        return f"{relation.text} AS {alias}", [Column(f"{alias}.{c.name}", c.kind) for c in relation.columns]

    # scalar expressions ----------------------------------------------------------------------------

    def _of_kind(self, columns: list[Column], kind: str) -> list[Column]:
        return [column for column in columns if column.kind == kind]

    def _value(self, columns: list[Column], kind: str) -> str:
        """An expression of a kind."""
        fitting = self._of_kind(columns, kind)
        rng = self.rng
        if not fitting:
            return f"CAST({random_literal(rng, kind)} AS {kind})"
        name = rng.choice(fitting).name
        if rng.random() < 0.6:
            return name
        other = rng.choice(fitting).name
        match kind:
            case "INT":
                return rng.choice((f"{name} + {other}", f"{name} - 1", f"-{name}", f"coalesce({name}, 0)"))
            case "STRING":
                return rng.choice((f"upper({name})", f"coalesce({name}, {other})", f"nullif({name}, 'a')"))
            case "DATE":
                return f"coalesce({name}, {other})"
            case _:
                return rng.choice((f"coalesce({name}, {other})", f"nullif({name}, 0.5)"))

    def _comparable(self, columns: list[Column]) -> Column:
        return self.rng.choice(columns)

    def _atom(self, columns: list[Column]) -> str:
        """A simple condition."""
        rng = self.rng
        column = self._comparable(columns)
        same = [c for c in self._of_kind(columns, column.kind) if c != column]
        choice = rng.random()
        if choice < 0.2:
            return f"{column.name} IS {rng.choice(('', 'NOT '))}NULL"
        if choice < 0.5 and same:
            return f"{column.name} {rng.choice(COMPARISONS)} {rng.choice(same).name}"
        if choice < 0.6 and same:
            return f"{column.name} <=> {rng.choice(same).name}"
        if choice < 0.7:
            values = ", ".join(random_literal(rng, column.kind, null=0.1) for _ in range(2))
            return f"{column.name} {rng.choice(('IN', 'NOT IN'))} ({values})"
        if choice < 0.75 and column.kind == INT:
            return f"CASE WHEN {column.name} <> 0 THEN 12 / {column.name} > 2 ELSE false END"
        return f"{column.name} {rng.choice(COMPARISONS)} {random_literal(rng, column.kind, null=0)}"

    def _condition(self, columns: list[Column]) -> str:
        rng = self.rng
        first = self._atom(columns)
        choice = rng.random()
        if choice < 0.6:
            return first
        if choice < 0.8:
            return f"{first} AND {self._atom(columns)}"
        if choice < 0.95:
            return f"({first} OR {self._atom(columns)})"
        return f"NOT ({first})"

    # subqueries in conditions ----------------------------------------------------------------------

    def _subquery_condition(self, outer: list[Column], depth: int) -> str:
        """EXISTS, IN, NOT IN, ANY, ALL or a scalar comparison; often correlated."""
        rng = self.rng
        source, inner = self._from(depth)
        where = self._inner_where(outer, inner, depth)
        kind = rng.choice(("exists", "exists", "in", "in", "not in", "any", "all", "scalar", "pair"))
        self.operators.append(kind)
        if kind == "exists":
            return f"{rng.choice(('', 'NOT '))}EXISTS (SELECT 1 FROM {source}{where})"
        if kind == "scalar":
            return self._scalar_condition(outer, inner, source, where)
        pairs = [(o, i) for o in outer for i in inner if o.kind == i.kind]
        if not pairs:
            return f"EXISTS (SELECT 1 FROM {source}{where})"
        o, i = rng.choice(pairs)
        if kind == "pair":
            o2, i2 = rng.choice(pairs)
            where = f" WHERE {self._atom(inner)}" if rng.random() < 0.4 else ""  # DuckDB has no correlated form
            return f"({o.name}, {o2.name}) IN (SELECT {i.name}, {i2.name} FROM {source}{where})"
        if kind in ("any", "all"):
            return f"{o.name} {rng.choice(COMPARISONS)} {kind.upper()} (SELECT {i.name} FROM {source}{where})"
        return f"{o.name} {kind.upper()} (SELECT {i.name} FROM {source}{where})"

    def _inner_where(self, outer: list[Column], inner: list[Column], depth: int) -> str:
        rng = self.rng
        parts = []
        pairs = [(o, i) for o in outer for i in inner if o.kind == i.kind]
        if pairs and rng.random() < 0.65:
            o, i = rng.choice(pairs)
            parts.append(f"{i.name} {rng.choices(COMPARISONS, (6, 1, 1, 1, 1, 1))[0]} {o.name}")
        if rng.random() < 0.4:
            parts.append(self._atom(inner))
        if depth > 1 and rng.random() < 0.25:
            parts.append(self._subquery_condition([*inner, *outer], depth - 2))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _scalar_condition(self, outer: list[Column], inner: list[Column], source: str, where: str) -> str:
        numbers = self._of_kind(outer, INT)
        if not numbers or self.rng.random() < 0.3:
            return f"(SELECT count(*) FROM {source}{where}) {self.rng.choice(COMPARISONS)} {self.rng.randint(0, 3)}"
        inside = self._of_kind(inner, INT)
        call = f"{self.rng.choice(('max', 'min', 'sum'))}({self.rng.choice(inside).name})" if inside else "count(*)"
        name = self.rng.choice(numbers).name
        return f"{name} {self.rng.choice(COMPARISONS)} (SELECT {call} FROM {source}{where})"

    # queries ---------------------------------------------------------------------------------------

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

    def _outputs(self, columns: list[Column], most: int = 4) -> tuple[str, tuple[Column, ...]]:
        """A SELECT list of some columns and expressions."""
        rng = self.rng
        items, made = [], []
        for number in range(rng.randint(1, min(most, len(columns) + 1))):
            kind = rng.choice(columns).kind
            if kind == INT and rng.random() < 0.15:
                value = f"CASE WHEN {self._atom(columns)} THEN {rng.randint(0, 2)} ELSE {self._value(columns, INT)} END"
            else:
                value = self._value(columns, kind)
            items.append(f"{value} AS c{number}")
            made.append(Column(f"c{number}", kind))
        return ", ".join(items), tuple(made)

    def _project(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(depth - 1)
        items, made = self._outputs(columns)
        where = f" WHERE {self._condition(columns)}" if self.rng.random() < 0.6 else ""
        return f"SELECT {items} FROM {source}{where}", made

    def _two(self, depth: int) -> tuple[str, list[Column], str, list[Column]]:
        left, left_columns = self._from(depth - 1)
        if self.rng.random() < 0.2 and not left.startswith("("):
            alias = self._alias()
            name, old = left.split(" AS ")
            right, right_columns = (
                f"{name} AS {alias}",
                [Column(c.name.replace(f"{old}.", f"{alias}.", 1), c.kind) for c in left_columns],
            )
        else:
            right, right_columns = self._from(self.rng.choice((0, depth - 1)))
        return left, left_columns, right, right_columns

    def _on(self, left: list[Column], right: list[Column], equal: float) -> str:
        """A join condition: mostly an equality, perhaps with more; sometimes none."""
        rng = self.rng
        pairs = [(x, y) for x in left for y in right if x.kind == y.kind]
        parts = []
        if pairs and rng.random() < equal:
            x, y = rng.choice(pairs)
            parts.append(f"{x.name} {rng.choices(('=', '<=>'), (9, 1))[0]} {y.name}")
            if rng.random() < 0.2:
                x, y = rng.choice(pairs)
                parts.append(f"{x.name} = {y.name}")
        if pairs and (not parts or rng.random() < 0.2):
            x, y = rng.choice(pairs)
            parts.append(f"{x.name} {rng.choice(('<', '>', '<>', '<='))} {y.name}")
        if not parts or rng.random() < 0.15:
            parts.append(self._atom([*left, *right]))
        return " AND ".join(parts)

    def _join(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        left, left_columns, right, right_columns = self._two(depth)
        columns = [*left_columns, *right_columns]
        text = f"{left} JOIN {right} ON {self._on(left_columns, right_columns, 0.85)}"
        if self.rng.random() < 0.2:
            third, third_columns = self._from(0)
            text += f" JOIN {third} ON {self._on(columns, third_columns, 0.95)}"
            columns += third_columns
        items, made = self._outputs(columns)
        where = f" WHERE {self._condition(columns)}" if self.rng.random() < 0.3 else ""
        return f"SELECT {items} FROM {text}{where}", made

    def _outer_join(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        left, left_columns, right, right_columns = self._two(depth)
        kind = self.rng.choice(("LEFT", "LEFT", "RIGHT", "FULL OUTER"))
        equal = 1.0 if kind == "FULL OUTER" else 0.9
        items, made = self._outputs([*left_columns, *right_columns])
        where = f" WHERE {self._condition(right_columns)}" if self.rng.random() < 0.2 else ""
        on = self._on(left_columns, right_columns, equal)
        return f"SELECT {items} FROM {left} {kind} JOIN {right} ON {on}{where}", made

    def _using(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        """A join by USING or NATURAL, whose key stands once in the answer."""
        rng = self.rng
        left, left_columns, right, right_columns = self._two(depth)
        pairs = [(x, y) for x in left_columns for y in right_columns if x.kind == y.kind]
        if not pairs:
            return self._project(depth)
        key, partner = rng.choice(pairs)
        one, other = rng.choice(left_columns), rng.choice(right_columns)
        first = f"(SELECT {key.name} AS k, {one.name} AS x FROM {left}) AS {self._alias()}"
        second = f"(SELECT {partner.name} AS k, {other.name} AS y FROM {right}) AS {self._alias()}"
        kind = rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL OUTER JOIN"))
        made = (Column("k", key.kind), Column("x", one.kind), Column("y", other.kind))
        if rng.random() < 0.3:
            return f"SELECT k, x, y FROM {first} NATURAL {kind} {second}", made
        return f"SELECT k, x, y FROM {first} {kind} {second} USING (k)", made

    def _semi(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        left, left_columns, right, right_columns = self._two(depth)
        kind = self.rng.choice(("SEMI", "ANTI"))
        items, made = self._outputs(left_columns)
        return (
            f"SELECT {items} FROM {left} LEFT {kind} JOIN {right} ON {self._on(left_columns, right_columns, 0.9)}",
            made,
        )

    def _with_subquery(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(self.rng.choice((0, depth - 1)))
        items, made = self._outputs(columns)
        condition = self._subquery_condition(columns, depth - 1)
        choice = self.rng.random()
        if choice < 0.15:
            condition = f"({condition} OR {self._atom(columns)})"
        elif choice < 0.3:
            condition = f"{condition} AND {self._atom(columns)}"
        elif choice < 0.4:
            condition = f"{condition} AND {self._subquery_condition(columns, 0)}"
        elif choice < 0.5:
            return f"SELECT {items}, CASE WHEN {condition} THEN 1 ELSE 0 END AS f FROM {source}", (
                *made,
                Column("f", INT),
            )
        return f"SELECT {items} FROM {source} WHERE {condition}", made

    def _scalar_column(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(self.rng.choice((0, depth - 1)))
        inside, inner = self._from(depth - 1)
        where = self._inner_where(columns, inner, depth - 1)
        numbers = self._of_kind(inner, INT)
        calls = [f"{f}({c.name})" for c in numbers for f in ("sum", "min", "max")]
        call = self.rng.choice(["count(*)", *calls])
        items, made = self._outputs(columns, 2)
        return f"SELECT {items}, (SELECT {call} FROM {inside}{where}) AS n FROM {source}", (*made, Column("n", INT))

    def _set_operation(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        rng = self.rng
        left, columns = self._select(rng.choice((0, depth - 1)))
        right_source, right_columns = self._from(rng.choice((0, depth - 1)))
        items = ", ".join(f"{self._value(right_columns, column.kind)} AS d{n}" for n, column in enumerate(columns))
        names = ", ".join(column.name for column in columns)
        where = f" WHERE {self._condition(right_columns)}" if rng.random() < 0.4 else ""
        operation = rng.choice(("UNION ALL", "UNION", "INTERSECT ALL", "INTERSECT", "EXCEPT ALL", "EXCEPT"))
        self.operators.append(operation.lower())
        alias = self._alias()
        return f"SELECT {names} FROM ({left}) AS {alias} {operation} SELECT {items} FROM {right_source}{where}", columns

    def _distinct(self, depth: int) -> tuple[str, tuple[Column, ...]]:
        source, columns = self._from(depth - 1)
        items, made = self._outputs(columns, 3)
        where = f" WHERE {self._condition(columns)}" if self.rng.random() < 0.4 else ""
        return f"SELECT DISTINCT {items} FROM {source}{where}", made

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
