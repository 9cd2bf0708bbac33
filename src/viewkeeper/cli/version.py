"""viewkeeper version: prints the version."""

from __future__ import annotations

from importlib.metadata import version as installed

import click

from viewkeeper.cli.output import print_rows
from viewkeeper.cli.session import Options


@click.command(short_help="Print the version.")
@click.pass_obj
def version(options: Options) -> None:
    """Prints the version."""
    if options.form == "table":
        click.echo(f"viewkeeper {installed('viewkeeper')}")
    else:
        print_rows(("version",), [[installed("viewkeeper")]], options.form)


def show_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Does the same for --version."""
    if value:
        click.echo(f"viewkeeper {installed('viewkeeper')}")
        ctx.exit()
