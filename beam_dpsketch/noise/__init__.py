"""Norm choice, key selection and noise for exact sketches, without Beam."""
