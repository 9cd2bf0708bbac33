"""How a view is maintained: auxiliary relations, incremental or full, and why."""
