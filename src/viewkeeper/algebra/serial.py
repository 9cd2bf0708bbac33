"""Algebra as JSON, for the ledger: nodes, expressions and attributes by the names of their fields.

Before expressions were trees they were text: parts that are strings or attributes. Those are read as Opaque.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from viewkeeper.algebra import datalog_rules as rules
from viewkeeper.algebra import nodes
from viewkeeper.algebra.expressions import (
    KINDS,
    VOID,
    Attribute,
    Call,
    Column,
    Expression,
    Numbers,
    Opaque,
    conjunction,
)
from viewkeeper.algebra.types import Type, parse_type

_PARTS = (
    nodes.Equality,
    nodes.Call,
    nodes.Share,
    nodes.Order,
    nodes.WindowCall,
    rules.Predicate,
    rules.Literal,
    rules.Rule,
    *nodes.KINDS,
)
_BY_NAME: dict[str, type[Any]] = {kind.__name__: kind for kind in _PARTS}
_EXPRESSIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in KINDS}


def to_json(node: nodes.Node) -> dict[str, Any]:
    """A node as JSON. Attributes are written once, by column id, at the end."""
    table: dict[int, Attribute] = {}
    body = _encode(node, table)
    listed = [[a.number, a.name, str(a.type), a.nullable] for _, a in sorted(table.items())]
    return {"node": body, "attributes": listed}


def from_json(body: dict[str, Any]) -> nodes.Node:
    """The inverse of to_json."""
    table = {row[0]: Attribute(row[0], row[1], parse_type(row[2]), row[3]) for row in body["attributes"]}
    node = _decode(body["node"], table)
    assert isinstance(node, nodes.Node)
    return node


def fingerprint(node: nodes.Node) -> str:
    """A text that is equal for equal expressions, whatever the ids and names of their columns."""

    def bare(part: nodes.Node) -> nodes.Node:
        if isinstance(part, nodes.Fixpoint):
            unlabeled = tuple(dataclasses.replace(rule, text="") for rule in part.rules)
            return dataclasses.replace(part, stored=(), rules=unlabeled)
        if isinstance(part, nodes.Scan):
            return dataclasses.replace(part, columns=tuple(part.stored_names), name="")
        return part

    renamed, _ = nodes.fresh(nodes.transform(node, bare), Numbers())
    return json.dumps(to_json(nodes.map_attributes(renamed, lambda a: dataclasses.replace(a, name=""))), sort_keys=True)


def _encode(part: Any, table: dict[int, Attribute]) -> Any:
    if isinstance(part, Attribute):
        table[part.number] = part
        return {"a": part.number}
    if isinstance(part, tuple):
        return [_encode(piece, table) for piece in part]
    if isinstance(part, Type):
        return {"t": str(part)}
    if isinstance(part, Expression):
        changed = [f for f in dataclasses.fields(part) if getattr(part, f.name) != f.default]  # type: ignore[arg-type]
        return {"e": type(part).__name__, **{f.name: _encode(getattr(part, f.name), table) for f in changed}}
    if isinstance(part, _PARTS):
        fields = {f.name: _encode(getattr(part, f.name), table) for f in dataclasses.fields(part)}  # type: ignore[arg-type]
        return {"k": type(part).__name__, **fields}
    assert part is None or isinstance(part, (str, int, bool)), part
    return part


def _decode(body: Any, table: dict[int, Attribute]) -> Any:
    if isinstance(body, list):
        return tuple(_decode(piece, table) for piece in body)
    if isinstance(body, dict):
        if "a" in body:
            return table[body["a"]]
        if "t" in body:
            return VOID if body["t"] == str(VOID) else parse_type(body["t"])
        fields = {name: _decode(value, table) for name, value in body.items() if name not in ("k", "e")}
        if "e" in body:
            return _EXPRESSIONS[body["e"]](**fields)
        if body["k"] in ("Expression", "Conjunction"):
            return _from_text(**fields)
        return _BY_NAME[body["k"]](**fields)
    return body


def _from_text(parts: tuple[str | Attribute, ...], raises: bool, conditions: tuple[Expression, ...] = ()) -> Expression:
    """An expression that is stored as text with attributes in it."""
    if conditions:
        return conjunction(conditions)
    if len(parts) == 1 and isinstance(parts[0], Attribute):
        return Column(parts[0])
    if parts == ("row_number()",):
        return Call("row_number")  # it has a frame of its own
    pieces, children = [""], []
    for part in parts:
        if isinstance(part, str):
            pieces[-1] += part
        else:
            children.append(Column(part))
            pieces.append("")
    return Opaque(tuple(pieces), tuple(children), fallible=raises)
