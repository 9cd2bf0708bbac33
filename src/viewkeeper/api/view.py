"""A view as a user holds it: a table that follows others, with the query that says how."""

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
        """Everything the database keeps about it."""
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
        """What was chosen with WITH (...), and the defaults; spans of time in seconds."""
        return self.definition.options

    def explain(self, format: str = "text") -> str:
        """How it is kept true: what is stored, and what a change of each table leads to."""
        return self._db.explain(self.name, format=format)

    @property
    def analysis(self) -> Analysis:
        """Keys, duplicates, and for each table it names and each operation what keeping the view true takes."""
        if self.definition.language == DATALOG:
            raise NotMaintainable(
                f"{self.name} is defined by rules: it is a set, and all its columns are a key",
                hint=f"db.explain({self.name!r}) says how it is kept",
            )
        known = known_relations(self._db._store.refresh())
        return analyze_view(self.name, self.sql, self.sql, known, columns=self.definition.names)
