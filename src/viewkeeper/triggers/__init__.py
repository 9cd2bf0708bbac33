"""Trigger scripts that keep a view true elsewhere: production rules as text (Ceri and Widom 1991), and PostgreSQL's
triggers, printed from the laws of change."""
