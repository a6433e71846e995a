"""Decode a whole public dictionary at once: what is known of one item makes the others closer."""
