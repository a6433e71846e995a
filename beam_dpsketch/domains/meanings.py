"""What the text of a column may mean: the spellings of numbers, or formats of times, that read all of it.

Guarantee: with one meaning, any of its spellings reads each text of the column, as the others that are known would.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.domains.spelling import FLOAT, TEXT, TIME, Spelling

_MARKS = [("", "."), (",", "."), ("", ","), (".", ","), (" ", ","), (" ", "."), ("'", "."), ("'", ",")]
_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d")
_FORMATS = ("%s", *(day + clock for day in _DAYS for clock in ("", " %H:%M", " %H:%M:%S")))
_NUMBERS = [Spelling(mark or None, point) for mark, point in _MARKS]
_TIMES = [Spelling(date_format=each) for each in _FORMATS]
_TYPOGRAPHIC = "[\u00a0\u202f\u2007\u2009\u2019]|^\\s|\\s$"
_MOST = 100_000


class Meanings:
    """The spellings that read all text so far.

    Attributes:
      marks: the signs so far that a number with a fraction or an exponent may have.
      is_plain: whether code that replaces separators finds them: there are no typographic ones, nor blanks around text.
      has_missing: whether text stands for missing values, which code must let pass.
    """

    def __init__(self) -> None:
        self.marks: set[str] = set()
        self.is_plain, self.has_missing = True, False
        self._found: dict[Spelling, int] | None = None

    def narrow(self, values: list[Any] | pa.Array, kind: pa.DataType) -> None:
        """Leave out spellings that do not read these values as numbers or times; other objects than text leave none."""
        if self._found is None:
            self._found = dict.fromkeys(_TIMES if kind == TIME else _NUMBERS, 0)
        try:
            values = pa.array(values, TEXT) if isinstance(values, list) else values
        except (pa.ArrowException, TypeError, ValueError):  # not text, or text that is not valid Unicode
            values = pa.nulls(len(values), TEXT)
        if values.type != TEXT or values.null_count:
            self._found = {}
            return
        distinct = values.unique()
        if kind == TIME and len(distinct) > _MOST:  # each is parsed alone
            self._found = {}
        self.is_plain &= not pc.any(pc.match_substring_regex(distinct, _TYPOGRAPHIC)).as_py()
        self.marks |= {mark for mark in ".,eE" if pc.any(pc.match_substring(distinct, mark)).as_py()}
        for spelling, before in [*self._found.items()]:
            read = spelling.read(distinct, TIME if kind == TIME else FLOAT)
            del self._found[spelling]
            if not read.null_count:
                self._found[spelling] = hash((before, read.to_numpy(zero_copy_only=False).tobytes()))

    @property
    def spellings(self) -> list[Any]:
        """One spelling for each meaning."""
        return [*{meaning: each for each, meaning in reversed((self._found or {}).items())}.values()][::-1]
