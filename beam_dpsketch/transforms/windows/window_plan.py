"""What the windows of a collection mean for its releases, worked out once."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import WindowFn

from beam_dpsketch.errors import WindowingError
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.units import PrivacyId
from beam_dpsketch.records.window_rows import WindowRows
from beam_dpsketch.transforms.windows.guard import check_windowing, is_global
from beam_dpsketch.transforms.windows.time_range import window_starts
from beam_dpsketch.transforms.windows.window_limit import limit_periods


class WindowPlan(NamedTuple):
    """Which windows are released, and under which terms.

    Attributes:
      terms: the terms of each release.
      starts: when each window opens that is released with data or without; `None` releases those that have data.
      periods: the windows in which `max_windows` of a privacy id count; `None` if its windows are not limited.
      is_global: whether there is only the global window.
      max_windows: in how many windows of a period a privacy id counts.
      rows: how windows become rows over time; `None` if each is released for itself.
    """

    terms: DeclaredTerms
    starts: range | None
    periods: WindowFn | None
    is_global: bool
    max_windows: int = 1
    rows: WindowRows | None = None

    @classmethod
    def of(cls, elements: beam.PCollection, declared: ReleaseSpec) -> WindowPlan:
        """Return the plan; `WindowingError` for windows under which the declared privacy would not hold."""
        window_count, in_global, limit = check_windowing(elements), is_global(elements), declared.privacy_id
        if limit is not None and not elements.is_bounded:
            words = (
                "must be a $NormBound on unbounded input, where the norm is needed before the data are there: take "
                "that of an earlier release, released.privacy.bounds, instead of $AutoNorm"
            )
            limit.bounds.given(WindowingError("bounds", words, "E218"))
        has_norm = limit is not None and limit.has_norm and not in_global
        if limit is not None and has_norm:
            check_norm(limit, elements)
        elif window_count > 1 and limit is not None and limit.max_windows is None:
            raise WindowingError(
                "",
                "SlidingWindows with a $PrivacyId would let one privacy id into any number of overlapping "
                "windows; say in how many with max_windows, or use FixedWindows, or protect single records with "
                "$Record",
                "E421",
            )
        starts = periods = None
        if declared.time_range is not None:
            keys = 1 if declared.public_keys is None else len(declared.public_keys)
            starts = window_starts(declared.time_range, elements.windowing.windowfn, keys)
        terms = declared.terms
        if limit is None:
            terms = dataclasses.replace(terms, window_count=window_count)
        elif limit.max_windows is not None or limit.period is not None or has_norm:
            periods = limit_periods(limit, elements, starts)
        elif not in_global:
            terms = dataclasses.replace(terms, unit=PrivacyUnit.PRIVACY_ID_IN_WINDOW)
        shows_windows = starts is None and not in_global and not declared.hides_keys_and_windows
        if shows_windows and declared.public_keys is not None:
            raise WindowingError(
                "",
                "$PublicKeys in windows would show which windows have data for a key; declare the windows with "
                "$windows_from_to, or use the global window, or $AssumePublicKeys",
                "E420",
            )
        disclosed = declared.discloses(windows_are_public=in_global or starts is not None)
        windows = 1 if in_global else _windows_of_bound(terms, starts, elements)
        cells = terms.output_cells and windows and terms.output_cells * windows
        terms = dataclasses.replace(terms, disclosed=disclosed, output_cells=cells)
        return cls(terms, starts, periods, in_global, terms.window_count)


def _windows_of_bound(terms: DeclaredTerms, starts: range | None, elements: beam.PCollection) -> int | None:
    """Return how many windows one bound covers; `None` if that is not known."""
    if terms.window_count > 1 or (terms.bounds.has_norm and not elements.is_bounded):
        return 1  # each window is bounded alone
    if not terms.bounds.has_norm:
        return None
    windowfn = elements.windowing.windowfn
    step = getattr(windowfn, "period", windowfn.size).micros
    return terms.period_micros // step or (None if starts is None else len(starts))


def edges_of(windowfn: WindowFn) -> tuple[int, ...]:
    """Return the length of windows, where they start, and the time from one to the next, if the function has them."""
    given = (getattr(windowfn, name, None) for name in ("size", "offset", "period"))
    return tuple(each.micros for each in given if each is not None)


def check_norm(limit: PrivacyId, elements: beam.PCollection) -> None:
    """Refuse limits that do not suit a norm."""
    if elements.is_bounded and limit.max_windows is not None:
        raise WindowingError(
            "max_windows",
            "must be left out with a $NormBound on bounded input: one norm covers all windows, or those of "
            "each period, and costs less",
            "E418",
        )
    if not elements.is_bounded and limit.max_windows is None:
        raise WindowingError(
            "max_windows",
            "must be given with a $NormBound on unbounded input, as in $person_in_7_days: each window is "
            "bounded alone, before the later ones are known",
            "E419",
        )
