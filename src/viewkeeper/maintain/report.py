"""The report on one relation of a commit, as users see it."""

from __future__ import annotations

from dataclasses import dataclass

WRITTEN = "change"
"""The strategy in the report on a base table."""


@dataclass(frozen=True)
class Report:
    """How one relation was changed by a commit.

    For a view: `strategy` is incremental, full or none; files and rows are those read of its inputs (its own stored
    contents are not counted), and `read` names these with the state they were read in. `lane` is "driver" if no query
    of the engine was needed, else "engine".
    """

    strategy: str
    reason: str
    rows_changed: int
    files_read: int
    files_total: int
    seconds: float
    rows_read: int = 0
    read: tuple[str, ...] = ()
    lane: str = ""
