"""The command line in this process, on a database below the test's own directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from viewkeeper.cli import cli

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clean_environment: None) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run() -> Run:
    """Runs a command line; checks the exit code, and that no failure is a bug's."""

    def invoke(*arguments: str, code: int = 0, engine: str = "sail", stdin: str | None = None) -> Result:
        result = CliRunner().invoke(cli, ["--engine", engine, *arguments], input=stdin, prog_name="viewkeeper")
        unexpected = result.exception is not None and not isinstance(result.exception, SystemExit)
        assert not unexpected, result.exc_info
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def rows(run: Run) -> Callable[..., list[dict[str, Any]]]:
    """The rows a command prints, through its JSON."""

    def invoke(*arguments: str, **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(run("--format", "json", *arguments, **options).stdout)
        return found

    return invoke


@pytest.fixture
def items(run: Run) -> None:
    """A database with a table of three rows, made in two epochs."""
    run("sql", "CREATE TABLE items (item STRING PRIMARY KEY, quantity INT NOT NULL, price DECIMAL(8,2))")
    run("sql", "INSERT INTO items VALUES ('hat', 15, 9.5), ('shirt', 120, NULL), ('shoe', 90, 80)")
