"""viewkeeper history: the commits, or the firings of rules."""

from __future__ import annotations

import click

from viewkeeper.cli.output import note, print_rows
from viewkeeper.cli.session import Options

COLUMNS = ("epoch", "committed_at", "changes")
FIRINGS = ("epoch", "rule", "rows", "milliseconds", "outcome")


@click.command(short_help="List the commits.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@click.option("--rules", is_flag=True, help="The firings of rules: epoch, rule, rows, milliseconds and outcome.")
@click.pass_obj
def history(options: Options, limit: int | None, rules: bool) -> None:
    """Lists the commits, newest first: epoch, time, and what was created, dropped and changed.

    With --rules it lists the firings of rules instead, those of detached rules that still wait included.
    """
    from viewkeeper.log.listing import history as commits_of
    from viewkeeper.log.rule_listing import rule_firings

    state, ledger = options.log()
    if rules:
        fired = rule_firings(ledger, state, limit)
        print_rows(FIRINGS, ([firing[name] for name in FIRINGS] for firing in fired), options.form, ("rows",))
        if not fired and options.form == "table":
            note("no rule has fired yet" if state.rules else "there are no rules: CREATE RULE makes one")
        return
    commits = commits_of(ledger, state, limit, separators=options.form == "table")
    print_rows(COLUMNS, ([commit[name] for name in COLUMNS] for commit in commits), options.form)
