"""Viewkeeper keeps views exactly true while their tables change, on Spark.

import viewkeeper as vk
db = vk.connect("lake")
"""

from importlib.metadata import version as _version

from viewkeeper import errors
from viewkeeper.database import Database, Table, Transaction, connect
from viewkeeper.transaction.change import Change, Commit
from viewkeeper.transaction.result import Result

__version__ = _version("viewkeeper")

__all__ = ["Change", "Commit", "Database", "Result", "Table", "Transaction", "connect", "errors"]
