"""A subscriber's copy of a view, kept by frames alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.feed.subscription import Subscription


class Copy:
    """The rows that the frames of a subscription add up to; checks that each frame follows the one before."""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.rows: Counter[tuple[Any, ...]] = Counter()
        self.epochs: list[int] = []

    def apply(self, frame: Frame) -> None:
        """Applies a frame."""
        assert not self.epochs or frame.epoch > self.epochs[-1], f"epoch {frame.epoch} after {self.epochs[-1]}"
        self.epochs.append(frame.epoch)
        if frame.snapshot:
            self.rows.clear()
        for row, weight in frame.change.weights().items():
            assert weight != 0
            self.rows[row] += weight
            assert self.rows[row] >= 0, f"{row} is deleted in epoch {frame.epoch} and is not there"
        self.rows = +self.rows

    def follow(self, epoch: int) -> Copy:
        """Applies frames until everything up to an epoch was handed out."""
        while self.subscription.epoch < epoch:
            frame = self.subscription.next(20.0)
            if frame is not None:
                self.apply(frame)
            else:
                assert self.subscription.epoch >= epoch, f"nothing came after epoch {self.subscription.epoch}"
        return self


def bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """Rows as a bag."""
    return Counter(rows)
