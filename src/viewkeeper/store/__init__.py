"""Storage: Parquet files of signed rows, named by one exclusive ledger.

storage (bytes, durable) -> ledger (entries, state) -> batch (files and bounds) -> scan (reading) -> compaction, vacuum
"""
