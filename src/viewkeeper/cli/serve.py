"""viewkeeper serve: the database over HTTP, Server-Sent Events and WebSocket."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from viewkeeper.algebra.durations import seconds
from viewkeeper.cli.output import note
from viewkeeper.cli.session import Options


@click.command(short_help="Serve the database over HTTP.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8780, show_default=True, help="0 takes a free one.")
@click.option(
    "--token", metavar="T", envvar="VIEWKEEPER_TOKEN", show_envvar=True,
    help="A token with admin rights; `viewkeeper token` makes others.",
)  # fmt: skip
@click.option(
    "--allow-origin", "origins", multiple=True, metavar="URL",
    help="A site whose pages may call the server, such as https://example.org; may be repeated.",
)  # fmt: skip
@click.option("--ssl-certfile", type=click.Path(exists=True, dir_okay=False), help="The certificate, for https.")
@click.option("--ssl-keyfile", type=click.Path(exists=True, dir_okay=False), help="Its private key.")
@click.option("--max-body", type=click.IntRange(1_000), metavar="BYTES", help="The largest body of a request.")
@click.option("--max-rows", type=click.IntRange(1), metavar="N", help="The most rows of one answer.")
@click.option("--max-connections", type=click.IntRange(1), metavar="N", help="The most open connections.")
@click.option("--rate", type=click.FloatRange(0.1), metavar="N", help="Requests per second of one token or address.")
@click.option("--readers", type=click.IntRange(1, 64), metavar="N", help="Threads that read.")
@click.pass_obj
def serve(
    options: Options,
    host: str,
    port: int,
    token: str | None,
    origins: tuple[str, ...],
    ssl_certfile: str | None,
    ssl_keyfile: str | None,
    max_body: int | None,
    max_rows: int | None,
    max_connections: int | None,
    rate: float | None,
    readers: int | None,
) -> None:
    """Serves the database until Ctrl-C: SQL, rows, changes as they happen, and a page to watch them.

    Without a token it listens to this machine only. --timeout limits how long the statements of a call may run.
    The log goes to stderr as JSON lines.
    """
    from viewkeeper.server.running_server import serve as run
    from viewkeeper.server.server_settings import ServerLimits, ServerSettings, is_loopback
    from viewkeeper.server.token_files import stored_tokens

    if token is not None and not token.strip():
        raise click.UsageError("the token is empty: give one that others cannot guess")
    if token is not None and len(token) < 8:
        note("the token is short: others can guess it; better give one of 20 letters or more")
    if not is_loopback(host) and token is None and not stored_tokens(options.storage):
        raise click.UsageError(
            f"without a token the server listens to this machine only, and {host} can be reached from others: "
            "give --token, or make one with `viewkeeper token create NAME --rights read`"
        )
    if ssl_keyfile is not None and ssl_certfile is None:
        raise click.UsageError("--ssl-keyfile needs --ssl-certfile")
    chosen: dict[str, Any] = {
        "body_bytes": max_body,
        "rows": max_rows,
        "connections": max_connections,
        "connections_per_client": max_connections,
        "rate": rate,
        "burst": None if rate is None else max(1, round(2 * rate)),
        "readers": readers,
        "statement_seconds": None if options.timeout is None else seconds(options.timeout),
    }
    limits = dataclasses.replace(ServerLimits(), **{name: each for name, each in chosen.items() if each is not None})
    settings = ServerSettings(host, port, token, origins, ssl_certfile, ssl_keyfile, limits=limits)
    with options.open() as db:
        run(db, settings)
