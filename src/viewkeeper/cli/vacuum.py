"""viewkeeper vacuum: deletes files that nothing needs."""

from __future__ import annotations

import click

from viewkeeper.cli.output import print_rows, size
from viewkeeper.cli.session import Options
from viewkeeper.errors import SqlError


@click.command(short_help="Delete files that nothing needs any more.")
@click.option(
    "--grace",
    default="1 hour",
    show_default=True,
    metavar="DURATION",
    help="Leave files younger than this, e.g. '5 minutes'.",
)
@click.pass_obj
def vacuum(options: Options, grace: str) -> None:
    """Deletes files that no kept epoch, no live reader and no live writer needs, and prints how many."""
    from viewkeeper.algebra.durations import seconds

    try:
        duration = seconds(grace)
    except SqlError as problem:
        raise click.BadParameter(f"{problem.message}: {problem.hint}", param_hint="--grace") from problem
    with options.open() as db:
        done = db.vacuum(duration)
    row = [done.files, size(done.bytes) if options.form == "table" else done.bytes, list(done.relations)]
    print_rows(("files", "bytes", "forgotten_tables"), [row], options.form, counts=("files",))
