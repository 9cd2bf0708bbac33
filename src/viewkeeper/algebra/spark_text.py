"""Expressions as Spark SQL text, with parentheses where precedence needs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.types import Type, spelled

Named = Callable[[e.Attribute], str]

_ANY, _OR, _AND, _NOT, _TEST, _OPERAND, _SUM, _PRODUCT, _SIGN, _ATOM = range(10)
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "div": _PRODUCT}
INFIX = {"like": "LIKE", "ilike": "ILIKE"}
"""Functions of two values that are written between them."""
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\x1a": "\\Z"}
_SUFFIXES = {"bigint": "L", "smallint": "S", "tinyint": "Y", "double": "D", "float": "F"}
_PREFIXES = {"date": "DATE", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ"}


def _label(attribute: e.Attribute) -> str:
    return attribute.label


def printed(expression: e.Expression, named: Named = _label) -> str:
    """The text of an expression. Attributes have their labels, or the names that `named` gives."""
    return _Printer(named).of(expression)


def type_text(kind: Type) -> str:
    """A type as a cast names it."""
    return kind.ddl if kind.is_nested else kind.ddl.upper()


class _Printer:
    def __init__(self, named: Named) -> None:
        self.named = named

    def of(self, expression: e.Expression, level: int = _ANY) -> str:
        """The text of an expression, in parentheses if it binds less than a level."""
        text, own = _FORMS[type(expression)](self, expression)
        return text if own >= level else f"({text})"

    def _listed(self, parts: tuple[e.Expression, ...]) -> str:
        return ", ".join(self.of(part) for part in parts)

    def column(self, node: e.Column) -> tuple[str, int]:
        return self.named(node.of), _ATOM

    def name(self, node: e.Name) -> tuple[str, int]:
        return spelled(node.name), _ATOM

    def variable(self, node: e.Variable) -> tuple[str, int]:
        return node.name, _ATOM

    def literal(self, node: e.Literal) -> tuple[str, int]:
        text = literal_text(node)
        return text, _SIGN if text.startswith("-") else _ATOM

    def comparison(self, node: e.Comparison) -> tuple[str, int]:
        return f"{self.of(node.left, _OPERAND)} {node.operator} {self.of(node.right, _OPERAND)}", _TEST

    def both(self, node: e.And) -> tuple[str, int]:
        return " AND ".join(self.of(part, _NOT) for part in node.conditions), _AND

    def either(self, node: e.Or) -> tuple[str, int]:
        return " OR ".join(self.of(part, _AND) for part in node.conditions), _OR

    def opposite(self, node: e.Not) -> tuple[str, int]:
        return f"NOT {self.of(node.child, _NOT)}", _NOT

    def is_null(self, node: e.IsNull) -> tuple[str, int]:
        return f"{self.of(node.child, _OPERAND)} IS {'NOT ' if node.negated else ''}NULL", _TEST

    def among(self, node: e.In) -> tuple[str, int]:
        return f"{self.of(node.child, _OPERAND)} IN ({self._listed(node.options)})", _TEST

    def between(self, node: e.Between) -> tuple[str, int]:
        child, low, high = (self.of(part, _OPERAND) for part in node.children)
        return f"{child} BETWEEN {low} AND {high}", _TEST

    def arithmetic(self, node: e.Arithmetic) -> tuple[str, int]:
        level = _LEVELS[node.operator]
        return f"{self.of(node.left, level)} {node.operator} {self.of(node.right, level + 1)}", level

    def negative(self, node: e.Negative) -> tuple[str, int]:
        return f"-{self.of(node.child, _ATOM)}", _SIGN

    def cast(self, node: e.Cast) -> tuple[str, int]:
        if node.implicit:
            return _FORMS[type(node.child)](self, node.child)
        return f"{'TRY_' if node.tries else ''}CAST({self.of(node.child)} AS {type_text(node.type)})", _ATOM

    def case(self, node: e.Case) -> tuple[str, int]:
        branches = " ".join(f"WHEN {self.of(test)} THEN {self.of(value)}" for test, value in node.branches)
        rest = "" if node.default is None else f" ELSE {self.of(node.default)}"
        return f"CASE {branches}{rest} END", _ATOM

    def call(self, node: e.Call) -> tuple[str, int]:
        if node.name in INFIX and len(node.arguments) == 2:
            left, right = (self.of(part, _OPERAND) for part in node.arguments)
            return f"{left} {INFIX[node.name]} {right}", _TEST
        text = f"{node.name}({'DISTINCT ' if node.distinct else ''}{self._listed(node.arguments)})"
        return (text if node.where is None else f"{text} FILTER (WHERE {self.of(node.where)})"), _ATOM

    def function(self, node: e.Lambda) -> tuple[str, int]:
        names = ", ".join(node.variables)
        return f"{f'({names})' if len(node.variables) != 1 else names} -> {self.of(node.body)}", _ANY

    def over(self, node: e.Over) -> tuple[str, int]:
        words = [f"PARTITION BY {self._listed(node.partition)}"] if node.partition else []
        if node.order:
            keys = [
                f"{self.of(value)} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
                for value, down, first in node.order
            ]
            words.append(f"ORDER BY {', '.join(keys)}")
        words += [node.frame] if node.frame else []
        return f"{self.of(node.call)} OVER ({' '.join(words)})", _ATOM

    def opaque(self, node: e.Opaque) -> tuple[str, int]:
        texts = [node.pieces[0]]
        for part, piece in zip(node.parts, node.pieces[1:], strict=True):
            texts += [self.of(part, _ATOM), piece]
        return "".join(texts), _ANY


def literal_text(node: e.Literal) -> str:
    """A constant as it is written."""
    kind, value = node.type, node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if kind.name == "string":
        return "'" + "".join(_ESCAPES.get(letter, letter) for letter in str(value)) + "'"
    if kind.name in _PREFIXES:
        return f"{_PREFIXES[kind.name]}'{value}'"
    text = str(value)
    if kind.name == "decimal":
        return text if "." in text else f"{text}BD"
    if kind.name == "bigint" and not -(1 << 31) <= int(value) < 1 << 31:
        return text
    if kind.name == "double" and "e" in text.lower():
        return text
    return text + _SUFFIXES.get(kind.name, "")


_FORMS: dict[type[e.Expression], Callable[[_Printer, Any], tuple[str, int]]] = {
    e.Column: _Printer.column,
    e.Name: _Printer.name,
    e.Variable: _Printer.variable,
    e.Literal: _Printer.literal,
    e.Comparison: _Printer.comparison,
    e.And: _Printer.both,
    e.Or: _Printer.either,
    e.Not: _Printer.opposite,
    e.IsNull: _Printer.is_null,
    e.In: _Printer.among,
    e.Between: _Printer.between,
    e.Arithmetic: _Printer.arithmetic,
    e.Negative: _Printer.negative,
    e.Cast: _Printer.cast,
    e.Case: _Printer.case,
    e.Call: _Printer.call,
    e.Lambda: _Printer.function,
    e.Over: _Printer.over,
    e.Opaque: _Printer.opaque,
}
"""How each kind of node is written."""
