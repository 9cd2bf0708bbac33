"""Statements: SQL and Datalog that change tables or definitions, and EXPLAIN, one function per statement."""
