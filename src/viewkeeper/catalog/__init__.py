"""What a database is made of, as plain values: relations and their definitions, files and their bounds, the state.

Nothing here reads or writes: `log` does.
"""
