"""Command `dpsketch` for releases and their files. `main` lists its commands.

Guarantee: stdout contains data, and stderr contains messages. Reading a release costs no privacy. Messages contain no
data value, except values that the caller typed.
"""
