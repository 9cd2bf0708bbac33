"""viewkeeper analyze: the analysis of views before they are created."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from viewkeeper.cli.output import print_object, print_rows
from viewkeeper.cli.session import Options, read_script


@click.command(short_help="Show what maintaining views would take, before they are created.")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.pass_obj
def analyze(options: Options, file: TextIO) -> None:
    """Analyzes FILE, or standard input for -, which has CREATE TABLE, VIEW, ASSERTION and RULE statements.

    For each view: its keys, whether rows can repeat, and, for every table it names and every operation on it, what
    maintaining the view would take and read, with suggestions. For each assertion, which changes can break it, and
    the check that is derived for them. For each rule, the tables that can trigger it and those that it writes, and
    warnings of rules that may trigger each other, or whose order matters. Needs no database, and starts no engine.
    """
    from viewkeeper.advice.script_analysis import analyze_script

    found = analyze_script(read_script(file))
    if options.form == "json":
        print_object(found.to_json())
        return
    text = str(found)
    if options.form == "csv":
        print_rows(("analysis",), [[line] for line in text.splitlines()], options.form)
    else:
        sys.stdout.write(text.rstrip("\n") + "\n" if text else "there is no view in it\n")
