"""How much of a unit counts, in the words that statements, plans and checks share."""

from __future__ import annotations

import decimal
from typing import Protocol

from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.contributions import Bounds, NormBound, PrivacyUnit, RecordBounds


class HasBounds(Protocol):
    """A statement, or the terms of a release."""

    @property
    def bounds(self) -> Bounds:
        """How much of each unit counts."""

    @property
    def unit(self) -> PrivacyUnit:
        """Whom they are about."""

    @property
    def window_count(self) -> int:
        """In how many windows a unit counts."""

    @property
    def period_micros(self) -> int:
        """The length of a period, 0 without one."""


def bounds_in_words(bounded: HasBounds) -> str:
    """Return how much of a unit counts: in keys, windows and periods, and with what weights."""
    bounds = bounded.bounds
    if isinstance(bounds, RecordBounds):
        return _records(bounds, bounded)
    assert isinstance(bounds, (NormBound, AutoNorm))
    return _norm(bounds, bounded)


def _records(bounds: RecordBounds, bounded: HasBounds) -> str:
    """Return which records are kept of a unit."""
    records, windows = f"{bounds.max_contributions_per_partition} record(s)", f"{bounded.window_count} window(s)"
    if bounded.unit.over_horizon:
        keys = f" and key, {bounds.max_partitions} key(s) per window" if bounds.max_partitions > 1 else ""
        return f"{records} per window{keys}, {windows} of the horizon, {_weights(bounds)}"
    per_window = " per window" if bounded.window_count > 1 or bounded.period_micros else ""
    partitions = f"{bounds.max_partitions} partition(s){per_window}"
    return f"{records} per partition, {partitions}, {_weights(bounds)}, {windows}{_period(bounded)}"


def _norm(bounds: NormBound | AutoNorm, bounded: HasBounds) -> str:
    """Return how a norm bounds a unit."""
    windows = bounded.window_count
    reach = f"counters and keys, in each of {windows} window(s)" if windows > 1 else "counters, keys and windows"
    per_item = "" if bounds.max_per_item is None else f"; at most {bounds.max_per_item} for each item"
    kept = "" if bounds.resource_limit is None else f"; {bounds.resource_limit} different item(s) count of each"
    return (
        f"scaled down to {bounds.shown_length}, over all {reach}{_period(bounded)}; {bounds.not_scaled}{per_item}"
        f"{kept}; {_weights(bounds)}"
    )


def _weights(bounds: Bounds) -> str:
    return f"weights {bounds.min_weight} to {bounds.max_weight}"


def _period(bounded: HasBounds) -> str:
    seconds = decimal.Decimal(bounded.period_micros).scaleb(-6).normalize()
    return f" of each period of {seconds:f} seconds" if bounded.period_micros else ""
