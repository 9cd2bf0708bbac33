"""The shell, as a person uses it: on a terminal of its own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_cli_process import PROGRAM
from viewkeeper.cli.shell_input import is_complete

ENTER, TAB, UP, CTRL_C, CTRL_D = "\r", "\t", "\x1b[A", "\x03", "\x04"
PLAIN = {"TERM": "xterm", "NO_COLOR": "1", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "120", "LINES": "40"}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


def _own_terminal() -> None:
    """Makes standard input the terminal from which Ctrl-C comes."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A program on a terminal: what is typed, and what is shown."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=_own_terminal,
            env={**os.environ, **PLAIN, **environment},
        )  # fmt: skip
        os.close(theirs)
        self._shown = ""

    def types(self, text: str) -> None:
        """Types some keys."""
        os.write(self._ours, text.encode())

    def shows(self, wanted: str, seconds: float = 30.0) -> str:
        """Waits until something is shown; what was shown since the last time."""
        until = time.monotonic() + seconds
        while wanted not in self._shown:
            left = until - time.monotonic()
            assert left > 0, f"{wanted!r} is not shown, but {self._shown!r}"
            ready, _, _ = select.select([self._ours], [], [], left)
            if ready:
                self._shown += _CONTROL.sub("", os.read(self._ours, 65536).decode(errors="replace"))
        before, _, self._shown = self._shown.partition(wanted)
        return before

    def ends(self) -> int:
        """Waits for the end of the program; its exit code."""
        return self._process.wait(30)

    def close(self) -> None:
        """Ends it, whatever it does."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(tmp_path: Path, engine: str) -> Iterator[Terminal]:
    with contextlib.closing(
        Terminal("--engine", engine, "shell", VIEWKEEPER_HISTORY=str(tmp_path / "history"))
    ) as opened:
        yield opened


@pytest.mark.spark_long
def test_a_morning_in_the_shell(terminal: Terminal, tmp_path: Path) -> None:
    terminal.shows("a new database at lake")
    terminal.shows("lake>")
    terminal.types(f"CREATE TABLE sales (id BIGINT PRIMARY KEY,{ENTER}region STRING);{ENTER}")
    terminal.shows("epoch 1")
    terminal.types(f"CREATE MATERIALIZED VIEW by_region AS SELECT region, count(*) AS n FROM sales GROUP BY 1;{ENTER}")
    terminal.shows("epoch 2")
    terminal.types(f"INSERT INTO sales VALUES (1, 'EU');{ENTER}")
    terminal.shows("epoch 3, 1 row")
    terminal.shows("+ EU | 1")

    terminal.types(f"SELECT * FROM by_r{TAB}")  # completed to the view's name
    terminal.shows("by_region")
    terminal.types(f";{ENTER}")
    terminal.shows("(1 row)")
    terminal.types("SELECT nonsense")
    terminal.types(CTRL_C)  # gives up the line
    terminal.shows("lake>")
    terminal.types(f"SELECT nme FROM sales;{ENTER}")
    terminal.shows("there is no column 'nme'")
    terminal.types(f"BEGIN;{ENTER}")
    terminal.shows("lake*>")
    terminal.types(f"ROLLBACK;{ENTER}")
    terminal.shows("lake>")
    terminal.types(f".changes by_region{ENTER}")
    terminal.shows("epoch 3")
    terminal.types(f".format json{ENTER}.ls{ENTER}")
    terminal.shows('"name": "by_region"')
    terminal.types(f".changes by_region yesterday{ENTER}")
    terminal.shows("'yesterday' is not an epoch")
    terminal.types(f".nothing{ENTER}")
    terminal.shows("there is no command .nothing")
    terminal.shows("lake>")
    terminal.types(CTRL_D)
    assert terminal.ends() == 0
    assert "SELECT nme FROM sales;" in (tmp_path / "history").read_text()


@pytest.mark.spark_long
def test_ctrl_c_gives_up_a_statement_and_not_the_shell(terminal: Terminal) -> None:
    terminal.shows("lake>")
    terminal.types(f"CREATE TABLE t (id BIGINT);{ENTER}")
    terminal.shows("epoch 1")
    terminal.types(f"SELECT count(*) FROM range(400000) a JOIN range(400000) b ON sin(a.id) * b.id > 2e9;{ENTER}")
    time.sleep(2)
    terminal.types(CTRL_C)
    terminal.shows("interrupted", 30)
    terminal.types(f"INSERT INTO t VALUES (1);{ENTER}")
    terminal.shows("epoch 2")
    terminal.types(f".quit{ENTER}")
    assert terminal.ends() == 0


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1 -- ;", False),
        (".help", True),
        ("CREATE RULE r ON t WHEN INSERTED DO BEGIN DELETE FROM u;", False),
        ("CREATE RULE r ON t WHEN INSERTED DO BEGIN DELETE FROM u; END;", True),
    ],
)
def test_a_statement_ends_with_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete
