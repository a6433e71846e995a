"""Rows over time to estimates about windows."""
