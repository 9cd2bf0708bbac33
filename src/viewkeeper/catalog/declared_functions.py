"""Python functions that a database imports by module and name, and which views use which function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from viewkeeper.algebra import nodes as n
from viewkeeper.algebra.expressions import Call, Expression, Opaque
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Auxiliary, Derived, Relation


@dataclass(frozen=True)
class Function:
    """A function declared by its target, such as "package.module:name", and its return type."""

    name: str
    target: str
    returns: str

    def to_json(self) -> dict[str, Any]:
        """For the ledger."""
        return {"name": self.name, "target": self.target, "returns": self.returns}

    @staticmethod
    def from_json(body: Mapping[str, Any]) -> Function:
        """The inverse of to_json."""
        return Function(body["name"], body["target"], body["returns"])


def calls(definition: Definition, name: str) -> bool:
    """Whether a view's query calls the function of a name."""
    nodes = (definition.as_written, definition.maintained)
    return any(_calls(part, name.lower()) for node in nodes for part in n.expressions_in(node))


def _calls(part: Expression, name: str) -> bool:
    if isinstance(part, Opaque):
        return re.search(rf"(?<!\w){re.escape(name)}`?\s*\(", "x".join(part.pieces), re.IGNORECASE) is not None
    return isinstance(part, Call) and part.name == name


def users_of(relations: Iterable[Relation], name: str) -> list[str]:
    """The names of the views that call a function, in order."""
    views = (r for r in relations if isinstance(r, Derived) and not isinstance(r, Auxiliary))
    return sorted(view.name for view in views if calls(view.definition, name))


def applied(functions: Mapping[str, Function], changes: Mapping[str, Any]) -> Mapping[str, Function]:
    """Functions after some were declared, and others (None) dropped; keys are names in lower case."""
    kept = {key: function for key, function in functions.items() if key not in changes}
    return kept | {key: Function.from_json(body) for key, body in changes.items() if body is not None}
