"""viewkeeper ls: what is in the database."""

from __future__ import annotations

import click

from viewkeeper.cli.context import Options
from viewkeeper.cli.output import note, print_rows, size

COLUMNS = ("name", "kind", "columns", "files", "stored_rows", "bytes")


@click.command(short_help="List the tables.")
@click.pass_obj
def ls(options: Options) -> None:
    """Lists the tables: name, columns, files, stored rows (changes included) and size."""
    with options.open() as db:
        listed = db.ls()
    rows = [[item[name] for name in COLUMNS] for item in listed]
    if options.form == "table":
        rows = [[*row[:-1], size(row[-1])] for row in rows]
        print_rows((*COLUMNS[:-1], "size"), rows, options.form)
        if not rows:
            note(f'there are no tables yet: {options.command} sql "CREATE TABLE t (id BIGINT PRIMARY KEY)"')
        return
    print_rows(COLUMNS, rows, options.form)
