"""Estimates from the levels of a tree."""
