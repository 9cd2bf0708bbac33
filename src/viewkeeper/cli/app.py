"""The `viewkeeper` command: global options, the verbs, and how errors are reported."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import time
from typing import Any

import click
from click.core import ParameterSource

from viewkeeper.algebra.durations import seconds
from viewkeeper.cli.analyze import analyze
from viewkeeper.cli.bench import bench
from viewkeeper.cli.changes_since import changes
from viewkeeper.cli.compact import compact
from viewkeeper.cli.datalog import datalog
from viewkeeper.cli.demo import demo
from viewkeeper.cli.doctor import doctor
from viewkeeper.cli.explain import explain
from viewkeeper.cli.history import history
from viewkeeper.cli.load import load
from viewkeeper.cli.ls import ls
from viewkeeper.cli.output import FORMATS, note, tell_error, tell_problem
from viewkeeper.cli.rules import rules
from viewkeeper.cli.serve import serve
from viewkeeper.cli.session import Options
from viewkeeper.cli.shell import shell
from viewkeeper.cli.show import show
from viewkeeper.cli.sql import sql
from viewkeeper.cli.subscribe import subscribe
from viewkeeper.cli.token import token
from viewkeeper.cli.vacuum import vacuum
from viewkeeper.cli.verify import verify
from viewkeeper.cli.version import show_version, version
from viewkeeper.errors import ViewkeeperError

PATIENCE = 1.5
"""Seconds after Ctrl-C in which the program may end cleanly."""

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells."""

_INTERRUPTED = "interrupted: what was not finished was not changed"


class Failed(click.ClickException):
    """A failure with a message for the user; exit code 1. With --format json it is a document like the server's."""

    def __init__(self, message: str, form: str, error: ViewkeeperError | None = None) -> None:
        super().__init__(message)
        self.form = form
        self.error = error

    def show(self, file: Any = None) -> None:
        """Prints it on stderr."""
        if self.form == "json":
            tell_problem(self.error or ViewkeeperError(self.message))
        else:
            tell_error(self.message)


class Interrupted(click.ClickException):
    """Ctrl-C: one line on stderr, and the exit code of shells."""

    exit_code = INTERRUPTED

    def show(self, file: Any = None) -> None:
        """Prints it on stderr."""
        note(self.message)


class Verbs(click.Group):
    """The verbs in the order of a first visit; failures become messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs as they were added."""
        return list(self.commands)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Adds a verb, whose help says where the global options may stand."""
        cmd.epilog = cmd.epilog or "--db, --engine, --format and --timeout may stand here too: viewkeeper --help."
        super().add_command(cmd, name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the options; global ones may stand after the verb."""
        return super().parse_args(ctx, self._globals_first(args))

    def _globals_first(self, args: list[str]) -> list[str]:
        """The arguments with global options before the verb, unless the verb has an option of that name itself."""
        takes_value = {name for each in self.params if _has_value(each) for name in each.opts}
        verb = 0
        while verb < len(args) and args[verb].startswith("-"):
            verb += 2 if args[verb] in takes_value else 1
        command = self.commands.get(args[verb]) if verb < len(args) else None
        if command is None:
            return args
        movable = takes_value - _own_options(command)
        front, rest = args[:verb], args[verb : verb + 1]
        position = verb + 1
        while position < len(args) and args[position] != "--":
            name, has_value, _ = args[position].partition("=")
            length = 1 if has_value else 2
            if name in movable:
                front += args[position : position + length]
                position += length
            else:
                rest.append(args[position])
                position += 1
        return [*front, *rest, *args[position:]]

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a verb. A closed pipe is left to click, which ends without a traceback."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as problem:
            raise Interrupted(_INTERRUPTED) from problem
        except ViewkeeperError as problem:
            raise Failed(str(problem), _form(ctx), problem) from problem
        except OSError as problem:
            if problem.errno == errno.EPIPE:
                raise
            where = f": {problem.filename}" if problem.filename else ""
            raise Failed(f"{problem.strerror or problem}{where}", _form(ctx)) from problem


def _form(ctx: click.Context) -> str:
    return ctx.obj.form if isinstance(ctx.obj, Options) else "table"


def _has_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.is_flag


def _own_options(command: click.Command) -> set[str]:
    """The names of the options of a verb, and of the verbs below it."""
    own = {name for each in command.params for name in each.opts}
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return own.union(*map(_own_options, below))


def _engine(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value and value.lower() not in ("spark", "sail") and not value.lower().startswith("sc://"):
        raise click.BadParameter(f"there is no engine '{value}': use spark, sail or sc://host:port")
    return value or None


def _duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value:
        try:
            seconds(value)
        except ViewkeeperError as problem:
            raise click.BadParameter(f"{problem.message}: {problem.hint}") from problem
    return value or None


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--db", metavar="DIR", default="lake", show_default=True, envvar="VIEWKEEPER_DB", show_envvar=True,
    help="The database: a directory or an object-store URL.",
)  # fmt: skip
@click.option(
    "--engine", metavar="E", envvar="VIEWKEEPER_ENGINE", show_envvar=True, callback=_engine,
    help="spark, sail or sc://host:port. Default: the engine the database was made with; spark for a new one.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
    help="How data is printed.",
)  # fmt: skip
@click.option(
    "--timeout", metavar="T", envvar="VIEWKEEPER_TIMEOUT", show_envvar=True, callback=_duration,
    help="How long a statement may take: '30 s', '5 minutes'. Default: as long as it takes.",
)  # fmt: skip
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="The version.")
@click.pass_context
def cli(ctx: click.Context, db: str, engine: str | None, form: str, timeout: str | None) -> None:
    """A database of changing tables on Spark: every commit is an epoch that can be read again.

    \b
    viewkeeper demo                              see what it does
    viewkeeper sql "CREATE TABLE t (id BIGINT PRIMARY KEY, name STRING)"
    viewkeeper load t people.csv
    viewkeeper --format json sql "SELECT * FROM t AS OF EPOCH 1"

    Data goes to stdout, everything else to stderr. Exit code 0: done, 1: failed, 2: wrong usage, 3: verify
    found a difference, 130: interrupted.
    """
    given = ctx.get_parameter_source("db") is not ParameterSource.DEFAULT
    ctx.obj = Options(db or "lake", engine, form, db_given=given, timeout=timeout)


_FIRST = (demo, sql, shell, datalog, load, ls, show, explain, analyze, rules, verify, changes, subscribe, history)
_LATER = (serve, token, compact, vacuum, bench, doctor, version)
for verb in (*_FIRST, *_LATER):
    cli.add_command(verb)


def main() -> None:
    """The entry point of the `viewkeeper` program."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    reported = threading.Event()
    _end_soon_after_ctrl_c(reported)
    try:
        cli(prog_name="viewkeeper")
    finally:
        reported.set()


def _end_soon_after_ctrl_c(reported: threading.Event) -> None:
    """Lets Ctrl-C end the program cleanly if that is fast, else at once: an engine busy with a query may block it.

    Ending at once is safe at any moment, because a commit is one ledger entry. `reported`: the message was printed.
    """
    pressed = threading.Event()

    def handle(number: int, frame: object) -> None:
        if pressed.is_set():
            os._exit(INTERRUPTED)
        pressed.set()
        raise KeyboardInterrupt

    def watch() -> None:
        pressed.wait()
        time.sleep(PATIENCE)
        if not reported.is_set():
            os.write(2, f"{_INTERRUPTED}\n".encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, handle)
    threading.Thread(target=watch, name="viewkeeper-ctrl-c", daemon=True).start()
