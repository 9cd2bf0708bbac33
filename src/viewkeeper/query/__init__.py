"""Queries over a state: SELECT, results, virtual views, verification."""
