"""viewkeeper compact: fewer, sorted files."""

from __future__ import annotations

import dataclasses

import click

from viewkeeper.cli.output import note, print_rows
from viewkeeper.cli.session import Options

COLUMNS = ("relation", "files_before", "files_after", "rows_before", "rows_after")


@click.command(short_help="Rewrite tables into fewer, sorted files.")
@click.argument("name", required=False)
@click.pass_obj
def compact(options: Options, name: str | None) -> None:
    """Rewrites the files of table NAME, or of all tables, into fewer files sorted by key.

    Contents and history stay the same, and no epoch is made. The next `viewkeeper vacuum` deletes the replaced files.
    """
    with options.open() as db:
        done = [dataclasses.asdict(item) for item in db.compact(name)]
    print_rows(COLUMNS, [[item[column] for column in COLUMNS] for item in done], options.form, counts=COLUMNS[1:])
    if not done:
        note("nothing to do: the files are compact")
