"""Kinds of releases: each says what its counters are, how its noise is worked out, and what to expect of it."""
