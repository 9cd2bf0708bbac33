"""What can be said of a view before it is created, and what its author could do about it."""
