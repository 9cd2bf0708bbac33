"""viewkeeper verify: views recomputed and compared with what is stored."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from viewkeeper.cli.output import print_object, print_rows
from viewkeeper.cli.session import Options

if TYPE_CHECKING:
    from viewkeeper.query.verification import Certificate, Checked

DIFFERENT = 3
"""The exit code when a view differs from its recomputed query."""


@click.command(short_help="Recompute views and compare.")
@click.argument("view", required=False)
@click.option("--with-engine", metavar="E", help="Recompute on another engine: spark, sail or sc://host:port.")
@click.pass_context
def verify(ctx: click.Context, view: str | None, with_engine: str | None) -> None:
    """Recomputes VIEW (or every materialized view) and compares it with what is stored.

    Prints the certificate, or the rows that differ; exit code 3 if any do.
    """
    options: Options = ctx.obj
    with options.open() as db:
        certificate = db.verify(view, engine=with_engine)
    if options.form == "json":
        views = [
            {"name": view.name, **_facts(view), "engine": view.engine, "computed": view.computed, **_rows_apart(view)}
            for view in certificate.views
        ]
        print_object({**_facts(certificate), "views": views})
    elif options.form == "csv":
        rows = [[view.name, *_facts(view).values()] for view in certificate.views]
        print_rows(("view", "equal", "epoch", "rows", "checksum"), rows, options.form)
    else:
        sys.stdout.write(str(certificate).rstrip("\n") + "\n")
    if not certificate.equal:
        ctx.exit(DIFFERENT)


def _facts(found: Certificate | Checked) -> dict[str, Any]:
    return {"equal": found.equal, "epoch": found.epoch, "rows": found.rows, "checksum": found.checksum}


def _rows_apart(view: Checked) -> dict[str, Any]:
    """The missing and the extra rows (some of them, if there are many)."""
    apart: dict[str, Any] = {"missing": [list(row) for row in view.missing], "extra": [list(row) for row in view.extra]}
    return {**apart, "stale": view.stale} if view.stale else apart
