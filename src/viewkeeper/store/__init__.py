"""Parquet files of signed rows: writing batches, picking files by bounds, scans, compaction."""
