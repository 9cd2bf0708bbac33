"""How a view is kept: auxiliary relations, the order of propagation, incremental or full, and why."""
