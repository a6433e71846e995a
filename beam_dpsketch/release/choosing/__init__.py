"""Choices that the data make, privately: the norm of a release, and which keys are released."""
