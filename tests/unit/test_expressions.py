"""Expressions: what a tree says of itself, how it is printed, stored, and put into the forms that Sail needs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Attribute, Expression, column, comparison, integer
from viewkeeper.algebra.sail_forms import sail_form
from viewkeeper.algebra.schema import Column, Schema
from viewkeeper.algebra.serial import from_json, to_json
from viewkeeper.algebra.types import Type, parse_type
from viewkeeper.sql.dialect import parse_expression
from viewkeeper.sql.row_trees import row_tree
from viewkeeper.sql.trees import Trees

KINDS = {"a": "int", "b": "bigint", "s": "string", "d": "date", "x": "double", "m": "decimal(10,2)", "t": "boolean"}
SCHEMA = Schema(tuple(Column(name, parse_type(kind)) for name, kind in KINDS.items()))
A, B = Attribute(1, "a", Type("int")), Attribute(2, "b", Type("int"))

SAME = [
    "a + b * 2 - (a - b)",
    "(a + b) * -2",
    "a - (b - 1) - 1",
    "a / (b / 2) % 3",
    "-(a + 1)",
    "NOT (a = 1 OR t) AND b > 2",
    "(a = 1) = t",
    "a = 1 AND (b = 2 OR t)",
    "(a + 1) IS NOT NULL",
    "a NOT IN (1, 2)",
    "a BETWEEN b - 1 AND b + 1",
    "s LIKE 'a%' OR s IS NULL",
    "CASE WHEN a > 0 THEN 1.50 WHEN t THEN NULL ELSE -2 END",
    "CAST(a AS DECIMAL(12,2))",
    "TRY_CAST(s AS INT)",
    "coalesce(s, 'it is', concat(s, s))",
    "d < DATE'2024-01-01'",
    "5L + 1.5D",
    "transform(array(a, b), v -> v + a)",
    "aggregate(array(a), 0, (v, w) -> v + w)",
    "count(DISTINCT a, b)",
    "sum(a) FILTER (WHERE b > 0)",
    "array(a, b)[a + 1]",
    "d + INTERVAL '1' DAY",
    "s <=> 'x'",
    "a div 2",
    "'it\\'s' || 'a\\\\b\\n'",
    "s NOT LIKE 'a' AND a NOT BETWEEN 1 AND 2",
    "t IS NOT TRUE",
]


def tree(text: str) -> Expression:
    return row_tree(parse_expression(text), SCHEMA)


@pytest.mark.parametrize("text", SAME)
def test_text_and_tree_mean_the_same(text: str) -> None:
    made = tree(text)
    assert tree(str(made)) == made
    assert hash(tree(text)) == hash(made)


@pytest.mark.parametrize("text", SAME)
def test_a_tree_survives_the_ledger(text: str) -> None:
    made = tree(text).substitute({})
    node = n.Project(n.Rows((), ((),)), ((Attribute(9, "v", Type("int")), made),))
    assert from_json(to_json(node)) == node


def test_parentheses_only_where_they_are_needed() -> None:
    assert str(tree("((a) + ((b * 2)))")) == "a + b * 2"
    assert str(tree("(a = 1) AND ((b = 2) AND t)")) == "a = 1 AND b = 2 AND t"


def test_every_kind_has_its_children() -> None:
    for text in SAME:
        for part in tree(text).walk():
            assert part.with_children(part.children) == part
    assert set(e.KINDS) == {kind for kind in vars(e).values() if dataclasses.is_dataclass(kind) and _is_tree(kind)}


def _is_tree(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Expression)


def test_attributes_are_substituted() -> None:
    made = comparison("=", e.plain("+", A, B), integer(1))
    other = made.substitute({A: e.plain("*", B, integer(2))})
    assert (str(other), other.attributes) == ("b * 2 + b = 1", (B,))
    assert made.substitute({Attribute(3, "c", Type("int")): column(A)}) is made


@pytest.mark.parametrize(
    ("text", "raises"),
    [
        ("a = 1", False),
        ("a = s", True),
        ("a + 1 = 2", True),
        ("s LIKE 'x'", False),
        ("coalesce(a, 0) > b", False),
        ("upper(s) = 'x'", True),
        ("CAST(a AS BIGINT) > b", False),
        ("CAST(b AS INT) > a", True),
        ("TRY_CAST(s AS INT) > a", False),
        ("t AND a IN (1, 2) OR d IS NULL", False),
        ("CASE WHEN t THEN a ELSE 1 END", False),
        ("CASE WHEN t THEN a ELSE s END", True),
    ],
)
def test_what_can_raise(text: str, raises: bool) -> None:
    assert tree(text).raises is raises


def spark(text: str) -> Expression:
    """The tree with the casts that Apache Spark adds."""

    def named(node: Any) -> Expression | None:
        found = SCHEMA.find(node.name)
        return None if found is None else e.Name(found.name, found.type)

    return Trees(named, "_vk", coerces=True).of(parse_expression(text))


@pytest.mark.parametrize(
    ("text", "kind", "operands"),
    [
        ("a + b", "bigint", ["bigint", "bigint"]),
        ("a / 2", "double", ["double", "double"]),
        ("m * 2", "decimal(12,2)", ["decimal(10,2)", "decimal(1,0)"]),
        ("m + a", "decimal(13,2)", ["decimal(10,2)", "decimal(10,0)"]),
        ("m / m", "decimal(23,13)", ["decimal(10,2)", "decimal(10,2)"]),
        ("s + 1", "bigint", ["bigint", "bigint"]),
        ("x > a", "boolean", ["double", "double"]),
        ("d = '2024-01-01'", "boolean", ["date", "date"]),
        ("m > 1.5", "boolean", ["decimal(10,2)", "decimal(2,1)"]),
    ],
)
def test_implicit_casts_are_recorded_and_not_written(text: str, kind: str, operands: list[str]) -> None:
    made = spark(text)
    assert made.type is not None
    assert made.type.ddl == kind
    assert [child.type.ddl for child in made.children if child.type is not None] == operands
    assert str(made) == text


def test_a_part_that_stands_alone_is_cast() -> None:
    made = spark("x > a")
    assert [str(e.explicit(side)) for side in made.children] == ["x", "CAST(a AS DOUBLE)"]


def test_forms_for_sail() -> None:
    total = e.Arithmetic("+", column(A), column(B), Type("int"))
    assert str(sail_form(total)) == "CAST(CAST(nullif(a, NULL) AS BIGINT) + CAST(nullif(b, NULL) AS BIGINT) AS INT)"
    both = e.And((comparison("=", A, B), comparison("=", total, integer(1))))
    assert str(sail_form(both)).startswith("CASE WHEN NOT a = b THEN 0 ELSE CAST(")
    ratio = e.Arithmetic("%", column(A), column(B), Type("int"))
    assert str(sail_form(ratio)) == "nullif(a, NULL) % nullif(CASE WHEN a IS NOT NULL THEN b END, NULL)"


@pytest.mark.parametrize(("operator", "kind"), [("+", "int"), ("-", "bigint"), ("/", "double"), ("%", "int")])
def test_a_long_chain_stays_about_as_long_as_it_is(operator: str, kind: str) -> None:
    def length(terms: int) -> int:
        columns = [Attribute(number, "a", Type(kind)) for number in range(terms)]
        made: Expression = column(columns[0])
        for attribute in columns[1:]:
            made = e.Arithmetic(operator, made, e.Cast(column(attribute), Type(kind)), Type(kind))
        return len(str(sail_form(made)))

    assert length(60) < 5 * length(30)


def test_a_divisor_is_looked_at_where_the_dividend_is_there() -> None:
    ratio = e.Arithmetic("/", e.Arithmetic("/", column(A), column(B), e.DOUBLE), column(A), e.DOUBLE)
    inner = "a / CASE WHEN a IS NOT NULL THEN b END"
    assert str(sail_form(ratio)) == f"{inner} / CASE WHEN a IS NOT NULL AND b IS NOT NULL THEN a END"
    unknown = e.Arithmetic("/", e.Call("f", (column(A),), e.DOUBLE), column(B), e.DOUBLE)
    assert str(sail_form(unknown)) == "f(a) / CASE WHEN f(a) IS NOT NULL THEN b END"
