"""Declared output keys and windows. Keys or windows computed from the data would reveal who is in them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import decode, encode, is_unicode, named
from beam_dpsketch.errors import AllAtOnce, ArgumentError, WindowingError
from beam_dpsketch.exact.declared.units import Record, Unit
from beam_dpsketch.exact.domains.calendar import Calendar
from beam_dpsketch.exact.domains.timestamps import (
    Duration,
    Time,
    check_milliseconds,
    duration_to_micros,
    from_micros,
    to_micros,
)
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.selectors import KeyColumn, Selector, as_columns, check_selector, column_of
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.words import length_of_time, shown_plainly

MAX_RELEASES = 1_000_000
KeyField: TypeAlias = "KeyColumn | Sequence[KeyColumn]"
"""Key field, or a tuple's columns: field names, callables and calendars."""


class Keys:
    """Declaration of output keys: `PublicKeys`, `AssumePublicKeys` or `KeySelection`."""

    chosen_by_data: ClassVar[bool] = False
    """Whether keys are selected privately, by the votes of units."""

    field: Any
    opaque_bytes: bool = False

    def __post_init__(self) -> None:
        """Check the key's columns. A list becomes a tuple, and a list with one column becomes that column."""
        columns = tuple(self.field) if isinstance(self.field, (list, tuple)) else (self.field,)
        if not columns:
            raise ArgumentError("field", "must not be empty. Name a column of the key", "E321")
        for each in columns:
            check_selector(field=column_of(each))
        object.__setattr__(self, "field", columns[0] if len(columns) == 1 else columns)

    @property
    def columns(self) -> tuple[KeyColumn, ...]:
        """The key's columns."""
        return as_columns(self.field)

    @property
    def calendars(self) -> list[Calendar]:
        """The columns that are calendars."""
        return [each for each in self.columns if isinstance(each, Calendar)]

    @property
    def fields(self) -> list[Selector]:
        """The columns that are fields, whose values a list of keys contains."""
        return [each for each in self.columns if not isinstance(each, Calendar)]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of several columns: a field, a calendar's bucket, or "" without a printable name. Empty for one."""
        if not isinstance(self.field, tuple):
            return ()
        named = (each.bucket if isinstance(each, Calendar) else each for each in self.field)
        return tuple(each if isinstance(each, str) and each.isprintable() else "" for each in named)

    @property
    def name(self) -> str:
        """The columns in words."""
        named = (f"{each.bucket} of {each.time}" if isinstance(each, Calendar) else str(each) for each in self.columns)
        return " and ".join(named)

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """The listed keys, if any."""
        return None

    @property
    def words(self) -> str:
        """Description of the released keys."""
        raise NotImplementedError

    def rule(self, max_keys: int) -> SelectionRule | None:
        """Create the selection rule with this number of votes per unit. `None` if none are selected from the data."""
        return None

    def check(self, privacy_unit: Unit, windows: TimeRange | None) -> None:
        """Raise if the unit or the windows are incompatible."""


@named("PublicKeys")
@dataclasses.dataclass(frozen=True, init=False)
class PublicKeys(Keys):
    """Release each listed key, with or without data, and drop records with other keys.

    Args:
      keys: text, bytes, integers or tuples of these, known without the data. With several columns in `field`, tuples
        with a value for each, or a table with these columns. Calendars have no value in these: each key is released
        with each of their buckets. Omit `keys` if all columns are calendars.
      field: a field name or a callable for the key, or a `Calendar`, or a list of these for tuples. `None` if elements
        are (key, value) pairs. A table is a list of its columns.

    >>> from beam_dpsketch import Calendar
    >>> days = Calendar("at", "day", zone="Europe/Oslo", start="2026-11-16", end="2026-11-18")
    >>> PublicKeys(["NO", "SE"], ["country", days]).keys
    (('NO', '2026-11-16'), ('NO', '2026-11-17'), ('SE', '2026-11-16'), ('SE', '2026-11-17'))
    """

    keys: tuple[Any, ...]
    field: Any
    opaque_bytes: ClassVar[bool] = True  # type: ignore[misc]  # addresses are never in the list

    def __init__(self, keys: Any = None, field: KeyField = None) -> None:
        if hasattr(keys, "columns"):
            keys = keys if isinstance(keys, pa.Table) else pa.table(keys)
            field = keys.column_names if field is None else field
        object.__setattr__(self, "field", field)
        self.__post_init__()
        encoded = dict.fromkeys(map(encode, self._with_buckets(self._rows(keys))))
        if not encoded:
            raise ArgumentError("keys", "must not be empty", "E303")
        object.__setattr__(self, "keys", tuple(map(decode, encoded)))
        if not all(map(is_unicode, self.keys)):
            raise ArgumentError("keys", "must be encodable in UTF-8. A key contains an unpaired surrogate", "E304")

    def _rows(self, keys: Any) -> list[tuple[Any, ...]]:
        """List the given keys, as tuples with a value for each column except calendars."""
        named = self.fields
        if not named and keys is None:
            return [()]
        if not named:
            raise ArgumentError("keys", "must be omitted, because calendars list their buckets", "E321")
        if isinstance(keys, pa.Table):
            if missing := [each for each in named if each not in keys.column_names]:
                words = f"must be a table with the columns of the key, which lacks {', '.join(map(repr, missing))}"
                raise ArgumentError("keys", words, "E321")
            return [*zip(*(keys[each].to_pylist() for each in named), strict=True)]
        listed = _validate.many("E302", keys=keys)
        listed = getattr(listed, "to_pylist", lambda: listed)()
        if len(named) == 1:
            return [(each,) for each in listed]
        if any(not isinstance(each, (tuple, list)) or len(each) != len(named) for each in listed):
            words = f"must be tuples with {len(named)} values, one for each of {', '.join(map(str, named))}"
            raise ArgumentError("keys", words, "E321")
        return [*map(tuple, listed)]

    def _with_buckets(self, rows: list[tuple[Any, ...]]) -> Iterable[Any]:
        """Combine each row with each calendar bucket."""
        buckets = [each.labels for each in self.calendars]
        if len(rows) * math.prod(map(len, buckets)) > MAX_RELEASES:
            words = f"would be more than {MAX_RELEASES:,}. List fewer keys, or declare fewer or longer buckets"
            raise ArgumentError("keys", words, "E414")
        for row, *labels in itertools.product(rows, *buckets):
            values, times = iter(row), iter(labels)
            key = tuple(next(times if isinstance(each, Calendar) else values) for each in self.columns)
            yield key if isinstance(self.field, tuple) else key[0]

    @property
    def listed(self) -> tuple[Any, ...]:
        return self.keys

    @property
    def words(self) -> str:
        return f"{len(self.keys)} listed key{'s' * (len(self.keys) > 1)} in {self.name}"

    def check(self, privacy_unit: Unit, windows: TimeRange | None) -> None:
        kept = privacy_unit.bounds.kept_keys or 1
        if kept > len(self.keys):
            raise ArgumentError(
                "bounds.max_keys",
                f"must be at most {len(self.keys)}, the number of listed keys, got {kept}. A larger bound only adds "
                "noise",
                "E216",
            )


@named("AssumePublicKeys")
@dataclasses.dataclass(frozen=True)
class AssumePublicKeys(Keys):
    """Release every key present in the data. You assert that the set of keys is public.

    Args:
      field: see `PublicKeys`.
      opaque_bytes: see `PrivacyId`.
    """

    field: Any = None
    opaque_bytes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.instance(bool, opaque_bytes=self.opaque_bytes)

    @property
    def words(self) -> str:
        return f"each key in {self.name} that has data"

    def check(self, privacy_unit: Unit, windows: TimeRange | None) -> None:
        if windows is not None:
            raise ArgumentError(
                "",
                "$windows_TimeRange cannot be combined with $AssumePublicKeys: the release would still reveal which "
                "windows have data for a key. List the keys with $PublicKeys, or remove windows",
                "E308",
            )


@shown_plainly
@named("KeySelection")
@dataclasses.dataclass(frozen=True)
class KeySelection(Keys):
    """Select the released keys privately, by the votes of privacy units.

    Guarantee: the release is delta-approximate rho-zCDP, as `privacy.selection` proves. Keys that occur for one unit
    alone are released with a probability of at most delta, over all keys and windows of that unit together.

    A unit votes for its keys, at most for the `max_keys` in its bounds. The more keys it votes for, the less each vote
    counts. `explain()` reports the number of units at which a key is released.

    Args:
      delta: the probability that a key with one person alone is released, between 0 and 1. A float means its decimal
        spelling. Choose less than 1 over the number of people, such as 1e-8.
      field: see `PublicKeys`. A tuple is one key.
      share: budget share of the votes, between 0 and 1, where a larger share releases more keys. `None` uses the share
        that costs the sketches nothing, which is 1/2 under `REPLACE_ONE` with `RecordBounds` and a CountSketch, and
        otherwise 1/4 of the rho that remains after the summary counts.
      min_units: exact number of units that must vote for a key, an additional rule beyond the guarantee.
      method: "two_rounds", "gaussian" or "geometric". With two rounds, each unit votes a second time, for keys that the
        first round left undecided. This releases most keys if a unit votes for several, and costs pipelines two more
        shuffles. "gaussian" is one round of votes with noise. "geometric" releases most keys if a unit votes for one,
        and is supported only by `SelectKeys` with an epsilon. `None` uses two rounds, or one round if two are
        unsupported: with one key per unit, `min_units` or unbounded input, and under `REPLACE_ONE` with `RecordBounds`
        inside a release. `SelectKeys` then uses the method that releases most keys.
      opaque_bytes: see `PrivacyId`.
    """

    chosen_by_data: ClassVar[bool] = True

    delta: Fraction | float
    field: Any = None
    _: dataclasses.KW_ONLY
    share: Fraction | float | None = None
    min_units: int = 1
    method: str | None = None
    opaque_bytes: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.instance(bool, opaque_bytes=self.opaque_bytes)
        rule = self.rule(1)
        for name in ("delta", "share", "min_units"):
            object.__setattr__(self, name, getattr(rule, name))

    @property
    def words(self) -> str:
        return f"each key in {self.name} that enough units are in"

    def check(self, privacy_unit: Unit, windows: TimeRange | None) -> None:
        if privacy_unit.bounds.has_norm and privacy_unit.bounds.max_keys is None:
            raise ArgumentError(
                "max_keys",
                "is required with $KeySelection: the number of keys that each privacy id can support. Example: "
                "$norm_of_16_keys",
                "E305",
            )
        if isinstance(privacy_unit, Record) and privacy_unit.signed:
            raise ArgumentError(
                "signed",
                "is not supported with $KeySelection and $Record, because a deletion would support its key. Protect a "
                "$PrivacyId, whose insertions and deletions are netted first",
                "E307",
            )

    def rule(self, max_keys: int) -> SelectionRule:
        return SelectionRule(
            delta=_validate.exact(delta=self.delta),
            max_keys=max_keys,
            share=None if self.share is None else _validate.exact(share=self.share),
            min_units=self.min_units,
            method=self.method,
        )


@dataclasses.dataclass(frozen=True)
class TimeRange:
    """Release each window from start to end, with or without data, and drop records in other windows.

    The range must begin and end with a window. Without a range, the windows with data are released, and the privacy
    statement reports that the set of windows with data is published.

    Args:
      start: start of the first window, as text such as "2026-11-16", a `datetime` (both in UTC if they have no time
        zone), a date, a Beam `Timestamp`, or seconds since 1970.
      end: end of the last window.
      max_releases: maximum number of releases, one for each window and listed key, required above 10,000.
    """

    start: Time
    end: Time
    _: dataclasses.KW_ONLY
    max_releases: int = dataclasses.field(default=10_000, repr=False)

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "max_releases", low=1, high=MAX_RELEASES)
        if not self.start_micros < self.end_micros:
            raise ArgumentError("end", "must be after start", "E425")

    @property
    def start_micros(self) -> int:
        return to_micros(start=self.start)

    @property
    def end_micros(self) -> int:
        return to_micros(end=self.end)

    def check_count(self, windows: int, step: int, keys: int) -> None:
        """Raise if there are more releases than `max_releases`, one for each window and key."""
        if windows * keys > self.max_releases:
            of_keys = f" for each of {keys:,} keys" if keys > 1 else ""
            raise WindowingError(
                "windows",
                f"would produce {windows * keys:,} releases, more than {self.max_releases:,}: a window every "
                f"{length_of_time(step)}{of_keys}. Use longer windows or fewer keys, or set $max_releases (at most "
                f"{MAX_RELEASES:,})",
                "E414",
            )


@dataclasses.dataclass(frozen=True)
class TimeColumn:
    """The time column of a table, and the windows in a `TimeRange`. Pipelines use `WindowInto` instead.

    Rows without a readable time, and rows outside the range, are dropped.

    Args:
      field: the column name: timestamps, dates, or text in ISO 8601, in UTC if it has no time zone.
      every: the time between window starts. Text such as "1d", a `timedelta`, or seconds. Omit it with a `Horizon`,
        which defines it.
      window_size: window length, `every` by default. Longer windows overlap: they slide.
    """

    field: str
    every: Duration | None = None
    window_size: Duration | None = None

    def __post_init__(self) -> None:
        _validate.instance(str, field=self.field)
        given = {name: getattr(self, name) for name in ("every", "window_size") if getattr(self, name) is not None}
        with AllAtOnce() as checks:
            for name, value in given.items():
                micros = checks.do(duration_to_micros, **{name: value})
                checks.do(check_milliseconds, **{name: micros or 0})
        if {*given} == {"every", "window_size"} and self.size_micros < self.every_micros:
            raise ArgumentError(
                "window_size", "must be at least every. Otherwise, records between windows would be dropped", "E431"
            )

    @property
    def every_micros(self) -> int:
        return duration_to_micros(every=self.every)

    @property
    def size_micros(self) -> int:
        """Window length in microseconds."""
        return self.every_micros if self.window_size is None else duration_to_micros(window_size=self.window_size)

    def check(self, within: TimeRange | None, horizon: Horizon | None, keys: int) -> None:
        """Raise if windows are incompatible, or too many for this number of listed keys."""
        if horizon is not None:
            if self.every is not None or self.window_size is not None:
                words = "is defined by the horizon, as is window_size. Remove every and window_size"
                raise ArgumentError("time.every", words, "E430")
            return
        if within is None:
            words = "requires $windows_from_to. All windows in the range are released, with or without data"
            raise ArgumentError("time", words, "E429")
        if self.every is None:
            words = "is required: the time between window starts, such as $one_day"
            raise ArgumentError("time.every", words, "E430")
        start, end, size = within.start_micros, within.end_micros, self.size_micros
        if end - start < size or (end - start - size) % self.every_micros:
            last = start + max(0, end - start - size) // self.every_micros * self.every_micros + size
            raise ArgumentError(
                "windows",
                f"must end where a window ends, such as {from_micros(last).isoformat()}. The first window begins at "
                "start, and the next ones follow at intervals of every",
                "E413",
            )
        within.check_count((end - start - size) // self.every_micros + 1, self.every_micros, keys)
