"""Estimates about two releases."""
