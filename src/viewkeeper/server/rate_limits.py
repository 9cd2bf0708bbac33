"""Limits of rate and of connections per client: a token, or an address without one."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from viewkeeper.server.http_problems import Problem
from viewkeeper.server.server_settings import ServerLimits

REMEMBERED = 10_000
"""Clients whose rate is remembered."""


class ClientLimits:
    """Counts the requests of each client. Used in the event loop only."""

    def __init__(self, limits: ServerLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._open: dict[str, int] = {}

    def spend(self, client: str) -> None:
        """Counts a request of a client (token bucket); raises if it has sent too many."""
        now = self._clock()
        left, at = self._left.pop(client, (float(self._limits.burst), now))
        left = min(float(self._limits.burst), left + (now - at) * self._limits.rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)
        if left < 1:
            seconds = max(1, round((1 - left) / self._limits.rate))
            raise Problem(
                "too-many-requests",
                f"more than {self._limits.rate:g} requests per second",
                hint="send fewer, or subscribe to changes instead of asking again",
                headers={"Retry-After": str(seconds)},
            )

    def enter(self, client: str) -> None:
        """Counts a request or stream that begins; raises if the client has too many open."""
        there = self._open.get(client, 0)
        if there >= self._limits.connections_per_client:
            raise Problem(
                "too-many-connections",
                f"{there} requests and streams of this client are open",
                hint="close some, or use one WebSocket for many subscriptions",
                headers={"Retry-After": "1"},
            )
        self._open[client] = there + 1

    def leave(self, client: str) -> None:
        """The end of a request or stream."""
        left = self._open.get(client, 1) - 1
        if left:
            self._open[client] = left
        else:
            self._open.pop(client, None)
