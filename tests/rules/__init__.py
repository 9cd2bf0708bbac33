"""Active rules and assertions."""
