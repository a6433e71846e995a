"""Flat sketches and lists after their noise: how their answers are read."""
