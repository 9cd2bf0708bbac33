"""The object a user holds: a database of changing tables."""

from __future__ import annotations

import datetime as dt
import functools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from viewkeeper.algebra.schema import EPOCH
from viewkeeper.engine import Settings, open_engine
from viewkeeper.errors import (
    Conflict,
    EngineError,
    NotFound,
    Place,
    SqlError,
    StorageError,
    TypeMismatch,
    ViewkeeperError,
)
from viewkeeper.sql import statements as syntax
from viewkeeper.sql.tokens import Statement, split
from viewkeeper.store.batch import stored_frame
from viewkeeper.store.compaction import Compacted, compact_relation
from viewkeeper.store.scan import Source, pick, plain_frame
from viewkeeper.store.state import Relation, State
from viewkeeper.store.storage import Storage, open_storage
from viewkeeper.store.store import LOCK, Held, Store, create_database, find_state
from viewkeeper.store.vacuum import GRACE_SECONDS, Vacuumed, vacuum
from viewkeeper.transaction import rowwise, statements
from viewkeeper.transaction.change import Change, Commit
from viewkeeper.transaction.commit import commit as commit_transaction
from viewkeeper.transaction.queries import query_frame, select_frame
from viewkeeper.transaction.result import Result
from viewkeeper.transaction.transaction import Transaction as Gathered
from viewkeeper.transaction.transaction import change_of_files, no_such_table

T = TypeVar("T")

KEEP = "7 days"
RETRIES = 20


def connect(
    path: str | os.PathLike[str],
    engine: object = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    spark_conf: Mapping[str, str] | None = None,
    keep: str = KEEP,
    durability: str = "full",
    time_zone: str = "UTC",
) -> Database:
    """Opens the database at a directory or object-store URL; creates it if it is not there.

    `engine`: "spark" (default; or $VIEWKEEPER_ENGINE), "sail", "sc://host:port" or a SparkSession. `keep`: how much
    history AS OF and feeds can read; fixed at creation, like `time_zone`. `durability`: "full", or "process" to leave
    the fsyncs out.
    """
    if durability not in ("full", "process"):
        raise StorageError(f"there is no durability '{durability}'", hint="use 'full' or 'process'")
    options = dict(storage_options or {})
    conf = dict(spark_conf or {})
    storage = open_storage(os.fspath(path), options, durability)
    state = find_state(storage)
    choice = engine if engine is not None else os.environ.get("VIEWKEEPER_ENGINE") or "spark"
    opened = open_engine(choice, state.settings if state else None, conf, options)
    if not opened.is_local:
        opened.check()
    if state is None:
        settings = Settings(engine=opened.kind, time_zone=time_zone)
        opened.settings = settings
        state = create_database(storage, settings, seconds(keep))
    opened.settings = state.settings
    if opened.kind != state.settings.engine:
        print(
            f"viewkeeper: this database was made with the engine '{state.settings.engine}' and is opened with "
            f"'{opened.kind}'; the two differ in some details, so run verify",
            file=sys.stderr,
        )
    return Database(storage, Store(storage, opened, state))


class Database:
    """An open database. Use it in a `with` statement, or call close()."""

    def __init__(self, storage: Storage, store: Store) -> None:
        self._storage = storage
        self._open: Store | None = store
        self._local = threading.local()
        if not store.engine.is_local:
            self._probe(store)

    @staticmethod
    def _probe(store: Store) -> None:
        """Checks that an engine elsewhere sees the database's files, with a file of one row."""
        import pyarrow.parquet as pq

        from viewkeeper.algebra.schema import Column, Schema
        from viewkeeper.algebra.types import parse_type

        path = store.scratch_path(".parquet")
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"probe": pa.array([1], pa.int64())}), sink)
        store.storage.write(path, sink.getvalue().to_pybytes(), "probe")
        try:
            schema = Schema((Column("probe", parse_type("bigint")),))
            seen = store.engine.collect(store.engine.files([store.storage.url(path)], schema, ""))
            rows = seen.num_rows
        except ViewkeeperError as problem:
            raise EngineError(
                f"the engine at {store.engine.where} cannot read the database at {store.storage.root}",
                detail=problem.message,
                hint="put the database where both this process and the engine can reach it",
            ) from problem
        finally:
            store.storage.delete([path])
        if rows != 1:
            raise EngineError(f"the engine at {store.engine.where} does not see the files at {store.storage.root}")

    @property
    def _store(self) -> Store:
        if self._open is None:
            raise StorageError("the database is closed", hint="connect again: viewkeeper.connect(path)")
        return self._open

    # life ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the database; a transaction that is still open is rolled back. Closing twice is fine."""
        if self._open is None:
            return
        open_transaction = getattr(self._local, "transaction", None)
        if open_transaction is not None:
            open_transaction.rollback()
        store, self._open = self._open, None
        store.storage.delete(item.path for item in store.storage.list(f"scratch/{store.lease.id}"))
        store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """Where the database is."""
        return self._storage.root

    @property
    def epoch(self) -> int:
        """The newest epoch."""
        return self._store.refresh().epoch

    # SQL -----------------------------------------------------------------------------------------

    def sql(self, text: str, dialect: str = "spark") -> Result:
        """Runs one or several statements and gives the last result.

        Without BEGIN each statement commits alone; an error names the statement, and earlier ones stand.
        """
        if dialect != "spark":
            raise SqlError(f"the dialect '{dialect}' is not supported", hint="use dialect='spark'")
        result = Result()
        for given in self.script(text):
            result = given
        return result

    def script(self, text: str) -> Iterator[Result]:
        """Runs statements one after the other, each when its result is asked for."""
        parts = split(text)
        for number, statement in enumerate(parts, start=1):
            try:
                result = self._statement(statement)
            except ViewkeeperError as problem:
                problem.statement = (number, len(parts))
                raise
            yield result

    @property
    def in_transaction(self) -> bool:
        """Whether a BEGIN of this thread waits for its COMMIT or ROLLBACK."""
        return self._current() is not None

    def _statement(self, statement: Statement) -> Result:
        parsed = syntax.parse(statement)
        match parsed:
            case syntax.Control():
                return self._control(parsed, statement)
            case syntax.Show():
                return self._show(parsed)
            case syntax.Describe():
                return Result(table=self.table(parsed.name).describe())
            case syntax.Select():
                current = self._current()
                if current is not None and parsed.epoch is None:
                    return current.select(parsed.query, statement.alone)
                return self._select(parsed, statement.alone)
            case _:
                current = self._current()
                if current is not None:
                    return current.run(parsed, statement.alone)
                return self._alone(lambda tx: tx.run(parsed, statement.alone))

    def _current(self) -> Transaction | None:
        current: Transaction | None = getattr(self._local, "transaction", None)
        return current

    def _control(self, control: syntax.Control, statement: Statement) -> Result:
        current = self._current()
        place = Place.at(statement.text, statement.start, len(control.word))
        if control.word == "BEGIN":
            if current is not None:
                raise SqlError("a transaction is already open", place=place, hint="COMMIT or ROLLBACK it first")
            self._local.transaction = Transaction(self)
            return Result()
        if current is None:
            raise SqlError(f"there is no open transaction to {control.word}", place=place, hint="BEGIN one first")
        self._local.transaction = None
        if control.word == "ROLLBACK":
            current.rollback()
            return Result()
        return Result(commit=current.commit())

    def _select(self, parsed: syntax.Select, text: str) -> Result:
        store = self._store
        held = store.hold()
        state = held.state
        if parsed.epoch is not None:
            state.check_epoch(parsed.epoch)
        epoch = state.epoch if parsed.epoch is None else parsed.epoch

        def resolve(name: str, place: Place | None) -> Any:
            return self._frame_at(state, name, epoch, place)

        def frame() -> Any:
            return query_frame(store.engine, parsed.query, text, resolve)

        result = Result(frame=store.engine.surviving(frame), engine=store.engine, state=state, text=text, again=frame)
        store.use(result)
        return result

    def _frame_at(self, state: State, name: str, epoch: int, place: Place | None) -> Any:
        relation = state.find(name, epoch)
        if relation is None:
            if epoch != state.epoch and state.find(name) is not None:
                raise NotFound(f"there was no table named '{name}' at epoch {epoch}", place=place)
            raise no_such_table(name, state.names(), place)
        store = self._store
        return plain_frame(store.engine, store.storage, pick(Source(relation.schema, relation.files_at(epoch), epoch)))

    def _show(self, show: syntax.Show) -> Result:
        if show.what == "COMMITS":
            rows = self.history()
            return Result(
                table=pa.table(
                    {
                        "epoch": pa.array([row["epoch"] for row in rows], pa.int64()),
                        "committed_at": pa.array([row["committed_at"] for row in rows], pa.timestamp("us", "UTC")),
                        "changes": pa.array([row["changes"] for row in rows], pa.string()),
                    }
                )
            )
        listed = self.ls()
        return Result(
            table=pa.table(
                {
                    "name": pa.array([row["name"] for row in listed], pa.string()),
                    "kind": pa.array([row["kind"] for row in listed], pa.string()),
                    "columns": pa.array([row["columns"] for row in listed], pa.int64()),
                }
            )
        )

    # transactions --------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A transaction: commits at the end of a `with` block, rolls back on an exception."""
        return Transaction(self)

    def _alone(self, action: Callable[[Transaction], Result]) -> Result:
        """Runs a statement as its own transaction, again if another one came in between."""

        def attempt() -> Result:
            tx = Transaction(self)
            try:
                result = action(tx)
                result.commit = tx.commit()
            except BaseException:
                tx.rollback()
                raise
            return result

        for tried in range(RETRIES):
            try:
                if tried == 0:
                    return attempt()
                with self._storage.lock(LOCK):
                    return attempt()
            except Conflict:
                if tried == RETRIES - 1:
                    raise
        raise Conflict("the statement found no gap between other transactions")

    # relations -----------------------------------------------------------------------------------

    def table(self, name: str) -> Table:
        """A table by name."""
        state = self._store.refresh()
        if state.find(name) is None:
            raise no_such_table(name, state.names(), None)
        return Table(self, name)

    def load(
        self,
        table: str,
        path: str,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        create: bool = False,
    ) -> Result:
        """Loads a Parquet, CSV or JSON file into a table, as one transaction.

        With `create` a table that is not there is made with the columns of the file.
        """
        return self._alone(lambda tx: Result(count=tx.load(table, path, format=format, options=options, create=create)))

    def ls(self) -> list[dict[str, Any]]:
        """The relations: name, kind, columns, files, rows (signed rows stored) and bytes."""
        state = self._store.refresh()
        listed = [r for r in state.relations.values() if r.lives_at(state.epoch)]
        return [
            {
                "name": relation.name,
                "kind": "table",
                "columns": len(relation.schema),
                "files": len(relation.files),
                "stored_rows": sum(file.rows for file in relation.files),
                "bytes": sum(file.size for file in relation.files),
            }
            for relation in sorted(listed, key=lambda relation: relation.name.lower())
        ]

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits, newest first: epoch, time, and what was created, dropped and changed."""
        store = self._store
        state = store.refresh()
        names = {relation.id: relation.name for relation in state.relations.values()}
        found: list[dict[str, Any]] = []
        for entry in store.ledger.entries(state.number):
            if limit is not None and len(found) >= limit:
                break
            for body in entry.get("created", ()):
                names.setdefault(body["id"], body["name"])
            if entry["kind"] == "commit":
                found.append(_history_row(entry, names))
        return found

    # upkeep --------------------------------------------------------------------------------------

    def compact(self, name: str | None = None) -> list[Compacted]:
        """Rewrites tables into fewer, key-sorted files. Changes no contents and makes no epoch."""
        store = self._store
        state = store.refresh()
        wanted = [r for r in state.relations.values() if r.lives_at(state.epoch)]
        if name is not None:
            relation = state.find(name)
            if relation is None:
                raise no_such_table(name, state.names(), None)
            wanted = [relation]
        done = []
        for relation in wanted:
            held = store.hold()  # the files stay while they are merged, whoever else replaces them
            current = held.state.relations.get(relation.id)
            if current is None:
                continue
            result = store.engine.surviving(functools.partial(compact_relation, store, current))
            if result is not None:
                done.append(result)
        return done

    def vacuum(self, grace: str | float = GRACE_SECONDS) -> Vacuumed:
        """Deletes files that nothing needs any more: replaced or left behind longer than `grace` ago."""
        return vacuum(self._store, seconds(grace))


class Table:
    """A table of a database."""

    def __init__(self, db: Database, name: str) -> None:
        self._db = db
        self.name = name

    def _relation(self, state: State, epoch: int | None = None) -> Relation:
        relation = state.find(self.name, epoch)
        if relation is None:
            raise no_such_table(self.name, state.names(), None)
        return relation

    def read(self, as_of: int | None = None) -> Result:
        """The rows, now or at an epoch."""
        suffix = "" if as_of is None else f" AS OF EPOCH {int(as_of)}"
        return self._db.sql(f"SELECT * FROM `{self.name}`{suffix}")

    def describe(self) -> pa.Table:
        """Columns, types and keys."""
        state = self._db._store.refresh()
        schema = self._relation(state).schema
        keys = {
            column.name: ", ".join(
                "PRIMARY KEY" if key.primary else "UNIQUE" for key in schema.keys if column.name in key.columns
            )
            for column in schema
        }
        return pa.table(
            {
                "column": pa.array(schema.names, pa.string()),
                "type": pa.array([str(column.type) for column in schema], pa.string()),
                "nullable": pa.array([column.nullable for column in schema], pa.bool_()),
                "key": pa.array([keys[column.name] for column in schema], pa.string()),
            }
        )

    def changes(self, since: int = 0) -> Iterator[tuple[int, Change]]:
        """The net changes after an epoch, one per epoch in which the table changed, in order."""
        store = self._db._store
        held = store.hold()
        state = held.state
        if since < state.oldest and state.oldest > 0:
            raise NotFound(
                f"the changes since epoch {since} are no longer kept", hint=f"the oldest kept epoch is {state.oldest}"
            )
        relation = self._relation(state)
        plain = {file.first_epoch for file in relation.files if not file.merged}
        merged = [file for file in relation.files if file.merged and file.last_epoch > since]
        if merged:
            frame = stored_frame(store.engine, store.storage, merged, relation.schema)
            plain |= set(store.engine.collect(frame.select(EPOCH).distinct())[EPOCH].to_pylist())
        for epoch in sorted(number for number in plain if number > since):
            yield epoch, self._change_at(store, held, relation, epoch)

    @staticmethod
    def _change_at(store: Store, held: Held, relation: Relation, epoch: int) -> Change:
        files = tuple(f for f in relation.files if f.first_epoch <= epoch <= f.last_epoch)
        if not any(file.merged for file in files):
            return change_of_files(store, relation.schema, files, held)
        return change_of_files(store, relation.schema, files, held, epoch)


class Transaction:
    """A transaction a user holds. What happens in it is seen by it alone until it commits."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._gathered: Gathered | None = Gathered(db._store)
        self.commit_info: Commit | None = None

    @property
    def _tx(self) -> Gathered:
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
        """Runs statements inside the transaction."""
        result = Result()
        parts = split(text)
        for number, statement in enumerate(parts, start=1):
            try:
                parsed = syntax.parse(statement)
                if isinstance(parsed, syntax.Control):
                    raise SqlError(
                        f"{parsed.word} cannot stand inside a transaction object",
                        place=Place.at(text, statement.start, len(parsed.word)),
                        hint="use tx.commit() or tx.rollback(), or leave the with block",
                    )
                if isinstance(parsed, syntax.Select):
                    if parsed.epoch is not None:
                        result = self._db._select(parsed, statement.alone)
                    else:
                        result = self.select(parsed.query, statement.alone)
                elif isinstance(parsed, (syntax.Show, syntax.Describe)):
                    result = self._db._statement(statement)
                else:
                    result = self.run(parsed, statement.alone)
            except ViewkeeperError as problem:
                problem.statement = (number, len(parts))
                raise
        return result

    def select(self, query: str, text: str) -> Result:
        """A query that sees the transaction; computed at once, because the transaction goes on changing."""
        tx, engine = self._tx, self._db._store.engine

        def frame() -> Any:
            return select_frame(tx, query, text)

        result = Result(frame=engine.surviving(frame), engine=engine, state=tx.state, text=text, again=frame)
        result.arrow()
        return result

    def run(self, parsed: syntax.Parsed, text: str) -> Result:
        """A changing statement, already parsed."""
        return Result(count=self._surviving(lambda: statements.run(self._tx, parsed, text)))

    def _surviving(self, action: Callable[[], T]) -> T:
        """A step of the transaction; taken again if the engine loses its session, for a step fails as a whole."""
        return self._db._store.engine.surviving(action)

    def insert(self, table: str, rows: Any) -> int:
        """Inserts rows: tuples, dicts, an Arrow table, a pandas, polars or Spark DataFrame."""
        return self._surviving(lambda: rowwise.insert_rows(self._tx, self._tx.relation(table), rows))

    def delete(self, table: str, rows: Any, *, missing: str = "error") -> int:
        """Deletes rows given in full, as many copies as given; missing="ignore" passes over rows not there."""
        _check_missing(missing)
        return self._surviving(lambda: rowwise.delete_rows(self._tx, self._tx.relation(table), rows, missing))

    def delete_by_key(self, table: str, keys: Any, *, missing: str = "error") -> int:
        """Deletes the rows with these primary keys."""
        _check_missing(missing)
        return self._surviving(lambda: rowwise.delete_by_key(self._tx, self._tx.relation(table), keys, missing))

    def upsert(self, table: str, rows: Any) -> int:
        """Inserts rows, replacing those with the same primary key."""
        return self._surviving(lambda: rowwise.upsert(self._tx, self._tx.relation(table), rows))

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
            tx.create(table, self._surviving(lambda: rowwise.schema_of_file(tx, source, format, settings)))
        return self._surviving(lambda: rowwise.load_file(tx, tx.relation(table), source, format, settings))

    def preview(self) -> dict[str, Change]:
        """The net change of every affected relation, with nothing written."""
        return self._surviving(self._tx.changes)

    def commit(self) -> Commit | None:
        """Commits; None if there is no net effect."""
        gathered, self._gathered = self._tx, None
        try:
            self._surviving(gathered.settle)
        except ViewkeeperError:
            gathered.discard()
            raise
        self.commit_info = commit_transaction(gathered)
        return self.commit_info

    def rollback(self) -> None:
        """Forgets everything done in the transaction."""
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            gathered.discard()


def _check_missing(missing: str) -> None:
    if missing not in ("error", "ignore"):
        raise TypeMismatch(f"missing={missing!r} is not known", hint="use missing='error' or missing='ignore'")


def _history_row(entry: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    told = [f"created {body['name']}" for body in entry.get("created", ())]
    told += [f"dropped {names.get(key, key)}" for key in entry.get("dropped", ())]
    for key, files in entry.get("files", {}).items():
        rows = sum(file["rows"] for file in files)
        told.append(f"{names.get(key, key)}: {rows} {'row' if rows == 1 else 'rows'} changed")
    return {
        "epoch": entry["epoch"],
        "committed_at": dt.datetime.fromtimestamp(entry["at"], dt.UTC),
        "changes": "; ".join(told),
    }


_UNITS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "h": 3600,
    "hour": 3600,
    "d": 86400,
    "day": 86400,
    "week": 604800,
}


def seconds(span: str | float) -> float:
    """A span of time such as '7 days' in seconds; a number is seconds."""
    if isinstance(span, (int, float)) and not isinstance(span, bool):
        return float(span)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", str(span).lower())
    unit = found.group(2) if found else ""
    if found is None or (unit not in _UNITS and unit + "s" not in _UNITS):
        raise SqlError(
            f"'{span}' is not a span of time", hint="write for instance '30 seconds', '5 minutes' or '7 days'"
        )
    return float(found.group(1)) * _UNITS[unit if unit in _UNITS else unit + "s"]
