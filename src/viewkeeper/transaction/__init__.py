"""Transactions: net effect, constraints, statements and the commit protocol.

A statement becomes a change of one table; the change is checked; it joins the transaction's net change; commit writes
the batches and then the one ledger entry.
"""
