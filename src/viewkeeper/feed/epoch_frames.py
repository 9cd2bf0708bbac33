"""Frames: what subscribers get, one closed epoch at a time."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from viewkeeper.transaction.change import Change


@dataclass(frozen=True)
class Frame:
    """The net change of what is followed up to an epoch, since the frame before.

    `snapshot`: the change holds all rows of that epoch. `reset`: what the subscriber had is not continued by it,
    because the changes in between are no longer kept.
    """

    view: str
    epoch: int
    committed_at: dt.datetime
    change: Change
    snapshot: bool = False
    reset: bool = False
