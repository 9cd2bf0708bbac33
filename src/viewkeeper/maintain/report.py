"""How a relation's part of a commit was done, as users see it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Report:
    """How a relation's part of a commit was done.

    For a view: `strategy` is incremental, full or none; files and rows are those read of the relations it is made of
    (its own stored contents are not counted), and `read` names them with the state they were read in.
    """

    strategy: str
    reason: str
    rows_changed: int
    files_read: int
    files_total: int
    seconds: float
    rows_read: int = 0
    read: tuple[str, ...] = ()
