"""Scripts that maintain a view in another system: production rules as text (Ceri and Widom 1991), and triggers for
PostgreSQL, printed from the laws of change."""
