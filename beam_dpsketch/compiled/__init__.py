"""Compiled twins of functions of numpy, for the extra `fast`: `loading` says whether they are used."""
