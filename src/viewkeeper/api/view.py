"""A view as a user holds it: its rows, its query and its options."""

from __future__ import annotations

from typing import Any

from viewkeeper.advice.advice import Analysis, analyze_view
from viewkeeper.api.table import Readable
from viewkeeper.catalog.definition import Definition
from viewkeeper.catalog.relations import Derived
from viewkeeper.errors import NotFound, NotMaintainable
from viewkeeper.query.known_relations import known_relations
from viewkeeper.query.programs import DATALOG


class View(Readable):
    """A view of a database, virtual or materialized."""

    @property
    def definition(self) -> Definition:
        """Its definition, as the ledger records it."""
        relation = self._relation(self._db._store.refresh())
        if not isinstance(relation, Derived):
            raise NotFound(f"{self.name} is a table now", hint=f"use db.table({self.name!r})")
        return relation.definition

    @property
    def sql(self) -> str:
        """Its query, as the user wrote it."""
        return self.definition.sql

    @property
    def options(self) -> dict[str, Any]:
        """The options chosen with WITH (...), and the defaults of the others; durations in seconds."""
        return self.definition.options

    def explain(self, format: str = "text") -> str:
        """How it is maintained: what is stored, and what a change of each table leads to."""
        return self._db.explain(self.name, format=format)

    @property
    def analysis(self) -> Analysis:
        """Keys, duplicates, and what maintaining the view takes, for each table it names and each operation."""
        if self.definition.language == DATALOG:
            raise NotMaintainable(
                f"{self.name} is defined by rules: it is a set, and all its columns are a key",
                hint=f"db.explain({self.name!r}) shows how it is maintained",
            )
        known = known_relations(self._db._store.refresh())
        return analyze_view(self.name, self.sql, self.sql, known, columns=self.definition.names)
