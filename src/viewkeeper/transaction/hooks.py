"""The protocol of what reacts to commits: active rules, feeds and housekeeping implement it, the commit calls it."""

from __future__ import annotations

from typing import Protocol

from viewkeeper.transaction.change import Commit
from viewkeeper.transaction.open_transaction import OpenTransaction


class CommitHook(Protocol):
    """Something that a database calls at the stages of every commit."""

    def begin(self, tx: OpenTransaction) -> None:
        """Called when a commit begins, or begins again on a newer state: discards its records of the transaction."""

    def before_writing(self, tx: OpenTransaction) -> bool:
        """Sees the changes of all tables and views, and may change tables; returns whether it did.

        Called after every round of propagation until no hook changes anything. If others have committed meanwhile, the
        changes of hooks are undone and they are called again, so effects outside the database belong in `tx.effects`.
        """

    def after_entry(self, tx: OpenTransaction, done: Commit) -> None:
        """Called when the transaction is in the ledger."""
