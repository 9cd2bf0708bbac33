"""A subscription: frames, each exactly once, in the order of their epochs, without gaps.

A subscription that keeps up gets what its channel distributes. One that has fallen behind, begins at an earlier epoch
or wants the net of some time derives its changes from the ledger when it is asked for the next frame: nothing is held
for it, and no commit waits.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from viewkeeper.algebra.schema import Schema
from viewkeeper.errors import Gone
from viewkeeper.feed.bound_rows import Condition
from viewkeeper.feed.channels import Channel, frame_of
from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.log.open_log import Held
from viewkeeper.log.tail import Committed, commits_after

if TYPE_CHECKING:
    from viewkeeper.feed.feeds import Feeds

MOST_FRAMES = 100
"""A subscription that is more frames behind gets the net of them as one."""

STEP_SECONDS = 2.0
"""Seconds after which the frames that were derived are handed out, before others are derived."""

DEMAND = "demand"


class Subscription:
    """Frames of one relation or query. Iterate over it, or call next(); close() it, or use a `with` statement.

    `epoch` is the one up to which all frames were handed out: nothing else will come of epochs up to it. Before the
    snapshot it is -1.
    """

    def __init__(
        self,
        feeds: Feeds,
        channel: Channel,
        condition: Condition,
        schema: Schema,
        *,
        since: int,
        snapshot: bool,
        moves: bool,
        until: int | None,
        every: float | str | None,
        reset: bool,
    ) -> None:
        """`since`: the epoch of the snapshot, or after which frames begin; `moves`: a later one does as well."""
        self.condition = condition
        self.schema = schema
        self.every = every
        self._feeds = feeds
        self._channel = channel
        self._wants_snapshot = snapshot
        self._until = until
        self._reset = reset
        self._moves = moves
        self._upto = since  # all frames up to this epoch are handed out or waiting
        self._handed = -1 if snapshot else since
        self._waiting: collections.deque[Frame] = collections.deque()
        self._live = False
        self._due = time.monotonic()
        self._closed = False
        self._ready: Callable[[], None] | None = None

    @property
    def name(self) -> str:
        """The name of what it follows."""
        return self._channel.followed.name

    @property
    def epoch(self) -> int:
        """The epoch up to which all frames were handed out."""
        with self._feeds.changed:
            if self._waiting or self._wants_snapshot:
                return self._handed
            return max(self._upto, self._channel.epoch) if self._live else self._upto

    @property
    def derived(self) -> int:
        """The epoch up to which all frames were handed out or wait: a frame of a later one is that of one epoch."""
        with self._feeds.changed:
            return self._upto

    @property
    def channel(self) -> Channel:
        """What it shares with others that follow the same."""
        return self._channel

    @property
    def closed(self) -> bool:
        """Whether nothing else will come."""
        return self._closed

    # reading -------------------------------------------------------------------------------------

    def next(self, timeout: float | None = None) -> Frame | None:
        """The next frame; None when it is closed, or after so many seconds without one. On demand, what is there now.

        Raises Gone if the changes that come next are no longer kept.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._feeds.changed:
                frame = self.take()
                if frame is not None or self._closed:
                    return frame
                if self._until is not None and self._upto >= self._until and not self._wants_snapshot:
                    break
                if self._live or not self._is_due():
                    left = self._left(until)
                    if left is not None and left <= 0:
                        return None
                    self._feeds.changed.wait(left)
                    continue
            self._catch_up()
            if self.every is not None:
                self._due = time.monotonic() + (self.every if isinstance(self.every, float) else 0.0)
                if self.every == DEMAND and not self._waiting:
                    return None
            elif not self._waiting and until is not None and time.monotonic() >= until + STEP_SECONDS:
                return None  # there is more to derive, but it took long
        self.close()
        return None

    def _is_due(self) -> bool:
        return self._wants_snapshot or time.monotonic() >= self._due

    def _left(self, until: float | None) -> float | None:
        """Seconds to wait for at most; None without a limit."""
        at = time.monotonic()
        ends = [end - at for end in (until, self._due if not self._live else None) if end is not None]
        return min(ends) if ends else None

    def poll(self) -> Frame | None:
        """A frame that is there now; None if there is none."""
        return self.next(0.0)

    def take(self) -> Frame | None:
        """A frame that is waiting; None if there is none. Never derives one, so it returns at once."""
        with self._feeds.changed:
            if not self._waiting:
                return None
            frame = self._waiting.popleft()
            self._handed = frame.epoch
            return frame

    @property
    def is_behind(self) -> bool:
        """Whether the next frame has to be derived when it is asked for, which takes a while."""
        with self._feeds.changed:
            return not self._live and not self._waiting and not self._closed and self._is_due()

    def on_ready(self, call: Callable[[], None]) -> None:
        """Calls a function, in any thread, whenever a frame may be there, also at once if one is."""
        with self._feeds.changed:
            self._ready = call
            now = bool(self._waiting) or not self._live
        if now:
            call()

    def __iter__(self) -> Iterator[Frame]:
        while (frame := self.next()) is not None:
            yield frame

    async def __aiter__(self) -> AsyncIterator[Frame]:
        while (frame := await asyncio.to_thread(self.next)) is not None:
            yield frame

    # what the channel calls, under the lock --------------------------------------------------------

    def offer(self, frame: Frame) -> None:
        """Takes a frame of the channel; one too many, and the rest is derived when it is asked for."""
        if not self._live or frame.epoch <= self._upto:
            return
        if self._until is not None and frame.epoch > self._until:
            self._upto = self._until
        elif len(self._waiting) >= MOST_FRAMES:
            kept = [waiting for waiting in self._waiting if waiting.snapshot]  # no change says what it says
            self._waiting.clear()
            self._waiting.extend(kept)
            self.fall_behind(kept[-1].epoch if kept else self._handed)
        else:
            self._waiting.append(frame)
            self._upto = frame.epoch
        self._notify()

    def fall_behind(self, epoch: int | None = None) -> None:
        """From now on its frames are derived when it is asked for them."""
        if self._live:
            self._live = False
            self._upto = max(self._upto, self._channel.epoch) if epoch is None else epoch
            self._notify()

    @property
    def is_live(self) -> bool:
        """Whether it takes what the channel distributes."""
        return self._live

    def _notify(self) -> None:
        if self._ready is not None:
            self._ready()

    # deriving --------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Derives the frames up to the newest epoch, and takes what the channel distributes from then on."""
        held = self._feeds.store.hold()
        target = held.state.epoch if self._until is None else min(held.state.epoch, self._until)
        frames: list[Frame] = []
        if self._wants_snapshot:
            frames.append(self._first(held, target))
            self._upto = frames[0].epoch
        try:
            if target > self._upto:
                self._channel.followed.check_kept(held.state, self._upto)
                found, target = self._changes(held, target)
                frames += found
        except Gone:
            if not self._reset:
                raise
            frames = [self._snapshot(held, target, reset=True)]
        with self._feeds.changed:
            self._wants_snapshot = False
            self._waiting.extend(frames)
            self._upto = max(self._upto, target)
            self._live = self.every is None and self._channel.begun <= self._upto and not self._closed
            self._feeds.start()

    def _first(self, held: Held, target: int) -> Frame:
        """The snapshot to begin with: of the epoch at which it was made, unless that is no longer kept."""
        try:
            self._channel.followed.check_kept(held.state, self._upto)
        except Gone:
            if not self._moves:
                raise
            return self._snapshot(held, target)
        return self._snapshot(held, self._upto)

    def _snapshot(self, held: Held, epoch: int, *, reset: bool = False) -> Frame:
        values = frozenset((self.condition.values,))
        part = self._channel.snapshot(held, epoch, values).of(self.condition.values)
        commits = commits_after(self._feeds.store.ledger, held.state, epoch - 1)
        commit = next((c for c in commits if c.epoch == epoch), Committed(epoch, 0.0, frozenset(), defines=False))
        return frame_of(self.name, commit, part, snapshot=True, reset=reset)

    def _changes(self, held: Held, target: int) -> tuple[list[Frame], int]:
        """The frames after those that are there, up to an epoch: one per epoch, or the net of many.

        If that takes long, up to an earlier epoch; it is returned with them.
        """
        channel = self._channel
        commits = [c for c in commits_after(self._feeds.store.ledger, held.state, self._upto) if c.epoch <= target]
        reached = [commit for commit in commits if channel.followed.is_reached(held.state, commit)]
        if not reached:
            return [], target
        if len(reached) > MOST_FRAMES or self.every is not None:
            steps = [(self._upto, commits[-1])]
        else:
            steps = [(commit.epoch - 1, commit) for commit in reached]
        values = self.condition.values
        found: list[Frame] = []
        until = time.monotonic() + STEP_SECONDS
        for since, commit in steps:
            part = channel.change(held, since, commit.epoch, frozenset((values,))).of(values)
            if part.rows.num_rows:
                found.append(frame_of(self.name, commit, part))
            if time.monotonic() >= until:
                return found, commit.epoch
        return found, target

    # the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends it; frames that wait are dropped."""
        with self._feeds.changed:
            if self._closed:
                return
            self._closed = True
            self._live = False
            self._waiting.clear()
            self._feeds.remove(self)
            self._feeds.changed.notify_all()
            self._notify()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
