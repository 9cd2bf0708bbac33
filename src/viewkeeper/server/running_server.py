"""A running server: uvicorn with our connections, our log and a graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from viewkeeper.api.database import Database
from viewkeeper.errors import StorageError
from viewkeeper.server.application import create_app
from viewkeeper.server.http_protocol import limited_protocol
from viewkeeper.server.request_log import LogHandler
from viewkeeper.server.server_settings import ServerSettings
from viewkeeper.server.service import Service

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class RunningServer(uvicorn.Server):
    """Serves one application until it is told to stop. Streams send what waits, and running requests end, first."""

    def __init__(self, app: FastAPI, settings: ServerSettings) -> None:
        limits = settings.limits
        self.service: Service = app.state.service
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                http=limited_protocol(limits),
                ws="websockets-sansio",
                ws_max_size=limits.body_bytes,
                ws_per_message_deflate=False,  # most frames are small, and it would cost a buffer per connection
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="on",
                timeout_keep_alive=30,
                timeout_graceful_shutdown=max(1, round(settings.shutdown_seconds)),
                ssl_certfile=settings.ssl_certfile,
                ssl_keyfile=settings.ssl_keyfile,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends streams before connections are closed."""
        self.service.streams.stop()
        await self.service.streams.drained(self.service.settings.shutdown_seconds / 2)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ctrl-C and SIGTERM end the server; they are not raised again afterwards, because that end is a clean one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def bound_socket(settings: ServerSettings) -> socket.socket:
    """A socket that listens where the settings say, so that a port in use is an error with words of its own."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # else asyncio does not set TCP_NODELAY
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host.strip("[]"), settings.port))
        made.listen(2_048)
    except OSError as problem:
        made.close()
        raise StorageError(
            f"the server cannot listen at {settings.host}:{settings.port}: {problem.strerror}",
            hint="choose another port: viewkeeper serve --port 8781",
        ) from problem
    made.set_inheritable(True)
    return made


def serve(db: Database, settings: ServerSettings) -> None:
    """Serves a database until Ctrl-C or SIGTERM."""
    listening = bound_socket(settings)
    try:
        server = RunningServer(create_app(db, settings), settings)
    except (ssl.SSLError, OSError) as problem:
        listening.close()
        raise StorageError(f"the certificate cannot be used: {problem}", hint="check --ssl-certfile") from problem
    log = server.service.log
    handler = LogHandler(log)
    for name in ("uvicorn", "uvicorn.error", "fastapi"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
    host, port = listening.getsockname()[:2]
    scheme = "https" if settings.ssl_certfile else "http"
    shown = f"[{host}]" if ":" in host else host
    log.write("info", "serving", url=f"{scheme}://{shown}:{port}/", database=db.path, tokens=server.service.needs_token)
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        listening.close()
        log.write("info", "stopped")
