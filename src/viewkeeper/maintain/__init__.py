"""The change of every stored view that a transaction reaches, level by level, one strategy per relation."""
