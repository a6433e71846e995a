"""Releases over time: which integer combinations of windows get noise, and how far one unit can move them."""
