"""Missing values among unreadable ones, in lists of objects and in plain columns.

Plain types in a column of objects are listed too: equal values with two types are two ids, keys or items.
"""

from __future__ import annotations

import decimal
import itertools
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.columns import mask_undecodable
from beam_dpsketch.exact.domains.spelling import MISSING, TEXT, is_missing
from beam_dpsketch.words import BLANKS

LOOKED_AT = 512
"""Number of inspected values per bundle, once a usable value is found, and of values whose forms are recorded."""
UNDECODABLE = "\ufffd"


def present(given: Any, failed: np.ndarray, *, has_words: bool) -> tuple[Any, bool]:
    """Filter unreadable values that are not missing, and report whether text stands for a missing value."""
    if isinstance(given, list):
        lost = [*itertools.compress(given, failed.tolist())]
        left = [value for value in lost if not _is_missing(value, has_words)]
        return left, any(isinstance(value, str) and is_missing(value) for value in lost)
    values = given.filter(pa.array(failed)).drop_null()
    if pa.types.is_dictionary(values.type):
        values = values.dictionary.take(values.indices).drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if values.type != TEXT:
        return values, False
    texts = mask_undecodable(values)
    words = pc.utf8_lower(pc.utf8_trim(pc.utf8_trim_whitespace(texts), BLANKS))
    missing = pc.is_in(words, pa.array(sorted(MISSING) if has_words else [""], TEXT))
    return texts.filter(pc.invert(missing)), bool(pc.any(missing).as_py())


def _is_missing(value: Any, has_words: bool) -> bool:
    try:
        if isinstance(value, str):
            return is_missing(value) if has_words else not value
        if isinstance(value, tuple):
            return any(_is_missing(part, has_words) for part in value)
        return value is None or bool(value.is_nan() if isinstance(value, decimal.Decimal) else value != value)
    except Exception:  # pandas.NA raises; the message of another object could contain a value
        return type(value).__name__ == "NAType"


_PLAIN = {str: str, bytes: bytes, int: numbers.Integral}
_NAMES = {str: "text", bytes: "bytes", int: "whole numbers", tuple: "tuples"}


def types_of(read: Any, usable: np.ndarray) -> set[type]:
    """List the plain types (text, bytes, whole numbers) among usable values."""
    if isinstance(read, list):
        found = {*map(type, itertools.compress(read, usable.tolist()))}
    else:
        found = {type(read[place].as_py()) for place in np.flatnonzero(usable)[:1].tolist()}
    return {kind for kind, base in _PLAIN.items() if any(issubclass(each, base) for each in found)}


def named(kinds: Iterable[type]) -> str:
    """Name types in plain words."""
    return " and ".join(sorted({_NAMES.get(kind, kind.__name__) for kind in kinds}))
