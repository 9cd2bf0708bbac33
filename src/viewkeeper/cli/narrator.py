"""Telling a story with a database: headings, statements as one would type them, and what came of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from viewkeeper.cli.output import count_of, stdout, table_lines
from viewkeeper.cli.value_texts import to_text
from viewkeeper.errors import ViewkeeperError

if TYPE_CHECKING:
    from viewkeeper.api.database import Database
    from viewkeeper.transaction.change import Commit

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
        """The heading of the story."""
        self._line(f"== {text} ".ljust(self.width, "="), "bold")

    def chapter(self, title: str, text: str) -> None:
        """A numbered heading and what it is about."""
        self.chapters += 1
        self._line()
        self._line(f"{self.chapters}. {title}", "bold cyan")
        for line in textwrap.wrap(text, self.width - INDENT):
            self._line(f"   {line}")

    def words(self, text: str) -> None:
        """A paragraph between statements."""
        self._line()
        for line in textwrap.wrap(text, self.width - INDENT):
            self._line(f"   {line}")

    def command(self, text: str) -> None:
        """Something typed in a shell."""
        self._typed("$", text)

    def answer(self, text: str, style: str = "green") -> None:
        """A line of what came of it."""
        self._line(" " * INDENT + text, style)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Rows."""
        for line in table_lines(columns, rows):
            self._line(" " * INDENT + line)

    def sql(self, statement: str) -> None:
        """A statement and its result: the rows of a query, the net change of a commit."""
        self._typed(">", f"{statement};")
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
        self._typed(">", f"{statement};")
        try:
            self.db.sql(statement)
        except ViewkeeperError as problem:
            for line in f"error: {problem}".splitlines():
                self.answer(line, style="red")

    def _typed(self, prompt: str, text: str) -> None:
        self._line()
        before = f"  {prompt} "
        for line in textwrap.wrap(text, self.width - INDENT):
            self._line(before + line, "bold")
            before = " " * INDENT

    def _line(self, text: str = "", style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def _commit(self, commit: Commit) -> None:
        self.answer(f"epoch {commit.epoch}")
        for change in commit.changes.values():
            for row, weight in sorted(change.weights().items(), key=lambda item: (str(item[0][0]), item[1])):
                sign, style = ("+", "green") if weight > 0 else ("-", "red")
                self.answer(f"{sign} ({', '.join(to_text(value) for value in row)})", style=style)
