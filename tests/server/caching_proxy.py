"""A shared HTTP cache as RFC 9111 describes it, in little: freshness, Vary, private, and what may be stored."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


class CachingProxy:
    """Forwards GET to an origin and keeps the answers that it may keep. `asked` lists what reached the origin."""

    def __init__(self, origin: str) -> None:
        self.origin = httpx.Client(base_url=origin, timeout=60, trust_env=False, verify=False)
        self.asked: list[str] = []
        self.kept: dict[tuple[str, tuple[tuple[str, str], ...]], httpx.Response] = {}
        self.varies: dict[str, tuple[str, ...]] = {}
        self.lock = threading.Lock()

    def get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        """The answer to a request, kept or new."""
        key = (path, tuple((name, headers.get(name, "")) for name in self.varies.get(path, ())))
        if key in self.kept:
            return self.kept[key]
        passed = {name: value for name, value in headers.items() if name in ("accept", "authorization")}
        answer = self.origin.get(path, headers=passed)
        with self.lock:
            self.asked.append(path)
            control = answer.headers.get("cache-control", "")
            fresh = re.search(r"max-age=([1-9]\d*)", control)
            if answer.status_code == 200 and fresh and "public" in control and "no-store" not in control:
                names = tuple(name.strip().lower() for name in answer.headers.get("vary", "").split(",") if name)
                self.varies[path] = names
                self.kept[(path, tuple((name, headers.get(name, "")) for name in names))] = answer
        return answer


@contextlib.contextmanager
def caching(origin: str) -> Iterator[tuple[str, CachingProxy]]:
    """A running cache in front of a server: its address, and what it knows."""
    proxy = CachingProxy(origin)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            answer = proxy.get(self.path, {name.lower(): value for name, value in self.headers.items()})
            self.send_response(answer.status_code)
            for name in answer.headers:
                if name in ("content-type", "etag", "cache-control") or name.startswith("electric-"):
                    self.send_header(name, answer.headers[name])
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        proxy.origin.close()
