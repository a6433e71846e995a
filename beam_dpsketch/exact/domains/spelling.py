"""Numbers and times as text: their spelling in CSV files, and words for missing values.

Guarantee: a text is read by its own characters and the declared spelling alone. Undeclared separators are never
guessed, and thousands must be grouped: with `thousands=","`, 1,234 and 1,23,456 are numbers, and 12,5 is not.

Meanings of a column are the number spellings or time formats that read all its text. Guarantee: if a single meaning
remains, any of its spellings reads each text of the column like its other known spellings.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import string
import unicodedata
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.domains.base import EXACT
from beam_dpsketch.exact.domains.timestamps import from_seconds, micros_of, read_iso
from beam_dpsketch.words import BLANKS

INTEGER, FLOAT, TIME, TEXT = pa.int64(), pa.float64(), pa.timestamp("us", "UTC"), pa.large_string()
_WORDS = "-|--|\u2013|\u2014|.|\\n|#n/a|#n/a n/a|#na|<na>|n/a|na|nan|-nan|nat|nil|none|null|<null>|(null)"
MISSING = frozenset(["", *_WORDS.split("|")])
"""Words for a missing number or time, in lower case. `docs/values.md` lists them."""
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_ALIKE = {" ": " \u00a0\u202f\u2007\u2009", "'": "'\u2019"}
"""Similar separators of thousands: blanks with several widths, and two apostrophes."""
_INFINITE = re.compile(r"[-+]?inf(inity)?", re.ASCII | re.IGNORECASE)
_SECONDS = re.compile(r"-?\d+(\.\d+)?", re.ASCII)
_NO_ID = r"^[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^[0-9]+E\+[0-9]+$"
_PLAIN = {
    INTEGER: r"^-?[0-9]{1,18}$",
    FLOAT: r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    TIME: r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
}
"""Text that Arrow reads like `Spelling`. Arrow is faster, but reads more: 0x1F, or 08:00+01."""
_SHAPE = {**dict.fromkeys(("Ll", "Lu", "Lt", "Lm", "Lo", "Mn"), "A"), "Nd": "\uff19", "Zs": " "}
_SHAPE |= dict.fromkeys(("So", "Sk", "Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "No", "Nl", "Mc", "Me"), "?")
_SHOWN = 24


def is_missing(text: str) -> bool:
    """Whether a text stands for a missing number or time."""
    return text.strip().strip(BLANKS).lower() in MISSING


def trim(texts: pa.Array, *, is_id: bool = False) -> pa.Array:
    """Remove surrounding blanks. Empty text becomes null, and so do ids that are numbers with a point.

    Programs that convert ids to floats write 7.0 in one file and 7 in another, which would count as two people.
    """
    trimmed = pc.utf8_trim(texts, BLANKS)
    gone = pc.equal(trimmed, "")
    return pc.if_else(pc.or_(gone, pc.match_substring_regex(trimmed, _NO_ID)) if is_id else gone, None, trimmed)


@dataclasses.dataclass(frozen=True)
class Spelling:
    """Number and time spelling in text, with the names from `pandas.read_csv`.

    Args:
      thousands: the thousands separator, as "," in 1,234, where a blank or an apostrophe includes its variants.
      decimal: the fraction separator, as "," in 12,5.
      date_format: the format of times, as "%d/%m/%Y", or "%s", seconds since 1970, or ISO 8601 by default.
    """

    thousands: str | None = None
    decimal: str = "."
    date_format: str | None = None

    def __post_init__(self) -> None:
        for name, mark in (("thousands", "," if self.thousands is None else self.thousands), ("decimal", self.decimal)):
            _validate.instance(str, **{name: mark})
            if len(mark) != 1 or mark.isalnum() or mark in "+-":
                raise ArgumentError(name, 'must be a single separator, such as "," or "."', "E620")
        if self.thousands == self.decimal:
            raise ArgumentError("thousands", f"must differ from decimal, which is {self.decimal!r}", "E620")
        if self.date_format is None:
            return
        _validate.instance(str, date_format=self.date_format)
        if "%" not in self.date_format:
            raise ArgumentError("date_format", 'must be a format such as "%d/%m/%Y", or "%s" for seconds', "E620")

    def read(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Parse a plain text column as numbers or times. Other text becomes null."""
        if pa.types.is_dictionary(texts.type):
            return self.read(texts.dictionary, kind).take(texts.indices)
        done = pc.fill_null(pc.match_substring_regex(texts, self._plain(kind)), True)
        try:
            found = pc.cast(pc.if_else(done, texts, None), kind)
        except pa.ArrowInvalid:  # nonexistent day
            done, found = texts.is_null(), pa.nulls(len(texts), kind)
        if pc.all(done).as_py() is not False:
            return found
        rest = texts.filter(pc.invert(done)).dictionary_encode()
        parsed = pa.array([self.parse(text, kind) for text in rest.dictionary.to_pylist()], kind)
        return pc.replace_with_mask(found, pc.invert(done), parsed.take(rest.indices))

    def parse(self, text: str, kind: pa.DataType) -> Any:
        """Parse a number, or a time in microseconds since 1970. `None` for other text."""
        text = text.strip(BLANKS)
        try:
            if kind == TIME:
                return micros_of(self._time(text))
            if self._number.fullmatch(text) is None:
                return float(text) if kind == FLOAT and _INFINITE.fullmatch(text) else None
        except (ValueError, OverflowError):
            return None
        plain = text.translate(dict.fromkeys(map(ord, self._marks))).replace(self.decimal, ".")
        if kind == FLOAT:
            return float(plain)
        number = min(max(Decimal(plain), Decimal(_LOWEST)), Decimal(_HIGHEST))
        has_lost_digits = "e" in plain.lower() and abs(number) >= EXACT
        return None if has_lost_digits or number != int(number) else int(number)

    def of_kind(self, kind: pa.DataType) -> Spelling:
        """Keep the settings that apply to numbers, or to times."""
        return Spelling(date_format=self.date_format) if kind == TIME else dataclasses.replace(self, date_format=None)

    @property
    def options(self) -> str:
        """Command options that declare this spelling."""
        marks = {"--thousands": self.thousands, "--decimal": self.decimal if self.decimal != "." else None}
        marks |= {"--date-format": self.date_format}
        return " ".join(f"{name} {_quoted(mark)}" for name, mark in marks.items() if mark is not None)

    @property
    def replaced(self) -> list[tuple[str, str]]:
        """Replacements in text that make it readable as numbers."""
        marks = [] if self.thousands is None else [(self.thousands, "")]
        return marks + [(self.decimal, ".")] * (self.decimal != ".")

    @property
    def _marks(self) -> str:
        return _ALIKE.get(self.thousands or "", self.thousands or "")

    @functools.cached_property
    def _number(self) -> re.Pattern[str]:
        mark, point = f"[{re.escape(self._marks)}]", re.escape(self.decimal)
        grouped = rf"|\d{{1,3}}({mark}\d{{3}})+|\d{{1,2}}({mark}\d\d)+{mark}\d{{3}}" if self._marks else ""
        form = rf"[-+]?((\d+{grouped})({point}\d*)?|{point}\d+)(e[-+]?\d{{1,4}})?"
        return re.compile(form, re.ASCII | re.IGNORECASE)

    def _plain(self, kind: pa.DataType) -> str:
        if kind == TIME:
            return _PLAIN[TIME] if self.date_format is None else "^$"
        return _PLAIN[kind if self.decimal == "." else INTEGER]

    def _time(self, text: str) -> Any:
        if self.date_format is None:
            return read_iso(text)
        if self.date_format == "%s":
            return from_seconds(float(text)) if _SECONDS.fullmatch(text) else None
        return datetime.datetime.strptime(text, self.date_format)


def shape(text: str) -> str:
    """Reduce text to its form, which reveals no value: digits as 9, words as A, and short."""
    marks = ("9" if mark in string.digits else _SHAPE.get(unicodedata.category(mark), mark) for mark in text.strip())
    found = re.sub(r"(\D)\1+", r"\1", "".join(marks))
    return (found if len(found) <= _SHOWN else f"{found[:_SHOWN]}...") if re.search(r"\w", found) else "signs alone"


def _quoted(mark: str) -> str:
    return f'"{mark}"' if set(mark) & set("' ") else mark


_MARKS = [("", "."), (",", "."), ("", ","), (".", ","), (" ", ","), (" ", "."), ("'", "."), ("'", ",")]
_DAYS = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y%m%d")
_FORMATS = ("%s", *(day + clock for day in _DAYS for clock in ("", " %H:%M", " %H:%M:%S")))
_NUMBERS = [Spelling(mark or None, point) for mark, point in _MARKS]
_TIMES = [Spelling(date_format=each) for each in _FORMATS]
_TYPOGRAPHIC = "[\u00a0\u202f\u2007\u2009\u2019]|^\\s|\\s$"
_MOST = 100_000


class Meanings:
    """Spellings that read all text so far.

    Attributes:
      marks: signs so far in numbers with a fraction or an exponent.
      is_plain: whether code that replaces separators works: no typographic separators, and no blanks around text.
      has_missing: whether text stands for missing values, which code must pass through.
    """

    def __init__(self) -> None:
        self.marks: set[str] = set()
        self.is_plain, self.has_missing = True, False
        self._found: dict[Spelling, int] | None = None

    def narrow(self, values: list[Any] | pa.Array, kind: pa.DataType) -> None:
        """Drop spellings that do not read these values as numbers or times. Objects other than text drop all."""
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
        if kind == TIME and len(distinct) > _MOST:  # each text is parsed individually
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
