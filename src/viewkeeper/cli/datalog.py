"""viewkeeper datalog: runs a program, or answers a question."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from viewkeeper.cli.output import note, print_result
from viewkeeper.cli.progress import of_views
from viewkeeper.cli.session import Options, read_script


@click.command(short_help="Run a Datalog program, or ask a question.")
@click.argument("file", type=click.File(encoding="utf-8"), required=False)
@click.option("-q", "--query", metavar="ATOM", help='A question, such as "path(1, X)", instead of a program.')
@click.pass_obj
def datalog(options: Options, file: TextIO | None, query: str | None) -> None:
    """Runs the Datalog program in FILE (- for stdin), all or nothing, or adds (+) and removes (-) rules.

    Relations of .input are tables, those of .output materialized views. With -q it prints the distinct values of the
    variables of a question. A program creates the database if there is none.

    \b
    viewkeeper datalog graph.dl
    viewkeeper datalog -q "path(1, X)"
    echo "+ path(x, y) :- ferry(x, y)." | viewkeeper datalog -
    """
    if (file is None) == (query is None):
        raise click.UsageError("give the FILE of a program (- for stdin), or a question with -q")
    if query is not None:
        with options.open() as db:
            print_result(db.datalog_query(query), options.form)
        return
    program = read_script(file or sys.stdin)
    with options.open(create=options.find_state() is None) as db:
        before = db.epoch
        with of_views(db):
            result = db.datalog(program)
        for remark in result.remarks:
            note(remark)
        note(f"epoch {db.epoch}" if db.epoch > before else "nothing was changed")
