"""Random projections, joins, subqueries and set operations."""

from __future__ import annotations

from tests.property.conditions import Conditions
from tests.property.schemas import (
    INT,
    Column,
)


class Joins(Conditions):
    """Queries that need no grouping and no order."""

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
