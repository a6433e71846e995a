"""Terms of a release, fixed before the noise: privacy loss, privacy unit and contribution bounds."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import (
    ONE_RECORD,
    Bounds,
    ContributionLimit,
    PrivacyUnit,
    check_bounds,
    check_unit,
)
from beam_dpsketch.privacy.loss.composition import Loss, weak_parameters
from beam_dpsketch.privacy.loss.payment import Bill
from beam_dpsketch.privacy.mechanism import MAX_WINDOWS
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.scaling import ROW_SCALE_BITS, SCALE_BITS
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.summary_counts import (
    BINS,
    LostCounter,
    LostIn,
    SummaryCount,
    Uncounted,
    lost_counter,
    share_left,
    summary_counts,
)
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule
from beam_dpsketch.words import shown_plainly

MAX_PERIOD = (1 << 63) - 1


class Disclosure(enum.Flag):
    """Facts that a release publishes without noise, by the caller's choice."""

    NONE = 0
    KEYS = 1
    WINDOWS = 2


@shown_plainly
@named("ReleaseTerms")
@dataclasses.dataclass(frozen=True)
class ReleaseTerms:
    """Privacy terms of a release.

    Its bounds determine the noise. If the norm is chosen from the data, `norm` describes the choice, and the bounds
    are those for a norm of 1 until `under` gives the terms after the choice. No release precedes the choice.

    Args:
      privacy: loss that the release may spend. From a budget, it pays for a single release.
      bounds: largest contribution of a unit: the caller's promise, which the transforms enforce. Give `max_weight` if
        weights were accumulated. An `AutoNorm` becomes the `norm`.
      norm: how the norm is chosen from the data, or `None` without such a choice or after it.
      privacy_unit: the privacy unit.
      window_count: releases (windows) that a unit can reach, each within the bounds. Rho covers all of them.
      period_micros: length of a period in microseconds if the unit is within a period, otherwise 0. `window_count` is
        then the number of windows that the unit can reach in one period.
      overlapping: largest number of windows that contain a record.
      first_windows: whether a unit counts in its first `window_count` windows, as on streams.
      disclosed: facts published in addition to the release, for the statement.
      output_cells: number of releases, one for each key and window, covered by a single bound, or `None` if unknown.
      norm_share: budget share that chose the norm, if it was not given.
      selection: rule that decides which keys, or items, are released, or `None` without private selection.
      lost_in: scope of the clipping histogram.
      total_cells: number of the release's counters that sum to its total weight, or `None` if none do.
      uncounted: records dropped before anything is counted.
      key_names: names of a key's columns, for the statement.
    """

    privacy: PrivacySpec
    bounds: Bounds = ONE_RECORD
    _: dataclasses.KW_ONLY
    norm: AutoNorm | None = None
    privacy_unit: PrivacyUnit = PrivacyUnit.RECORD
    window_count: int = 1
    period_micros: int = 0
    overlapping: int = 1
    first_windows: bool = False
    disclosed: Disclosure = Disclosure.NONE
    output_cells: int | None = 1
    norm_share: Fraction | None = None
    selection: SelectionRule | ThresholdRule | None = None
    lost_in: LostIn = LostIn.RELEASE
    total_cells: int | None = dataclasses.field(default=None, compare=False)  # follows from the spec
    uncounted: Uncounted = Uncounted.NOTHING
    key_names: tuple[str, ...] = dataclasses.field(default=(), compare=False)  # no privacy depends on names

    def __post_init__(self) -> None:
        _validate.instance(PrivacySpec, privacy=self.privacy)
        check_bounds(self.bounds)
        if isinstance(asked := cast(Any, self.bounds), AutoNorm):
            object.__setattr__(self, "norm", asked)
            object.__setattr__(self, "bounds", asked.bound(1))
        if self.norm is not None and self.bounds != self.norm.bound(1):
            raise ValueError("bounds must have a norm of 1 until the norm is chosen from the data")
        _validate.instance(PrivacyUnit, privacy_unit=self.privacy_unit)
        check_unit(self.privacy_unit, self.bounds, self.period_micros)
        self._check_horizon()
        _validate.whole_fields(self, "window_count", low=1, high=MAX_WINDOWS)
        _validate.whole_fields(self, "period_micros", low=0, high=MAX_PERIOD)
        if self.output_cells is not None:
            _validate.whole_fields(self, "output_cells", low=1, high=1 << 62)
        self.share_left  # noqa: B018  # raises if shares leave no rho for the sketch

    def _check_horizon(self) -> None:
        if self.privacy_unit.over_horizon:
            raise ValueError(
                f"privacy_unit must not cover a horizon here, got {self.privacy_unit.value}. Use a transform"
            )

    @functools.cached_property
    def counters(self) -> tuple[SummaryCount, ...]:
        bounds = self.bounds
        clips = self.lost_in is LostIn.NOWHERE or bounds.signed
        cells = {"max_cells": self.output_cells, "total_cells": self.total_cells}
        return summary_counts(self.privacy.summary_counts, bounds, **cells, clips=clips, noise=self.noise)

    @property
    def noise(self) -> Noise:
        return self.privacy.spending.noise

    def with_noise(self, noise: Noise) -> ReleaseTerms:
        return dataclasses.replace(self, privacy=self.privacy.with_noise(noise))

    def grid_bits(self, parameter: Fraction) -> int:
        """Compute how many bits finer than counters the noise grid is, given the least parameter in records."""
        return self.noise.grid_bits(parameter, self.squared_unit)

    @functools.cached_property
    def lost(self) -> LostCounter | None:
        return lost_counter(
            self.privacy.summary_counts,
            self.bounds,
            self.lost_in,
            one_record=self.privacy_unit.is_one_record,
            windows=self.window_count,
            noise=self.noise,
        )

    @property
    def aside(self) -> int:
        """Number of side values in each release, without votes for keys."""
        return len(self.counters) + (0 if self.lost is None or self.lost.of_run else BINS)

    @property
    def selections(self) -> int:
        """Key selections, each within the bounds, in which a unit can vote."""
        return self.window_count

    @property
    def reach(self) -> Fraction:
        """Squared change of all releases by a unit, divided by its squared change of a single release."""
        return Fraction(self.window_count)

    @property
    def delta(self) -> Fraction:
        """Delta that a unit loses to key or item selection, over all keys, items and windows."""
        return Fraction(0) if self.selection is None else self.selection.delta

    @property
    def epsilon(self) -> float:
        return self.shown[0]

    @property
    def shown(self) -> tuple[float, float]:
        return self.loss.shown(self.privacy.reported_delta)

    @property
    def loss(self) -> Loss:
        return self.privacy.loss(self.delta)

    def warnings(self, people: float | None = None) -> list[str]:
        """Describe unreasonable values for epsilon and delta. `people` is the approximate number of units."""
        who, privacy = "records" if self.privacy_unit.is_one_record else "people", self.privacy
        epsilon, delta = self.shown
        noise = math.sqrt(privacy.spending.of_one_count)
        attack = self.loss.attack_words
        found = weak_parameters(noise=noise, epsilon=epsilon, delta=delta, attack=attack, people=people, who=who)
        if self.bounds.has_norm and self.bounds.total_weight is not None and self.noise is Noise.GAUSSIAN:
            found.append("An L1 norm clips more than an L2 norm, and does not reduce Gaussian noise. Use an L2 norm")
        return found

    @property
    def share_left(self) -> Fraction:
        """Budget share for the sketch's counters and the votes that select keys."""
        spend = self.norm_share if self.norm is None else self.norm.share
        return share_left(self.counters, spend or Fraction(0), Fraction(0) if self.lost is None else self.lost.shares)

    @property
    def asked(self) -> ContributionLimit:
        """Contribution limit set by the caller: the bounds, or the choice of a norm."""
        return self.bounds if self.norm is None else self.norm

    def under(self, max_norm: int | Fraction | None) -> ReleaseTerms:
        """Build the terms that calibrate the noise, with this norm if it is chosen from the data."""
        if self.norm is None:
            return self
        assert max_norm is not None
        known = self.norm.bound(max_norm)
        return dataclasses.replace(self, bounds=known, norm=None, norm_share=self.norm.share)

    @property
    def votes(self) -> SelectionRule | None:
        """Voting rule for keys or items, or `None` without votes."""
        return None if self.selection is None else self.selection.votes(self.bounds, self.noise)

    @property
    def votes_twice(self) -> bool:
        return self.votes is not None and self.votes.has_two_rounds

    @property
    def counts_items(self) -> bool:
        return self.selection is not None and self.selection.counts_items

    def without_summary_counts(self) -> ReleaseTerms:
        return dataclasses.replace(self, privacy=self.privacy.with_summary_counts())

    def paying_for(self, release: Any) -> ReleaseTerms:
        """Build the terms without a budget, or raise if the budget share has paid for another release."""
        return dataclasses.replace(self, privacy=self.privacy.paying_for(release, self.delta))

    def bill(self, what: Mapping[str, Any]) -> Bill | None:
        """Build the bill for a run, with facts to record, or `None` without a ledger."""
        payer, terms = self.privacy.payer, {"privacy_unit": self.privacy_unit, "relation": self.privacy.relation}
        return None if payer is None else payer.bill(self.loss, terms, what)

    def without_budget(self) -> ReleaseTerms:
        """Build equal terms that pay for nothing, for releases of simulated data, which cost nothing."""
        return dataclasses.replace(self, privacy=self.privacy.without_budget())

    def for_noise(self) -> ReleaseTerms:
        """Build the terms that keyed noise depends on. They are equal for a batch and a stream of the same data."""
        return dataclasses.replace(self.without_budget(), uncounted=Uncounted.NOTHING)

    @property
    def scale_bits(self) -> int:
        return SCALE_BITS if self.bounds.has_norm else 0

    @property
    def squared_unit(self) -> int:
        """Squared largest count of a record with weight 1, before the noise."""
        return 4**self.scale_bits


@shown_plainly
@named("RowTerms")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RowTerms(ReleaseTerms):
    """Terms shared by all timeline rows of a horizon. The unit spans the horizon.

    Under `RecordBounds`, and on unbounded input under a norm, `window_count` is the number of windows in which a unit
    counts. On bounded input, a single norm covers all windows, and `window_count` is 1.
    """

    mechanism: RowMechanism
    lost_in: LostIn = LostIn.NOWHERE

    @property
    def selections(self) -> int:
        return 1

    @property
    def reach(self) -> Fraction:
        return self.mechanism.squared_reach(self.window_count)

    @property
    def scale_bits(self) -> int:
        return ROW_SCALE_BITS if self.bounds.has_norm else 0

    @property
    def squared_unit(self) -> int:
        return self.mechanism.squared_length * 4**self.scale_bits

    def _check_horizon(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        if not self.privacy_unit.over_horizon:
            raise ValueError(f"privacy_unit must cover a horizon, got {self.privacy_unit.value}")
        if self.window_count > self.mechanism.windows:
            raise ArgumentError(
                "max_windows",
                f"must be at most {self.mechanism.windows}, the windows in the horizon, got {self.window_count}",
                "E215",
            )
