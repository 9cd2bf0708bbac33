"""A transaction as a user holds it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from viewkeeper.catalog.declared_functions import Function
from viewkeeper.errors import Place, SqlError, TypeMismatch, ViewkeeperError
from viewkeeper.maintain.redefining import told
from viewkeeper.query.frames import select_frame
from viewkeeper.query.preview import preview
from viewkeeper.query.result import Result
from viewkeeper.sql import parsed_statements as syntax
from viewkeeper.sql.tokens import Statement, split
from viewkeeper.statements import changes as statements
from viewkeeper.statements.define_datalog import run_program
from viewkeeper.statements.define_functions import declare_function
from viewkeeper.statements.explain_statement import Change as Explained
from viewkeeper.statements.explain_statement import explain_change
from viewkeeper.transaction import loading
from viewkeeper.transaction import row_changes as rowwise
from viewkeeper.transaction.change import Change, Commit
from viewkeeper.transaction.commit import commit as commit_transaction
from viewkeeper.transaction.open_transaction import OpenTransaction
from viewkeeper.transaction.suspension import remarks_on_query

if TYPE_CHECKING:
    from viewkeeper.api.database import Database

T = TypeVar("T")


def each_statement(text: str, run: Callable[[Statement], Result]) -> Iterator[Result]:
    """Runs the statements of a text one after the other; an error says which one it was."""
    parts = split(text)
    for number, statement in enumerate(parts, start=1):
        try:
            result = _deep(run, statement)
        except ViewkeeperError as problem:
            problem.statement = (number, len(parts))
            raise
        yield result


def _deep(run: Callable[[Statement], Result], statement: Statement) -> Result:
    """Runs a statement; one that is nested deeper than Python can follow is said to be so."""
    try:
        return run(statement)
    except RecursionError:
        place = Place.at(statement.text, statement.start)
        raise SqlError("the statement is nested too deep", place=place, hint="define parts of it as views") from None


def last(results: Iterator[Result]) -> Result:
    """The last of some results; an empty one if there is none."""
    result = Result()
    for given in results:
        result = given
    return result


def explained(lines: list[str]) -> Result:
    """The rows of EXPLAIN: one per line."""
    return Result(table=pa.table({"explanation": pa.array(lines, pa.string())}))


class Transaction:
    """A transaction a user holds. What happens in it is seen by it alone until it commits."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._gathered: OpenTransaction | None = OpenTransaction(db._store)
        self._gathered.hooks = tuple(db._hooks)
        self.commit_info: Commit | None = None

    @property
    def _tx(self) -> OpenTransaction:
        if self._gathered is None:
            raise SqlError("the transaction is over", hint="begin another: with db.transaction() as tx")
        return self._gathered

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gathered is None:
            return
        if error is None:
            self.commit()
        else:
            self.rollback()

    def sql(self, text: str) -> Result:
        """Runs statements inside the transaction and gives the last result."""
        return last(each_statement(text, self._statement))

    def _statement(self, statement: Statement) -> Result:
        with self._db._store.engine.running():
            return self._run(statement)

    def _run(self, statement: Statement) -> Result:
        parsed = syntax.parse(statement)
        match parsed:
            case syntax.Control():
                raise SqlError(
                    f"{parsed.word} cannot stand inside a transaction object",
                    place=Place.at(statement.text, statement.start, len(parsed.word)),
                    hint="use tx.commit() or tx.rollback(), or leave the with block",
                )
            case syntax.Select() if parsed.epoch is None:
                return self.select(parsed.query, statement.alone)
            case syntax.Explain(
                statement=syntax.Insert() | syntax.Update() | syntax.Delete() | syntax.Merge() as change
            ):
                return explained(self.explain(change, statement.alone))
            case (
                syntax.Select()
                | syntax.Set()
                | syntax.Show()
                | syntax.Describe()
                | syntax.Explain()
                | syntax.Analyze()
                | syntax.Verify()
            ):
                return self._db._statement(statement)
            case _:
                return self.run(parsed, statement.alone)

    def datalog(self, text: str) -> Result:
        """Takes in a Datalog program, or rules to add (+) and to remove (-), as part of the transaction."""
        return Result(remarks=self._surviving(lambda: run_program(self._tx, text)))

    def select(self, query: str, text: str) -> Result:
        """A query that sees the transaction; computed at once, because the transaction goes on changing."""
        tx, engine = self._tx, self._db._store.engine

        def frame() -> Any:
            return select_frame(tx, query, text)

        seen = Result(frame=engine.surviving(frame), engine=engine, state=tx.state, text=text, again=frame)
        remarks = remarks_on_query(tx.state, tx.state.epoch, query, text)
        return Result(table=seen.arrow(), engine=engine, remarks=remarks)

    def run(self, parsed: syntax.Parsed, text: str) -> Result:
        """A changing statement, already parsed."""
        return Result(count=self._surviving(lambda: statements.run(self._tx, parsed, text)))

    def explain(self, change: Explained, text: str) -> list[str]:
        """The views that a change would reach, said without making it."""
        return explain_change(self._tx, change, text)

    def declare_function(self, function: Function) -> bool:
        """Declares a function by its place as part of the transaction; other views can use it when it commits."""
        return declare_function(self._tx, function)

    def definitions(self) -> list[str]:
        """What becomes of the views that the transaction defines or redefines, said beforehand."""
        return told(self._tx)

    def _surviving(self, action: Callable[[], T]) -> T:
        """A step of the transaction; taken again if the engine loses its session, for a step fails as a whole."""
        return self._db._store.engine.surviving(action)

    def insert(self, table: str, rows: Any) -> int:
        """Inserts rows: tuples, dicts, an Arrow table, a pandas, polars or Spark DataFrame."""
        kept = _kept(rows)
        return self._surviving(lambda: rowwise.insert_rows(self._tx, self._tx.table(table), kept))

    def delete(self, table: str, rows: Any, *, missing: str = "error") -> int:
        """Deletes rows given in full, as many copies as given; missing="ignore" passes over rows not there."""
        _check_missing(missing)
        kept = _kept(rows)
        return self._surviving(lambda: rowwise.delete_rows(self._tx, self._tx.table(table), kept, missing))

    def delete_by_key(self, table: str, keys: Any, *, missing: str = "error") -> int:
        """Deletes the rows with these primary keys."""
        _check_missing(missing)
        kept = _kept(keys)
        return self._surviving(lambda: rowwise.delete_by_key(self._tx, self._tx.table(table), kept, missing))

    def upsert(self, table: str, rows: Any) -> int:
        """Inserts rows, replacing those with the same primary key."""
        kept = _kept(rows)
        return self._surviving(lambda: rowwise.upsert(self._tx, self._tx.table(table), kept))

    def load(
        self,
        table: str,
        path: str,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        create: bool = False,
    ) -> int:
        """Loads a Parquet, CSV or JSON file; with `create` into a new table if there is none of that name."""
        tx, source, settings = self._tx, os.fspath(path), dict(options or {})
        if create and tx.find(table) is None:
            tx.create(table, self._surviving(lambda: loading.schema_of_file(tx, source, format, settings)))
        return self._surviving(lambda: loading.load_file(tx, tx.table(table), source, format, settings))

    def preview(self) -> dict[str, Change]:
        """The net change of every affected table and view, virtual ones included, with nothing written."""
        return self._surviving(lambda: preview(self._tx))

    def commit(self) -> Commit | None:
        """Commits; None if there is no net effect."""
        gathered, self._gathered = self._tx, None
        with self._db._store.engine.running():
            try:
                self._surviving(gathered.settle)
            except BaseException:
                gathered.discard()
                raise
            self.commit_info = commit_transaction(gathered)
        return self.commit_info

    def rollback(self) -> None:
        """Forgets everything done in the transaction."""
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            gathered.discard()


def _kept(rows: Any) -> Any:
    """Rows that can be gone through twice: a step may have to be taken again."""
    return list(rows) if isinstance(rows, Iterator) else rows


def _check_missing(missing: str) -> None:
    if missing not in ("error", "ignore"):
        raise TypeMismatch(f"missing={missing!r} is not known", hint="use missing='error' or missing='ignore'")
