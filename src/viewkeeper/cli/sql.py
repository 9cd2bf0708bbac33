"""viewkeeper sql: runs statements."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TextIO

import click

from viewkeeper.cli.output import (
    count_of,
    note,
    print_change,
    print_line,
    print_result,
    print_rows,
    rows_of,
)
from viewkeeper.cli.progress import of_views
from viewkeeper.cli.session import Options, read_script
from viewkeeper.errors import SqlError

if TYPE_CHECKING:
    from viewkeeper.query.result import Result
    from viewkeeper.transaction.change import Change, Commit


@click.command(short_help="Run SQL statements.")
@click.argument("text", required=False)
@click.option("-f", "--file", "file", type=click.File(encoding="utf-8"), help="Read the statements from a file.")
@click.pass_obj
def sql(options: Options, text: str | None, file: TextIO | None) -> None:
    """Runs one or several SQL statements, given as TEXT, in a file (-f), or on stdin (-).

    The rows of every query are printed, and for a change of tables the rows that it inserts into views (+) and
    deletes from them (−). Without BEGIN each statement commits alone. A CREATE TABLE creates the database if there
    is none.

    \b
    viewkeeper sql "SELECT region, sum(amount) FROM orders GROUP BY region"
    viewkeeper sql "SELECT * FROM orders AS OF EPOCH 3"
    viewkeeper sql -f changes.sql
    echo "SHOW TABLES" | viewkeeper sql -
    """
    script = _script(text, file)
    if not script.strip():
        raise click.UsageError("there are no statements to run")
    with options.open(create=options.find_state() is None and _makes_table(script)) as db:
        results = db.script(script)
        while True:
            with of_views(db):
                result = next(results, None)
            if result is None:
                break
            print_outcome(result, options.form)
        if db.in_transaction:
            raise SqlError("the statements end inside a transaction, so it was rolled back", hint="end it with COMMIT;")


def _script(text: str | None, file: TextIO | None) -> str:
    if text is not None and file is not None:
        raise click.UsageError("give the statements as TEXT or with -f FILE, not both")
    if file is not None:
        return read_script(file)
    if text == "-" or (text is None and not sys.stdin.isatty()):
        return read_script(sys.stdin)
    if text is None:
        raise click.UsageError('no statements: give them as TEXT, with -f FILE, or on stdin: viewkeeper sql "SELECT 1"')
    return text


def _makes_table(script: str) -> bool:
    """Whether a statement creates a table, and so may create the database."""
    from viewkeeper.sql.parsed_statements import CreateTable, parse
    from viewkeeper.sql.tokens import split

    return any(isinstance(parse(statement), CreateTable) for statement in split(script))


def _changed_views(commit: Commit) -> dict[str, Change]:
    """The changes of views that follow from changes of tables; none for a commit that only defines views."""
    from viewkeeper.maintain.report import WRITTEN

    tables = {name for name, report in commit.report.items() if report.strategy == WRITTEN}
    views = {name: change for name, change in commit.changes.items() if name not in tables}
    return views if len(views) < len(commit.changes) else {}


def _document(commit: Commit, count: int | None) -> dict[str, Any]:
    """A commit as JSON: the changes of tables and views as updates, or null where they are too many to show."""
    from viewkeeper.server.row_encoding import updates_of

    changes = {
        name: {"updates": updates_of(change.in_order) if change.is_shown else None}
        for name, change in commit.changes.items()
    }
    return {"epoch": commit.epoch, "count": count, "changes": changes, "rules": list(commit.rules)}


def _fired(commit: Commit) -> str:
    """Which rules fired inside a commit."""
    names = list(dict.fromkeys(commit.rules))
    return f"; fired: {', '.join(names)}" if names else ""


def print_outcome(result: Result, form: str) -> None:
    """Prints the rows of a query; or the epoch of a change, and what it changed in views."""
    for remark in result.remarks:
        note(remark)
    if result.stream is not None:
        for number, table in enumerate(result.stream):
            print_rows(table.column_names, rows_of(table), form, header=number == 0)
    elif result.has_rows:
        rows = print_result(result, form)
        if form == "table":
            note(f"({count_of(rows, 'row')})")
    elif result.commit is not None and form == "json":
        print_line(_document(result.commit, result.count))
    elif result.commit is not None:
        touched = "" if result.count is None else f", {count_of(result.count, 'row')}"
        note(f"epoch {result.commit.epoch}{touched}{_fired(result.commit)}")
        for name, change in _changed_views(result.commit).items():
            print_change(name, change)
    elif result.count is not None:
        note(count_of(result.count, "row"))
