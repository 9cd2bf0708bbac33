"""Bytes and entries: storage, the ledger, leases, checksums, vacuum. No engine, no PySpark, no SQL.

storage (bytes, durable) -> ledger (entries, the state they fold to) -> leases (live processes) -> vacuum
"""
