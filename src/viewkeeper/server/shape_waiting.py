"""Waiting for changes of a shape in the event loop, without a thread; bodies that are made once for many clients."""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol, TypeVar

from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.subscription import Subscription

T = TypeVar("T")

MOST_KEPT = 256
"""So many bodies are kept for other clients that ask for the same."""

LARGEST_KEPT = 262_144
"""The largest body that is kept, in bytes."""


class Threads(Protocol):
    """Runs work in a thread."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """The result of the work."""
        ...


async def in_thread(work: Callable[[], T], /) -> T:
    """The result of work that is done in any thread."""
    return await asyncio.to_thread(work)


class Ending(Protocol):
    """The end of a server, which those who wait have to know of."""

    @property
    def is_stopping(self) -> bool:
        """Whether it has begun."""
        ...

    def at_end(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls a function when it begins; returns what takes that back."""
        ...


class OwnEnding:
    """The end of a server that has nothing but shapes."""

    def __init__(self) -> None:
        self.is_stopping = False
        self._calls: set[Callable[[], None]] = set()

    def at_end(self, call: Callable[[], None]) -> Callable[[], None]:
        """Calls a function when the server begins to stop; returns what takes that back."""
        self._calls.add(call)
        return lambda: self._calls.discard(call)

    def stop(self) -> None:
        """Lets all who wait go."""
        self.is_stopping = True
        for call in list(self._calls):
            call()


class Watch:
    """A subscription that is waited for in the event loop; only what has to be derived needs a thread."""

    def __init__(self, subscription: Subscription, run: Threads) -> None:
        self.subscription = subscription
        self._run = run
        self._wake = asyncio.Event()
        self._ended = False
        self._at_close: list[Callable[[], object]] = []
        loop = asyncio.get_running_loop()

        def ready() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake.set)

        subscription.on_ready(ready)

    async def next(self, seconds: float) -> Frame | None:
        """The next frame; None after some seconds without one, and at the end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            self._wake.clear()
            frame = self.subscription.take()
            if frame is None and self.subscription.is_behind and not self._ended:
                frame = await self._run(self.subscription.poll)
            left = until - loop.time()
            if frame is not None or self.ended or left <= 0:
                return frame
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._wake.wait()

    @property
    def ended(self) -> bool:
        """Whether nobody waits any longer."""
        return self._ended or self.subscription.closed

    def end(self) -> None:
        """Lets whoever waits go on."""
        self._ended = True
        self._wake.set()

    def on_close(self, call: Callable[[], object]) -> None:
        """Calls a function when it is closed."""
        self._at_close.append(call)

    def close(self) -> None:
        """Ends the subscription."""
        self.subscription.close()
        for call in self._at_close:
            call()


class Bodies:
    """Bodies of answers: who asks for one that is being made waits for it, and the newest are kept."""

    def __init__(self, run: Threads) -> None:
        self._run = run
        self._making: dict[Hashable, asyncio.Task[bytes]] = {}
        self._kept: collections.OrderedDict[Hashable, bytes] = collections.OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The body of a key, which is always the same."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.ensure_future(self._make(key, make))
            task.add_done_callback(lambda _: self._making.pop(key, None))
        return await asyncio.shield(task)

    async def _make(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        body = await self._run(make)
        if len(body) <= LARGEST_KEPT:
            self._kept[key] = body
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return body
