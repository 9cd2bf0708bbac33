"""viewkeeper shell: statements typed one after the other, and what they change."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from viewkeeper.cli.output import FORMATS, note, print_change, print_result, print_rows, stdout, tell_error
from viewkeeper.cli.progress import of_views
from viewkeeper.cli.session import Options
from viewkeeper.cli.sql import print_outcome
from viewkeeper.errors import SqlError, ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.api.database import Database


@click.command(short_help="Type statements and see what they change.")
@click.pass_obj
def shell(options: Options) -> None:
    """Reads statements from the terminal and prints rows, and the rows that changes insert into views and delete.

    A statement ends with ; and may have several lines. Tab completes names and words, the arrow keys bring back what
    was typed before (kept in ~/.viewkeeper_history or $VIEWKEEPER_HISTORY), Ctrl-C gives up a line or a statement that
    runs, Ctrl-D ends. .help lists commands. The database is created if there is none.
    """
    if not sys.stdin.isatty():
        raise click.UsageError("the shell needs a terminal: viewkeeper sql - runs statements from standard input")
    from viewkeeper.cli.shell_input import prompt_session

    is_new = options.find_state() is None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with options.open(create=True) as db:
        note(f"{'a new database' if is_new else 'the database'} at {options.db}; .help lists commands, Ctrl-D ends")
        running = Shell(db, options.form)
        typed = prompt_session(lambda: db.store.refresh(), list(COMMANDS))
        name = os.path.basename(options.db.rstrip("/"))
        while not running.is_over:
            try:
                running.run(typed.prompt(f"{name}{'*' if db.in_transaction else ''}> "))
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
        if db.in_transaction:
            note("the open transaction was rolled back")


class Shell:
    """What a shell remembers between statements."""

    def __init__(self, db: Database, form: str) -> None:
        self.db = db
        self.form = form
        self.timing = False
        self.is_over = False

    def run(self, text: str) -> None:
        """Runs what was typed; an error is printed, and Ctrl-C gives up the statement."""
        try:
            if text.lstrip().startswith("."):
                self._command(text.strip())
            else:
                self._statements(text)
        except KeyboardInterrupt:
            note("interrupted: what was not finished was not changed")
        except ViewkeeperError as problem:
            tell_error(str(problem))

    def _statements(self, text: str) -> None:
        results = self.db.script(text)
        while True:
            began = time.perf_counter()
            with of_views(self.db):
                result = next(results, None)
            if result is None:
                return
            print_outcome(result, self.form)
            if self.timing:
                note(f"{(time.perf_counter() - began) * 1000:,.0f} ms")

    def _command(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        known = COMMANDS.get(word)
        if known is None:
            raise SqlError(f"there is no command {word}", hint=f"the commands are {', '.join(COMMANDS)}")
        known[0](self, rest.strip().rstrip(";"))

    def help(self, rest: str) -> None:
        """The commands."""
        for word, (_, usage, what) in COMMANDS.items():
            stdout().print(f"  {word + ' ' + usage:<24} {what}", markup=False, soft_wrap=True)

    def list(self, rest: str) -> None:
        """The tables and views."""
        columns = ("name", "kind", "stored_rows")
        print_rows(columns, ([item[name] for name in columns] for item in self.db.ls()), self.form, ("stored_rows",))

    def describe(self, rest: str) -> None:
        """The columns of a relation."""
        print_result(self.db.sql(f"DESCRIBE {rest}"), self.form)

    def explain(self, rest: str) -> None:
        """How a view is maintained."""
        stdout().print(self.db.explain(rest), markup=False, soft_wrap=True)

    def changes(self, rest: str) -> None:
        """What commits changed in a relation."""
        from viewkeeper.api.table import Readable

        name, _, since = rest.partition(" ")
        if since and not since.strip().isdigit():
            raise SqlError(f"'{since}' is not an epoch", hint="write .changes NAME, or .changes NAME 41")
        for epoch, change in Readable(self.db, name).changes(since=int(since or 0)):
            print_change(f"epoch {epoch}", change)

    def rules(self, rest: str) -> None:
        """Runs a Datalog program."""
        for remark in self.db.datalog(rest).remarks:
            note(remark)
        note(f"epoch {self.db.epoch}")

    def ask(self, rest: str) -> None:
        """Answers a question in Datalog."""
        print_result(self.db.datalog_query(rest), self.form)

    def format(self, rest: str) -> None:
        """How rows are printed."""
        if rest not in FORMATS:
            raise SqlError(f"there is no format '{rest}'", hint=f"the formats are {', '.join(FORMATS)}")
        self.form = rest

    def time(self, rest: str) -> None:
        """Whether times are printed."""
        self.timing = not self.timing
        note(f"times are {'printed' if self.timing else 'not printed'}")

    def end(self, rest: str) -> None:
        """Ends the shell."""
        self.is_over = True


Command = tuple[Callable[[Shell, str], None], str, str]

COMMANDS: dict[str, Command] = {
    ".ls": (Shell.list, "", "the tables and views"),
    ".describe": (Shell.describe, "NAME", "columns and keys"),
    ".explain": (Shell.explain, "VIEW", "how a view is maintained"),
    ".changes": (Shell.changes, "NAME [EPOCH]", "what commits after an epoch changed"),
    ".datalog": (Shell.rules, "RULES", "a Datalog program, or + and - rules"),
    ".ask": (Shell.ask, "QUESTION", "a question in Datalog, such as path(1, X)"),
    ".format": (Shell.format, "|".join(FORMATS), "how rows are printed"),
    ".timing": (Shell.time, "", "prints how long statements take, or no longer"),
    ".help": (Shell.help, "", "this list"),
    ".quit": (Shell.end, "", "ends the shell, as Ctrl-D does"),
}
