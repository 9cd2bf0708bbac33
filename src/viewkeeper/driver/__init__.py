"""The driver lane: expressions and operators over small tables, computed on the driver exactly as an engine does."""
