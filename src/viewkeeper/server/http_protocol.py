"""HTTP connections with limits: one whose head comes too slowly is ended, and so is one too many."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from viewkeeper.server.http_problems import MEDIA_TYPE, Problem
from viewkeeper.server.server_settings import ServerLimits


def limited_protocol(limits: ServerLimits) -> type[H11Protocol]:
    """The class of connections that are held to some limits."""

    class LimitedProtocol(H11Protocol):
        """One connection."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begins to wait for the head of a request, unless there are too many connections."""
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                text = f"{limits.connections} connections are open"
                _refuse(transport, Problem("too-many-connections", text, status=503, headers={"Retry-After": "1"}))
            else:
                self._expect()

        def data_received(self, data: bytes) -> None:
            """Waits for the rest of the head, if it is not whole yet."""
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE or self.transport.is_closing():
                self._stop_expecting()
            elif self._deadline is None:
                self._expect()

        def handle_websocket_upgrade(self, event: h11.Request) -> None:
            """The connection becomes a WebSocket, which has other limits."""
            self._stop_expecting()
            super().handle_websocket_upgrade(event)

        def connection_lost(self, exc: Exception | None) -> None:
            """The end."""
            self._stop_expecting()
            super().connection_lost(exc)

        def _expect(self) -> None:
            self._deadline = self.loop.call_later(limits.header_seconds, self._too_slow)

        def _stop_expecting(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_slow(self) -> None:
            self._deadline = None
            if not self.transport.is_closing():
                text = "the head of the request came too slowly"
                _refuse(self.transport, Problem("head-too-slow", text))

    return LimitedProtocol


def _refuse(transport: asyncio.Transport, problem: Problem) -> None:
    """Answers without reading a request, and ends the connection."""
    body = problem.body()
    lines = [
        f"HTTP/1.1 {problem.status} {problem.title}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "connection: close",
        *(f"{name.lower()}: {value}" for name, value in problem.headers.items()),
    ]
    transport.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    transport.close()
