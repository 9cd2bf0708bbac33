"""The relational algebra: immutable nodes over bags of rows.

Every node has `inputs` and `outputs`. The same nodes describe queries (over relations as they are) and changes of
queries (over the old state, the new state and the change of relations); `Scan.state` says which.

    query nodes    Scan Rows Project Filter Join Outer Exists Union Distinct Monus Least Aggregate Window Top Generate
                   Fixpoint
    change nodes   Negate Net Support Unbalanced Once Both Signed Restrict   (made by the laws, never by a query)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from viewkeeper.algebra.datalog_rules import Literal, Predicate, Rule
from viewkeeper.algebra.expressions import Attribute, Expression, Numbers
from viewkeeper.algebra.expressions import Equality as Equality

N = TypeVar("N", bound="Node")
T = TypeVar("T")

NEW, OLD, CHANGE = "new", "old", "change"
"""What a scan reads of a relation: its state after the transaction, its state before, or its change."""


class Node:
    """A relational expression."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The expressions it reads."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """Its columns."""
        raise NotImplementedError

    def with_inputs(self: N, inputs: tuple[Node, ...]) -> N:
        """The same node over other inputs; the same object if nothing differs."""
        if all(one is other for one, other in zip(self.inputs, inputs, strict=True)):
            return self
        names = _INPUTS[type(self)]
        if names == ("inputs",):
            return dataclasses.replace(self, inputs_=inputs)  # type: ignore[type-var]
        return dataclasses.replace(self, **dict(zip(names, inputs, strict=True)))  # type: ignore[type-var]

    def walk(self) -> Iterator[Node]:
        """This node and all below it, each object once: the changes of outer joins share most of what they read."""
        seen: set[int] = set()
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                waiting.extend(reversed(node.inputs))

    @cached_property
    def scans(self) -> tuple[Scan, ...]:
        """The scans among this node and all below it, which maintenance asks for in every commit."""
        return tuple(part for part in self.walk() if isinstance(part, Scan))


@dataclass(frozen=True)
class Scan(Node):
    """A stored relation. `columns` are the names of its columns, by position; none if attributes are named alike."""

    relation: str
    name: str
    attributes: tuple[Attribute, ...]
    state: str = NEW
    columns: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None: a leaf."""
        return ()

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The columns it takes of the relation."""
        return self.attributes

    @cached_property
    def stored_names(self) -> list[str]:
        """The names of its columns in the relation."""
        return list(self.columns) or [attribute.name for attribute in self.attributes]


@dataclass(frozen=True)
class Rows(Node):
    """Rows written in the query (VALUES); with no attributes and one empty row, a SELECT without FROM."""

    attributes: tuple[Attribute, ...]
    rows: tuple[tuple[Expression, ...], ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None: a leaf."""
        return ()

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """One per value."""
        return self.attributes


@dataclass(frozen=True)
class _Unary(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """Those of the input."""
        return self.input.outputs


@dataclass(frozen=True)
class Project(_Unary):
    """Computes columns, row by row. An attribute that is passed through keeps its column id: (a, a)."""

    columns: tuple[tuple[Attribute, Expression], ...]

    @cached_property
    def outputs(self) -> tuple[Attribute, ...]:
        """The computed columns."""
        return tuple(attribute for attribute, _ in self.columns)


@dataclass(frozen=True)
class Filter(_Unary):
    """Keeps the rows for which a condition is true."""

    condition: Expression


@dataclass(frozen=True)
class Join(Node):
    """Inner join of any number of inputs (a cross join where nothing connects them). Weights multiply.

    `parents` are pairs of input positions: the join compares a foreign key of the first input with the key of the
    second, so each value of it that is not NULL has a match there.
    """

    inputs_: tuple[Node, ...]
    equalities: tuple[Equality, ...] = ()
    conditions: tuple[Expression, ...] = ()
    parents: tuple[tuple[int, int], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The joined expressions."""
        return self.inputs_

    @cached_property
    def outputs(self) -> tuple[Attribute, ...]:
        """All columns, input by input."""
        return tuple(attribute for part in self.inputs_ for attribute in part.outputs)


@dataclass(frozen=True)
class _Binary(Node):
    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)


@dataclass(frozen=True)
class Outer(_Binary):
    """LEFT or FULL outer join; a RIGHT join is a LEFT one with its sides swapped.

    `left` of an equality is a column of the left input, `right` one of the right. The outputs of a side that may be
    missing are new, nullable attributes: `padded` pairs each output with the input's attribute it carries.
    """

    equalities: tuple[Equality, ...]
    conditions: tuple[Expression, ...]
    padded: tuple[tuple[Attribute, Attribute], ...]
    full: bool = False

    @cached_property
    def outputs(self) -> tuple[Attribute, ...]:
        """Left columns, then right columns; those of a side that may be missing under new attributes."""
        renamed = {inner: outer for outer, inner in self.padded}
        return tuple(renamed.get(a, a) for a in (*self.left.outputs, *self.right.outputs))


@dataclass(frozen=True)
class Exists(_Binary):
    """Semi join: the left rows that have a partner on the right. Negated, an anti join: those that have none."""

    equalities: tuple[Equality, ...]
    conditions: tuple[Expression, ...] = ()
    negated: bool = False

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """Those of the left side."""
        return self.left.outputs


@dataclass(frozen=True)
class Union(Node):
    """UNION ALL: the inputs' columns by position, under new attributes of the same types."""

    inputs_: tuple[Node, ...]
    attributes: tuple[Attribute, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The branches."""
        return self.inputs_

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The common columns."""
        return self.attributes


@dataclass(frozen=True)
class Distinct(_Unary):
    """Every row once (duplicate elimination, ε)."""


@dataclass(frozen=True)
class Monus(_Binary):
    """EXCEPT ALL: max(0, m - n) copies. By position, under new attributes. EXCEPT is ε(S) monus ε(T)."""

    attributes: tuple[Attribute, ...]

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The common columns."""
        return self.attributes


@dataclass(frozen=True)
class Least(_Binary):
    """INTERSECT ALL: min(m, n) copies. By position, under new attributes. INTERSECT is ε(S) least ε(T)."""

    attributes: tuple[Attribute, ...]

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The common columns."""
        return self.attributes


@dataclass(frozen=True)
class Share:
    """Which value a percentile is: `part` of the way along the values that are not NULL, in order.

    Between two values it is interpolated; a `discrete` one is the first value of which at least that part of the values
    is not after it. `part` is the text of a number from 0 to 1.
    """

    part: str
    descending: bool = False
    discrete: bool = False

    def shown(self, argument: object) -> str:
        """The percentile of a column as a user would write it."""
        if not self.descending and not self.discrete:
            return f"percentile({argument}, {self.part})"
        name = "percentile_disc" if self.discrete else "percentile_cont"
        return f"{name}({self.part}) WITHIN GROUP (ORDER BY {argument}{' DESC' if self.descending else ''})"


@dataclass(frozen=True)
class Call:
    """An aggregate: `output` is its column.

    Without `text` it is an aggregate maintained from its stored value: count, sum, min, max of `argument` (count(*)
    without one). The output of a sum is DECIMAL(38, scale) for every input. With `text` it is any other aggregate; with
    a `share` as well, a percentile of `argument`, which is a DOUBLE.
    """

    output: Attribute
    function: str
    argument: Attribute | None = None
    text: Expression | None = None
    share: Share | None = None

    def substituted(self, known: Mapping[Attribute, Expression]) -> Call:
        """The call with expressions in place of attributes of its text."""
        if self.text is None:
            return self
        made = dataclasses.replace(self, text=self.text.substitute(known))
        return dataclasses.replace(made, argument=None, share=None) if self.argument in known else made


@dataclass(frozen=True)
class Aggregate(_Unary):
    """GROUP BY attributes of the input. `whole`: no GROUP BY, so exactly one row even for empty input."""

    groups: tuple[Attribute, ...]
    calls: tuple[Call, ...]
    whole: bool = False

    @cached_property
    def outputs(self) -> tuple[Attribute, ...]:
        """The groups, then the aggregates."""
        return (*self.groups, *(call.output for call in self.calls))


@dataclass(frozen=True)
class Order:
    """A sort key."""

    attribute: Attribute
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class WindowCall:
    """A window function. `frame` is the text of its frame, empty for none; `tie_break`: see Window."""

    output: Attribute
    text: Expression
    frame: str = ""
    tie_break: bool = False


@dataclass(frozen=True)
class Window(_Unary):
    """Window functions of one partition and order. With a tie break, the whole input row is the last order key."""

    partition: tuple[Attribute, ...]
    order: tuple[Order, ...]
    calls: tuple[WindowCall, ...]

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The input's columns, then the functions."""
        return (*self.input.outputs, *(call.output for call in self.calls))


@dataclass(frozen=True)
class Top(_Unary):
    """Top-k: ORDER BY ... LIMIT ... OFFSET per partition (without one, of all rows). The whole row breaks ties."""

    partition: tuple[Attribute, ...]
    order: tuple[Order, ...]
    limit: int | None
    offset: int = 0


@dataclass(frozen=True)
class Generate(_Unary):
    """A table function of each row (explode, inline ...); `outer` keeps the rows for which it returns none."""

    text: Expression
    generated: tuple[Attribute, ...]
    outer: bool = False

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The input's columns, then the generated ones."""
        return (*self.input.outputs, *self.generated)


@dataclass(frozen=True)
class Fixpoint(Node):
    """The least fixpoint of the rules of some recursive relations; its rows are those of the relation `shown`.

    Relations are sets unless `bag`: then a row occurs as often as it can be derived. `inputs` are the expressions
    outside the recursion that rules read, `stored` the stored relations of the recursive ones, where there are any.
    """

    inputs_: tuple[Node, ...]
    predicates: tuple[Predicate, ...]
    rules: tuple[Rule, ...]
    shown: str
    attributes: tuple[Attribute, ...]
    bag: bool = False
    stored: tuple[tuple[str, Scan], ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The expressions outside the recursion."""
        return self.inputs_

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The columns of the relation that is shown."""
        return self.attributes


# nodes of the laws of change ------------------------------------------------------------------


@dataclass(frozen=True)
class Negate(_Unary):
    """The same rows with opposite weights."""


@dataclass(frozen=True)
class Net(_Unary):
    """The net change: every row once, no zero weights. Rows that cancel out cannot raise in an operator above it."""


@dataclass(frozen=True)
class Support(_Unary):
    """The rows of a change as a set, without their weights: the touched keys."""


@dataclass(frozen=True)
class Unbalanced(_Unary):
    """The rows of a change without those of balanced groups, in which linear aggregates stay what they were.

    A group is balanced if its weights sum up to 0, those of rows where an argument is not NULL as well, and so do the
    values of the arguments in `summed`, each times its weight. To leave out fewer rows is right too.
    """

    groups: tuple[Attribute, ...]
    counted: tuple[Attribute, ...]
    summed: tuple[Attribute, ...]


@dataclass(frozen=True)
class Once(_Unary):
    """A change that is used more than once: computed once and cached for the transaction."""


@dataclass(frozen=True)
class Restrict(_Binary):
    """left ⋉ right: the rows of `left` whose columns equal (<=>) some row of `right`; `on` pairs the columns."""

    on: tuple[tuple[Attribute, Attribute], ...]

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """Those of the left side."""
        return self.left.outputs


@dataclass(frozen=True)
class Both(_Binary):
    """S@old and S@new as one relation: `left` is S@old, `right` is δS; each copy of a row carries its state.

    `state` is 0 for the old and 1 for the new state. An operator computed per state above it gives its old and its new
    result from one read of S.
    """

    state: Attribute

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """The columns of S, and the state."""
        return (*self.left.outputs, self.state)


@dataclass(frozen=True)
class Signed(_Unary):
    """The rows of both states as a change: weight +1 for new ones, -1 for old ones."""

    state: Attribute

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """All but the state."""
        return tuple(a for a in self.input.outputs if a != self.state)


@dataclass(frozen=True)
class Rederived(Node):
    """The change of a recursion that is not stored, derived on demand from the changes of some relations."""

    recursion: Fixpoint
    changed: tuple[str, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What the recursion reads, in the new state."""
        return self.recursion.inputs

    @property
    def outputs(self) -> tuple[Attribute, ...]:
        """Those of the recursion."""
        return self.recursion.outputs

    def with_inputs(self, inputs: tuple[Node, ...]) -> Rederived:
        """The same over other inputs."""
        return dataclasses.replace(self, recursion=self.recursion.with_inputs(inputs))


_INPUTS: dict[type[Node], tuple[str, ...]] = {
    Scan: (),
    Rows: (),
    Join: ("inputs",),
    Union: ("inputs",),
    Fixpoint: ("inputs",),
    Rederived: ("inputs",),
    **dict.fromkeys((Outer, Exists, Monus, Least, Restrict, Both), ("left", "right")),
    **dict.fromkeys(
        (Project, Filter, Distinct, Aggregate, Window, Top, Generate, Negate, Net, Support, Unbalanced, Once, Signed),
        ("input",),
    ),
}

KINDS = tuple(_INPUTS)


def _hashed_once(kind: type[Node]) -> None:
    """Keeps the hash of each node of a kind: a shared node stands in many others, whose hashes are made of its own."""
    made: Callable[[Node], int] = kind.__hash__

    def kept(self: Node) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = made(self)
        return found

    kind.__hash__ = kept  # type: ignore[method-assign, assignment]


for _kind in KINDS:
    _hashed_once(_kind)


# walking ----------------------------------------------------------------------------------------


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """Replaces nodes bottom-up, each object once; the same object where nothing changes."""
    return _transformed(node, change, {})


def _transformed(node: Node, change: Callable[[Node], Node], done: dict[int, Node]) -> Node:
    """No function inside `transform`: one that calls itself would hold on to `change` and what that refers to."""
    if id(node) not in done:
        below = tuple(_transformed(part, change, done) for part in node.inputs)
        done[id(node)] = change(node.with_inputs(below))
    return done[id(node)]


def map_attributes(part: T, rename: Callable[[Attribute], Attribute]) -> T:
    """A node, or a part of one, with every attribute in it replaced; what is shared in it stays so."""
    found: T = _renamed(part, rename, {})
    return found


def _renamed(piece: Any, rename: Callable[[Attribute], Attribute], done: dict[int, Any]) -> Any:
    if isinstance(piece, Attribute):
        return rename(piece)
    if isinstance(piece, tuple):
        return tuple(_renamed(each, rename, done) for each in piece)
    if not isinstance(piece, (Node, Expression, Equality, Call, Order, WindowCall, Literal, Predicate, Rule)):
        return piece
    if id(piece) not in done:
        fields = dataclasses.fields(piece)  # type: ignore[arg-type]
        changed = {field.name: _renamed(getattr(piece, field.name), rename, done) for field in fields}
        done[id(piece)] = dataclasses.replace(piece, **changed)  # type: ignore[type-var]
    return done[id(piece)]


def fresh(node: N, numbers: Numbers) -> tuple[N, dict[Attribute, Attribute]]:
    """The same expression with new column ids, and the new attribute of each old one."""
    known: dict[Attribute, Attribute] = {}

    def rename(attribute: Attribute) -> Attribute:
        if attribute not in known:
            known[attribute] = numbers.like(attribute)
        return known[attribute]

    return map_attributes(node, rename), known


def scans(node: Node) -> tuple[Scan, ...]:
    """The scans below a node."""
    return node.scans


def expressions_in(part: Any) -> Iterator[Expression]:
    """The scalar expressions of a node, of all below it, and all inside these."""
    if isinstance(part, Expression):
        yield from part.walk()
    elif isinstance(part, tuple):
        for piece in part:
            yield from expressions_in(piece)
    elif isinstance(part, (Node, Call, WindowCall, Literal, Rule)):
        for field in dataclasses.fields(part):  # type: ignore[arg-type]
            yield from expressions_in(getattr(part, field.name))


def is_change(node: Node) -> bool:
    """Whether an expression is a change, whose rows have weights."""
    match node:
        case Scan():
            return node.state == CHANGE
        case Negate() | Net() | Signed() | Rederived():
            return True
        case Project() | Filter() | Generate() | Once() | Unbalanced():
            return is_change(node.input)
        case Join() | Union():
            return any(is_change(part) for part in node.inputs)
        case Restrict() | Exists() | Outer():
            return is_change(node.left)
        case _:
            return False


def produced(node: Node) -> Iterator[Attribute]:
    """The attributes that a node and those below it produce; inside a recursion, those of its rules too."""
    for part in node.walk():
        yield from part.outputs
        if isinstance(part, Fixpoint):
            for predicate in part.predicates:
                yield from predicate.attributes
            for rule in part.rules:
                yield from (a for literal in rule.body for a in literal.attributes)
                yield from (a for a, _ in rule.computed)
                yield from (a for a, _ in rule.computed)


def highest(node: Node) -> int:
    """The highest column id in a node and those below it."""
    return max((a.number for a in produced(node)), default=0)


def at(node: Node, state: str) -> Node:
    """The same expression over all its relations in one state."""

    def read(part: Node) -> Node:
        return dataclasses.replace(part, state=state) if isinstance(part, Scan) and part.state != state else part

    return transform(node, read)
