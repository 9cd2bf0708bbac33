"""A transaction as a user holds it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from viewkeeper.catalog.active_rules import IMMEDIATE, ActiveRule
from viewkeeper.catalog.declared_functions import Function
from viewkeeper.catalog.name_errors import refuse_reserved
from viewkeeper.errors import Place, SqlError, TypeMismatch
from viewkeeper.feed.feeds import Feeds
from viewkeeper.maintain.redefining import definition_effects
from viewkeeper.query.preview import Preview, preview
from viewkeeper.query.result import Result
from viewkeeper.rules.processing import RuleProcessing
from viewkeeper.sql import parsed_statements as sql
from viewkeeper.sql.parameters import Parameters
from viewkeeper.sql.rule_effects import CHANGING
from viewkeeper.sql.tokens import Statement
from viewkeeper.statements.define_datalog import run_program
from viewkeeper.statements.define_functions import declare_function
from viewkeeper.statements.dispatch import run
from viewkeeper.statements.scripts import each_statement, last
from viewkeeper.store.store import Store
from viewkeeper.transaction import loading
from viewkeeper.transaction import row_changes as rowwise
from viewkeeper.transaction.change import Commit
from viewkeeper.transaction.commit import check_now
from viewkeeper.transaction.commit import commit as commit_transaction
from viewkeeper.transaction.open_transaction import OpenTransaction

if TYPE_CHECKING:
    from viewkeeper.api.database import Database

T = TypeVar("T")


class Transaction:
    """A transaction as a user holds it. Nobody else sees its changes until it commits."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._gathered: OpenTransaction | None = OpenTransaction(db._store)
        self._rules = RuleProcessing(db._actions)
        self._gathered.hooks = (*db._hooks, self._rules) if self._gathered.state.rules else tuple(db._hooks)
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

    def sql(self, text: str, parameters: Parameters | None = None) -> Result:
        """Runs statements inside the transaction and returns the last result; `parameters` as in `db.sql`."""
        return last(each_statement(text, self._statement, parameters))

    def _statement(self, statement: Statement) -> Result:
        with self._db._store.engine.running():
            return run(_Session(self), statement)

    def datalog(self, text: str) -> Result:
        """Runs a Datalog program, or adds (+) and removes (-) rules, as part of the transaction."""
        return Result(remarks=self._step(lambda: run_program(self._tx, text)))

    def change(self, action: Callable[[OpenTransaction], int | None]) -> Result:
        """A step of the transaction that changes or defines something; `action` gives the number of rows."""
        self._tx.remarks.clear()
        count = self._step(lambda: action(self._tx))
        return Result(count=count, remarks=self._tx.remarks)

    def declare_function(self, function: Function) -> bool:
        """Declares a function by its target as part of the transaction; others can use it after the commit."""
        return declare_function(self._tx, function)

    def definitions(self) -> list[str]:
        """What the commit will do to the views that the transaction defines or redefines."""
        return definition_effects(self._tx)

    def _surviving(self, action: Callable[[], T]) -> T:
        """Runs a step of the transaction; again if the engine loses its session, because a step fails as a whole."""
        return self._db._store.engine.surviving(action)

    def _step(self, action: Callable[[], T]) -> T:
        """A step that changes something, and what immediate rules make of it; it fails as a whole."""
        tx = self._tx
        if not any(rule.coupling == IMMEDIATE for rule in tx.state.rules.values()):
            return self._surviving(action)
        with tx.defining(), self._rules.as_a_whole(tx):
            done = self._surviving(action)
            self._rules.after_statement(tx)
        return done

    def insert(self, table: str, rows: Any) -> int:
        """Inserts rows: tuples, dicts, an Arrow table, a pandas, polars or Spark DataFrame."""
        kept = repeatable(rows)
        return self._step(lambda: rowwise.insert_rows(self._tx, self._tx.table(table), kept))

    def delete(self, table: str, rows: Any, *, missing: str = "error") -> int:
        """Deletes whole rows, as many copies as given; missing="ignore" skips rows that do not exist."""
        _check_missing(missing)
        kept = repeatable(rows)
        return self._step(lambda: rowwise.delete_rows(self._tx, self._tx.table(table), kept, missing))

    def delete_by_key(self, table: str, keys: Any, *, missing: str = "error") -> int:
        """Deletes the rows with these primary keys."""
        _check_missing(missing)
        kept = repeatable(keys)
        return self._step(lambda: rowwise.delete_by_key(self._tx, self._tx.table(table), kept, missing))

    def upsert(self, table: str, rows: Any) -> int:
        """Inserts rows, replacing those with the same primary key."""
        kept = repeatable(rows)
        return self._step(lambda: rowwise.upsert(self._tx, self._tx.table(table), kept))

    def load(
        self,
        table: str,
        path: str,
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        create: bool = False,
        upsert: bool = False,
    ) -> int:
        """Loads a Parquet, CSV or JSON file; with `create` into a new table if there is none of that name.

        With `upsert` its rows replace those with the same primary key.
        """
        tx, source, settings = self._tx, os.fspath(path), dict(options or {})
        if create and tx.find(table) is None:
            refuse_reserved(table)
            tx.create(table, self._surviving(lambda: loading.schema_of_file(tx, source, format, settings)))
        action = loading.upsert_file if upsert else loading.load_file
        return self._step(lambda: action(tx, tx.table(table), source, format, settings))

    def check(self) -> None:
        """An assertion point: runs deferred rules and assertions now, instead of at the commit alone."""
        tx = self._tx
        with self._db._store.engine.running(), tx.defining(), self._rules.as_a_whole(tx):
            self._rules.check(tx)
            check_now(tx)

    def preview(self) -> Preview:
        """The net change of every affected table and view, virtual ones included, with nothing written.

        Its `rules` are those that would fire, its `assertions` what would be violated.
        """
        return self._surviving(lambda: preview(self._tx, self._rules.dry()))

    def commit(self) -> Commit | None:
        """Commits; None if there is no net effect."""
        gathered, self._gathered = self._tx, None
        began = time.perf_counter()
        with self._db._store.engine.running():
            self.commit_info = commit_transaction(gathered)
        self._db._committed(self.commit_info, time.perf_counter() - began)
        return self.commit_info

    def rollback(self) -> None:
        """Discards everything done in the transaction."""
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            gathered.discard()


class ActionTransaction(Transaction):
    """A transaction as the action of a rule sees it: it changes tables, and whose rule it is commits."""

    def __init__(self, db: Database, tx: OpenTransaction) -> None:
        self._db = db
        self._gathered = tx
        self.commit_info = None

    def _statement(self, statement: Statement) -> Result:
        """Runs a query or a change; definitions are refused, because the action may have to be run again."""
        if not isinstance(sql.parse(statement), (sql.Select, *CHANGING)):
            word = str(statement.tokens[0].text).upper()
            raise SqlError(
                f"the action of a rule reads and changes tables: {word} cannot be part of it",
                place=Place.at(statement.text, statement.start, len(word)),
                hint="use SELECT, INSERT, UPDATE, DELETE, MERGE or TRUNCATE",
            )
        return super()._statement(statement)

    def datalog(self, text: str) -> Result:
        """Refuses: the action of a rule defines nothing."""
        raise SqlError("the action of a rule cannot change Datalog rules", hint="change tables only")

    def _step(self, action: Callable[[], T]) -> T:
        """A step of the action; immediate rules look at it when the action is over."""
        return self._surviving(action)

    def check(self) -> None:
        """Refuses: rules are being processed."""
        raise SqlError("CHECK cannot stand in the action of a rule", hint="leave it out")

    def preview(self) -> Preview:
        """Refuses: rules are being processed."""
        raise SqlError("an action cannot preview its transaction", hint="look at change.inserted and change.deleted")

    def commit(self) -> Commit | None:
        """Refuses: the transaction commits when its rules have been processed."""
        raise SqlError("the action of a rule cannot commit", hint="return from the function")

    def rollback(self) -> None:
        """Refuses: an action that must not go on raises an exception."""
        raise SqlError("the action of a rule cannot roll back", hint="raise an exception: nothing will be changed")


class _Session:
    """A transaction as statements see it."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def store(self) -> Store:
        """The open database."""
        return self._transaction._db._store

    def feeds(self) -> Feeds:
        """The subscriptions of the database."""
        return self._transaction._db._feeds

    def current(self) -> OpenTransaction:
        """The transaction."""
        return self._transaction._tx

    def change(self, action: Callable[[OpenTransaction], int | None]) -> Result:
        """Changes something in the transaction."""
        return self._transaction.change(action)

    def tried(self, action: Callable[[OpenTransaction], object]) -> list[str]:
        """What an action would do to the views that it defines, starting from the committed state."""
        return self._transaction._db._tried(action)

    def check(self) -> Result:
        """Runs deferred rules and assertions."""
        self._transaction.check()
        return Result()

    def has_function(self, rule: ActiveRule) -> bool:
        """Whether the Python function of a rule was registered with the database object."""
        return self._transaction._db._actions.has(rule)

    def control(self, word: str, place: Place) -> Result:
        """Refuses BEGIN, COMMIT and ROLLBACK."""
        raise SqlError(
            f"{word} cannot stand inside a transaction object",
            place=place,
            hint="use tx.commit() or tx.rollback(), or leave the with block",
        )


def repeatable(rows: Any) -> Any:
    """Rows that can be read twice, because a step may have to run again."""
    return list(rows) if isinstance(rows, Iterator) else rows


def _check_missing(missing: str) -> None:
    if missing not in ("error", "ignore"):
        raise TypeMismatch(f"missing={missing!r} is not known", hint="use missing='error' or missing='ignore'")
