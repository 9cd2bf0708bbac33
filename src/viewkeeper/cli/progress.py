"""Progress bars on a terminal; nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from viewkeeper.cli.output import stderr

if TYPE_CHECKING:
    from viewkeeper.api.database import Database


@contextlib.contextmanager
def moving(description: str) -> Iterator[None]:
    """A bar that moves during work of unknown length."""
    with _bar() as progress:
        if progress is not None:
            progress.add_task(description, total=None)
        yield


@contextlib.contextmanager
def of_views(db: Database) -> Iterator[None]:
    """A bar for the views that a commit maintains, shown as soon as there is one."""
    with _bar() as progress:
        if progress is None:
            yield
            return
        shown = progress.add_task("", total=None, visible=False)

        def tell(name: str, done: int, total: int) -> None:
            progress.update(shown, description=f"maintaining {name}", completed=done, total=total, visible=done < total)

        with db.progress(tell):
            yield


@contextlib.contextmanager
def _bar() -> Iterator[Progress | None]:
    if not sys.stderr.isatty():
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True) as progress:
        yield progress
