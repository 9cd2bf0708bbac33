"""The object a user holds: a database of tables, and of views that are maintained as these change."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from viewkeeper.advice.advice import Analysis, analyze_view
from viewkeeper.algebra.durations import seconds
from viewkeeper.algebra.tuning import Tuning
from viewkeeper.algebra.types import parse_type
from viewkeeper.api.rule_actions import RuleActions, RuleFunction, rule_statement
from viewkeeper.api.table import Table
from viewkeeper.api.transaction import Transaction, repeatable
from viewkeeper.api.view import View
from viewkeeper.catalog import relations as rel
from viewkeeper.catalog.active_rules import ActiveRule
from viewkeeper.catalog.declared_functions import Function
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.catalog.settings import Limits, Settings
from viewkeeper.datalog.questions import question
from viewkeeper.engine.engine import open_engine
from viewkeeper.engine.python_functions import load_function
from viewkeeper.errors import (
    AlreadyExists,
    Conflict,
    EngineError,
    NotFound,
    NotMaintainable,
    Place,
    SqlError,
    StorageError,
    ViewkeeperError,
)
from viewkeeper.feed.feeds import Feeds
from viewkeeper.feed.subscription import Subscription
from viewkeeper.log import listing
from viewkeeper.log.open_log import LOCK, create_database, find_state
from viewkeeper.log.rule_listing import rule_firings
from viewkeeper.log.storage import Storage, open_storage
from viewkeeper.log.stored_costs import engine_name, stored_costs
from viewkeeper.log.vacuuming import GRACE_SECONDS, Vacuumed, vacuum
from viewkeeper.plan.cost import RATES
from viewkeeper.query.known_relations import known_relations
from viewkeeper.query.result import Result
from viewkeeper.query.verification import Certificate
from viewkeeper.rules.detached import DetachedRules
from viewkeeper.rules.processing import RuleProcessing
from viewkeeper.sql.parameters import Parameters
from viewkeeper.sql.tokens import Statement
from viewkeeper.statements.asking import (
    explain_rule_named,
    explain_view_named,
    found_relation,
    missing_functions,
    verify_views,
)
from viewkeeper.statements.define_datalog import run_program
from viewkeeper.statements.define_rules import create_rule
from viewkeeper.statements.dispatch import run
from viewkeeper.statements.scripts import each_statement, last
from viewkeeper.store.compaction import Compacted, compact_relation
from viewkeeper.store.store import Store
from viewkeeper.transaction.change import Commit
from viewkeeper.transaction.hooks import CommitHook
from viewkeeper.transaction.open_transaction import OpenTransaction

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
    statement_timeout: str | float | None = None,
    max_rounds: int | None = None,
    max_rows: int | None = None,
    tuning: Tuning | None = None,
) -> Database:
    """Opens the database at a directory or object-store URL; creates it if it does not exist.

    `engine`: "spark", "sail", "sc://host:port" or a SparkSession; if it is left out, $VIEWKEEPER_ENGINE, the engine
    that the database was made with, or Apache Spark for a new one. `keep`: how much history AS OF and feeds can
    read; fixed at creation, like `time_zone`. `durability`: "full", or "process" to leave the fsyncs out.
    `statement_timeout`: how long a statement may take, such as "30 s"; `max_rounds` and `max_rows`: limits of a
    recursion. SQL's SET changes these three. `tuning`: thresholds that decide how work is done.
    """
    if durability not in ("full", "process"):
        raise StorageError(f"there is no durability '{durability}'", hint="use 'full' or 'process'")
    options = dict(storage_options or {})
    conf = dict(spark_conf or {})
    storage = open_storage(os.fspath(path), options, durability)
    state = find_state(storage)
    own = state.settings.engine if state is not None else "spark"
    choice = engine if engine is not None else os.environ.get("VIEWKEEPER_ENGINE") or own
    opened = open_engine(choice, state.settings if state else None, conf, options)
    if not opened.is_local:
        opened.check()
    if state is None:
        settings = Settings(engine=opened.kind, time_zone=time_zone)
        opened.settings = settings
        state = create_database(storage, settings, seconds(keep))
    opened.settings = state.settings
    opened.limits = _limits(statement_timeout, max_rounds, max_rows)
    opened.tuning = tuning or Tuning()
    costs = stored_costs(storage, engine_name(opened.kind, is_local=opened.is_local))
    opened.rates = costs.rates if costs is not None else RATES[opened.kind]
    if opened.kind != state.settings.engine:
        print(
            f"viewkeeper: this database was made with the engine '{state.settings.engine}' and is opened with "
            f"'{opened.kind}'; the two differ in some details, so run verify",
            file=sys.stderr,
        )
    return Database(storage, Store(storage, opened, state))


def _limits(statement_timeout: str | float | None, max_rounds: int | None, max_rows: int | None) -> Limits:
    limits = Limits()
    if statement_timeout is not None:
        limits = limits.with_value("statement_timeout", seconds(statement_timeout))
    for name, value in (("max_rounds", max_rounds), ("max_rows", max_rows)):
        if value is not None and value < 1:
            raise SqlError(f"{name} is a number from 1 on", hint=f"use for instance {name}=100_000")
        limits = limits.with_value(name, value)
    return limits


class Database:
    """An open database. Use it in a `with` statement, or call close()."""

    def __init__(self, storage: Storage, store: Store) -> None:
        self._storage = storage
        self._open: Store | None = store
        self._local = threading.local()
        self._hooks: list[CommitHook] = []  # what reacts to commits
        self._listeners: list[Callable[[Commit, float], None]] = []  # told of commits that this object made
        self._actions = RuleActions(self)
        self._detached = DetachedRules(store, self._actions, self._begun)
        self._feeds = Feeds(store)
        if not store.engine.is_local and not store.lease.refused:
            self._probe(store)
        self._detached.wake()

    @staticmethod
    def _probe(store: Store) -> None:
        """Checks, with a file of one row, that a remote engine sees the database's files."""
        import pyarrow.parquet as pq

        from viewkeeper.algebra.schema import Column, Schema

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
        """Closes the database; a transaction that is still open is rolled back. Closing twice is fine.

        Actions of detached rules that are due are run first; those that take long or fail stay for later.
        """
        if self._open is None:
            return
        open_transaction = getattr(self._local, "transaction", None)
        if open_transaction is not None:
            open_transaction.rollback()
        self._detached.close()
        self._feeds.close()
        store, self._open = self._open, None
        store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The directory or URL of the database."""
        return self._storage.root

    @property
    def store(self) -> Store:
        """The open store, for what is built on databases: servers and pipelines."""
        return self._store

    @property
    def epoch(self) -> int:
        """The newest epoch."""
        return self._store.refresh().epoch

    # SQL -----------------------------------------------------------------------------------------

    def sql(self, text: str, parameters: Parameters | None = None, *, dialect: str = "spark") -> Result:
        """Runs one or several statements and returns the last result.

        `parameters` are values for `:name` (a dict) or `?` (a list). Without BEGIN each statement commits alone; an
        error names its statement, and earlier ones stay committed.
        """
        if dialect != "spark":
            raise SqlError(f"the dialect '{dialect}' is not supported", hint="use dialect='spark'")
        return last(self.script(text, parameters))

    def datalog(self, text: str) -> Result:
        """Runs a Datalog program in Souffle's syntax, or adds (+) and removes (-) rules, all or nothing.

        Relations of .input are tables, those of .output materialized views, all others virtual views. `remarks` of the
        result lists what looks like a mistake.
        """
        current = self._current()
        return current.datalog(text) if current is not None else self._alone(lambda tx: tx.datalog(text))

    def explain_datalog(self, text: str) -> str:
        """What a program or a change of rules would do to the views that it defines; changes nothing."""
        return "\n".join(self._tried(lambda tx: run_program(tx, text)))

    def datalog_query(self, text: str) -> Result:
        """Answers a question in Datalog, such as path(1, X), with the distinct values of its variables.

        The answer to a question without variables is one row: whether it holds.
        """
        relations = self._store.refresh().alive()
        schemas = {relation.name: relation.schema for relation in relations if not relation.is_hidden}
        return self.sql(question(text, schemas, self._store.known_functions()))

    def script(self, text: str, parameters: Parameters | None = None) -> Iterator[Result]:
        """Runs statements one after the other, each when its result is asked for."""
        return each_statement(text, self._statement, parameters)

    @property
    def in_transaction(self) -> bool:
        """Whether a BEGIN of this thread waits for its COMMIT or ROLLBACK."""
        return self._current() is not None

    def _statement(self, statement: Statement) -> Result:
        with self._store.engine.running():
            done = run(_Session(self), statement)
        self._detached.wake()
        return done

    def _current(self) -> Transaction | None:
        current: Transaction | None = getattr(self._local, "transaction", None)
        return current

    def analyze(self, query: str, text: str | None = None) -> Analysis:
        """Analyzes a view before it is created: keys, duplicates, and what maintaining it would take.

        `text` is the text that contains the query, for positions in it.
        """
        return analyze_view("the view", query, text or query, known_relations(self._store.refresh()))

    def _tried(self, define: Callable[[OpenTransaction], object]) -> list[str]:
        """What an action would do to the views that it defines; changes nothing."""
        tx = Transaction(self)
        try:
            self._store.engine.surviving(lambda: define(tx._tx))
            return tx.definitions()
        finally:
            tx.rollback()

    # transactions --------------------------------------------------------------------------------

    def transaction(self) -> Transaction:
        """A transaction: commits at the end of a `with` block, rolls back on an exception."""
        return Transaction(self)

    def _begun(self) -> tuple[OpenTransaction, RuleProcessing]:
        """A transaction for the action of a detached rule, and the rules that it may fire."""
        begun = Transaction(self)
        return begun._tx, begun._rules

    def insert(self, table: str, rows: Any) -> Result:
        """Inserts rows, as `tx.insert` does, in a transaction of their own."""
        return self._counted(lambda tx, given: tx.insert(table, given), rows)

    def upsert(self, table: str, rows: Any) -> Result:
        """Inserts rows, replacing those with the same primary key, in a transaction of their own."""
        return self._counted(lambda tx, given: tx.upsert(table, given), rows)

    def delete(self, table: str, rows: Any, *, missing: str = "error") -> Result:
        """Deletes whole rows, as `tx.delete` does, in a transaction of their own."""
        return self._counted(lambda tx, given: tx.delete(table, given, missing=missing), rows)

    def delete_by_key(self, table: str, keys: Any, *, missing: str = "error") -> Result:
        """Deletes the rows with these primary keys, in a transaction of their own."""
        return self._counted(lambda tx, given: tx.delete_by_key(table, given, missing=missing), keys)

    def _counted(self, action: Callable[[Transaction, Any], int], rows: Any) -> Result:
        """A change given as rows: in the transaction that this thread opened with BEGIN, or in one of its own."""
        kept, current = repeatable(rows), self._current()
        if current is not None:
            return Result(count=action(current, kept))
        return self._alone(lambda tx: Result(count=action(tx, kept)))

    def on_commit(self, call: Callable[[Commit, float], None]) -> Callable[[], None]:
        """Calls a function after every commit made with this object, with its seconds; returns what ends that."""
        self._listeners.append(call)
        return lambda: self._listeners.remove(call)

    def _committed(self, commit: Commit | None, seconds: float) -> None:
        """A transaction has ended, perhaps without a net effect."""
        self._detached.wake()
        self._feeds.wake()
        if commit is not None:
            for call in self._listeners:
                call(commit, seconds)

    def wait_for_rules(self, seconds: float = 60.0) -> bool:
        """Waits until no action of a detached rule is due or running in this process; False if it takes longer.

        An action that failed is due again after a pause, which is not waited for.
        """
        return self._detached.wait(seconds)

    def _alone(self, action: Callable[[Transaction], Result]) -> Result:
        """Runs a statement as its own transaction, again after a conflict."""

        def attempt() -> Result:
            tx = Transaction(self)
            try:
                result = action(tx)
                result.commit = tx.commit()
            except BaseException:
                tx.rollback()
                raise
            return result

        with self._store.engine.running():
            return self._retried(attempt)

    def _retried(self, attempt: Callable[[], Result]) -> Result:
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
        relation = found_relation(self._store, name)
        if not isinstance(relation, rel.Table):
            raise NotFound(f"{relation.name} is a {relation.kind_words}, not a table", hint=f"use db.view({name!r})")
        return Table(self, name)

    def view(self, name: str) -> View:
        """A view by name, virtual or materialized."""
        relation = found_relation(self._store, name, "view")
        if isinstance(relation, rel.Table):
            raise NotFound(f"{relation.name} is a table, not a view", hint=f"use db.table({name!r})")
        return View(self, name)

    @contextlib.contextmanager
    def progress(self, tell: Callable[[str, int, int], None]) -> Iterator[None]:
        """Inside this context, `tell(names, done, total)` is called for each level of views that a commit maintains."""
        store, before = self._store, self._store.progress
        store.progress = tell
        try:
            yield
        finally:
            store.progress = before

    def function(
        self, name: str, function: Callable[..., Any] | str, returns: str, *, deterministic: bool = True
    ) -> None:
        """Declares a Python function (or one over pandas Series) for queries, views and rules.

        A text "package.module:name" is recorded in the database, and every process that maintains a view which uses the
        function imports it. A function object is known to this database object alone: a process without it cannot
        change the tables of such a view.
        """
        if not name.isidentifier():
            raise SqlError(f"'{name}' cannot be the name of a function", hint="use letters, digits and _")
        if not deterministic:
            raise NotMaintainable(
                f"the function {name} is not deterministic, so no view that uses it could be maintained",
                hint="compute its value when a row is inserted, and store it in a column",
            )
        kind = parse_type(returns).ddl
        if isinstance(function, str):
            self._declare_target(Function(name, function, kind))
            return
        there = self._store.refresh().functions.get(name.lower())
        if there is not None:
            raise AlreadyExists(
                f"the database knows the function {there.name} as {there.target}",
                hint=f"DROP FUNCTION {there.name}, or use another name",
            )
        self._store.engine.declare(name, function, kind)

    def rule(
        self,
        on: str,
        when: str = "inserted",
        *,
        name: str | None = None,
        nervous: bool = False,
        coupling: str = "deferred",
        priority: int = 0,
        condition: str | None = None,
        each_row: bool = False,
    ) -> Callable[[RuleFunction], RuleFunction]:
        """Makes a function the action of a rule: `@db.rule(on="low_stock", when="inserted")`, `def f(change, tx)`.

        `on` is a relation or a query in brackets; `when` names events, joined by "or". The rule has the function's name
        unless one is given. Where the database has the same rule already, the function is registered as its action;
        every process whose changes may fire the rule has to do that. What CREATE RULE remarks on the rule comes as
        Python warnings (UserWarning).
        """

        def registered(function: RuleFunction) -> RuleFunction:
            called = name or function.__name__
            statement = rule_statement(called, on, when, nervous, coupling, priority, condition, each_row)
            there = next((r for r in self._store.refresh().rules.values() if r.name.lower() == called.lower()), None)
            made = Result()
            if there is None or there.text != statement.text:
                made = self._alone(lambda tx: tx.change(lambda inside: create_rule(inside, statement, self._actions)))
            self._actions.register(called, function)
            self._detached.wake()
            for remark in made.remarks:
                warnings.warn(remark, stacklevel=2)
            return function

        return registered

    def _declare_target(self, function: Function) -> None:
        """Enters a function in the ledger, and has it here."""
        load_function(function.target)
        current = self._current()
        if current is not None:
            current.declare_function(function)
        else:
            self._alone(lambda tx: Result(count=int(tx.declare_function(function))))
            self._store.engine.forget_function(function.name)
            self._store.bring_function(function.name.lower())

    def explain(self, name: str, format: str = "text") -> str:
        """How a view is maintained: what is stored, and what a change of each table leads to; as text or JSON."""
        return explain_view_named(self._store, name, format)

    def explain_rule(self, name: str) -> str:
        """What an active rule watches and does, and how changes of tables reach it; as text."""
        return "\n".join(explain_rule_named(_Session(self), name))

    def verify(self, name: str | None = None, *, engine: str | None = None) -> Certificate:
        """Recomputes a view (or every materialized view) and compares it with what is stored.

        `engine`: "spark", "sail" or "sc://host:port" recomputes it there, as a second opinion: only another engine
        shows what the database's own engine gets wrong in both maintenance and recompute.
        """
        return verify_views(self._store, name, engine)

    def load(
        self,
        table: str,
        path: str | Sequence[str],
        *,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        create: bool = False,
        upsert: bool = False,
    ) -> Result:
        """Loads a Parquet, CSV or JSON file, or several, into a table, as one transaction.

        A path may be a pattern with * or a directory. With `create` a missing table is created with the columns of the
        file; with `upsert` rows replace those with the same primary key.
        """
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)

        def loaded(tx: Transaction) -> Result:
            counts = [tx.load(table, p, format=format, options=options, create=create, upsert=upsert) for p in paths]
            return Result(count=sum(counts))

        return self._alone(loaded)

    def ls(self, *, hidden: bool = False) -> list[dict[str, Any]]:
        """The relations: name, kind, columns, files, stored_rows (signed rows stored), bytes, options and stale_since.

        `stale_since` is the epoch since which a view is suspended, None for all others. `hidden`: lists auxiliary
        relations too.
        """
        return listing.listing(self._store.refresh(), hidden=hidden)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The commits, newest first: epoch, time, and what was created, dropped and changed."""
        store = self._store
        return listing.history(store.ledger, store.refresh(), limit)

    def rule_firings(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The firings of rules, of the newest epoch first: epoch, rule, rows, milliseconds and outcome."""
        store = self._store
        state = store.refresh()
        return rule_firings(store.ledger, state, limit, missing_functions(_Session(self), state))

    def subscribe(
        self,
        what: str,
        since: int | None = None,
        snapshot: bool = True,
        every: str | float | None = None,
        precision: str = "exact",
        *,
        where: str | None = None,
        until: int | None = None,
        reset: bool = False,
    ) -> Subscription:
        """Frames of a table, a view or a query: the net change of each epoch in which it changes, also asynchronously.

        First comes a snapshot, unless `snapshot` is false or `since` names the epoch after which to go on; an epoch no
        longer kept raises Gone, or with `reset` begins again with a snapshot. `every`: a duration for the net of that
        time in one frame, or "demand" for what has changed whenever it is asked for. `where`: a condition on its
        columns; only that part is derived. `until`: the last epoch. `precision`: "nervous" may repeat rows of a view
        without duplicates that did not change, and is cheaper.
        """
        return self._feeds.subscribe(
            what,
            where=where,
            since=since,
            snapshot=snapshot,
            until=until,
            every=every,
            precision=precision,
            reset=reset,
        )

    # housekeeping --------------------------------------------------------------------------------------

    def compact(self, name: str | None = None) -> list[Compacted]:
        """Rewrites tables into fewer, key-sorted files. Changes no contents and makes no epoch."""
        store = self._store
        store.housekeeping.wait()
        state = store.refresh()
        wanted = state.alive()
        if name is not None:
            relation = state.find(name)
            if relation is None:
                raise no_such_table(name, state.names(), None)
            wanted = [relation]
        done = []
        for relation in wanted:
            held = store.hold()  # the files are not vacuumed while they are merged, even if others replace them
            current = held.state.relations.get(relation.id)
            if current is None:
                continue
            result = store.engine.surviving(functools.partial(compact_relation, store, current))
            if result is not None:
                done.append(result)
        return done

    def vacuum(self, grace: str | float = GRACE_SECONDS) -> Vacuumed:
        """Deletes files that nothing needs any more: replaced or abandoned longer than `grace` ago."""
        self._store.housekeeping.wait()
        done = vacuum(self._store, seconds(grace))
        self._store.lookups.keep_only(self._store.state.named_files())
        return done


class _Session:
    """A database as statements see it, with the transaction that this thread opened with BEGIN."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def store(self) -> Store:
        """The open database."""
        return self._db._store

    def current(self) -> OpenTransaction | None:
        """The open transaction, if there is one."""
        current = self._db._current()
        return None if current is None else current._tx

    def change(self, action: Callable[[OpenTransaction], int | None]) -> Result:
        """Changes something in the open transaction, or in one of its own."""
        current = self._db._current()
        return current.change(action) if current is not None else self._db._alone(lambda tx: tx.change(action))

    def tried(self, action: Callable[[OpenTransaction], object]) -> list[str]:
        """What an action would do to the views that it defines."""
        return self._db._tried(action)

    def check(self) -> Result:
        """Runs deferred rules and assertions in the transaction of this thread."""
        current = self._db._current()
        if current is not None:
            current.check()
        return Result()

    def feeds(self) -> Feeds:
        """The subscriptions of the database."""
        return self._db._feeds

    def has_function(self, rule: ActiveRule) -> bool:
        """Whether the Python function of a rule was registered with the database object."""
        return self._db._actions.has(rule)

    def control(self, word: str, place: Place) -> Result:
        """Begins, commits or rolls back the transaction of this thread."""
        current = self._db._current()
        if word == "BEGIN":
            if current is not None:
                raise SqlError("a transaction is already open", place=place, hint="COMMIT or ROLLBACK it first")
            self._db._local.transaction = Transaction(self._db)
            return Result()
        if current is None:
            raise SqlError(f"there is no open transaction to {word}", place=place, hint="BEGIN one first")
        self._db._local.transaction = None
        if word == "ROLLBACK":
            current.rollback()
            return Result()
        return Result(commit=current.commit())
