"""viewkeeper rules: production rules or triggers that maintain views, derived from their definitions."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from viewkeeper.cli.session import read_script

TARGETS = ("text", "postgres")


@click.command(short_help="Print the production rules that maintain views.")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default="text",
    show_default=True,
    help="text: production rules, to be read. postgres: a script of triggers, to be run.",
)
@click.option(
    "--rematerialize",
    multiple=True,
    metavar="OPERATION",
    help="With text: recompute the view for this operation, for instance 'deleted from res'. May be repeated.",
)
def rules(file: TextIO, target: str, rematerialize: tuple[str, ...]) -> None:
    """Prints the rules that maintain every materialized view of FILE, or of standard input for -.

    FILE has CREATE TABLE statements with their keys, and CREATE [MATERIALIZED] VIEW statements. For postgres the output
    is a script that creates the views, and the triggers that maintain them, in a PostgreSQL database with the tables.
    Needs no database, and starts no engine. If the rules of one view cannot be derived, only the reason is printed. In
    text, rows are compared by in and not in with NULL equal to NULL.
    """
    if target == "postgres":
        if rematerialize:
            raise click.UsageError("--rematerialize is for --target text: PostgreSQL's triggers handle every operation")
        from viewkeeper.triggers.postgres_script import postgres_script

        sys.stdout.write(postgres_script(read_script(file)))
        return
    from viewkeeper.triggers.derive import derive_script

    sys.stdout.write("\n\n".join(map(str, derive_script(read_script(file), rematerialize))) + "\n")
