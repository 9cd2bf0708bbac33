"""Prints a tour of a database: headings, statements as one would type them, and their results."""

from __future__ import annotations

import itertools
import os
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from viewkeeper.algebra.json_values import to_text
from viewkeeper.algebra.text_tables import table_lines
from viewkeeper.cli.output import count_of, stdout
from viewkeeper.cli.progress import moving, of_views
from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.api.database import Database
    from viewkeeper.transaction.change import Change, Commit

WIDTH = 100
INDENT = 4


class Narrator:
    """Runs statements and prints them with their results."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.console = stdout()
        self.width = min(self.console.width, WIDTH) if self.console.is_terminal else WIDTH
        self.chapters = 0

    def title(self, text: str) -> None:
        """The heading of the tour."""
        self.line(f"== {text} ".ljust(self.width, "="), "bold")

    def chapter(self, title: str, text: str) -> None:
        """A numbered heading and its introduction."""
        self.chapters += 1
        self.line()
        self.line(f"{self.chapters}. {title}", "bold cyan")
        for line in textwrap.wrap(text, self.width - INDENT):
            self.line(f"   {line}")

    def words(self, text: str) -> None:
        """A paragraph between statements."""
        self.line()
        for line in textwrap.wrap(text, self.width - INDENT):
            self.line(f"   {line}")

    def command(self, text: str) -> None:
        """Something typed in a shell."""
        self._typed("$", text)

    def python(self, text: str) -> None:
        """Something typed in Python."""
        self._typed(">>>", text)

    def statement(self, *statements: str) -> None:
        """Statements as they are typed; lines stay lines."""
        self._typed(">", "\n".join(f"{statement};" for statement in statements))

    def answer(self, text: str, style: str = "green") -> None:
        """A line of a result."""
        self.line(" " * INDENT + text, style)

    def paragraph(self, text: str, style: str = "") -> None:
        """A line of a result that may be long: it is wrapped, and its other lines are indented further."""
        further = " " * (_depth(text) + 4)
        for line in textwrap.wrap(text, self.width - INDENT, subsequent_indent=further):
            self.answer(line, style)

    def excerpt(self, lines: Sequence[str], start: str) -> None:
        """The first line with that start, and the deeper indented lines below it."""
        found = itertools.dropwhile(lambda line: not line.lstrip().startswith(start), lines)
        first = next(found)
        depth = _depth(first)
        for line in (first, *itertools.takewhile(lambda line: _depth(line) > depth, found)):
            self.paragraph(line[depth:])

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows as a table."""
        for line in table_lines(columns, rows):
            self.line(" " * INDENT + line)

    def changes(self, changes: Mapping[str, Change]) -> None:
        """The net change of each relation: its deleted (-) and inserted (+) rows."""
        for name, change in changes.items():
            self.answer(name, style="bold")
            self._rows(change)

    def load(self, table: str, path: str) -> None:
        """Loads a file, and prints how many rows it has."""
        file = os.path.basename(path)
        self.command(f"viewkeeper load {table} {file}")
        with moving(f"loading {file}"):
            result = self.db.load(table, path)
        assert result.commit is not None, "the file has rows"
        self.answer(f"{count_of(result.count or 0, 'row')}, epoch {result.commit.epoch}")

    def datalog(self, program: str) -> None:
        """Runs a Datalog program, and prints the epoch of its commit."""
        self.python(f'db.datalog("""\n{program}\n""")')
        with of_views(self.db):
            self.db.datalog(program)
        self.answer(f"epoch {self.db.epoch}")

    def verify(self, view: str) -> float:
        """Verifies a view, and returns the seconds that took."""
        self.statement(f"VERIFY VIEW {view}")
        begun = time.monotonic()
        with moving(f"recomputing {view}"):
            found = self.db.verify(view)
        seconds = time.monotonic() - begun
        self.answer(f"equal, {count_of(found.rows, 'row')}" if found.equal else str(found))
        return seconds

    def sql(self, statement: str) -> None:
        """A statement and its result: the rows of a query, the net change of a commit."""
        self.statement(statement)
        with of_views(self.db):
            result = self.db.sql(statement)
        if result.has_rows:
            self.table(result.columns, result.rows())
        elif result.commit is not None:
            self._commit(result.commit)
        elif statement == "COMMIT":
            self.answer(f"no net effect: still epoch {self.db.epoch}")
        elif result.count is not None:
            self.answer(f"{count_of(result.count, 'row')}, not committed yet", style="yellow")

    def refused(self, statement: str) -> None:
        """A statement that fails, and its message."""
        self.statement(statement)
        try:
            self.db.sql(statement)
        except ViewkeeperError as problem:
            for line in f"error: {problem}".splitlines():
                self.paragraph(line, style="red")

    def line(self, text: str = "", style: str = "") -> None:
        """A line as it is; an empty one without a text."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def _typed(self, prompt: str, text: str) -> None:
        self.line()
        before = f"  {prompt} "
        for typed in text.splitlines():
            for line in textwrap.wrap(typed, self.width - len(before), subsequent_indent="  "):
                self.line(before + line, "bold")
                before = " " * len(before)

    def _commit(self, commit: Commit) -> None:
        self.answer(f"epoch {commit.epoch}")
        for change in commit.changes.values():
            self._rows(change)

    def _rows(self, change: Change) -> None:
        for row, weight in sorted(change.weights().items(), key=_by_first_column):
            sign, style = ("+", "green") if weight > 0 else ("-", "red")
            self.answer(f"{sign} ({', '.join(to_text(value) for value in row)})", style=style)


def _by_first_column(weighted: tuple[tuple[Any, ...], int]) -> tuple[str, int, str]:
    """The sort key of signed rows: a deleted row comes before the one that replaces it."""
    row, weight = weighted
    return str(row[0]), weight, str(row)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
