"""viewkeeper load: a file into a table."""

from __future__ import annotations

import os
import shlex

import click

from viewkeeper.cli.output import count_of, note, size
from viewkeeper.cli.progress import moving
from viewkeeper.cli.session import Options
from viewkeeper.errors import NotFound


@click.command(short_help="Load a Parquet, CSV or JSON file into a table.")
@click.argument("table")
@click.argument("file")
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "json"]), help="The file's format; default: by its name."
)
@click.option("--create", is_flag=True, help="Create the table with the file's columns if it does not exist.")
@click.pass_obj
def load(options: Options, table: str, file: str, form: str | None, create: bool) -> None:
    """Loads a Parquet, CSV or JSON FILE, a directory of them, or a Delta table into TABLE, as one commit.

    Columns are matched by name; those the file does not have become NULL. A CSV file needs a header line. Either all
    rows are loaded or none.
    """
    if "://" not in file and not os.path.exists(file):
        raise NotFound(f"there is no file {file}", hint="check the path; it is relative to the current directory")
    typed = _with_create(options, table, file, form)
    if not create and options.find_state() is None:
        raise options.no_database(hint=f"--create makes it, and the table from the file: {typed}")
    with options.open(create=create) as db:
        try:
            if not create and db._store.refresh().find(table) is None:
                db.table(table)  # raises NotFound with the nearest name
        except NotFound as problem:
            problem.detail = problem.hint
            problem.hint = f"--create makes the table from the file: {typed}"
            raise
        with moving(_description(table, file)):
            result = db.load(table, file, format=form, create=create)
    epoch = f"epoch {result.commit.epoch}" if result.commit else "no change, so no epoch"
    note(f"{count_of(result.count or 0, 'row')} loaded into {table} ({epoch})")


def _with_create(options: Options, table: str, file: str, form: str | None) -> str:
    spelled = [shlex.quote(table), shlex.quote(file), "--create", *(["--format", form] if form else [])]
    return f"{options.command} load {' '.join(spelled)}"


def _description(table: str, file: str) -> str:
    """What is loaded. The engine loads a file in one step and reports no progress."""
    text = f"loading {os.path.basename(file.rstrip('/'))} into {table}"
    return text + f" ({size(os.path.getsize(file))})" if os.path.isfile(file) else text
