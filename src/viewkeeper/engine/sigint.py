"""Ctrl-C stays with the process: what engines do with the signal when they start is undone.

Sail takes SIGINT for a wish to shut its server down, in a process that it shares with the user: the next call would
wait in retries for minutes. PySpark puts a handler of its own in the place of the user's.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

_STRUCT_BYTES = 256
"""More than `struct sigaction` takes anywhere."""

_PATIENCE = 5.0
"""Seconds in which a server that starts in the background sets its handler; some milliseconds, usually."""


@contextlib.contextmanager
def keeping_sigint() -> Iterator[None]:
    """Puts the handler of SIGINT back that a server sets from a thread of its own; Python does not see that one.

    Until then the signal waits, so that the server does not get it; and the server's threads never do.
    """
    sigaction = getattr(ctypes.CDLL(None), "sigaction", None)
    if sigaction is None:
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    before = _handler(sigaction)
    try:
        yield
        until = time.monotonic() + _PATIENCE
        while _address(_handler(sigaction)) == _address(before) and time.monotonic() < until:
            time.sleep(0.002)
    finally:
        sigaction(int(signal.SIGINT), before, None)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _handler(sigaction: Any) -> Any:
    found = ctypes.create_string_buffer(_STRUCT_BYTES)
    sigaction(int(signal.SIGINT), None, found)
    return found


def _address(handler: Any) -> bytes:
    """Where the function is that handles the signal: the first field of the structure; the rest has holes."""
    return bytes(handler.raw[: ctypes.sizeof(ctypes.c_void_p)])


@contextlib.contextmanager
def keeping_python_sigint() -> Iterator[None]:
    """Puts the Python handler of SIGINT back that was there before."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)
