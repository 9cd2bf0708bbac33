"""viewkeeper doctor: checks this machine and a database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import astuple, replace

import click
from rich.text import Text

from viewkeeper.cli.checks import (
    Finding,
    check_engine,
    check_java,
    check_packages,
    check_python,
    check_temporary_space,
)
from viewkeeper.cli.database_checks import check_database
from viewkeeper.cli.output import count_of, note, print_rows, stdout
from viewkeeper.cli.session import Options

MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "bold red")}


@click.command(short_help="Check this machine and a database.")
@click.option(
    "--quick",
    is_flag=True,
    help="Start no engine and do not decode data files; their checksums are compared all the same.",
)
@click.option("--db", metavar="DIR", help="The database to check; the same as --db before the verb.")
@click.pass_obj
def doctor(options: Options, quick: bool, db: str | None) -> None:
    """Checks this machine and, with --db DIR, a database; says for each problem what to do.

    On this machine: Python, Java, package versions, disk space, and whether each engine starts and answers. In a
    database: that no entry of the ledger is missing, damaged or misplaced, that every data file it names exists, has
    the right checksum and can be read, whether firings of rules are parked, and what dead processes left behind.
    Changes nothing. Exit code 1 if there is a problem.
    """
    if db is not None:
        options = replace(options, db=db, db_given=True)
    problems = 0
    findings: list[Finding] = []
    for finding in _findings(options, quick=quick):
        problems += finding.status == "problem"
        if options.form == "table":
            _print(finding)
        findings.append(finding)
    if options.form != "table":
        print_rows(("check", "status", "found", "todo"), [astuple(finding) for finding in findings], options.form)
    note("all is well" if not problems else count_of(problems, "problem") + " found")
    if problems:
        raise click.exceptions.Exit(1)


def _findings(options: Options, *, quick: bool) -> Iterator[Finding]:
    engines = [options.engine] if options.engine else ["spark", "sail"]
    yield check_python()
    java = check_java(needed="spark" in [engine.lower() for engine in engines])
    yield java
    yield from check_packages()
    yield check_temporary_space()
    for engine in engines:
        if not quick and not (engine.lower() == "spark" and java.status == "problem"):
            yield check_engine(engine)
    if options.db_given or os.path.isdir(os.path.join(options.db, "ledger")):
        yield from check_database(options.db, quick=quick)


def _print(finding: Finding) -> None:
    mark, style = MARKS[finding.status]
    console = stdout()
    line = Text.assemble((f"{mark:8}", style), (f"{finding.check:16} ", "bold"), finding.found)
    console.print(line, soft_wrap=True)
    if finding.todo:
        console.print(Text(f"{'':25}-> {finding.todo}"), soft_wrap=True)
