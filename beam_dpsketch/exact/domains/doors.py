"""Sources of tables, and advice about a column in each source's words.

Shares of a column are reported in rounded words, which reveal no exact record count.
"""

from __future__ import annotations

import enum
import json
from typing import Any

import pyarrow as pa

from beam_dpsketch.exact.domains.base import is_text_type, unwrap_type
from beam_dpsketch.exact.domains.spelling import INTEGER, TIME, Meanings, Spelling

_FOR_EXAMPLE = ", for example with "
MOST = 0.01
"""Largest acceptable share of unreadable values in a column. A larger share is a mistake."""


def share_of(part: int, whole: int) -> str:
    """Describe a share in steps of 5 %, or as above or below 1 %."""
    return rounded(part, whole) or ("over 1 %" if part > MOST * whole else "under 1 %")


def rounded(part: int, whole: int) -> str:
    """Describe a share in steps of 5 %. Empty for a small share."""
    percent = round(20 * part / whole) * 5 if whole else 0
    words = "over 95 %" if percent == 100 else f"about {percent} %"
    return "all" if 0 < part == whole else words * bool(percent)


def sentence(advice: str) -> str:
    """Capitalize advice about a column."""
    return advice[:1].upper() + advice[1:]


class Door(enum.IntEnum):
    """Source of a table. A `TEXT_FILE` has no types, so settings define the meaning of text."""

    PANDAS, POLARS, ARROW, TEXT_FILE = range(4)

    def cast(self, way: str, name: Any, *more: str) -> str:
        """Write code that casts a column in this way."""
        return self._code(way, self._code("column", _quoted(name)), *map(_quoted, more))

    def _code(self, way: str, *parts: str) -> str:
        return _WAYS[way][self].format(*parts)

    def parse(
        self, name: Any, kind: pa.DataType, meanings: Meanings, declared: Spelling, *, are_mixed: bool = False
    ) -> str:
        """Describe how to convert text to numbers or times, with code only if a single meaning reads all of it.

        Args:
          name: name of the column.
          kind: type to convert the text to.
          meanings: possible meanings of the text.
          declared: declared number and time spelling.
          are_mixed: whether other objects are among the text.
        """
        found = meanings.spellings
        example = "1234" if kind == INTEGER else f"1234{declared.decimal}50"
        written = "write times as 2024-01-31T08:00:00Z" if kind == TIME else f"write numbers as {example}"
        if of_kind := declared.of_kind(kind).options:
            return f"{written}, or correct the declared {of_kind}"
        if self is Door.TEXT_FILE:
            options = " or ".join(each.options for each in found if each.options)
            return f"{written}, or declare {options}" if options else written
        if len(found) != 1:
            return written
        lenient = "lenient " * meanings.has_missing
        is_known = meanings.is_plain and found[0].date_format != "%s" and not (lenient and self is Door.ARROW)
        if not is_known or (are_mixed and found[0].thousands == "."):
            return f"{written}, in a column of {'times' if kind == TIME else 'numbers'}"
        if kind == TIME:
            code = self.cast(f"{lenient}time", name, found[0].date_format)
            return f"{written}, or convert the column{_FOR_EXAMPLE}{code}"
        is_cast = self is Door.ARROW or (are_mixed and self is Door.PANDAS)
        code = self.cast("text", name) if is_cast else self._code("column", _quoted(name))
        for pair in found[0].replaced:
            code = self._code("replace", code, *map(_quoted, pair))
        is_whole = kind == INTEGER and meanings.marks.isdisjoint({"e", "E", found[0].decimal})
        way = lenient + ("integer" if is_whole else "number")
        return f"convert the column to numbers{_FOR_EXAMPLE}{self._code(way, code)}"

    def to_numbers(self, name: Any, kind: pa.DataType) -> str:
        """Describe how to convert a text column to numbers."""
        return f"convert the column to numbers{self._as_with('integer' if kind == INTEGER else 'number', name)}"

    def to_times(self, name: Any, *, are_whole: bool) -> str:
        """Describe how to convert seconds since 1970 to times."""
        way = "column" if are_whole or self is Door.PANDAS else "round"
        code = self._code("column", _quoted(name)) if way == "column" else self.cast(way, name)
        return f"convert the column to times{_FOR_EXAMPLE}{self._code('seconds', code)} for seconds since 1970"

    def round(self, name: Any) -> str:
        """Describe how to round numbers."""
        return f"round the column{self._as_with('round', name)}"

    def to_ids(self, name: Any, kind: pa.DataType = pa.float64()) -> str:  # noqa: B008
        """Describe how to convert floats to ids. NaN becomes a missing id, and both zeros become equal."""
        if self is Door.TEXT_FILE:
            return "write whole numbers. If the point is part of the id, use Parquet with a text column"
        if pa.types.is_floating(unwrap_type(kind)):
            example = self._as_with("floats", name)
            return f"convert the column to text or whole numbers{example}, because 7 and 7.0 would differ"
        return self.to_text(name, kind)

    def read_whole(self, name: Any) -> str:
        """Describe how to read whole numbers that were floats."""
        code = "" if self is Door.TEXT_FILE else self._code("read", _quoted(name))
        how = f"read the column with {code}" if code else "write all digits"
        return f"{how}, or use text. Floats, and numbers with an exponent, lack the last digits"

    def to_text(self, name: Any, kind: pa.DataType | None = None) -> str:
        """Describe how to convert a column to text, bytes or numbers, with a distinct value for each of its values.

        The type is unknown for objects, and for values in dictionaries and runs.
        """
        if kind is None:
            return f"convert the column to text{self._as_with('nested' if self is Door.ARROW else 'text', name)}"
        kind = getattr(kind, "storage_type", kind)
        way = "bytes" if pa.types.is_binary(kind) else "text" if _casts_to_text(kind) else "nested"
        way = "whole" if self is Door.POLARS and pa.types.is_duration(kind) else way
        return f"convert the column to text{self._as_with(way, name)}"

    def _as_with(self, way: str, name: Any) -> str:
        return "" if self is Door.TEXT_FILE else f"{_FOR_EXAMPLE}{self.cast(way, name)}"


def _casts_to_text(kind: pa.DataType) -> bool:
    is_simple = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or is_text_type(kind)
    return is_simple and not pa.types.is_interval(kind)


def _quoted(text: Any) -> str:
    return json.dumps(text, ensure_ascii=False)


_TEXT = '{}.map(str, na_action="ignore")'
_JSON = "pl.when({0}.is_not_null()).then(pl.struct({0}).struct.json_encode())"
_EACH = "pa.array([None if x is None{} else str({}) for x in {{}}.to_pylist()])"
_WAYS = {
    "column": ("df[{}]", "pl.col({})", "table[{}]"),
    "replace": (
        "{}.str.replace({}, {})",
        "{}.str.replace_all({}, {}, literal=True)",
        "pc.replace_substring({}, {}, {})",
    ),
    "number": ("pd.to_numeric({})", "{}.cast(pl.Float64)", 'pc.cast({}, "double")'),
    "lenient number": ('pd.to_numeric({}, errors="coerce")', "{}.cast(pl.Float64, strict=False)", ""),
    "lenient integer": ('pd.to_numeric({}, errors="coerce").astype("Int64")', "{}.cast(pl.Int64, strict=False)", ""),
    "lenient time": ('pd.to_datetime({}, format={}, errors="coerce")', "{}.str.to_datetime({}, strict=False)", ""),
    "integer": ("pd.to_numeric({})", "{}.cast(pl.Int64)", 'pc.cast({}, "int64")'),
    "read": ('dtype={{{}: "Int64"}}', "schema_overrides={{{}: pl.Int64}}", "pa.field({}, pa.int64())"),
    "time": ("pd.to_datetime({}, format={})", "{}.str.to_datetime({})", 'pc.strptime({}, {}, "us")'),
    "seconds": ('pd.to_datetime({}, unit="s")', 'pl.from_epoch({}, "s")', 'pc.cast({}, pa.timestamp("s"))'),
    "round": (
        '{}.astype("float64").round().astype("Int64")',
        "{}.cast(pl.Float64).fill_nan(None).round().cast(pl.Int64)",
        'pc.cast(pc.if_else(pc.is_nan({0}), None, pc.round({0})), "int64")',
    ),
    "whole": ('{}.astype("Int64")', "{}.cast(pl.Int64)", 'pc.cast({}, "int64")'),
    "decoded": ('{}.map(bytes.decode, na_action="ignore")', "{}.cast(pl.String)", 'pc.cast({}, "string")'),
    "bytes": ('{}.str.encode("utf-8")', "{}.cast(pl.Binary)", 'pc.cast({}, "binary")'),
    "text": (_TEXT, "{}.cast(pl.String)", 'pc.cast({}, "string")'),
    "floats": (
        '{}.astype(float).add(0.0).map(str, na_action="ignore")',
        '{}.fill_nan(None).cast(pl.String).replace("-0.0", "0.0")',
        _EACH.format(" or x != x", "x + 0.0"),
    ),
    "objects": (_TEXT, "{}.map_elements(str, return_dtype=pl.String)", ""),
    "nested": (_TEXT, _JSON, _EACH.format("", "x")),
}
"""Code for pandas, Polars and Arrow."""
