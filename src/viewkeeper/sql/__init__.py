"""SQL text: its statements, the tables in a query, and queries as algebra.

Functions and literals stay verbatim in expressions.
"""
