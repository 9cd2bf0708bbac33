"""Rules as SQL: a rule is a join of its atoms, negation is NOT EXISTS, an aggregate a group-by of distinct solutions.

NULL is a value like any other for atoms, negation and `=`; other comparisons with it do not hold. A count or sum is 0
where its body has no solution: that is an alternative of its own, with NOT EXISTS. The SQL front end translates the
text to algebra, so rules and views are maintained by the same laws.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.types import Type, quote
from viewkeeper.datalog.normal import NormalAggregate, NormalBody, NormalRule
from viewkeeper.datalog.program_tree import Atom, Comparison, Constraint, StringTest, Truth
from viewkeeper.datalog.term_texts import REAL, WHOLE, Value, Values, text_literal
from viewkeeper.datalog.terms import Term, Text, Variable, Wildcard
from viewkeeper.datalog.wording import where
from viewkeeper.errors import DatalogError


@dataclass(frozen=True)
class Relations:
    """What a rule may name: columns of relations, and the user's functions with the types they return.

    `recursive` are the relations that the rule's head depends on and that depend on it.
    """

    schemas: Mapping[str, Schema]
    functions: Mapping[str, str]
    recursive: Collection[str] = ()


def selects(rule: NormalRule, relations: Relations, head: Schema | None) -> list[str]:
    """A rule as queries; the distinct rows of all of them are what it derives. `head` has the declared columns."""
    return [_Select(rule, relations, chosen).text(head) for chosen in _alternatives(rule.body)]


def column_names(rule: NormalRule) -> tuple[str, ...]:
    """Names for the columns of an undeclared relation: the variables of a rule's head where their names differ."""
    names: list[str] = []
    for position, term in enumerate(rule.head.arguments, 1):
        taken = [name.lower() for name in names]
        name = term.name if isinstance(term, Variable) and term.name[0].isalpha() else ""
        if not name or name.lower() in taken:
            name = f"c{position}"
        while name in taken:
            name += "_"
        names.append(name)
    return tuple(names)


def _alternatives(body: NormalBody) -> Iterator[tuple[bool, ...]]:
    """For each aggregate, whether its body has solutions; only count and sum have an alternative without any."""
    choices = [(True, False) if a.function in ("count", "sum") and a.outer else (True,) for a in body.aggregates]
    return itertools.product(*choices)


class _Select:
    """Writes one rule."""

    def __init__(self, rule: NormalRule, relations: Relations, chosen: Sequence[bool]) -> None:
        self.rule = rule
        self.relations = relations
        self.body = _Body(relations, itertools.count(1))
        self.body.read(rule.body, rule, chosen)

    def text(self, head: Schema | None) -> str:
        columns = head.columns if head is not None else (None,) * len(self.rule.head.arguments)
        pairs = zip(self.rule.head.arguments, columns, strict=True)
        listed = [self._column(term, column, number) for number, (term, column) in enumerate(pairs, 1)]
        return f"SELECT {', '.join(listed)}{self.body.tail()}"

    def _column(self, term: Term, column: Column | None, number: int) -> str:
        value = self.body.values.of(term, column.type if column is not None else None)
        if column is None:
            return f"{value.sql} AS {quote(f'c{number}')}"
        if column.type.is_integer and not value.type.is_integer and value.type.name in ("double", "float", "decimal"):
            raise DatalogError(
                f"{term} is a {value.type}, and column {column.name} of {self.rule.head.relation} a {column.type}",
                detail=where(self.rule),
                hint=f"use to_number({term})",
                place=term.place,
            )
        same = value.type.ddl == column.type.ddl
        return f"{value.sql if same else f'CAST({value.sql} AS {column.type.ddl})'} AS {quote(column.name)}"


class _Body:
    """The tables and conditions of a conjunction, and the values of its variables."""

    def __init__(self, relations: Relations, numbers: Iterator[int]) -> None:
        self.relations = relations
        self.numbers = numbers
        self.tables: list[str] = []
        self.tests: list[str] = []
        self.known: dict[str, Value] = {}
        self.wild: list[str] = []
        self.values = Values(self.known, relations.functions)

    def tail(self) -> str:
        """FROM and WHERE."""
        tables = f" FROM {', '.join(self.tables)}" if self.tables else ""
        return f"{tables} WHERE {' AND '.join(self.tests)}" if self.tests else tables

    def read(self, body: NormalBody, rule: NormalRule, chosen: Sequence[bool]) -> None:
        """Adds the tables and conditions of a conjunction."""
        later: list[tuple[Value, Term]] = []
        for atom in body.positive:
            later += self._atom(atom)
        waiting: list[Constraint | tuple[NormalAggregate, bool]] = [
            *body.constraints,
            *zip(body.aggregates, chosen, strict=True),
        ]
        progress = True
        while progress:
            progress = False
            for part in list(waiting):
                if self._binds(part, rule):
                    waiting.remove(part)
                    progress = True
        for column, term in later:
            self.tests.append(_same(column, self.values.of(term, column.type)))
        for part in waiting:
            assert not isinstance(part, tuple), "its outer variables are bound"
            self.tests.append(self._test(part))
        for atom in body.negated:
            self.tests.append(self._absent(atom))

    def _columns(self, atom: Atom) -> Iterator[tuple[str, Term, Column]]:
        alias = f"t{next(self.numbers)}"
        self.tables.append(f"{quote(atom.relation)} AS {alias}")
        schema = self.relations.schemas[atom.relation]
        for term, column in zip(atom.arguments, schema, strict=True):
            yield f"{alias}.{quote(column.name)}", term, column

    def _atom(self, atom: Atom) -> list[tuple[Value, Term]]:
        later: list[tuple[Value, Term]] = []
        for name, term, column in self._columns(atom):
            value = Value(name, column.type, column.nullable)
            match term:
                case Wildcard():
                    self.wild.append(name)
                case Variable() if term.name not in self.known:
                    self.known[term.name] = value
                case Variable():
                    self.tests.append(_same(self.known[term.name], value))
                case _:
                    later.append((value, term))
        return later

    def _binds(self, part: Constraint | tuple[NormalAggregate, bool], rule: NormalRule) -> bool:
        """Whether a part can bind a variable now; if so, it does."""
        if isinstance(part, tuple):
            if not all(variable.name in self.known for variable in part[0].outer):
                return False
            self._aggregate(*part, rule)
            return True
        if not isinstance(part, Comparison) or part.operator != "=":
            return False
        for one, other in ((part.left, part.right), (part.right, part.left)):
            if isinstance(one, Variable) and one.name not in self.known and self.values.is_known(other):
                self.known[one.name] = self.values.of(other)
                return True
        return False

    # conditions ----------------------------------------------------------------------------------

    def _test(self, part: Constraint) -> str:
        match part:
            case Truth():
                return str(part.holds).lower()
            case StringTest():
                return self._string_test(part)
            case _:
                left = self.values.of(part.left)
                right = self.values.of(part.right, left.type)
                left = self.values.of(part.left, right.type)
                if part.operator == "=":
                    return _same(left, right)
                sign = "<>" if part.operator == "!=" else part.operator
                return f"{left.sql} {sign} {right.sql}"

    def _string_test(self, part: StringTest) -> str:
        left, right = self.values.of(part.left).sql, self.values.of(part.right).sql
        if part.name == "contains":
            test = f"contains({right}, {left})"
        else:
            whole = f"concat('^(?:', {left}, ')$')"
            pattern = text_literal(f"^(?:{part.left.value})$") if isinstance(part.left, Text) else whole
            test = f"regexp_like({right}, {pattern})"
        return f"NOT {test}" if part.negated else test

    def _absent(self, atom: Atom) -> str:
        inner = _Body(self.relations, self.numbers)
        tests = [
            _same(Value(name, column.type, column.nullable), self.values.of(term, column.type))
            for name, term, column in inner._columns(atom)
            if not isinstance(term, Wildcard)
        ]
        when = f" WHERE {' AND '.join(tests)}" if tests else ""
        return f"NOT EXISTS (SELECT 1 FROM {inner.tables[0]}{when})"

    # aggregates ----------------------------------------------------------------------------------

    def _aggregate(self, aggregate: NormalAggregate, has_solutions: bool, rule: NormalRule) -> None:
        query, kind = self._grouped(aggregate, rule)
        alias = f"t{next(self.numbers)}"
        outer = [(self.known[variable.name], f"{alias}.{quote(f'o{i}')}") for i, variable in enumerate(aggregate.outer)]
        equal = [_same(known, Value(name, known.type, known.nullable)) for known, name in outer]
        if has_solutions:
            self.tables.append(f"({query}) AS {alias}")
            self.tests += equal
            result = Value(f"{alias}.{quote('r')}", kind, nullable=False)
        else:
            self.tests.append(f"NOT EXISTS (SELECT 1 FROM ({query}) AS {alias} WHERE {' AND '.join(equal)})")
            result = Value(f"CAST(0 AS {kind.ddl})", kind, nullable=False)
        name = aggregate.result.name
        if name in self.known:
            self.tests.append(_same(self.known[name], result))
        else:
            self.known[name] = result

    def _grouped(self, aggregate: NormalAggregate, rule: NormalRule) -> tuple[str, Type]:
        """The values of an aggregate for each combination of its outer variables, as a query."""
        queries = [self._solutions(aggregate, rule, chosen) for chosen in _alternatives(aggregate.body)]
        rows = " UNION ".join(query for query, _ in queries)
        target = queries[0][1]
        kind = {"count": WHOLE, "mean": REAL}.get(aggregate.function, target)
        call = {
            "count": "count(*)",
            "sum": f"coalesce(sum(v), CAST(0 AS {kind.ddl}))",
            "mean": "avg(v)",
            "min": "min(v)",
            "max": "max(v)",
        }[aggregate.function]
        groups = [quote(f"o{i}") for i in range(len(aggregate.outer))]
        listed = ", ".join([*groups, f"CAST({call} AS {kind.ddl}) AS {quote('r')}"])
        by = f" GROUP BY {', '.join(groups)}" if groups else ""
        some = "" if aggregate.function in ("count", "sum") else f" HAVING {call} IS NOT NULL"
        return f"SELECT {listed} FROM ({rows}) AS s{by}{some}", kind

    def _solutions(self, aggregate: NormalAggregate, rule: NormalRule, chosen: Sequence[bool]) -> tuple[str, Type]:
        """The distinct solutions of an aggregate's body, as a query, and the type of its target."""
        inner = _Body(self.relations, self.numbers)
        bound = {name for atom in aggregate.body.positive for name in _variables(atom)}
        for atom in self._around(rule, [v.name for v in aggregate.outer if v.name not in bound]):
            inner._atom(atom)
        inner.wild.clear()
        around = set(inner.known)
        inner.read(aggregate.body, rule, chosen)
        outer = [f"{inner.known[v.name].sql} AS {quote(f'o{i}')}" for i, v in enumerate(aggregate.outer)]
        skipped = around | {variable.name for variable in aggregate.outer}
        own = [value.sql for name, value in inner.known.items() if name not in skipped]
        target = inner.values.of(aggregate.target) if aggregate.target is not None else Value("1", WHOLE)
        kind = WHOLE if target.type.is_integer else target.type
        value = f"CAST({target.sql} AS {kind.ddl}) AS v"
        listed = [*outer, *(f"{sql} AS {quote(f's{i}')}" for i, sql in enumerate([*own, *inner.wild])), value]
        return f"SELECT DISTINCT {', '.join(listed)}{inner.tail()}", kind

    def _around(self, rule: NormalRule, names: Sequence[str]) -> Sequence[Atom]:
        """Atoms of a rule that bind some of its variables, preferably ones outside its recursion."""
        atoms = sorted(rule.body.positive, key=lambda atom: atom.relation in self.relations.recursive)
        chosen: dict[Atom, None] = {}
        for name in names:
            binding = [atom for atom in atoms if name in _variables(atom)]
            if not binding:
                return rule.body.positive
            if not any(atom in chosen for atom in binding):
                chosen[binding[0]] = None
        return list(chosen)


def _variables(atom: Atom) -> set[str]:
    return {term.name for term in atom.arguments if isinstance(term, Variable)}


def _same(left: Value, right: Value) -> str:
    """Equality of values, where NULL equals NULL."""
    return f"{left.sql} {'<=>' if left.nullable and right.nullable else '='} {right.sql}"
