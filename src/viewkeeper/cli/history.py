"""viewkeeper history: the commits."""

from __future__ import annotations

import click

from viewkeeper.cli.output import print_rows
from viewkeeper.cli.session import Options

COLUMNS = ("epoch", "committed_at", "changes")


@click.command(short_help="List the commits.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N commits.")
@click.pass_obj
def history(options: Options, limit: int | None) -> None:
    """Lists the commits, newest first: epoch, time, and what was created, dropped and changed."""
    from viewkeeper.log.listing import history as commits_of

    state, ledger = options.log()
    commits = commits_of(ledger, state, limit, separators=options.form == "table")
    print_rows(COLUMNS, ([commit[name] for name in COLUMNS] for commit in commits), options.form)
