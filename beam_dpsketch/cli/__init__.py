"""The command `dpsketch`, which reads release files: `main` lists its commands.

Guarantee: data goes to stdout, all else to stderr. Nothing is released here, so no question costs privacy. No message
contains an element's value, other than the caller's own.
"""
