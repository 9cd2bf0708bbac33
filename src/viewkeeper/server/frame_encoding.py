"""Frames as JSON and as Server-Sent Events: encoded once, however many subscribers get the same frame."""

from __future__ import annotations

import json
import threading
import weakref
from typing import Any

from viewkeeper.feed.epoch_frames import Frame
from viewkeeper.server.row_encoding import json_bytes, updates_of

MANY_ROWS = 1_000
"""Rows of a frame from which on it is encoded in a thread."""


class EncodedFrame:
    """A frame as text. `sse` is the event, `members` the document without its first bracket."""

    def __init__(self, frame: Frame) -> None:
        document = {
            "view": frame.view,
            "epoch": frame.epoch,
            "committed_at": frame.committed_at.isoformat(),
            "snapshot": frame.snapshot,
            "reset": frame.reset,
            "updates": updates_of(frame.change.rows),
        }
        body = json_bytes(document)
        self.sse = b"event: frame\nid: %d\ndata: %s\n\n" % (frame.epoch, body)
        self.members = body.decode()[1:]

    def message(self, key: str, columns: list[dict[str, Any]] | None) -> str:
        """The message of a WebSocket for the subscription of a key; with columns, if it is the first."""
        more = "" if columns is None else f'"columns":{json.dumps(columns)},'
        return f'{{"type":"frame","id":{json.dumps(key)},{more}{self.members}'


class FrameEncoder:
    """Encodes frames, and remembers what it has encoded as long as anyone holds the frame."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Frame, EncodedFrame] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def known(self, frame: Frame) -> EncodedFrame | None:
        """What is encoded already, or is so quickly that it is encoded now."""
        found = self._known.get(frame)
        if found is None and frame.change.rows.num_rows < MANY_ROWS:
            found = self.encode(frame)
        return found

    def encode(self, frame: Frame) -> EncodedFrame:
        """The frame as text."""
        found = self._known.get(frame)
        if found is None:
            found = EncodedFrame(frame)
            with self._lock:
                self._known[frame] = found
        return found


def progress_event(epoch: int) -> bytes:
    """The event that says up to which epoch nothing else will come."""
    return b'event: progress\nid: %d\ndata: {"epoch":%d}\n\n' % (epoch, epoch)


def error_event(document: dict[str, Any]) -> bytes:
    """The event that ends a stream."""
    return b"event: error\ndata: %s\n\n" % json_bytes(document)
