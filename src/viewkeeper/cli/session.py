"""The global options, and opening the database that they name."""

from __future__ import annotations

import functools
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from viewkeeper.errors import StorageError

if TYPE_CHECKING:
    from viewkeeper.api.database import Database
    from viewkeeper.catalog.state import State
    from viewkeeper.log.ledger import Ledger
    from viewkeeper.log.storage import Storage


def read_script(file: TextIO) -> str:
    """The statements in a file or on standard input, without a byte order mark."""
    try:
        return file.read().removeprefix("\ufeff")
    except UnicodeDecodeError as problem:
        raise click.UsageError(f"the statements are not UTF-8 text: {problem.reason}") from problem


@dataclass(frozen=True)
class Options:
    """The global options."""

    db: str
    engine: str | None
    form: str
    db_given: bool = False
    timeout: str | None = None

    @property
    def command(self) -> str:
        """The beginning of a command on the same database, for hints that can be typed."""
        return f"viewkeeper --db {shlex.quote(self.db)}" if self.db_given else "viewkeeper"

    def find_state(self) -> State | None:
        """The state of the database; None if there is none. Creates nothing."""
        from viewkeeper.log.open_log import find_state

        return find_state(self.storage)

    def log(self) -> tuple[State, Ledger]:
        """The state of the database and its ledger, read without an engine."""
        from viewkeeper.log.ledger import Ledger

        state = self.find_state()
        if state is None:
            raise self.no_database()
        return state, Ledger(self.storage)

    @functools.cached_property
    def storage(self) -> Storage:
        """The storage of the database."""
        from viewkeeper.log.storage import open_storage

        return open_storage(self.db, {}, "full")

    def open(self, *, create: bool = False) -> Database:
        """Opens the database, with the engine it was made with unless another one is asked for."""
        from viewkeeper.api.database import connect

        state = self.find_state()
        if state is None and not create:
            raise self.no_database()
        engine = self.engine or (state.settings.engine if state else None)
        return connect(self.db, engine, statement_timeout=self.timeout)

    def no_database(self, hint: str | None = None) -> StorageError:
        """The error for a path without a database."""
        typed = f'{self.command} sql "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)"'
        return StorageError(
            f"there is no database at {self.db}",
            detail=None if self.db_given else "this is the default place; --db DIR or $VIEWKEEPER_DB names another",
            hint=hint or f"make one: {typed}",
        )
