"""Checks before a pipeline runs: types, samples, steps that copy records, and runners."""
