"""Expressions from templates of SQL: syntax that the translation itself adds, such as the recipes of aggregates."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from sqlglot import exp

from viewkeeper.algebra import expressions as e
from viewkeeper.algebra.expressions import Expression, Value, expression
from viewkeeper.sql.dialect import Verbatim
from viewkeeper.sql.trees import Trees

_GIVEN = re.compile(r"_given(\d+)")


def templated(template: str, *arguments: Value, raises: bool = False) -> Expression:
    """A template in which each `{}` stands for the next argument. `raises`: whether it is fallible by itself."""
    assert template.count("{}") == len(arguments)
    marked = {f"_given{index}": expression(part) for index, part in enumerate(arguments)}

    def put(node: Expression) -> Expression:
        if isinstance(node, e.Name) and node.name in marked:
            return marked[node.name]
        if isinstance(node, e.Call) and node.name == "coalesce":
            node = replace(node, type=e.common(node.arguments))
        return replace(node, fallible=False) if not raises and node.fallible else node  # type: ignore[type-var]

    return _filled(_tree(template), put)


def _filled(node: Expression, put: Callable[[Expression], Expression]) -> Expression:
    """A tree with arguments in place; only nodes of the template itself are changed."""
    if isinstance(node, e.Name):
        return put(node)
    children = node.children
    if children:
        node = node.with_children(tuple(_filled(child, put) for child in children))
    return put(node)


@lru_cache(maxsize=1_000)
def _tree(template: str) -> Expression:
    pieces = template.split("{}")
    text = "".join(f"{piece}_given{index}" for index, piece in enumerate(pieces[:-1])) + pieces[-1]
    select = Verbatim().parse(f"SELECT {text}")[0]
    assert isinstance(select, exp.Select)
    return Trees(_name, "_vk", coerces=False).of(select.expressions[0])


def _name(node: exp.Expr) -> Expression | None:
    found = _GIVEN.fullmatch(node.name)
    return None if found is None else e.Name(node.name)
