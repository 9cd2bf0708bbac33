"""A web server that receives webhooks: what it got, and what it answers next."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Received:
    """One document, with its headers."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


@dataclass
class Receiver:
    """What a server has received; `answers` are the status codes it gives, by path, then 204."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)
    pause: Callable[[str], None] = lambda path: None

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def action(self, path: str = "/hook", options: str = "") -> str:
        """The action of a rule that calls this server."""
        return f"WEBHOOK '{self.url(path)}' WITH (allow_private = true{options})"

    def at(self, path: str) -> list[Received]:
        return [each for each in self.received if each.path == path]

    def wait_for(self, count: int, seconds: float = 30.0) -> None:
        until = time.monotonic() + seconds
        while len(self.received) < count:
            assert time.monotonic() < until, f"{len(self.received)} of {count} documents came"
            time.sleep(0.01)


@contextlib.contextmanager
def receiver(certificate: Path | None = None) -> Iterator[Receiver]:
    """A server on this machine; one of HTTPS, if it has a certificate."""
    seen = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.received.append(Received(self.path, dict(self.headers), body))
            seen.pause(self.path)
            left = seen.answers.get(self.path, [])
            with contextlib.suppress(OSError):  # the caller may have given up
                self.send_response(left.pop(0) if left else 204)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a caller who refuses the certificate
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    seen.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
