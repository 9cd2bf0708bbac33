"""viewkeeper subscribe: the changes of a table or view, as they come."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click
from rich.text import Text

from viewkeeper.cli.output import count_of, note, print_signed, rows_of, stdout
from viewkeeper.cli.session import Options

if TYPE_CHECKING:
    from viewkeeper.client import RemoteSubscription
    from viewkeeper.feed.epoch_frames import Frame
    from viewkeeper.feed.subscription import Subscription


@click.command(short_help="Print the changes of a table or view as they come.")
@click.argument("view")
@click.option("--url", metavar="URL", help="A server to ask, instead of opening the database: http://host:8780.")
@click.option("--token", metavar="T", envvar="VIEWKEEPER_TOKEN", show_envvar=True, help="The token for the server.")
@click.option("--since", type=click.IntRange(0), metavar="EPOCH", help="Go on after this epoch, without a snapshot.")
@click.option("--no-snapshot", is_flag=True, help="Leave out the rows that are there.")
@click.option("--where", metavar="CONDITION", help="Only rows for which it holds: \"region = 'EU'\".")
@click.option("--every", metavar="T", help="The net change of a time, such as '5 seconds', instead of every epoch.")
@click.option("--frames", type=click.IntRange(1), metavar="N", help="End after N frames.")
@click.pass_obj
def subscribe(
    options: Options,
    view: str,
    url: str | None,
    token: str | None,
    since: int | None,
    no_snapshot: bool,
    where: str | None,
    every: str | None,
    frames: int | None,
) -> None:
    """Prints the rows of VIEW, a table or view, and then what every commit changes, until Ctrl-C.

    Commits of other processes are followed too. On a terminal inserted rows are marked +, deleted ones −; in a pipe,
    or with --format json, each frame is one line of JSON. --since resumes after any epoch that is still kept.

    \b
    viewkeeper subscribe revenue
    viewkeeper subscribe revenue --where "region = 'EU'" --since 41 | jq .updates
    viewkeeper subscribe revenue --url http://localhost:8780 --token "$VIEWKEEPER_TOKEN"
    """
    lines = options.form == "json" or not sys.stdout.isatty()
    if url is not None:
        from viewkeeper.client import connect

        with connect(url, token).subscribe(view, since, not no_snapshot, every, where=where) as remote:
            _print(remote, frames, as_json=lines)
        return
    with options.open() as db, db.subscribe(view, since, not no_snapshot, every, where=where) as local:
        _print(local, frames, as_json=lines)


def _print(subscription: Subscription | RemoteSubscription, most: int | None, *, as_json: bool) -> None:
    for count, frame in enumerate(subscription, start=1):
        if as_json:
            sys.stdout.write(_json(frame) + "\n")
        else:
            _table(frame)
        sys.stdout.flush()
        if count == most:
            return


def _json(frame: Frame) -> str:
    from viewkeeper.server.frame_encoding import frame_document

    return json.dumps(frame_document(frame), ensure_ascii=False)


def _table(frame: Frame) -> None:
    """The rows of a frame under a line with its epoch: + for inserted, − for deleted ones."""
    console = stdout()
    kind = ", all rows" if frame.snapshot else ""
    rows = frame.change.rows
    weights = rows["_weight"].to_pylist()
    console.print(Text(f"epoch {frame.epoch}, {frame.committed_at:%Y-%m-%d %H:%M:%S}{kind}", style="bold"))
    print_signed(console, rows_of(rows.drop_columns(["_weight"])), weights)
    if not weights:
        note(f"  ({count_of(0, 'row')})")
