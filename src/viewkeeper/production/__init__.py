"""Production rules that keep a view true, derived from its definition (Ceri and Widom 1991)."""
