"""Viewkeeper keeps views exactly true while their tables change, on Spark.

import viewkeeper as vk
db = vk.connect("lake")
"""

import importlib
from typing import TYPE_CHECKING, Any

from viewkeeper import errors

if TYPE_CHECKING:
    from viewkeeper import client
    from viewkeeper.algebra.tuning import Tuning
    from viewkeeper.api.database import Database, connect
    from viewkeeper.api.table import Table
    from viewkeeper.api.transaction import Transaction
    from viewkeeper.api.view import View
    from viewkeeper.query.result import Result
    from viewkeeper.transaction.change import Change, Commit

    __version__: str

__all__ = [
    "Change",
    "Commit",
    "Database",
    "Result",
    "Table",
    "Transaction",
    "Tuning",
    "View",
    "client",
    "connect",
    "errors",
]

_HOMES = {
    "Change": "viewkeeper.transaction.change",
    "Commit": "viewkeeper.transaction.change",
    "Database": "viewkeeper.api.database",
    "Result": "viewkeeper.query.result",
    "Table": "viewkeeper.api.table",
    "Transaction": "viewkeeper.api.transaction",
    "Tuning": "viewkeeper.algebra.tuning",
    "View": "viewkeeper.api.view",
    "connect": "viewkeeper.api.database",
}


def __getattr__(name: str) -> Any:
    """Imports PySpark and the rest when they are first needed, so that small commands start at once."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("viewkeeper")
    elif name == "client":
        value = importlib.import_module("viewkeeper.client")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'viewkeeper' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "__version__", "client"])
