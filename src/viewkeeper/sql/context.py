"""What one translation shares: the user's text and positions in it, column ids, types, and rendering."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import ClassVar, NoReturn, Protocol

from sqlglot import exp

from viewkeeper.algebra.expressions import STRING, Attribute, Expression, Literal, Numbers, column, explicit
from viewkeeper.algebra.nodes import Node, Project
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import EngineError, NotMaintainable, Place, SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.sql.dialect import place_in
from viewkeeper.sql.operators import WrittenOut
from viewkeeper.sql.trees import Trees


class Typer(Protocol):
    """Says what types an engine gives to expressions."""

    @property
    def coerces(self) -> bool:
        """Whether operators need no explicit casts and checks: the engine is Apache Spark, or nothing is run."""

    def columns(self, items: Sequence[Expression]) -> list[tuple[str, str]]:
        """Names and types of `SELECT items FROM (typed NULLs as their attributes)`; nothing is run."""


class Context:
    """One translation of one text."""

    repeatable: ClassVar[bool] = True
    """Whether sums of floats must not depend on the order of rows: a view is compared with its recomputation."""

    refuses: ClassVar[bool] = True
    """Whether a call that gives other results on the engine than on Apache Spark is refused."""

    def __init__(self, text: str, whole: str, typer: Typer) -> None:
        self.text = text
        self.whole = whole
        self.typer = typer
        self.numbers = Numbers()
        prefix = "_vk"
        while prefix in text:
            prefix += "k"
        self._prefix = prefix
        self._marker = re.compile(rf"{prefix}(\d+)a")
        self._attributes: dict[int, Attribute] = {}
        self.null_for_none: set[Attribute] = set()
        """Values of aggregates that are NULL for empty input."""

    # positions and refusals ---------------------------------------------------------------------------

    def place(self, node: exp.Expr | None) -> Place | None:
        """The position of a piece of syntax in the user's text."""
        if node is None:
            return None
        marks = [part.meta for part in node.walk() if "start" in part.meta]
        if not marks:
            return None
        start = min(mark["start"] for mark in marks)
        end = max(mark["end"] for mark in marks)
        return place_in(self.text, start, end - start + 1, self.whole)

    def refuse(self, message: str, node: exp.Expr | None, hint: str | None = None) -> NoReturn:
        """Refuses a construct that cannot be maintained."""
        raise NotMaintainable(message, place=self.place(node), hint=hint)

    def wrong(self, message: str, node: exp.Expr | None, hint: str | None = None) -> NoReturn:
        """Refuses text that is not valid SQL."""
        raise SqlError(message, place=self.place(node), hint=hint)

    # attributes inside syntax ----------------------------------------------------------------------

    def marked(self, attribute: Attribute, at: exp.Expr | None = None) -> exp.Column:
        """An attribute as a piece of syntax, with the position of what it replaces."""
        self._attributes[attribute.number] = attribute
        name = exp.Identifier(this=f"{self._prefix}{attribute.number}a", quoted=False)
        node = exp.Column(this=name)
        if at is not None:
            marks = [part.meta for part in at.walk() if "start" in part.meta]
            if marks:
                name.meta.update(start=min(m["start"] for m in marks), end=max(m["end"] for m in marks))
        return node

    def attribute_of(self, node: exp.Expr | None) -> Attribute | None:
        """The attribute that a piece of bound syntax consists of, if it is nothing else."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column) and (found := self._marker.fullmatch(node.name)):
            return self._attributes[int(found.group(1))]
        return None

    def attributes_in(self, node: exp.Expr) -> set[Attribute]:
        """The attributes that a piece of bound syntax names."""
        return {found for part in node.find_all(exp.Column) if (found := self.attribute_of(part)) is not None}

    def expression(self, bound: exp.Expr) -> Expression:
        """Bound syntax (every column an attribute) as an expression."""
        return self.tree(self.written_out(bound))

    def written_out(self, bound: exp.Expr) -> exp.Expr:
        """Bound syntax with every cast and check made explicit that the engine does not make by itself."""
        return bound if self.typer.coerces else WrittenOut(self)(bound)

    def tree(self, written: exp.Expr) -> Expression:
        """Bound syntax as an expression, with no other casts and checks than are written."""
        return Trees(self._resolved, self._prefix, coerces=self.typer.coerces).of(written)

    def _resolved(self, node: exp.Expr) -> Expression | None:
        attribute = self.attribute_of(node)
        return None if attribute is None else column(attribute)

    # types -----------------------------------------------------------------------------------------

    def types(self, expressions: Sequence[Expression], at: Sequence[exp.Expr | None] = ()) -> list[Type]:
        """The types of expressions; those that no column can have are refused."""
        inputs = tuple(dict.fromkeys(a for e in expressions for a in e.attributes))
        places = [*at, *([None] * (len(expressions) - len(at)))]
        try:
            answered = self.typer.columns(expressions)
        except ViewkeeperError as problem:
            raise self._explained(problem, inputs, next((p for p in places if p is not None), None)) from problem
        return [self._type(ddl, at) for (_, ddl), at in zip(answered, places, strict=True)]

    def _type(self, ddl: str, at: exp.Expr | None) -> Type:
        try:
            return parse_type(ddl)
        except TypeMismatch as problem:
            if ddl == "void":
                self.wrong("a column that is always NULL has no type", at, "write for instance CAST(NULL AS STRING)")
            raise NotMaintainable(problem.message, place=self.place(at), hint=problem.hint) from None

    def _explained(self, problem: ViewkeeperError, inputs: Iterable[Attribute], at: exp.Expr | None) -> ViewkeeperError:
        """An engine's error with the user's names in place of column ids."""
        names = {a.label: a.name for a in inputs}
        problem.message = _named(problem.message.splitlines()[0], names)
        if problem.detail:
            problem.detail = _named(problem.detail, names)
        place = self.place(at)
        if type(problem) is EngineError or type(problem) is SqlError:
            what = re.sub(r"^invalid argument: ", "", problem.message)
            return SqlError(
                f"the engine cannot run this: {what}", detail=problem.detail, hint=problem.hint, place=place
            )
        problem.place = place
        return problem

    def asked_type(self, node: exp.Expr, variables: Mapping[str, Type]) -> Type | None:
        """The type that the engine gives to bound syntax; None if no column can have it, or the engine cannot say."""
        asked = self._with_columns(node.copy(), variables)
        try:
            return self.types([self.tree(asked)])[0]
        except ViewkeeperError:
            return None

    def _with_columns(self, node: exp.Expr, variables: Mapping[str, Type]) -> exp.Expr:
        """Syntax in which the variables of lambdas around it are columns."""

        def known(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Identifier) or part.name not in variables:
                return part
            above = part.parent
            named = isinstance(above, (exp.Column, exp.Alias)) or (
                isinstance(above, exp.Dot) and above.this is not part
            )
            bound = isinstance(above, exp.Lambda) and above.this is not part
            return part if named or bound else self.marked(self.numbers.attribute(part.name, variables[part.name]))

        return node.transform(known, copy=False) if variables else node

    def type_of(self, expression: Expression, at: exp.Expr | None = None) -> Type:
        """The type of an expression."""
        attribute = expression.attribute
        return attribute.type if attribute is not None else self.types([expression], [at])[0]

    def syntax_type(self, node: exp.Expr) -> Type | None:
        """The type of bound syntax; None if it has none that a column can have."""
        try:
            return self.type_of(self.expression(node))
        except ViewkeeperError:  # the type of the syntax around it is asked for next, and then raises
            return None

    def is_constant(self, node: exp.Expr, variables: Container[str] = ()) -> bool:
        """Whether bound syntax names neither a column nor a variable of a lambda."""
        return not any(
            isinstance(part, exp.Column) or (isinstance(part, exp.Identifier) and part.name in variables)
            for part in node.walk()
        )

    # columns ---------------------------------------------------------------------------------------

    def project(
        self, node: Node, named: Sequence[tuple[str, Expression]], at: Sequence[exp.Expr | None] = ()
    ) -> Project:
        """A projection with one column per expression, in their order."""
        return Project(node, tuple(self._columns(set(node.outputs), named, at)))

    def _columns(
        self, local: set[Attribute], named: Sequence[tuple[str, Expression]], at: Sequence[exp.Expr | None] = ()
    ) -> list[tuple[Attribute, Expression]]:
        """Columns of a projection. A plain attribute of the input keeps its column id the first time."""
        places = [*at, *([None] * (len(named) - len(at)))]
        named = [(name, explicit(expression)) for name, expression in named]
        asked = [(e, p) for (_, e), p in zip(named, places, strict=True) if e.attribute is None]
        kinds = iter(self.types([e for e, _ in asked], [p for _, p in asked]) if asked else [])
        taken: set[Attribute] = set()
        result: list[tuple[Attribute, Expression]] = []
        for name, expression in named:
            attribute = expression.attribute
            if attribute is None:
                nullable = not is_plain_literal(expression)
                result.append((self.numbers.attribute(name, next(kinds), nullable=nullable), expression))
            elif attribute in taken or attribute not in local:
                copy = self.numbers.attribute(name, attribute.type, nullable=attribute.nullable)
                result.append((copy, expression))
            else:
                taken.add(attribute)
                result.append((attribute, expression))
        return result

    def extend(self, node: Node, wanted: Sequence[tuple[str, Expression]]) -> tuple[Node, list[Attribute]]:
        """A node with computed columns added, and the attribute of each; plain attributes are used as they are."""
        wanted = [(name, explicit(expression)) for name, expression in wanted]
        computed: dict[Expression, str] = {}
        for name, expression in wanted:
            if expression.attribute is None:
                computed.setdefault(expression, shown(expression, name))
        made = dict(zip(computed, self._columns(set(), [(n, e) for e, n in computed.items()]), strict=True))
        if made:
            passed = [(a, column(a)) for a in node.outputs]
            node = Project(node, (*passed, *made.values()))
        return node, [e.attribute or made[e][0] for _, e in wanted]


def is_plain_literal(expression: Expression) -> bool:
    """Whether an expression is a number or string as written, which is never NULL."""
    if not isinstance(expression, Literal) or expression.value is None:
        return False
    kind = expression.type
    return kind == STRING or kind.is_integer or kind.is_float or kind.name == "decimal"


def shown(expression: Expression, otherwise: str) -> str:
    """A name for display: the expression as text, if it is short."""
    name = str(expression)
    return name if len(name) <= 40 else otherwise


def _named(message: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\bc\d+\b", lambda found: names.get(found.group(), found.group()), message)


def passed_on(attributes: Iterable[Attribute]) -> tuple[tuple[Attribute, Expression], ...]:
    """Columns of a projection that pass attributes through."""
    return tuple((a, column(a)) for a in dict.fromkeys(attributes))
