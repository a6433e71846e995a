"""Releases over time: rows with noise, and the answers about windows that are made of them."""
