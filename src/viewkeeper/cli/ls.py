"""viewkeeper ls: the tables, views and assertions."""

from __future__ import annotations

import click

from viewkeeper.cli.output import note, print_rows, size
from viewkeeper.cli.session import Options

COLUMNS = ("name", "kind", "columns", "files", "stored_rows", "bytes")


@click.command(short_help="List the tables, views and assertions.")
@click.option("--all", "hidden", is_flag=True, help="Also list the auxiliary relations of views and rules.")
@click.pass_obj
def ls(options: Options, hidden: bool) -> None:
    """Lists the tables, views and assertions: name, kind, columns, files, stored rows (changes included) and size.

    Where there are views, their options are listed too; where one is suspended, the epoch since which it is stale.
    """
    from viewkeeper.log.listing import listing, options_text

    state, _ = options.log()
    listed = listing(state, hidden=hidden)
    columns, rows = list(COLUMNS), [[item[name] for name in COLUMNS] for item in listed]
    if options.form == "table":
        columns, rows = [*COLUMNS[:-1], "size"], [[*row[:-1], size(row[-1])] for row in rows]
    if any(item["kind"] != "table" for item in listed):
        columns.append("options")
        rows = [[*row, options_text(item["options"])] for row, item in zip(rows, listed, strict=True)]
    if any(item["stale_since"] is not None for item in listed):
        columns.append("stale_since")
        rows = [[*row, item["stale_since"]] for row, item in zip(rows, listed, strict=True)]
    print_rows(columns, rows, options.form, counts=("columns", "files", "stored_rows"))
    if not rows and options.form == "table":
        note(f'there are no tables yet: {options.command} sql "CREATE TABLE t (id BIGINT PRIMARY KEY)"')
