"""Failpoints, where a test may kill or stop this process: VIEWKEEPER_FAULT=kill:<point>[:n] or stop:<point>[:n].

The n-th time the point is reached (the first, if n is left out) the process gets SIGKILL or SIGSTOP.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "batch-before",
    "batch-half",
    "batch-written",
    "batch-synced",
    "entry-before",
    "entry-half",
    "entry-written",
    "entry-linked",
    "entry-synced",
    "snapshot-half",
    "snapshot-written",
    "compact-written",
    "compact-entered",
    "flush-before",
    "flush-half",
    "flush-written",
    "flush-entered",
    "strip-half",
    "strip-written",
    "strip-renamed",
    "vacuum-revoked",
    "vacuum-half",
)

DETACHED_POINTS = ("entry-synced", "detached-before-call", "detached-acted", "detached-ended")
"""Where the run of a detached rule's firing can end: after its commit, before and after its action, after its end."""

_seen: dict[str, int] = {}


def point(name: str) -> None:
    """A failpoint. Does nothing unless a test asks for a fault here."""
    wish = os.environ.get("VIEWKEEPER_FAULT")
    if not wish:
        return
    action, wanted, *rest = wish.split(":")
    if wanted != name:
        return
    _seen[name] = _seen.get(name, 0) + 1
    if _seen[name] == int(rest[0] if rest else 1):
        os.kill(os.getpid(), signal.SIGKILL if action == "kill" else signal.SIGSTOP)
