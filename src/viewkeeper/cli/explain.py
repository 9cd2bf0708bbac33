"""viewkeeper explain: how a view is maintained."""

from __future__ import annotations

import json
import sys

import click

from viewkeeper.cli.output import print_object, print_rows
from viewkeeper.cli.session import Options


@click.command(short_help="Explain how a view is maintained.")
@click.argument("view")
@click.pass_obj
def explain(options: Options, view: str) -> None:
    """Explains how VIEW is maintained: what is stored, and what a change of each table leads to.

    With --format json the same as an object.
    """
    with options.open() as db:
        if options.form == "json":
            print_object(json.loads(db.explain(view, format="json")))
            return
        text = db.explain(view)
    if options.form == "csv":
        print_rows(("explanation",), [[line] for line in text.splitlines()], options.form)
    else:
        sys.stdout.write(text.rstrip("\n") + "\n")
