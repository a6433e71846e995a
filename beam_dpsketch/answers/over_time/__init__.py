"""Released rows over time, and answers about windows."""
