"""What reacts to commits: rules, feeds and housekeeping implement this, the commit calls it."""

from __future__ import annotations

from typing import Protocol

from viewkeeper.transaction.change import Commit
from viewkeeper.transaction.open_transaction import OpenTransaction


class CommitHook(Protocol):
    """Something that a database calls at the stages of every commit."""

    def begin(self, tx: OpenTransaction) -> None:
        """A commit begins, or begins again on a newer state: what it has noted of this transaction is void."""

    def before_writing(self, tx: OpenTransaction) -> bool:
        """Sees the changes of all tables and views, and may change tables; whether it did.

        Called after every round of propagation until no hook changes anything. If others have committed meanwhile, what
        hooks have changed is taken back and they are called again: effects outside of the database belong into
        `tx.effects`.
        """

    def after_entry(self, tx: OpenTransaction, done: Commit) -> None:
        """Is told of a transaction that is in the ledger."""
