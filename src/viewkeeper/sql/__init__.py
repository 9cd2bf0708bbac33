"""SQL text: splitting it into statements, reading the statements that are ours, and finding the tables in a query.

Expressions and queries stay verbatim; only table names are replaced, at their places in the text.
"""
