"""The feeds of an open database: a thread follows the ledger, and distributes the changes of each epoch.

It runs while there are subscriptions. It is woken by commits of this process, and looks for those of others.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from viewkeeper.algebra.durations import seconds
from viewkeeper.catalog.name_errors import no_such_table
from viewkeeper.engine.running import side_by_side
from viewkeeper.errors import SqlError, StorageError, ViewkeeperError, place_of
from viewkeeper.feed.bound_rows import Condition, Values, read_condition
from viewkeeper.feed.channels import Channel, frame_of
from viewkeeper.feed.followed import Followed, named
from viewkeeper.feed.subscription import DEMAND, MOST_FRAMES, Subscription
from viewkeeper.log.open_log import Held
from viewkeeper.log.tail import Committed, commits_after
from viewkeeper.sql.dialect import SourceText
from viewkeeper.store.store import Store

LOOK_SECONDS = 0.05
"""Seconds after which the ledger is looked at for commits of other processes."""

LOOK_SECONDS_FAR = 0.5
"""The same where the ledger is in an object store."""


class Feeds:
    """The subscriptions of one open database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.changed = threading.Condition(threading.RLock())
        self._channels: dict[Any, Channel] = {}
        self._epoch = 0  # the one up to which all channels are
        self._thread: threading.Thread | None = None
        self._woken = False
        self._closing = False

    # subscribing -----------------------------------------------------------------------------------

    def followed(self, what: str) -> Followed:
        """What follows a table or view by its name, or a query."""
        state = self.store.refresh()
        found = named(self.store, state, what)
        if found is not None:
            return found
        if len(what.split()) < 2:
            raise no_such_table(what, state.names(), place_of(what))
        return Followed(
            self.store, "the query", text=what if isinstance(what, SourceText) else what.strip().rstrip(";")
        )

    def subscribe(
        self,
        what: str,
        *,
        where: str | None = None,
        since: int | None = None,
        snapshot: bool = True,
        until: int | None = None,
        every: str | float | None = None,
        precision: str = "exact",
        reset: bool = False,
        begin: int | None = None,
    ) -> Subscription:
        """A subscription to a table, a view or a query; see Database.subscribe."""
        pause = _pause(every)
        if precision not in ("exact", "nervous"):
            raise SqlError(f"there is no precision '{precision}'", hint="use 'exact' or 'nervous'")
        followed = self.followed(what)
        state = self.store.refresh()
        if precision == "nervous":
            followed = followed.made_nervous(state)
        schema = followed.schema(state)
        condition = Condition("") if where is None else read_condition(where, schema, followed.name)
        if condition.text and not condition.columns:
            followed = followed.where(condition.text)
            followed.schema(state)
        for number in (since, begin):
            if number is not None and number > state.epoch:
                raise SqlError(f"there is no epoch {number} yet", hint=f"the newest is {state.epoch}")
        if since is not None and not reset:
            followed.check_kept(state, since)
        wants = snapshot and since is None
        with self.changed:
            if self._closing:
                raise StorageError("the database is closed", hint="connect again: viewkeeper.connect(path)")
            key = (followed.key or followed.text, condition.columns, followed.nervous)
            channel = self._channels.get(key)
            if channel is None:
                channel = self._channels[key] = Channel(followed, condition.columns, max(self._epoch, state.epoch))
            made = Subscription(
                self,
                channel,
                condition,
                schema,
                since=next(number for number in (since, begin, state.epoch) if number is not None),
                snapshot=wants,
                moves=begin is None,
                until=until,
                every=pause,
                reset=reset,
            )
            channel.add(made)
            self.start()
        return made

    def remove(self, one: Subscription) -> None:
        """Removes a subscription that was closed."""
        for key, channel in list(self._channels.items()):
            if channel is one.channel:
                channel.remove(one)
                if not channel.by_values:
                    del self._channels[key]

    @property
    def subscriptions(self) -> list[Subscription]:
        """Those that are open."""
        with self.changed:
            return [one for channel in self._channels.values() for one in channel.subscriptions()]

    # following the ledger --------------------------------------------------------------------------

    def wake(self) -> None:
        """Looks for new commits at once."""
        with self.changed:
            self._woken = True
            self.changed.notify_all()

    def close(self) -> None:
        """Ends all subscriptions, and the thread."""
        with self.changed:
            self._closing = True
        for one in self.subscriptions:
            one.close()
        self.wake()
        thread = self._thread
        if thread is not None:
            thread.join()

    def start(self) -> None:
        """Starts to follow the ledger, if nothing does; called under the lock."""
        if self._thread is None and self._channels:
            self._epoch = min(channel.epoch for channel in self._channels.values())
            self._thread = threading.Thread(target=self._follow, name="viewkeeper-feeds", daemon=True)
            self._thread.start()

    def _follow(self) -> None:
        pause = LOOK_SECONDS if self.store.storage.local else LOOK_SECONDS_FAR
        while True:
            with self.changed:
                self._woken = False
                if self._closing or not self._channels:
                    self._thread = None
                    return
            try:
                self._advance()
            except BaseException:
                with self.changed:  # whoever asks for a frame derives it, and starts another thread
                    self._thread = None
                    self._all_behind()
                raise
            with self.changed:
                if not self._woken and not self._closing:
                    self.changed.wait(pause)

    def _advance(self) -> None:
        """Distributes the changes of new epochs; subscribers report it themselves if the ledger cannot be read."""
        try:
            held = self.store.hold()
            commits = commits_after(self.store.ledger, held.state, self._epoch)
        except ViewkeeperError:
            with self.changed:
                self._all_behind()
            return
        if not commits:
            return
        with self.changed:
            channels = list(self._channels.values())
        skips = len(commits) > MOST_FRAMES
        for commit in commits[-1:] if skips else commits:
            work = [channel for channel in channels if channel.epoch < commit.epoch]
            distribute = functools.partial(self._distribute, held, commit, skips=skips)
            if len(work) > 1:
                side_by_side(distribute, work, self.store.tuning.view_threads)
            for channel in work if len(work) == 1 else ():
                distribute(channel)
            with self.changed:
                self._epoch = commit.epoch

    def _all_behind(self) -> None:
        for channel in self._channels.values():
            for one in channel.subscriptions():
                one.fall_behind()

    def _distribute(self, held: Held, commit: Committed, channel: Channel, *, skips: bool) -> None:
        """Hands the change of an epoch to the live subscriptions of a channel."""
        with self.changed:
            channel.begun = commit.epoch
            values: frozenset[Values] = frozenset(
                key for key, several in channel.by_values.items() if any(one.is_live for one in several)
            )
        parts = channel.derive(held, commit, values) if values and not skips else {}
        with self.changed:
            if skips or parts is None:
                for one in channel.subscriptions():
                    one.fall_behind()
            else:
                for key, change in parts.items():
                    frame = frame_of(channel.followed.name, commit, change)
                    for one in channel.by_values.get(key, ()):
                        one.offer(frame)
            channel.epoch = commit.epoch
            self.changed.notify_all()


def _pause(every: str | float | None) -> float | str | None:
    """Seconds between frames, 'demand', or None for a frame per epoch."""
    if every is None or every == DEMAND:
        return every
    found = seconds(every)
    if found <= 0:
        raise SqlError("every is a duration above 0", hint="use for instance every='5 seconds', or 'demand'")
    return float(found)
