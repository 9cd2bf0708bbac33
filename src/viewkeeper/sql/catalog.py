"""The tables that a query can name: stored relations, and virtual views, which are replaced by their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from viewkeeper.algebra.nodes import Node
from viewkeeper.algebra.schema import Schema
from viewkeeper.errors import Place


@dataclass(frozen=True)
class Query:
    """A translated query: its columns are the outputs of `node`, in order; `names` are the user's names for them."""

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
    """A virtual view: its query replaces it."""

    name: str
    query: Query


class Catalog(Protocol):
    """Looks up the tables that a query names."""

    def find(self, name: str, place: Place) -> Stored | Virtual:
        """The table or view of that name, or NotFound with the position."""
