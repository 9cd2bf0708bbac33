"""Ctrl-C stays with the process: the SIGINT handlers that engines install at their start are removed.

Sail shuts its server down on SIGINT, although it shares the process with the user: the next call would retry for
minutes. PySpark replaces the user's handler by its own.
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
"""Bytes for a `struct sigaction` on any platform."""

_PATIENCE = 5.0
"""Seconds within which a server that starts in the background sets its handler; usually milliseconds."""


@contextlib.contextmanager
def keeping_sigint() -> Iterator[None]:
    """Restores the SIGINT handler that a server replaces from its own thread, unseen by Python.

    Until then the signal is blocked, so that the server does not get it; in the server's threads it stays blocked.
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
    """The address of the signal's handler: the first field of the structure; the rest has padding."""
    return bytes(handler.raw[: ctypes.sizeof(ctypes.c_void_p)])


@contextlib.contextmanager
def keeping_python_sigint() -> Iterator[None]:
    """Restores the Python handler of SIGINT."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)
