"""The objects a user holds: database, transaction, table, view."""
