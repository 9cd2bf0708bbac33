"""Queries over a state: SELECT, results, views that store nothing, verification."""
