"""Running statements: Ctrl-C and a time limit end them, whatever the engine is doing.

Another thread makes each call of the engine. The caller waits for it, and can abandon it at any moment: the engine is
then interrupted by the statement's tag, and the result of the call is dropped. It must be dropped, because Sail ends an
interrupted query as if it had no more rows.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import os
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from viewkeeper.errors import StatementTimeout

T = TypeVar("T")
S = TypeVar("S")

GRACE = 1.0
"""Seconds that a stopped statement waits for its calls to end."""

_LOOK = 0.1
"""Seconds between two checks of a waiting thread: a signal that another thread got does not wake it."""

_ASK_AGAIN = 0.5
"""Seconds until the engine is interrupted again: a query that it has not begun yet does not have the tag."""

_GIVE_UP = 60.0
"""Seconds after which an engine that does not stop is no longer interrupted."""

_current: contextvars.ContextVar[Statement | None] = contextvars.ContextVar("viewkeeper_statement", default=None)


class _Caller:
    """A thread that makes calls of the engine, one at a time."""

    _idle: ClassVar[list[_Caller]] = []
    """The threads without a call; taking one and giving it back are atomic."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="viewkeeper-engine-call", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._waiting.get()()
            self._idle.append(self)

    @staticmethod
    def make(call: Callable[[], None]) -> None:
        """Makes a call in an idle thread, or in a new one."""
        try:
            caller = _Caller._idle.pop()
        except IndexError:
            caller = _Caller()
        caller._waiting.put(call)


os.register_at_fork(after_in_child=_Caller._idle.clear)  # a child process has none of these threads


class _Call:
    """One call of the engine, made by another thread."""

    def __init__(self, session: Any, tag: str, action: Callable[[], Any]) -> None:
        self.session = session
        self.wake = threading.Event()  # it is over, or the statement was stopped
        self.is_over = False
        self.result: Any = None
        self.problem: BaseException | None = None
        context = contextvars.copy_context()
        _Caller.make(lambda: context.run(self._work, tag, action))

    def _work(self, tag: str, action: Callable[[], Any]) -> None:
        _current.set(None)
        try:
            self.session.addTag(tag)  # of this thread
            try:
                self.result = action()
            finally:
                self.session.removeTag(tag)
        except BaseException as problem:  # raised again by the waiting thread
            self.problem = problem
        finally:
            self.is_over = True
            self.wake.set()


def _wait_for(calls: Iterable[_Call], seconds: float) -> bool:
    """Whether some calls are over; waits for them up to so many seconds."""
    until = time.monotonic() + seconds
    while not all(call.is_over for call in calls):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


class Statement:
    """A user's statement while it runs; `limit` is how many seconds it may take."""

    def __init__(self, limit: float | None) -> None:
        self.tag = f"viewkeeper-{uuid.uuid4().hex}"
        self.limit = limit
        self._deadline = None if limit is None else time.monotonic() + limit
        self._calls: set[_Call] = set()
        self._why: Callable[[], BaseException] | None = None
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raises if the statement was stopped or has taken too long; called between the steps of long work."""
        if self._why is None and self._is_late:
            self.stop(self._too_long)
        if self._why is not None:
            raise self._why()

    @property
    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def blame(self, problem: Exception) -> None:
        """Raises why the statement was stopped, if a problem is only a consequence of that."""
        if self._why is not None and not isinstance(problem, StatementTimeout):
            raise self._why() from problem

    def call(self, session: Any, action: Callable[[], T]) -> T:
        """The result of a call of the engine; the call is abandoned once the statement is stopped."""
        self.check()
        call = _Call(session, self.tag, action)
        with self._lock:
            self._calls.add(call)
            late = self._why is not None
        if late:  # it was stopped before this call was registered
            self._tell([call])
        try:
            self._wait(call)
        finally:
            with self._lock:
                self._calls.discard(call)
        if call.problem is not None:
            raise call.problem
        found: T = call.result
        return found

    def _wait(self, call: _Call) -> None:
        try:
            while not call.wake.wait(_LOOK) and not self._is_late:
                pass
        except BaseException:
            self.stop(KeyboardInterrupt)
            raise
        if not call.is_over and self._why is None:
            self.stop(self._too_long)
        if self._why is not None:
            raise self._why()

    def stop(self, why: Callable[[], BaseException]) -> None:
        """Ends the statement: all threads that wait for the engine get an exception, and the engine is interrupted."""
        with self._lock:
            if self._why is not None:
                return
            self._why = why
            calls = list(self._calls)
        if calls:
            self._tell(calls)
            _wait_for(calls, GRACE)

    def _tell(self, calls: list[_Call]) -> None:
        for call in calls:
            call.wake.set()
        threading.Thread(target=self._interrupt, args=(calls,), name="viewkeeper-interrupt", daemon=True).start()

    def _interrupt(self, calls: list[_Call]) -> None:
        until = time.monotonic() + _GIVE_UP
        while time.monotonic() < until:
            for session in {id(call.session): call.session for call in calls if not call.is_over}.values():
                with contextlib.suppress(Exception):  # an engine that has ended runs nothing
                    session.interruptTag(self.tag)
            if _wait_for(calls, _ASK_AGAIN):
                return

    def _too_long(self) -> StatementTimeout:
        return StatementTimeout(
            f"the statement took longer than its time limit of {_spelled(self.limit or 0.0)}",
            detail="it was stopped, and nothing was changed",
            hint="SET statement_timeout = '10 minutes' gives it more time, SET statement_timeout = 0 any",
        )


def _spelled(limit: float) -> str:
    return f"{limit:g} second" if limit == 1 else f"{limit:g} seconds"


@contextlib.contextmanager
def statement(limit: float | None) -> Iterator[Statement]:
    """The statement that all work inside belongs to: the one that runs already, or a new one with a time limit."""
    running = _current.get()
    if running is not None:
        yield running
        return
    made = Statement(limit)
    token = _current.set(made)
    try:
        yield made
    except KeyboardInterrupt:
        made.stop(KeyboardInterrupt)
        raise
    except Exception as problem:
        made.blame(problem)
        raise
    finally:
        _current.reset(token)


def running_statement() -> Statement | None:
    """The statement that runs in this thread, if any."""
    return _current.get()


def check_stopped() -> None:
    """Raises if the statement that runs was stopped or has taken too long."""
    running = _current.get()
    if running is not None:
        running.check()


def side_by_side(work: Callable[[S], T], items: Iterable[S], threads: int) -> list[T]:
    """The results of a function for several items, computed by threads that end with the statement."""
    running = _current.get()
    with concurrent.futures.ThreadPoolExecutor(max_workers=threads) as pool:
        coming = [pool.submit(contextvars.copy_context().run, work, item) for item in items]
        try:
            return [future.result() for future in coming]
        except BaseException as problem:
            for future in coming:
                future.cancel()
            if running is not None and isinstance(problem, KeyboardInterrupt):
                running.stop(KeyboardInterrupt)  # else leaving the pool would wait for the engine
            raise
