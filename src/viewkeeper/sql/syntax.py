"""Pieces of syntax that a translation adds: casts, parentheses, typed literals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from viewkeeper.algebra.expressions import VOID
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.errors import Name, TypeMismatch
from viewkeeper.sql.dialect import literal_suffix, type_source

_SUFFIXES = {"L": "bigint", "S": "smallint", "Y": "tinyint", "D": "double", "F": "float"}
_SIMPLE = (
    exp.Column,
    exp.Literal,
    exp.Anonymous,
    exp.Paren,
    exp.Placeholder,
    exp.Null,
    exp.Boolean,
    exp.Cast,
    exp.Case,
)


def grouped(node: exp.Expr) -> exp.Expr:
    """Syntax in parentheses where it needs them inside an expression."""
    return node if isinstance(node, _SIMPLE) else exp.Paren(this=node)


def cast(node: exp.Expr, kind: Type) -> exp.Cast:
    """CAST(node AS kind)."""
    to = exp.DataType(this=exp.DType.USERDEFINED, kind=kind.ddl)
    to.meta["source"] = kind.ddl
    return exp.Cast(this=node, to=to)


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """name(arguments)."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def column(table: str, name: str) -> exp.Column:
    """table.name."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def named(node: exp.Expr, name: str) -> exp.Alias:
    """node AS name."""
    return exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def table(name: str, alias: str, at: Name) -> exp.Table:
    """name AS alias; errors about it have the position of another name, which it replaces."""
    this = exp.Identifier(this=name, quoted=True)
    this.meta.update(start=at.start, end=at.end - 1)
    return exp.Table(this=this, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def case(branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None = None) -> exp.Case:
    """CASE WHEN condition THEN value ... [ELSE default] END."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in branches], default=default)


def joined(kind: type[exp.Expr], tests: Sequence[exp.Expr]) -> exp.Expr:
    """Conditions under one connective, as a balanced tree."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    sides = [joined(kind, part) for part in (tests[:half], tests[half:])]
    return kind(this=grouped(sides[0]), expression=grouped(sides[1]))


def number(node: exp.Expr) -> str | None:
    """The text of a literal number with its sign; None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        inside = number(node.this)
        return None if inside is None else f"-{inside}"
    return str(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def integer(node: exp.Expr) -> int | None:
    """The value of a literal integer, also with a suffix."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        inside = integer(node.this) if not isinstance(node.this, (exp.Neg, exp.Paren)) else None
        return None if inside is None else -inside
    if isinstance(node, exp.Cast) and literal_suffix(node) in ("L", "S", "Y"):
        node = node.this
    text = number(node)
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def literal_type(node: exp.Expr) -> Type | None:
    """The type of a literal, as Apache Spark reads it; None if it is no literal, or of a type no column can have."""
    if isinstance(node, exp.Null):
        return VOID
    if isinstance(node, exp.Boolean):
        return Type("boolean")
    if isinstance(node, exp.Literal) and node.is_string:
        return Type("string")
    text = number(node)
    return None if text is None else _number_type(text)


def _number_type(text: str) -> Type | None:
    if re.fullmatch(r"-?\d+", text):
        value = int(text)
        for name, bits in (("int", 31), ("bigint", 63)):
            if -(1 << bits) <= value < 1 << bits:
                return Type(name)
    if "e" in text.lower():
        return Type("double")
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = len((whole + fraction).lstrip("0"))
    precision = max(digits, len(fraction), 1)
    return Type("decimal", precision, len(fraction)) if precision <= 38 else None


def cast_type(node: exp.Cast | exp.TryCast) -> Type | None:
    """The type that a cast, or a literal with a type, gives; None if no column can have it."""
    suffix = literal_suffix(node)
    if suffix == "BD":
        return _number_type(str(node.this.this) + ("" if "." in str(node.this.this) else "."))
    if suffix in _SUFFIXES:
        return Type(_SUFFIXES[suffix])
    try:
        return parse_type(suffix or type_source(node))
    except TypeMismatch:
        return None
