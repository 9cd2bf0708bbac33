"""PIVOT and UNPIVOT."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from viewkeeper.algebra.expressions import Attribute
from viewkeeper.algebra.nodes import Node

if TYPE_CHECKING:
    from viewkeeper.sql.scopes import Scope
    from viewkeeper.sql.translation import Translation


def pivoted(
    translation: Translation, node: Node, names: list[tuple[str, Attribute]], pivot: exp.Pivot, scope: Scope
) -> tuple[Node, list[tuple[str, Attribute]]]:
    """A table turned by PIVOT or UNPIVOT."""
    word = "UNPIVOT" if pivot.args.get("unpivot") else "PIVOT"
    translation.context.refuse(f"{word} is not supported in this version", pivot, "write the columns out")
