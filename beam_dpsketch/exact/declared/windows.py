"""Windows from the perspective of privacy: windows covered by a bound, released windows, and their timeline rows.

Guarantee: a unit counts only in the windows that the terms of a plan include. `plan_windows` is the single place for
this decision, and raises if the privacy promise would be false in the windows.
"""

from __future__ import annotations

import dataclasses
import logging
from typing import NamedTuple

from beam_dpsketch.errors import AllAtOnce, WindowingError
from beam_dpsketch.exact.bounding.parts import Scale
from beam_dpsketch.exact.declared.public import MAX_RELEASES, TimeRange
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.units import PrivacyId
from beam_dpsketch.exact.domains.timestamps import MILLISECOND
from beam_dpsketch.exact.horizon import Horizon, WindowRows
from beam_dpsketch.privacy.summary_counts import Uncounted
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.words import length_of_time

_LOG = logging.getLogger("beam_dpsketch")


class Windowing(NamedTuple):
    """Window assignment of elements. All times are in microseconds.

    Attributes:
      name: window function name.
      size: window length. 0 if all elements are in the one global window.
      offset: start of any window.
      step: time between window starts.
      is_bounded: whether the input is bounded.
    """

    name: str = "GlobalWindows"
    size: int = 0
    offset: int = 0
    step: int = 0
    is_bounded: bool = True

    @property
    def is_global(self) -> bool:
        return not self.size

    @property
    def never_ends(self) -> bool:
        """Whether the only window is never released."""
        return self.is_global and not self.is_bounded

    @property
    def edges(self) -> tuple[int, ...]:
        """Identity of the windows: their length, an offset, and the step if it differs."""
        if self.is_global:
            return ()
        return (self.size, self.offset) if self.size == self.step else (self.size, self.offset, self.step)

    @property
    def per_element(self) -> int:
        """Maximum number of windows of an element."""
        return 1 if self.is_global else -(-self.size // self.step)  # rounded up


class Periods(NamedTuple):
    """Consecutive periods in which a unit is bounded, in microseconds. Length 0 is all time."""

    length: int = 0
    start: int = 0


class WindowPlan(NamedTuple):
    """Released windows with their terms.

    Attributes:
      terms: terms per release, or for all timeline rows.
      starts: starts of the windows that are released with or without data. `None` releases the windows with data.
      periods: periods to which `max_windows` of a privacy id, or its norm, applies. `None` if windows are not limited.
      is_global: whether there is only the global window.
      max_windows: number of windows per period in which a privacy id counts.
      rows: timeline rows for the windows. `None` if each window has a release.
      scale: approximate input size, if given.
    """

    terms: ReleaseTerms
    starts: range | None
    periods: Periods | None
    is_global: bool
    max_windows: int = 1
    rows: WindowRows | None = None
    scale: Scale | None = None


def windowing_of_table(declared: ReleaseSpec) -> Windowing:
    """Determine the windows of a table's rows. The first window starts with the declared range."""
    time, within = declared.time, declared.time_range
    if time is None or within is None:
        return Windowing()
    size, step = time.size_micros, time.every_micros
    name = "FixedWindows" if size == step else "SlidingWindows"
    return Windowing(name, size, within.start_micros % step, step)


def plan_windows(declared: ReleaseSpec, windowing: Windowing) -> WindowPlan:
    """Plan the released windows and their terms. Raise all refusals at once if privacy would not be guaranteed."""
    if declared.horizon is not None:
        return _over_horizon(declared, declared.horizon, windowing.is_bounded)
    starts, periods, limit, within = None, None, declared.privacy_id, declared.time_range
    windows_are_public = within is not None or (windowing.is_global and windowing.is_bounded)
    with AllAtOnce() as checks:
        if limit is not None:
            checks.do(_check_limit, limit, windowing, within)
        if within is not None and not windowing.never_ends:
            keys = len(declared.public_keys or [None])
            starts = checks.do(window_starts, within, windowing, keys)
        if limit is not None and not windowing.never_ends:
            periods = checks.do(_limit_periods, limit, windowing, starts)
        if declared.public_keys is not None and not windows_are_public and not declared.hides_keys_and_windows:
            words = (
                "$PublicKeys in undeclared windows would reveal which windows have data for a key. Use "
                "$windows_from_to, the global window, or $AssumePublicKeys"
            )
            checks.refuse(WindowingError("", words, "E420"))
    if starts is not None:
        _LOG.info("%d releases: %d declared windows, %d keys in each", len(starts) * keys, len(starts), keys)
    terms = declared.terms_of_each(
        in_windows=not windowing.is_global, overlapping=windowing.per_element, is_stream=not windowing.is_bounded
    )
    windows = _windows_of_bound(terms, windowing, starts)
    cells = terms.output_cells and windows and terms.output_cells * windows
    disclosed = declared.discloses(windows_are_public=windows_are_public)
    lost_in = declared.tells_lost_in(one_window=windowing.is_global, is_bounded=windowing.is_bounded)
    terms = dataclasses.replace(terms, disclosed=disclosed, output_cells=cells, lost_in=lost_in)
    terms = dataclasses.replace(terms, uncounted=_uncounted(declared, terms, windowing.is_bounded))
    return WindowPlan(terms, starts, periods, windowing.is_global, terms.window_count)


def _over_horizon(declared: ReleaseSpec, horizon: Horizon, is_bounded: bool) -> WindowPlan:
    """Plan the windows of a horizon, which is a single period."""
    limit, keys, rows = declared.privacy_id, len(declared.public_keys or [None]), horizon.rows.row_count
    with AllAtOnce() as checks:
        if limit is not None and limit.has_norm:
            checks.do(_check_norm, limit, is_bounded)
        if not is_bounded and declared.is_keyed and declared.public_keys is None:
            words = (
                "must be $PublicKeys with a horizon on unbounded input: rows are published before all keys are known. "
                "Select keys from earlier data with SelectKeys"
            )
            checks.refuse(WindowingError("keys", words, "E319"))
        if rows * keys > MAX_RELEASES:
            words = (
                f"The horizon would produce {rows * keys} rows ({rows} for each of {keys} keys), more than "
                f"{MAX_RELEASES}. Use fewer windows or fewer keys"
            )
            checks.refuse(WindowingError("", words, "E414"))
    terms = declared.row_terms(is_bounded=is_bounded)
    terms = dataclasses.replace(terms, uncounted=_uncounted(declared, terms, is_bounded))
    starts = range(horizon.start_micros, horizon.end_micros, horizon.size_micros)
    period = Periods(horizon.end_micros - horizon.start_micros, horizon.start_micros)
    return WindowPlan(terms, starts, period, False, terms.window_count, WindowRows.of(horizon))


def _uncounted(declared: ReleaseSpec, terms: ReleaseTerms, is_bounded: bool) -> Uncounted:
    """Determine the data that these settings drop before counting."""
    limit, found = declared.privacy_id, Uncounted.NOTHING if is_bounded else Uncounted.LATE
    if not is_bounded and limit is not None and limit.max_windows is not None:
        found |= Uncounted.LATER_WINDOWS
    if declared.time_range is not None or declared.horizon is not None:
        found |= Uncounted.OUTSIDE
    if declared.keys is not None and declared.keys.calendars:
        found |= Uncounted.OUTSIDE
    found |= Uncounted.NOTHING if declared.public_keys is None else Uncounted.UNLISTED_KEYS
    return found | Uncounted.EXCESS_WEIGHT if declared.weight is not None and terms.lost is None else found


def _check_limit(limit: PrivacyId, windowing: Windowing, within: TimeRange | None) -> None:
    """Raise if a privacy id cannot be bounded in these windows."""
    with AllAtOnce() as checks:
        if not windowing.is_bounded:
            words = (
                "must not be $AutoNorm on unbounded input: a $NormBound is needed before all data are known. "
                "Set the norm that an earlier release reports"
            )
            checks.do(limit.bounds.given, WindowingError("bounds", words, "E218"))
        if limit.has_norm and (windowing.never_ends or not windowing.is_global):
            checks.do(_check_norm, limit, windowing.is_bounded)
        elif windowing.per_element > 1 and limit.max_windows is None:
            words = (
                "SlidingWindows with a $PrivacyId require max_windows. Without it, a privacy id could count in any "
                "number of overlapping windows. Set max_windows, use FixedWindows, or protect single records with "
                "$Record"
            )
            checks.refuse(WindowingError("", words, "E421"))
        is_limited = limit.has_norm or limit.max_windows is not None
        if not windowing.is_bounded and is_limited and not limit.period_micros and within is None:
            words = (
                "max_windows on unbounded input requires a period or $windows_TimeRange, at whose end the counted "
                "windows of each privacy id are forgotten"
            )
            checks.refuse(WindowingError("", words, "E417"))


def _check_norm(limit: PrivacyId, is_bounded: bool) -> None:
    """Raise if `max_windows` is incompatible with a norm."""
    if is_bounded and limit.max_windows is not None:
        raise WindowingError(
            "max_windows",
            "is not supported with a $NormBound on bounded input, because the norm covers all windows, or all windows "
            "of a period. Remove it",
            "E418",
        )
    if not is_bounded and limit.max_windows is None:
        raise WindowingError(
            "max_windows",
            "is required with a $NormBound on unbounded input, because each window is clipped before later windows are "
            "known. Example without a horizon: $person_in_7_days",
            "E419",
        )


def window_starts(declared: TimeRange, windowing: Windowing, keys: int) -> range:
    """Compute the starts of all windows in a range. Raise if the range has partial windows."""
    if windowing.is_global:
        raise WindowingError(
            "",
            "$windows_TimeRange is not supported in the global window, which is always released. Assign windows, such "
            "as with WindowInto(FixedWindows(...)), or remove windows",
            "E412",
        )
    start, end, size, step = declared.start_micros, declared.end_micros, windowing.size, windowing.step
    first = start - (start - windowing.offset) % step
    last = max(first, end - size + (windowing.offset - end + size) % step)
    if (first, last + size) != (start, end):
        whole = ", ".join(f"Timestamp({_seconds(micros)})" for micros in (first, last + size))
        raise WindowingError(
            "windows",
            f"must begin and end at window boundaries. Use TimeRange({whole}), or change the offset of "
            f"{windowing.name}",
            "E413",
        )
    starts = range(first, last + 1, step)
    declared.check_count(len(starts), step, keys)
    return starts


def _limit_periods(limit: PrivacyId, windowing: Windowing, starts: range | None) -> Periods | None:
    """Compute the periods in which an id is limited across windows. Raise if they are incompatible.

    Periods start with the declared range, or in 1970 (plus the offset of the windows). A window belongs to the period
    in which it ends, so each window is in exactly one period, including sliding windows.
    """
    if limit.max_windows is None and limit.period is None and (windowing.is_global or not limit.has_norm):
        return None
    if windowing.is_global:
        argument = "max_windows" if limit.max_windows is not None else "period"
        raise WindowingError(
            argument,
            "is not supported in the global window. Assign windows, for example with WindowInto(FixedWindows(...)), or "
            f"remove {argument}",
            "E415",
        )
    if any(micros % MILLISECOND for micros in (windowing.size, windowing.offset, windowing.step)):
        raise WindowingError(
            "",
            "max_windows and a $NormBound require windows in whole milliseconds, because Beam drops smaller fractions",
            "E410",
        )
    count, periods = _periods(limit.period_micros, windowing, starts)
    if limit.max_windows is not None and count is not None and limit.max_windows > count:
        of = "each period" if limit.period_micros else "the TimeRange"
        raise WindowingError(
            "max_windows", f"must be at most {count}, the number of windows in {of}, got {limit.max_windows}", "E215"
        )
    return periods


def _periods(period_micros: int, windowing: Windowing, starts: range | None) -> tuple[int | None, Periods]:
    """Compute the number of windows per period, if known, and the periods."""
    start = windowing.offset if starts is None else starts[0]
    if period_micros:
        count, rest = divmod(period_micros, windowing.step)
        if rest:
            raise WindowingError(
                "period",
                f"must be a multiple of {length_of_time(windowing.step)}, the time between window starts, got "
                f"{length_of_time(period_micros)}",
                "E416",
            )
        return count, Periods(period_micros, start)
    if starts is not None:
        return len(starts), Periods(starts[-1] + windowing.size - start, start)
    return None, Periods()


def _windows_of_bound(terms: ReleaseTerms, windowing: Windowing, starts: range | None) -> int | None:
    """Count the windows covered by a bound. `None` if unknown."""
    if windowing.is_global or terms.window_count > 1 or (terms.bounds.has_norm and not windowing.is_bounded):
        return 1  # each window is bounded separately
    if not terms.bounds.has_norm:
        return None
    return terms.period_micros // windowing.step or (None if starts is None else len(starts))


def _seconds(micros: int) -> str:
    """Format microseconds in seconds, like Beam."""
    whole, rest = divmod(abs(micros), 1_000_000)
    return f"{'-' if micros < 0 else ''}{whole}" + (f".{rest:06}" if rest else "")
