"""Algebra as PostgreSQL queries, one function per operator.

Columns are named by the labels of their attributes. A change has a `_weight`; everything else is plain rows, duplicates
repeated. `Once` becomes a materialized WITH query, everything else is inlined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from textwrap import indent
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import DOUBLE, Attribute, Call, Cast, Expression, Literal, column
from viewkeeper.algebra.schema import WEIGHT
from viewkeeper.errors import NotMaintainable
from viewkeeper.triggers.postgres_narrowing import parts_of, scans
from viewkeeper.triggers.postgres_scalars import GROUP, WINDOW, condition_of, extremum, text_of
from viewkeeper.triggers.postgres_types import are_comparable, identifier, spelled

LOG_WEIGHT = "_vk_weight"
_SHORT = 100
_ROWS_SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_BOUND = r"(UNBOUNDED PRECEDING|UNBOUNDED FOLLOWING|CURRENT ROW|\d+ PRECEDING|\d+ FOLLOWING)"
_SHARED = re.compile(r"SELECT \* FROM (_vk_step_\d+)")
_FRAME = re.compile(rf"(ROWS BETWEEN {_BOUND} AND {_BOUND})?|RANGE BETWEEN [A-Z ]+ AND [A-Z ]+")


def log_of(relation: str) -> str:
    """The name of the log: the table with the transaction's changes of a relation."""
    return identifier(f"_vk_log_{relation}")


@dataclass(frozen=True)
class Printed:
    """A query, and the queries of its WITH."""

    query: str
    shared: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The query with its WITH."""
        if not self.shared:
            return self.query
        parts = ",\n".join(f"{name} AS MATERIALIZED (\n{indent(text, '  ')}\n)" for name, text in self.shared)
        return f"WITH {parts}\n{self.query}"


def printed(node: n.Node, changed: Collection[str] = (), known: Collection[Attribute] = ()) -> Printed:
    """The query of an expression. A relation that is not `changed` has the same old and new state.

    `known` are the attributes that are never NULL.
    """
    printer = _Printer(frozenset(changed), frozenset(known), any(map(_may_raise, parts_of(node))))
    query = printer.select(node)
    return Printed(query, tuple(printer.shared.values()))


def never_null(node: n.Node, tables: Collection[str]) -> frozenset[Attribute]:
    """The columns of tables that are declared NOT NULL; an outer join's nullable columns have other ids."""
    return frozenset(a for scan in scans(node) if scan.relation in tables for a in scan.attributes if not a.nullable)


class _Printer:
    """Prints one query. `fallible`: something in it may raise, so nothing is computed for deleted rows."""

    def __init__(self, changed: frozenset[str], known: frozenset[Attribute], fallible: bool) -> None:
        self.changed = changed
        self.known = known
        self.fallible = fallible
        self.shared: dict[n.Scan | int, tuple[str, str]] = {}
        self._texts: dict[int, tuple[n.Node, str]] = {}

    def select(self, node: n.Node) -> str:
        """An expression as a SELECT. Cached by identity: printing or hashing shared nodes again is exponential."""
        if id(node) not in self._texts:
            if type(node) not in _OPERATORS:
                raise NotMaintainable(*_REFUSED[type(node)])
            self._texts[id(node)] = (node, _OPERATORS[type(node)](self, node))
        return self._texts[id(node)][1]

    def _from(self, node: n.Node, name: str = "t") -> str:
        text = self.select(node)
        shared = _SHARED.fullmatch(text)
        return f"{shared[1] if shared else _nested(text)} AS {name}"

    def _share(self, node: n.Node, make: Callable[[], str]) -> str:
        """A query that is put into the WITH once for all its uses."""
        key = node if isinstance(node, n.Scan) else id(node)
        if key not in self.shared:
            text = make()
            self.shared[key] = (f"_vk_step_{len(self.shared) + 1}", text)
        return f"SELECT * FROM {self.shared[key][0]}"

    # leaves --------------------------------------------------------------------------------------

    def _scan(self, node: n.Scan) -> str:
        return self._read(node, lambda text: text)

    def _read(self, node: n.Scan, restricted: Callable[[str], str]) -> str:
        """A relation in one of its states, restricted to the wanted rows.

        The old state is the current one without the inserted rows and with the deleted ones.
        """
        pairs = list(zip(node.attributes, node.stored_names, strict=True))
        for attribute, _ in pairs:
            spelled(attribute.type)
        names = [f"{identifier(column)} AS {a.label}" for a, column in pairs]
        labels = [a.label for a in node.attributes]
        now = restricted(_selected(names, f"FROM {identifier(node.relation)}"))
        if node.state == n.NEW or node.relation not in self.changed:
            return now
        log = log_of(node.relation)
        if node.state == n.CHANGE:
            groups = [identifier(column) for _, column in pairs]
            total = f"CAST(sum({LOG_WEIGHT}) AS bigint)"
            text = f"SELECT {_listed(*names, f'{total} AS {WEIGHT}')} FROM {log}"
            whole = f"{text}\n{_grouped(groups)}HAVING sum({LOG_WEIGHT}) <> 0"
            return restricted(self._share(node, lambda: whole))
        here = restricted(_selected([*names, "1 AS _vk_n"], f"FROM {identifier(node.relation)}"))
        undone = restricted(_selected([*names, f"-{LOG_WEIGHT}"], f"FROM {log}"))
        both = _nested(f"{here}\nUNION ALL\n{undone}")
        names = [*labels, "CAST(sum(_vk_n) AS bigint) AS _vk_n"]
        there = self._fence("sum(_vk_n)")
        total = f"SELECT {_listed(*names)} FROM {both} AS t {_grouped(labels)}{there}".rstrip()
        return _selected(labels, f"FROM {_nested(total)} AS t, generate_series(1, _vk_n) AS copies")

    def _fence(self, copies: str) -> str:
        """Leaves out rows without copies before anything is computed for them (OFFSET 0)."""
        return f"HAVING {copies} > 0 OFFSET 0" if self.fallible else ""

    def _rows(self, node: n.Rows) -> str:
        if not node.attributes:
            return "SELECT 1 AS _vk_one"
        kinds = [(a.label, spelled(a.type)) for a in node.attributes]
        if not node.rows:
            return "SELECT " + ", ".join(f"CAST(NULL AS {kind}) AS {label}" for label, kind in kinds) + " WHERE false"
        selects = []
        for row in node.rows:
            values = zip(node.attributes, row, strict=True)
            texts = [f"{text_of(_cast(value, a))} AS {a.label}" for a, value in values]
            selects.append("SELECT " + ", ".join(texts))
        return "\nUNION ALL\n".join(selects)

    # linear --------------------------------------------------------------------------------------

    def _project(self, node: n.Project) -> str:
        texts = [_named(text_of(e), a.label) for a, e in node.columns]
        return _selected([*texts, *_weight(node.input)], f"FROM {self._from(node.input)}")

    def _filter(self, node: n.Filter) -> str:
        return f"SELECT * FROM {self._from(node.input)}\nWHERE {condition_of(node.condition)}"

    def _union(self, node: n.Union) -> str:
        weighted = n.is_change(node)
        branches = []
        for part in node.inputs:
            names = [_named(a.label, out.label) for a, out in zip(part.outputs, node.outputs, strict=True)]
            weight = (_weight(part) or [f"CAST(1 AS bigint) AS {WEIGHT}"]) if weighted else []
            branches.append(_selected([*names, *weight], f"FROM {self._from(part)}"))
        return "\nUNION ALL\n".join(branches)

    # joins ---------------------------------------------------------------------------------------

    def _join(self, node: n.Join) -> str:
        sources = [self._from(part, f"t{i}") for i, part in enumerate(node.inputs, 1)]
        labels = [a.label for a in node.outputs]
        weight = [WEIGHT] if n.is_change(node) else []
        tests = self._tests(node.equalities, node.conditions)
        where = f"\nWHERE {' AND '.join(tests)}" if tests else ""
        return _selected([*labels, *weight], "\nFROM " + "\nCROSS JOIN ".join(sources) + where)

    def _outer(self, node: n.Outer) -> str:
        assert not node.full, "full joins were rewritten before"
        renamed = {inner: outer for outer, inner in node.padded}
        both = (*node.left.outputs, *node.right.outputs)
        names = [_named(a.label, renamed.get(a, a).label) for a in both]
        tests = " AND ".join(self._tests(node.equalities, node.conditions)) or "true"
        source = f"\nFROM {self._from(node.left, 't1')}\nLEFT JOIN {self._from(node.right, 't2')}\nON {tests}"
        return _selected([*names, *_weight(node.left)], source)

    def _exists(self, node: n.Exists) -> str:
        tests = self._tests(node.equalities, node.conditions)
        where = f"\nWHERE {' AND '.join(tests)}" if tests else ""
        partner = _nested(f"SELECT 1 FROM {self._from(node.right, 't2')}{where}")
        word = "NOT EXISTS" if node.negated else "EXISTS"
        return f"SELECT * FROM {self._from(node.left, 't1')}\nWHERE {word} {partner}"

    def _tests(self, equalities: Iterable[n.Equality], conditions: Iterable[Expression]) -> list[str]:
        return [*(self._equal(e) for e in equalities), *(condition_of(condition) for condition in conditions)]

    def _equal(self, equality: n.Equality) -> str:
        one, other = equality.left, equality.right
        if not are_comparable(one.type, other.type):
            raise NotMaintainable(
                f"{equality}: {one.type} and {other.type} are compared differently in PostgreSQL",
                hint="CAST one of them",
            )
        return self._same(one, other) if equality.null_safe else f"{one.label} = {other.label}"

    def _same(self, one: Attribute, other: Attribute, label: str = "") -> str:
        """one <=> other. In arrays NULL equals NULL, and they can be hashed, unlike with IS NOT DISTINCT FROM."""
        label = label or other.label
        if one in self.known or other in self.known:
            return f"{one.label} = {label}"
        if one.type.name == other.type.name == "string":
            return f"ARRAY[CAST({one.label} AS text)] = ARRAY[CAST({label} AS text)]"
        if one.type.name == other.type.name:
            return f"ARRAY[{one.label}] = ARRAY[{label}]"
        return f"{one.label} IS NOT DISTINCT FROM {label}"

    # by row --------------------------------------------------------------------------------------

    def _distinct(self, node: n.Distinct) -> str:
        return _selected([a.label for a in node.outputs], f"FROM {self._from(node.input)}", "SELECT DISTINCT")

    def _monus(self, node: n.Monus) -> str:
        return self._counted(node, "greatest(sum(_vk_a) - sum(_vk_b), 0)")

    def _least(self, node: n.Least) -> str:
        return self._counted(node, "least(sum(_vk_a), sum(_vk_b))")

    def _counted(self, node: n.Monus | n.Least, copies: str) -> str:
        """Rows with so many copies as an expression of their counts on the left and on the right says."""
        sides = []
        for side, counts in ((node.left, "1 AS _vk_a, 0 AS _vk_b"), (node.right, "0, 1")):
            names = [_named(a.label, out.label) for a, out in zip(side.outputs, node.outputs, strict=True)]
            sides.append(f"SELECT {_listed(*names, counts)} FROM {self._from(side)}")
        labels = [a.label for a in node.outputs]
        both = _nested("\nUNION ALL\n".join(sides))
        there = self._fence(copies)
        total = f"SELECT {_listed(*labels, f'{copies} AS _vk_n')} FROM {both} AS t {_grouped(labels)}{there}".rstrip()
        return _selected(labels, f"FROM {_nested(total)} AS t, generate_series(1, _vk_n) AS copies")

    # by group, partition, order ------------------------------------------------------------------

    def _aggregate(self, node: n.Aggregate) -> str:
        labels = [a.label for a in node.groups]
        calls = [_named(_call(call), call.output.label) for call in node.calls]
        if not calls:
            return _selected(labels, f"FROM {self._from(node.input)}", "SELECT DISTINCT")
        return _selected([*labels, *calls], f"FROM {self._from(node.input)} {_grouped(labels)}".rstrip())

    def _window(self, node: n.Window) -> str:
        texts = []
        for call in node.calls:
            keys = list(node.order)
            if call.tie_break:
                keys += _whole_row(node.input.outputs, node.partition, node.order)
            if not _FRAME.fullmatch(call.frame):
                raise NotMaintainable(f"the window frame {call.frame} may differ in PostgreSQL", hint="count in ROWS")
            texts.append(_named(text_of(call.text, WINDOW, _over(node.partition, keys, call.frame)), call.output.label))
        labels = [a.label for a in node.input.outputs]
        return _selected([*labels, *texts], f"FROM {self._from(node.input)}")

    def _top(self, node: n.Top) -> str:
        keys = [*node.order, *_whole_row(node.input.outputs, node.partition, node.order)]
        labels = [a.label for a in node.outputs]
        number = f"row_number() {_over(node.partition, keys, _ROWS_SO_FAR)} AS _vk_rank"
        ranked = _nested(f"SELECT {_listed(*labels, number)} FROM {self._from(node.input)}")
        last = f" AND _vk_rank <= {node.offset + node.limit}" if node.limit is not None else ""
        return _selected(labels, f"FROM {ranked} AS t\nWHERE _vk_rank > {node.offset}{last}")

    # changes -------------------------------------------------------------------------------------

    def _negate(self, node: n.Negate) -> str:
        weight = f"-{WEIGHT} AS {WEIGHT}" if n.is_change(node.input) else f"CAST(-1 AS bigint) AS {WEIGHT}"
        return _selected([*(a.label for a in node.outputs), weight], f"FROM {self._from(node.input)}")

    def _net(self, node: n.Net) -> str:
        """OFFSET 0 keeps PostgreSQL from testing conditions on rows that cancel."""
        labels = [a.label for a in node.outputs]
        total = f"CAST(sum({WEIGHT}) AS bigint) AS {WEIGHT}"
        source = f"FROM {self._from(node.input)} {_grouped(labels)}HAVING sum({WEIGHT}) <> 0 OFFSET 0"
        return _selected([*labels, total], source)

    def _support(self, node: n.Support) -> str:
        return _selected([a.label for a in node.outputs], f"FROM {self._from(node.input)}", "SELECT DISTINCT")

    def _unbalanced(self, node: n.Unbalanced) -> str:
        """All rows: PostgreSQL looks up balanced groups as well."""
        return self.select(node.input)

    def _once(self, node: n.Once) -> str:
        return self._share(node, lambda: self.select(node.input))

    def _restrict(self, node: n.Restrict) -> str:
        def restricted(text: str) -> str:
            names = [f"{theirs.label} AS _vk_k{i}" for i, (_, theirs) in enumerate(node.on)]
            keys = _nested(_selected(names, f"FROM {self._from(node.right)}"))
            tests = [self._same(mine, theirs, f"_vk_k{i}") for i, (mine, theirs) in enumerate(node.on)]
            where = f" WHERE {' AND '.join(tests)}" if tests else ""
            shared = _SHARED.fullmatch(text)
            text = shared[1] if shared else _nested(text)
            return f"SELECT * FROM {text} AS t\nWHERE EXISTS {_nested(f'SELECT 1 FROM {keys} AS k{where}')}"

        if isinstance(node.left, n.Scan):
            return self._read(node.left, restricted)
        return restricted(self.select(node.left))

    def _both(self, node: n.Both) -> str:
        labels = [a.label for a in node.left.outputs]
        if isinstance(node.right, n.Rows):  # unchanged
            source = f"FROM {self._from(node.left)}, (VALUES (0), (1)) AS states (s)"
            return _selected([*labels, f"s AS {node.state.label}"], source)
        theirs = [_named(a.label, label) for a, label in zip(node.right.outputs, labels, strict=True)]
        before = f"SELECT {_listed(*labels, '1 AS _vk_o', '1 AS _vk_n')} FROM {self._from(node.left)}"
        change = f"SELECT {_listed(*theirs, '0', WEIGHT)} FROM {self._from(node.right)}"
        sums = "CAST(sum(_vk_o) AS bigint) AS _vk_o, CAST(sum(_vk_n) AS bigint) AS _vk_n"
        union = _nested(f"{before}\nUNION ALL\n{change}")
        total = _nested(f"SELECT {_listed(*labels, sums)} FROM {union} AS t {_grouped(labels)}".rstrip())
        old, new = (f"SELECT {state} AS s FROM generate_series(1, {copies})" for state, copies in _STATES)
        copies = f"LATERAL ({old} UNION ALL {new}) AS states"
        return _selected([*labels, f"s AS {node.state.label}"], f"FROM {total} AS t,\n{copies}")

    def _signed(self, node: n.Signed) -> str:
        weight = f"CAST(CASE WHEN {node.state.label} = 1 THEN 1 ELSE -1 END AS bigint) AS {WEIGHT}"
        return _selected([*(a.label for a in node.outputs), weight], f"FROM {self._from(node.input)}")


def _may_raise(node: n.Node) -> bool:
    """Whether a node itself computes a fallible expression."""
    return any(_raises(getattr(node, field.name)) for field in fields(node))  # type: ignore[arg-type]


def _raises(part: Any) -> bool:
    if isinstance(part, Expression):
        return part.raises
    if isinstance(part, tuple):
        return any(map(_raises, part))
    if isinstance(part, (n.Call, n.WindowCall)):
        return any(_raises(getattr(part, field.name)) for field in fields(part))
    return False


def _cast(value: Expression, attribute: Attribute) -> Expression:
    return Cast(value, attribute.type, fallible=False)


_STATES = (("0", "_vk_o"), ("1", "_vk_n"))


def _call(call: n.Call) -> str:
    """An aggregate over plain rows."""
    if call.share is not None and call.argument is not None and not call.share.discrete:
        part = Decimal(call.share.part)
        share = Literal(f"{1 - part if call.share.descending else part:f}", DOUBLE)
        return text_of(Call("percentile", (column(call.argument), share)), GROUP)
    if call.text is not None:
        return text_of(call.text, GROUP)
    if call.argument is None:
        return "count(*)"
    label, kind = call.argument.label, call.argument.type
    if call.function == "count":
        return f"count({label})"
    if call.function == "sum":
        return f"CAST(sum(CAST({label} AS numeric)) AS {spelled(call.output.type)})"
    return extremum(call.function, label, kind)


def _whole_row(
    outputs: tuple[Attribute, ...], partition: tuple[Attribute, ...], order: tuple[n.Order, ...]
) -> list[n.Order]:
    """The rest of a row as order keys, so that ties are broken deterministically."""
    used = {*partition, *(key.attribute for key in order)}
    return [n.Order(a) for a in outputs if a not in used]


def _over(partition: Sequence[Attribute], order: Sequence[n.Order], frame: str) -> str:
    parts = []
    if partition:
        parts.append("PARTITION BY " + ", ".join(a.label for a in partition))
    if order:
        parts.append("ORDER BY " + ", ".join(_order(key) for key in order))
    if frame:
        parts.append(frame)
    return f"OVER ({' '.join(parts)})"


def _order(key: n.Order) -> str:
    collation = ' COLLATE "C"' if key.attribute.type.name == "string" else ""
    nulls = "NULLS FIRST" if key.nulls_first else "NULLS LAST"
    return f"{key.attribute.label}{collation} {'DESC' if key.descending else 'ASC'} {nulls}"


# text --------------------------------------------------------------------------------------------


def _weight(node: n.Node) -> list[str]:
    return [WEIGHT] if n.is_change(node) else []


def _named(text: str, label: str) -> str:
    return text if text == label else f"{text} AS {label}"


def _listed(*texts: str) -> str:
    return ", ".join(texts)


def _selected(texts: Sequence[str], rest: str, word: str = "SELECT") -> str:
    """A SELECT, also of no columns."""
    listed = ", ".join(texts) or "1 AS _vk_one"
    return f"{word} {listed}{'' if rest.startswith(chr(10)) else ' '}{rest}"


def _grouped(labels: Sequence[str]) -> str:
    return f"GROUP BY {', '.join(labels)} " if labels else ""


def _nested(text: str) -> str:
    if "\n" not in text and len(text) < _SHORT:
        return f"({text})"
    return f"(\n{indent(text, '  ')}\n)"


_REFUSED: dict[type[n.Node], tuple[str]] = {
    n.Fixpoint: ("a recursive view has no triggers for PostgreSQL",),
    n.Rederived: ("a recursive view has no triggers for PostgreSQL",),
    n.Generate: ("explode and other table functions have no triggers for PostgreSQL",),
}

_OPERATORS: dict[type[n.Node], Callable[[Any, Any], str]] = {
    n.Scan: _Printer._scan,
    n.Rows: _Printer._rows,
    n.Project: _Printer._project,
    n.Filter: _Printer._filter,
    n.Join: _Printer._join,
    n.Outer: _Printer._outer,
    n.Exists: _Printer._exists,
    n.Union: _Printer._union,
    n.Distinct: _Printer._distinct,
    n.Monus: _Printer._monus,
    n.Least: _Printer._least,
    n.Aggregate: _Printer._aggregate,
    n.Window: _Printer._window,
    n.Top: _Printer._top,
    n.Negate: _Printer._negate,
    n.Net: _Printer._net,
    n.Support: _Printer._support,
    n.Unbalanced: _Printer._unbalanced,
    n.Once: _Printer._once,
    n.Restrict: _Printer._restrict,
    n.Both: _Printer._both,
    n.Signed: _Printer._signed,
}
"""How each operator is printed."""
