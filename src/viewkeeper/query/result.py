"""Results of statements; the rows of a query are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from viewkeeper.algebra.result_rows import ResultRows, rows_of_arrow
from viewkeeper.catalog.state import State
from viewkeeper.engine.engine import Engine, Frame
from viewkeeper.errors import EngineError, SessionLost, SqlError, ViewkeeperError
from viewkeeper.query.frames import at_place
from viewkeeper.sql.query_text import QueryText
from viewkeeper.transaction.change import Commit


class Result(ResultRows):
    """Rows with column names, and the commit of a statement that changed data.

    Iterate over it for its rows; those of a subscription come as long as it goes on.
    """

    def __init__(
        self,
        *,
        table: pa.Table | None = None,
        frame: Frame | None = None,
        engine: Engine | None = None,
        state: State | None = None,
        commit: Commit | None = None,
        query: QueryText | None = None,
        count: int | None = None,
        again: Callable[[], Frame] | None = None,
        remarks: Sequence[str] = (),
        stream: Iterator[pa.Table] | None = None,
        endless: bool = False,
    ) -> None:
        """`again` makes the frame again, if the engine loses its session before the rows are asked for.

        `stream` gives the rows of a SUBSCRIBE as they come; `endless`: it has no last one.
        """
        self.stream = stream
        self._endless = endless
        self.commit = commit
        self._remarks = list(remarks)
        self.state = state
        self.count = count
        self._table = table
        self._frame = frame
        self._engine = engine
        self._query = query
        self._again = again

    @property
    def remarks(self) -> list[str]:
        """What the user should know besides; also the warnings of the commit."""
        return [*self._remarks, *(self.commit.warnings if self.commit is not None else ())]

    @property
    def has_rows(self) -> bool:
        """Whether this is the result of a query (even one with no rows), not of a change."""
        return self._table is not None or self._frame is not None or self.stream is not None

    @property
    def columns(self) -> list[str]:
        """Column names in order."""
        if self._table is None and self._frame is not None and self._engine is not None:
            return [name for name, _ in self._from_frame(self._engine.columns)]
        return super().columns

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table, duplicates repeated."""
        if self._table is None:
            if self.stream is not None:
                self._table = self._to_the_end(self.stream)
            elif self._frame is None or self._engine is None:
                self._table = pa.table({})
            else:
                try:
                    self._table = self._from_frame(self._engine.collect)
                except ViewkeeperError as problem:
                    raise at_place(problem, self._query) from problem
        return self._table

    def head(self, count: int) -> pa.Table:
        """The first rows, at most so many; no more of them are fetched."""
        if self._table is not None or self._frame is None:
            return self.arrow().slice(0, count)
        again = self._again
        first = Result(
            frame=self._frame.limit(count),
            engine=self._engine,
            query=self._query,
            again=None if again is None else lambda: again().limit(count),
        )
        return first.arrow()

    def _to_the_end(self, stream: Iterator[pa.Table]) -> pa.Table:
        if self._endless:
            raise SqlError(
                "a subscription has no last row",
                hint="iterate over its stream, or use db.subscribe(...), or add UP TO EPOCH n",
            )
        return pa.concat_tables(stream)

    def _from_frame(self, action: Callable[[Frame], Any]) -> Any:
        assert self._engine is not None
        try:
            return action(self._frame)
        except SessionLost:
            if self._again is None or self._engine.given is not None:
                raise
            self._engine.forget_session()  # making a frame does not contact the engine, so it would not notice the loss
            self._frame = self._engine.surviving(self._again)
            return action(self._frame)
        except ViewkeeperError as problem:
            if self._again is None or not self._engine.supplied(problem):
                raise
            self._frame = self._engine.surviving(self._again)
            return self._from_frame(action)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self.stream is None or self._table is not None:
            return super().__iter__()
        return (row for table in self.stream for row in rows_of_arrow(table))

    def _repr_html_(self) -> str | None:
        return None if self.stream is not None else super()._repr_html_()

    def __str__(self) -> str:
        return repr(self) if self.stream is not None else super().__str__()

    def spark(self) -> Any:
        """The rows as a Spark DataFrame, not yet computed."""
        if self._frame is not None:
            return self._frame
        if self._table is not None and self._engine is not None:
            return self._engine.sent(self._table)
        raise EngineError("this result was not made by the engine", hint="use rows(), arrow() or pandas()")

    def __repr__(self) -> str:
        if self.commit is not None:
            return f"Result(epoch {self.commit.epoch})"
        return (
            f"Result({', '.join(self.columns)})" if self._frame is not None or self._table is not None else "Result()"
        )
