"""Answers about the items of a dictionary."""
