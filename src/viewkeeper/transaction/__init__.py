"""Transactions: the net change they gather, constraints, ingest, conflicts, and the commit."""
