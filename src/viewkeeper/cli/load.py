"""viewkeeper load: files into a table."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from viewkeeper.cli.output import count_of, note, size
from viewkeeper.cli.progress import moving
from viewkeeper.cli.session import Options
from viewkeeper.errors import NotFound

STDIN = "-"


@click.command(short_help="Load Parquet, CSV or JSON files into a table.")
@click.argument("table")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "json"]), help="The format; default: by the file's name."
)
@click.option("--create", is_flag=True, help="Create the table with the file's columns if it does not exist.")
@click.option("--upsert", is_flag=True, help="Replace rows with the same primary key.")
@click.option("--delimiter", metavar="C", help="What separates the fields of a CSV file: ';', '|', tab.")
@click.option(
    "--option", "given", metavar="NAME=VALUE", multiple=True,
    help="An option of CSV files, as Spark names it: header=false, quote=', nullvalue=NA, encoding=latin-1.",
)  # fmt: skip
@click.pass_obj
def load(
    options: Options,
    table: str,
    files: Sequence[str],
    form: str | None,
    create: bool,
    upsert: bool,
    delimiter: str | None,
    given: Sequence[str],
) -> None:
    """Loads Parquet, CSV or JSON FILES, directories of them, or a Delta table into TABLE, as one commit.

    Columns are matched by name; those a file does not have become NULL. A CSV file needs a header line, a JSON file has
    an object per line or an array of objects; .gz, .bz2, .zst and .lz4 are unpacked. - reads standard input. Either all
    rows are loaded or none.

    \b
    viewkeeper load orders orders.parquet --create
    viewkeeper load orders "new/*.csv.gz" --delimiter ";" --upsert
    curl -s https://example.org/orders.json | viewkeeper load orders - --format json
    """
    settings = _settings(delimiter, given)
    for file in files:
        if file != STDIN and "://" not in file and not os.path.exists(file) and not glob.has_magic(file):
            raise NotFound(f"there is no file {file}", hint="check the path; it is relative to the current directory")
    if STDIN in files and form is None:
        raise click.UsageError("say what standard input is: --format csv, json or parquet")
    typed = _with_create(options, table, files, form)
    if not create and options.find_state() is None:
        raise options.no_database(hint=f"--create makes it, and the table from the file: {typed}")
    with options.open(create=create) as db, _on_disk(files) as paths:
        try:
            if not create and db._store.refresh().find(table) is None:
                db.table(table)  # raises NotFound with the nearest name
        except NotFound as problem:
            problem.detail = problem.hint
            problem.hint = f"--create makes the table from the file: {typed}"
            raise
        with moving(_description(table, paths)):
            result = db.load(table, paths, format=form, options=settings, create=create, upsert=upsert)
    epoch = f"epoch {result.commit.epoch}" if result.commit else "no change, so no epoch"
    note(f"{count_of(result.count or 0, 'row')} loaded into {table} ({epoch})")


def _settings(delimiter: str | None, given: Sequence[str]) -> dict[str, str]:
    settings = {}
    for each in given:
        name, found, value = each.partition("=")
        if not found:
            raise click.UsageError(f"--option {each}: write it as NAME=VALUE")
        settings[name] = value
    if delimiter is not None:
        settings["sep"] = "\t" if delimiter in ("tab", "\\t") else delimiter
    return settings


@contextmanager
def _on_disk(files: Sequence[str]) -> Iterator[list[str]]:
    """The paths of files; standard input is copied to one, because a file may be read twice."""
    with tempfile.TemporaryDirectory(prefix="viewkeeper-") as place:
        paths = []
        for file in files:
            if file == STDIN:
                file = os.path.join(place, "stdin")
                with open(file, "wb") as copy:
                    shutil.copyfileobj(sys.stdin.buffer, copy)
            paths.append(file)
        yield paths


def _with_create(options: Options, table: str, files: Sequence[str], form: str | None) -> str:
    spelled = [shlex.quote(table), *map(shlex.quote, files), "--create", *(["--format", form] if form else [])]
    return f"{options.command} load {' '.join(spelled)}"


def _description(table: str, files: Sequence[str]) -> str:
    """What is loaded. The engine loads a file in one step and reports no progress."""
    if len(files) > 1:
        return f"loading {len(files)} files into {table}"
    (file,) = files
    text = f"loading {os.path.basename(file.rstrip('/'))} into {table}"
    return text + f" ({size(os.path.getsize(file))})" if os.path.isfile(file) else text
