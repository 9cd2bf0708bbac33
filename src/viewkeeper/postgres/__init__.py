"""Rules for PostgreSQL: the triggers that keep a view true there, printed from the laws of change."""
