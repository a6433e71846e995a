"""Which plain types a column of objects holds: equal values of two types are two ids, two keys or two items."""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

_PLAIN = {str: str, bytes: bytes, int: numbers.Integral}
_NAMES = {str: "text", bytes: "bytes", int: "whole numbers", tuple: "tuples"}


def types_of(read: Any, usable: np.ndarray) -> set[type]:
    """Return which of text, bytes and whole numbers are among the values that can be used."""
    if isinstance(read, list):
        found = {*map(type, itertools.compress(read, usable.tolist()))}
    else:
        found = {type(read[place].as_py()) for place in np.flatnonzero(usable)[:1].tolist()}
    return {kind for kind, base in _PLAIN.items() if any(issubclass(each, base) for each in found)}


def named(kinds: Iterable[type]) -> str:
    """Return types in words."""
    return " and ".join(sorted({_NAMES.get(kind, kind.__name__) for kind in kinds}))
