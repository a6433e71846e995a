"""The interface of 0.1.0, as files: names and signatures, command options, settings and error codes.

`python -m tests.frozen` writes them again. After 0.1.0, lines may be added, and change as the version policy allows.
Stored bytes have files of their own in `tests/vectors/`.
"""
