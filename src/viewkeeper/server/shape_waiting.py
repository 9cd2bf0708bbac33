"""Waiting for changes of shapes in the event loop, without threads, and what is made once for many clients.

All clients that wait for the same rows share one subscription, whichever columns they want.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol, TypeVar

from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.subscription import Subscription

T = TypeVar("T")

MOST_KEPT = 256
"""So many bodies are kept for other clients that ask for the same."""

LARGEST_KEPT = 262_144
"""The largest body that is kept, in bytes."""


MOST_FRAMES = 16
"""So many frames are kept for clients that are about to ask for them."""

LOOK_SECONDS = 1.0
"""Seconds between two looks for epochs without changes."""

IDLE_SECONDS = 30.0
"""A subscription ends so long after the last client has left."""


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
        self.has_caught_up = False
        """Whether the last frame may be the net of several epochs, or there is none because their net is empty."""
        loop = asyncio.get_running_loop()

        def ready() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._wake.set)

        subscription.on_ready(ready)

    async def next(self, seconds: float) -> Frame | None:
        """The next frame; None after some seconds without one, when it has caught up without one, and at the end."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            self._wake.clear()
            frame = self.subscription.take()
            if frame is None and self.subscription.is_behind and not self._ended:
                frame = await self._run(self.subscription.poll)
                self.has_caught_up = True
            left = until - loop.time()
            if frame is not None or self.has_caught_up or self.ended or left <= 0:
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


class Behind(Exception):
    """There is no frame that continues what a client has: its change has to be derived."""


class SharedWatch:
    """The newest frames of one subscription, for all clients that wait for them. `begin`: those after it are known.

    It ends some time after the last client has left.
    """

    def __init__(self, subscription: Subscription, since: int, run: Threads, ending: Ending) -> None:
        self.begin = self.epoch = since
        self.frames: collections.deque[Frame] = collections.deque()
        self.failure: Exception | None = None
        self.waiting: set[Waiting] = set()
        self._watch = Watch(subscription, run)
        self._undo = ending.at_end(self._watch.end)
        self._task = asyncio.ensure_future(self._read())

    @property
    def is_open(self) -> bool:
        """Whether frames still come."""
        return not self._task.done()

    async def _read(self) -> None:
        idle = 0.0
        try:
            while not self._watch.ended and idle < IDLE_SECONDS:
                frame = await self._watch.next(LOOK_SECONDS)
                idle = 0.0 if self.waiting else idle + LOOK_SECONDS
                if self._watch.has_caught_up:
                    self._begin_again()
                elif frame is None:
                    self.epoch = max(self.epoch, self._watch.subscription.epoch)
                else:
                    self.frames.append(frame)
                    self.epoch = max(self.epoch, frame.epoch)
                    if len(self.frames) > MOST_FRAMES:
                        self.begin = max(self.begin, self.frames.popleft().epoch)
                    self._wake()
        except Exception as problem:
            self.failure = problem
        finally:
            self._undo()
            self._watch.subscription.close()
            self._wake()

    def _begin_again(self) -> None:
        """What was derived at once for several epochs does not continue each of them: clients derive it themselves."""
        self._watch.has_caught_up = False
        self.frames.clear()
        self.begin = self.epoch = max(self.epoch, self._watch.subscription.derived)
        self._wake()

    def _wake(self) -> None:
        for each in self.waiting:
            each.wake.set()


class Waiting:
    """One client that waits. Used in a `with` statement."""

    def __init__(self, shared: SharedWatch, ending: Ending, left: Awaitable[None]) -> None:
        """`left` ends when the client has left."""
        self.shared = shared
        self.wake = asyncio.Event()
        self.ended = ending.is_stopping
        self._undo = ending.at_end(self.end)
        self._left = asyncio.ensure_future(left)
        self._left.add_done_callback(lambda _: self.end())

    async def next(self, since: int, seconds: float) -> Frame | None:
        """The first frame after an epoch; None after some seconds without one, and at the end.

        Raises what made it impossible to derive frames, and Behind if no frame continues that epoch.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            self.wake.clear()
            if self.shared.failure is not None:
                raise self.shared.failure
            if since < self.shared.begin:
                raise Behind
            frame = next((each for each in self.shared.frames if each.epoch > since), None)
            left = until - loop.time()
            if frame is not None or self.ended or left <= 0 or not self.shared.is_open:
                return frame
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self.wake.wait()

    def end(self) -> None:
        """Lets the client go."""
        self.ended = True
        self.wake.set()

    def __enter__(self) -> Waiting:
        self.shared.waiting.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.shared.waiting.discard(self)
        self._undo()
        self._left.cancel()


class Once:
    """Work that several clients wait for is done once."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of the work of a key."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.ensure_future(_awaited(work()))
            task.add_done_callback(lambda _: self._running.pop(key, None))
        found: T = await asyncio.shield(task)
        return found


async def _awaited(coming: Awaitable[T]) -> T:
    return await coming


class Bodies:
    """Bodies of answers: each is made once at a time, and the newest are kept."""

    def __init__(self, run: Threads) -> None:
        self._run = run
        self._once = Once()
        self._kept: collections.OrderedDict[Hashable, bytes] = collections.OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """The body of a key, which is always the same."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        return await self._once.get(key, lambda: self._make(key, make))

    async def _make(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        body = await self._run(make)
        if len(body) <= LARGEST_KEPT:
            self._kept[key] = body
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return body
