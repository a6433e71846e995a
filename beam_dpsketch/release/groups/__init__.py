"""Grouped counts: exact counts to noisy ones, and what they answer."""
