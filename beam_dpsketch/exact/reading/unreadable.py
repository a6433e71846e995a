"""Unreadable values in columns of records, by argument: counting, refusal, and messages.

A value is *missing* if it is null, NaN or empty, or, among numbers and times, a word in `domains.spelling.MISSING`. It
is *unreadable* if it is neither missing nor has the required form. A table with more than 1 % unreadable values in a
column is refused before privacy budget is spent. Smaller shares are reported. Pipeline steps cannot refuse, so they log
the argument once per worker. Messages about tables show shares in steps of 5 % and shapes, as 9,999.99. Logs show no
number. Neither shows a value. Whether a message appears depends on the data, as docs/limits.md explains.
"""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import functools
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import decode, encode, is_unicode
from beam_dpsketch.errors import AllAtOnce, ArgumentError
from beam_dpsketch.exact.domains.base import EXACT
from beam_dpsketch.exact.domains.doors import MOST, Door, rounded, sentence, share_of
from beam_dpsketch.exact.domains.missing import LOOKED_AT, UNDECODABLE, named, present, types_of
from beam_dpsketch.exact.domains.spelling import FLOAT, TIME, Meanings, Spelling, shape
from beam_dpsketch.exact.domains.weights import parse_weights
from beam_dpsketch.exact.reading.columns import Readable
from beam_dpsketch.exact.reading.selectors import column_of, describe_argument

UNREADABLE = ("refuse", "drop")
"""Options for a table with many unreadable values."""
MANY = 100
"""Minimum number of values per bundle for a log message."""
_TEXT, _FRACTION, _LOST, _NOT_UTF_8, _OTHER = "text", "fraction", "lost", "not UTF-8", "other"
_SHOWN = 3
_ROLES = {"weight", "privacy_id", "key", "time"}
_DROP = "To drop these rows, set unreadable: drop (in a shell: --unreadable drop). "
_LOG = logging.getLogger(__name__)


class Listing(NamedTuple):
    """Listed values of an argument, and a function that marks listed values, as bool."""

    values: Callable[[], Iterable[Any]]
    find: Callable[[Any], np.ndarray]


@dataclasses.dataclass
class _Seen:
    """Counts of an argument's values. Values `outside` are readable but unlisted, or in no window."""

    values = usable = unreadable = outside = 0
    has_negative: bool = False
    forms: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    unlisted: set[Any] = dataclasses.field(default_factory=set)
    types: set[type] = dataclasses.field(default_factory=set)
    meanings: Meanings = dataclasses.field(default_factory=Meanings)

    @property
    def is_unused(self) -> bool:
        """Whether no value counts."""
        return self.usable == self.outside

    @property
    def is_readable(self) -> bool:
        """Whether few enough of the values that are not missing are unreadable."""
        return self.unreadable <= MOST * (self.unreadable + self.usable)


class Tally:
    """Counter of readable values, per argument.

    Args:
      readables: requirements for each argument.
      fields: selector per argument.
      listings: listed values of arguments, if any.
      door: source of the records.
      spelling: number and time spelling, if all columns are text.
      is_sampled: whether to inspect only some values, as pipeline steps do.
    """

    def __init__(
        self,
        readables: Mapping[str, Readable],
        fields: Mapping[str, Any],
        listings: Mapping[str, Listing] = {},
        *,
        door: Door = Door.ARROW,
        spelling: Spelling | None = None,
        is_sampled: bool = False,
    ) -> None:
        self.door, self.spelling, self.of_table = door, spelling, not is_sampled
        self._readables, self._fields, self._listings = readables, fields, listings
        self._seen = {argument: _Seen() for argument in readables}

    def note_rows(self, columns: Mapping[str, Any]) -> None:
        for argument, values in columns.items():
            self.note(argument, values, values)

    def use(self, argument: str) -> None:
        """Count a usable value, if it is among the first."""
        seen = self._seen[argument]
        if seen.values < LOOKED_AT or not seen.usable:
            seen.values += 1
            seen.usable += 1

    def leave_out(self, argument: str, count: int) -> None:
        """Count readable values that are outside."""
        self._seen[argument].outside += count

    def note_outside(self, argument: str, usable: int, outside: int) -> None:
        """Count usable values, and how many are outside."""
        seen = self._seen[argument]
        seen.values, seen.usable, seen.outside = seen.values + usable, seen.usable + usable, seen.outside + outside

    def counting(self, argument: str, values: Any) -> np.ndarray:
        """Mark values, after reading, that count, as bool."""
        usable, listing = self._readables[argument].usable(values), self._listings.get(argument)
        return usable if listing is None else usable & listing.find(values)

    def note(self, argument: str, given: Any, read: Any) -> None:
        """Count values before and after reading: two lists, or two plain columns."""
        seen = self._seen[argument]
        first = len(given) if self.of_table else max(0, LOOKED_AT - seen.values)
        if first:
            self._note(seen, argument, given[:first], read[:first])
        if len(given) > first and seen.is_unused:
            self._note(seen, argument, given[first:], read[first:])

    def _note(self, seen: _Seen, argument: str, given: Any, read: Any) -> None:
        readable = self._readables[argument]
        usable, listing = readable.usable(read), self._listings.get(argument)
        seen.values += len(usable)
        seen.usable += int(np.count_nonzero(usable))
        if not usable.all():
            left, has_missing = present(given, ~usable, has_words=readable.parsed is not None or readable.is_partial)
            seen.unreadable += len(left)
            some = left[:LOOKED_AT] if isinstance(left, list) else left[:LOOKED_AT].to_pylist()
            with contextlib.suppress(Exception):  # from odd objects; the message could leak a value into logs
                spelling = None if readable.parsed == TIME else self.spelling
                seen.forms.update(_form(UNDECODABLE if each is None else each, spelling) for each in some)
            if self.of_table and readable.parsed is not None:
                seen.meanings.has_missing |= has_missing
                seen.meanings.narrow(left, readable.parsed)
        if listing is not None and (outside := usable & ~listing.find(read)).any():
            seen.outside += int(np.count_nonzero(outside))
            if len(seen.unlisted) < LOOKED_AT:
                seen.unlisted.update(decode(encode(value)) for value in _taken(read, outside))
        if argument == "privacy_id" and self.of_table:
            seen.types |= types_of(read, usable)
        if argument == "weight" and self.of_table:
            seen.has_negative |= bool((parse_weights(read)[0] < 0).any())

    def refuse(self, *, drops: bool = False, is_whole: bool = True) -> None:
        """Raise if columns have too many unreadable values, unless dropping is allowed, or if ids have two types.

        If this is the whole table, raise if no row counts.
        """
        with AllAtOnce() as checks:
            unused = self._unused() if is_whole else set()
            for argument, seen in self._seen.items():
                is_empty = argument in unused
                if not seen.is_readable and (is_empty or not drops):
                    way = "Without these rows, no row would count. " * drops if is_empty else _DROP
                    words = f"{self._words(argument, seen)}. {way}Nothing was spent."
                    checks.refuse(ArgumentError("", words, "E618"))
                elif is_empty and (why := self._of_no_use(argument, seen)):
                    words = f"{self._described(argument)} {why}. Nothing was spent."
                    checks.refuse(ArgumentError("", words, "E619"))
                if len(seen.types) > 1:
                    fix = "decode the bytes" if bytes in seen.types else self.door.to_text(self._fields[argument])
                    words = f"{self._described(argument)} contains {named(seen.types)}, so a person may have two ids. "
                    checks.refuse(ArgumentError("", f"{words}{sentence(fix)}. Nothing was spent.", "E618"))

    def _unused(self) -> set[str]:
        """Arguments without a value that counts, if no row counts. Single metrics may have none."""
        unused = {argument for argument, seen in self._seen.items() if seen.values and seen.is_unused}
        items = {argument for argument in self._seen if not _is_role(argument)}
        return unused if items <= unused else unused - items

    def _of_no_use(self, argument: str, seen: _Seen) -> str:
        """Explain why no row would count. Empty if values have a listed type, and might have been listed."""
        found, listed = ({*map(type, values)} for values in (seen.unlisted, self._listed(argument)))
        if not seen.usable:
            return "has no value in any row, so no row would count. Use another column"
        if self._is_time(argument):
            words = f"is outside the declared {_range(argument)} in every row"
            return f"{words}, so no row would count. Check start and end"
        if not found or not found.isdisjoint(listed):
            return ""
        types = named(found)
        return f"contains {types}, but the list contains {named(listed)}, so no row would count. List {types}"

    def _near(self, argument: str) -> str:
        unlisted, listed = ({*map(_loosely, each)} for each in (self._seen[argument].unlisted, self._listed(argument)))
        return "" if unlisted.isdisjoint(listed) else ", though some differ only in spaces or capital letters"

    def told(self, *, is_signed: bool) -> Iterator[str]:
        """Yield messages to the table's owner about rows that do not count."""
        for argument, seen in self._seen.items():
            described = self._described(argument)
            if seen.unreadable:
                yield f"{self._words(argument, seen)}. These rows do not count."
            share = rounded(seen.values - seen.usable - seen.unreadable, seen.values)
            if share and (share == "all" or (_is_role(argument) and argument != "weight")):
                yield f"{described}: {share} of the rows have no value. They do not count."
            if share := rounded(seen.outside, seen.values):
                what = f"have an unlisted value{self._near(argument)}. They do not count."
                if self._is_time(argument):
                    what = f"are outside the declared {_range(argument)}. They do not count. Check start and end."
                yield f"{described}: {share} of the rows {what}"
            if seen.has_negative and not is_signed:
                yield f"{described} has negative values, which count as 0. For deletions, set signed in the bounds."

    def log(self) -> None:
        """Log each argument that drops elements of a bundle, once per worker process."""
        for argument, seen in self._seen.items():
            is_unused = seen.is_unused
            if seen.values >= MANY and (is_unused or not seen.is_readable):
                items = {each for each in self._fields if not _is_role(each)}
                of_metric = len(items) > 1 and argument in items
                which = "no element of a bundle has" if is_unused else "many elements of a bundle do not have"
                which += " a listed value" if seen.usable and is_unused else " a usable value"
                effect = "No element counts" if is_unused else "These elements do not count"
                effect += " for this metric" if of_metric else ""
                _log_once(self._described(argument), which, effect, self._readables[argument].description)

    def _is_time(self, argument: str) -> bool:
        return _is_role(argument) and self._readables[argument].parsed == TIME

    def _described(self, argument: str) -> str:
        return describe_argument(argument, self._fields[argument])

    def _listed(self, argument: str) -> list[Any]:
        return [*self._listings[argument].values()] if argument in self._listings else []

    def _words(self, argument: str, seen: _Seen) -> str:
        """Describe unreadable values, and advise a fix for most of them."""
        readable, name, kinds = self._readables[argument], column_of(self._fields[argument]), Counter[str]()
        for (kind, _), count in seen.forms.items():
            kinds[kind] += count
        kind = max(kinds, key=kinds.__getitem__, default=_OTHER)
        if kind in (_LOST, _FRACTION) and readable.parsed == TIME:
            fix = self.door.to_times(name, are_whole=False)
        elif kind == _LOST:
            fix = self.door.read_whole(name)
        elif kind == _FRACTION:
            fix = self.door.to_ids(name) if readable.is_id else f"{self.door.round(name)}{readable.instead}"
        elif kind == _TEXT and readable.parsed is not None:
            declared, are_mixed = self.spelling or Spelling(), seen.usable > 0
            fix = self.door.parse(name, readable.parsed, seen.meanings, declared, are_mixed=are_mixed)
        elif kind == _OTHER and readable.is_hashed:
            fix = self.door.to_text(name)
        else:
            fix = "write text in UTF-8" if kind == _NOT_UTF_8 else "convert them first"
        forms = " or ".join(dict.fromkeys(form for (_, form), _ in seen.forms.most_common(_SHOWN)))
        share = share_of(seen.unreadable, seen.unreadable + seen.usable)
        words = f"{self._described(argument)}: {share} of the values cannot be read as {readable.description}"
        return f"{words}. They look like {forms or 'other objects'}. {sentence(fix)}"


def _is_role(argument: str) -> bool:
    """Whether an argument is no item. Key columns are key[0] and so on."""
    return argument.partition("[")[0] in _ROLES


def _range(argument: str) -> str:
    return "windows" if argument == "time" else "days"


def _form(value: Any, spelling: Spelling | None) -> tuple[str, str]:
    """Classify an unreadable value, and reduce it to its form."""
    if value == UNDECODABLE or not is_unicode(value):
        return _NOT_UTF_8, "bytes that are not UTF-8"
    if isinstance(value, str):
        number = None if spelling is None else spelling.parse(value, FLOAT)
        kind = _TEXT if number is None else _LOST if abs(number) >= EXACT else _FRACTION
        return kind, shape(value)
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            return _OTHER, "infinity"
        return (_LOST, shape(f"{value:.0f}")) if abs(float(value)) >= EXACT else (_FRACTION, shape(str(value)))
    if isinstance(value, decimal.Decimal) and value != value.to_integral_value():
        return _FRACTION, shape(str(value))
    return _OTHER, type(value).__name__


def _taken(values: Any, mask: np.ndarray) -> list[Any]:
    if isinstance(values, pa.Array):
        return values.filter(pa.array(mask))[:LOOKED_AT].to_pylist()
    return [*itertools.islice(itertools.compress(values, mask.tolist()), LOOKED_AT)]


def _loosely(value: Any) -> Any:
    return value.strip().casefold() if isinstance(value, str) else value


@functools.lru_cache(maxsize=1024)
def _log_once(argument: str, which: str, dropped: str, wanted: str) -> None:
    _LOG.warning(
        "%s: %s. %s. Usable values are %s. Run .check(sample) of the transform with public or made-up elements.",
        argument,
        which,
        dropped,
        wanted,
    )
