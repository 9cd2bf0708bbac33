"""viewkeeper rules: the rules that keep views true, derived from their definitions."""

from __future__ import annotations

import sys
from typing import IO

import click


@click.command(short_help="Print the rules that keep views true.")
@click.argument("file", type=click.File("r"))
@click.option(
    "--target", type=click.Choice(["text"]), default="text", help="text: production rules in Starburst's notation."
)
@click.option(
    "--rematerialize",
    multiple=True,
    metavar="OPERATION",
    help="Compute the view anew for this operation, for instance 'deleted from res'. May be repeated.",
)
def rules(file: IO[str], target: str, rematerialize: tuple[str, ...]) -> None:
    """Prints the rules that keep every materialized view of FILE true, or of standard input for -.

    FILE has CREATE TABLE statements with their keys, and CREATE [MATERIALIZED] VIEW statements. Needs no database, and
    starts no engine. A view whose rules cannot be derived is refused, with the reason.
    """
    from viewkeeper.production.derive import derive_script

    found = derive_script(file.read(), rematerialize)
    sys.stdout.write("\n\n".join(map(str, found)) + ("\n" if found else "there is no materialized view in it\n"))
