"""Streams: subscriptions that are delivered to clients, and those who follow commits.

A subscription calls back from another thread when a frame is ready; an event of the loop is set then. What has to be
derived is derived in a thread. A slow client only slows its own stream: its subscription falls behind, and gets the net
of what it has missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from viewkeeper.api.database import Database
from viewkeeper.errors import ViewkeeperError
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.subscription import Subscription
from viewkeeper.server.frame_encoding import EncodedFrame, FrameEncoder
from viewkeeper.server.server_metrics import ServerMetrics
from viewkeeper.server.workers import Workers

TICK = 0.5
"""Seconds between two looks for progress."""

MOST_TOLD = 100
"""Streams that are told of progress at one look; the others at the next ones, so that frames need not wait."""

QUIET = 15.0
"""Seconds after which progress is told again over SSE, so that nobody between takes the connection for dead.

A WebSocket has pings for that, one for all its streams.
"""


MOST_MEASURED = 10
"""Subscriptions of one view whose lag is a metric of its own: the slowest ones."""


@dataclass(frozen=True)
class Asked:
    """What a client subscribes to; `where` is its condition together with the binding of its token."""

    view: str
    where: str | None = None
    since: int | None = None
    snapshot: bool = True
    every: str | float | None = None
    precision: str = "exact"
    reset: bool = False


@dataclass(frozen=True)
class Progress:
    """Nothing else will come of epochs up to this one."""

    epoch: int


class Stream:
    """One subscription on its way to a client. Used in the event loop."""

    def __init__(self, streams: Streams, subscription: Subscription, transport: str, number: int) -> None:
        self.subscription = subscription
        self.number = number
        self.transport = transport
        self.wake = asyncio.Event()
        self._streams = streams
        self._told = -1
        loop = asyncio.get_running_loop()
        self._asked = subscription.every != "demand"

        def ready() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self.wake.set)

        subscription.on_ready(ready)

    def ask(self) -> None:
        """Asks for what has changed, where frames come on demand."""
        self._asked = True
        self.wake.set()

    async def next(self) -> Frame | Progress | None:
        """The next frame, or progress; None at the end. Raises if what comes next cannot be derived."""
        while True:
            self.wake.clear()
            frame = self.subscription.take()
            if frame is None and not self._streams.is_stopping and self._may_derive():
                frame = await self._streams.workers.derive(self.subscription.poll)
            if frame is not None:
                self._told = frame.epoch
                return frame
            if self.subscription.closed:
                return None
            epoch = self.subscription.epoch
            if epoch > self._told:
                self._told = epoch
                return Progress(epoch)
            if self._streams.is_stopping:
                return None
            if not await self._wait():
                return Progress(epoch)

    def _may_derive(self) -> bool:
        """Whether there is something to derive; on demand, only after it was asked for."""
        if not self.subscription.is_behind or not self._asked:
            return False
        self._asked = self.subscription.every != "demand"
        return True

    async def _wait(self) -> bool:
        """Waits until there may be something; False if that took so long that the client should hear something."""
        every = self.subscription.every
        quiet = QUIET if self.transport == "sse" else math.inf
        seconds = min(every, quiet) if isinstance(every, float) else quiet
        if seconds == math.inf:
            await self.wake.wait()
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()
                return True
        return seconds < quiet

    @property
    def has_news(self) -> bool:
        """Whether there is progress that the client was not told of."""
        return self.subscription.epoch > self._told

    def close(self) -> None:
        """Ends it."""
        self._streams.forget(self)
        self.subscription.close()


class Streams:
    """All streams of a server."""

    def __init__(self, db: Database, workers: Workers, metrics: ServerMetrics) -> None:
        self.workers = workers
        self.encoder = FrameEncoder()
        self.is_stopping = False
        self._db = db
        self._metrics = metrics
        self._numbers = itertools.count(1)
        self._open: dict[Stream, None] = {}  # those that were told of progress last stand last
        self._at_end: set[Callable[[], None]] = set()

    async def open(self, asked: Asked, transport: str) -> Stream:
        """Subscribes. Raises what is wrong with the request, such as an epoch that is no longer kept."""
        opening = asyncio.ensure_future(self.workers.derive(lambda: self._subscribe(asked)))
        try:
            made = await asyncio.shield(opening)
        except asyncio.CancelledError:  # nobody waits for it any longer
            opening.add_done_callback(_close_made)
            raise
        stream = Stream(self, made, transport, next(self._numbers))
        self._open[stream] = None
        self._metrics.subscriptions.labels(transport).inc()
        return stream

    def _subscribe(self, asked: Asked) -> Subscription:
        return self._db.subscribe(
            asked.view,
            asked.since,
            asked.snapshot,
            asked.every,
            asked.precision,
            where=asked.where,
            reset=asked.reset,
        )

    def forget(self, stream: Stream) -> None:
        """A stream has ended."""
        if stream in self._open:
            del self._open[stream]
            self._metrics.subscriptions.labels(stream.transport).dec()

    async def encoded(self, frame: Frame) -> EncodedFrame:
        """A frame as text."""
        found = self.encoder.known(frame)
        return found if found is not None else await self.workers.derive(lambda: self.encoder.encode(frame))

    # life ------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Wakes the streams that have progress to tell, again and again."""
        seen = -1
        again = False
        while True:
            await asyncio.sleep(TICK)
            epoch = self._db.store.state.epoch
            if epoch == seen and not again:
                continue
            told = [*itertools.islice((stream for stream in self._open if stream.has_news), MOST_TOLD)]
            for stream in told:
                self._open[stream] = self._open.pop(stream)
                stream.wake.set()
            again, seen = epoch != seen or len(told) == MOST_TOLD, epoch

    def at_end(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls a function when the server begins to stop; returns what takes that back."""
        self._at_end.add(call)
        return lambda: self._at_end.discard(call)

    def stop(self) -> None:
        """Lets every stream deliver the frames that wait, and end."""
        self.is_stopping = True
        for stream in list(self._open):
            stream.wake.set()
        for call in list(self._at_end):
            call()

    async def drained(self, seconds: float) -> None:
        """Waits until all streams have ended, for so many seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._open or self._at_end:
                    await asyncio.sleep(0.02)

    def measure(self) -> None:
        """Sets the metrics of lag: of each view, those of its slowest subscriptions."""
        with contextlib.suppress(ViewkeeperError):
            epoch = self._db.store.refresh().epoch
            self._metrics.epoch.set(epoch)
            followers: defaultdict[str, list[tuple[int, Stream]]] = defaultdict(list)
            for stream in list(self._open):
                behind = max(0, epoch - max(0, stream.subscription.epoch))
                followers[stream.subscription.name].append((behind, stream))
            self._metrics.lag.clear()
            for view, found in followers.items():
                for behind, stream in heapq.nlargest(MOST_MEASURED, found, key=lambda each: each[0]):
                    self._metrics.lag.labels(view, stream.transport, str(stream.number)).set(behind)


def _close_made(opening: asyncio.Future[Subscription]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def columns_of(stream: Stream) -> list[dict[str, Any]]:
    """Names and types of the columns of a stream's rows."""
    return [{"name": column.name, "type": str(column.type)} for column in stream.subscription.schema]
