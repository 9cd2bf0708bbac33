"""Settings of a server: where it listens, its token, and its limits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ServerLimits:
    """Limits that every call is held to. Each has a problem+json error with a code of its own."""

    body_bytes: int = 1_000_000
    """The largest body of a request, and the largest message of a WebSocket client."""

    body_seconds: float = 20.0
    """How long a client may take to send its body."""

    header_seconds: float = 10.0
    """How long a client may take to send the head of a request."""

    statement_seconds: float = 60.0
    """How long the statements of one call may run."""

    rows: int = 10_000
    """The most rows of one answer."""

    connections: int = 4_000
    """The most open connections."""

    connections_per_client: int = 2_000
    """The most streams and running requests of one token, or of one address without a token."""

    rate: float = 500.0
    """Requests per second of one token, or of one address without a token."""

    burst: int = 2_000
    """How many requests may come at once before the rate counts."""

    readers: int = 4
    """Threads that read; one more commits."""

    waiting: int = 200
    """The most calls that wait for a thread."""

    websocket_subscriptions: int = 1_000
    """The most subscriptions of one WebSocket."""


@dataclass(frozen=True)
class ServerSettings:
    """Where a server listens and who may call it. `token` has admin rights; more tokens are stored in the database."""

    host: str = "127.0.0.1"
    port: int = 8780
    token: str | None = field(default=None, repr=False)
    allow_origin: tuple[str, ...] = ()
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    shutdown_seconds: float = 10.0
    limits: ServerLimits = field(default_factory=ServerLimits)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    name = host.strip().strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
