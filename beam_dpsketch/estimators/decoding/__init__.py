"""Estimates of a whole dictionary together."""
