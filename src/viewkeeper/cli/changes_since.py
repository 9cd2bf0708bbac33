"""viewkeeper changes: what past commits changed in a table or view."""

from __future__ import annotations

import click

from viewkeeper.cli.output import note, print_change, print_line, print_rows
from viewkeeper.cli.session import Options


@click.command(short_help="Print what past commits changed in a table or view.")
@click.argument("name")
@click.option("--since", type=click.IntRange(0), metavar="EPOCH", required=True, help="Only later epochs.")
@click.pass_obj
def changes(options: Options, name: str, since: int) -> None:
    """Prints the rows that each commit after an epoch inserted (+) into the table or view NAME, or deleted (−).

    Then it ends; `viewkeeper subscribe` goes on. With --format json each epoch is one line with its updates.

    \b
    viewkeeper changes revenue --since 41
    viewkeeper changes revenue --since 41 --format json | jq -c ".updates[]"
    """
    from viewkeeper.api.table import Readable
    from viewkeeper.server.row_encoding import updates_of

    with options.open() as db:
        found = False
        for epoch, change in Readable(db, name).changes(since=since):
            if options.form == "json":
                print_line({"epoch": epoch, "updates": updates_of(change.in_order)})
            elif options.form == "csv":
                rows, weights = change.first(change.rows.num_rows)
                columns = ("_epoch", "_diff", *change.schema.names)
                signed = ((epoch, weight, *row) for row, weight in zip(rows, weights, strict=True))
                print_rows(columns, signed, "csv", header=not found)
            else:
                print_change(f"epoch {epoch}", change, whole=True)
            found = True
        if not found and options.form == "table":
            note(f"nothing has changed in {name} since epoch {since}")
