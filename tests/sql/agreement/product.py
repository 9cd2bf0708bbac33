"""What a view on Sail says to the same questions: translated, lowered and run as the product does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.sql.agreement import nasty
from tests.sql.agreement.oracle import RAISED, Answer, listed
from tests.sql.translate_oracle import PlainReader, Tables
from viewkeeper.engine.engine import open_engine
from viewkeeper.engine.lowering import Lowering
from viewkeeper.engine.typer import EngineTyper
from viewkeeper.errors import ViewkeeperError
from viewkeeper.sql.query import Query, Stored, translate


class Sail:
    """Views on Sail over the table."""

    def __init__(self) -> None:
        self.engine = open_engine("sail", None, {}, {})
        self.typer = EngineTyper(self.engine)
        self.tables = Tables()
        self.tables.stored["nasty"] = Stored("nasty", "nasty", nasty.schema())
        self.table = nasty.table()

    def translated(self, text: str) -> Query | str:
        """The algebra of a query, or why there is none."""
        try:
            return translate(text, text, self.tables, self.typer)
        except ViewkeeperError as problem:
            return f"{type(problem).__name__}: {problem.message.splitlines()[0][:200]}"

    def run(self, query: Query, rows: Sequence[int] | None = None) -> list[tuple[Any, ...]] | str:
        """The rows of a query over some rows of the table, or the complaint."""
        table = self.table if rows is None else self.table.take(pa.array(list(rows), pa.int64()))
        try:
            self.tables.arrow["nasty"] = table
            lowered = Lowering(self.engine, PlainReader(self.engine, self.tables)).lower(query.node)
            made = self.engine.collect(lowered.frame)
        except (
            ViewkeeperError,
            OverflowError,
            pa.ArrowException,
            AssertionError,
        ) as problem:  # PySpark asserts after a panic
            return str(problem).strip().splitlines()[0][:200] if str(problem) else type(problem).__name__
        return list(zip(*[listed(column) for column in made.columns], strict=True))

    def query(self, text: str) -> Answer:
        """The answer to a query whose first column is a key."""
        made = self.translated(text)
        if isinstance(made, str):
            return Answer(refused=made)
        kind = ", ".join(a.type.ddl for a in made.node.outputs[1:])
        found = self.run(made)
        return Answer(kind, [RAISED], found) if isinstance(found, str) else Answer(kind, found)
