"""What a query's tables are: stored relations, and views that stand for their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.schema import Schema
from viewkeeper.errors import Place


@dataclass(frozen=True)
class Query:
    """A query: its outputs are the columns, in their order; `names` are what the user calls them."""

    node: Node
    names: tuple[str, ...]


@dataclass(frozen=True)
class Stored:
    """A table or materialized view."""

    id: str
    name: str
    schema: Schema


@dataclass(frozen=True)
class Virtual:
    """A view that stores nothing: its query stands in its place."""

    name: str
    query: Query


class Catalog(Protocol):
    """Finds what the tables named in a query are."""

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The table or view of that name; raises NotFound with the place."""
