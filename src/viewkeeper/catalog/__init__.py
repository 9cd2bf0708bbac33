"""The catalog as plain values: relations and their definitions, files and their bounds, the state of a database.

Nothing here reads or writes: `log` does.
"""
