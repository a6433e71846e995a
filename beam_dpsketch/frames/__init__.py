"""Releases of tables in this process, without Beam, with the same reading, bounding, sums and noise as in pipelines."""
