"""The terms of a release, all known before the noise: what it spends, whom it protects, how much of each may count."""

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
from beam_dpsketch.privacy.grouped_counts import GroupRule
from beam_dpsketch.privacy.loss.composition import Loss, foolish
from beam_dpsketch.privacy.loss.payment import Bill
from beam_dpsketch.privacy.mechanism import MAX_WINDOWS
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.scaling import ROW_SCALE_BITS, SCALE_BITS
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.side_counters import (
    BINS,
    LostCounter,
    LostIn,
    SideCounter,
    Uncounted,
    lost_counter,
    share_left,
    side_counters,
)
from beam_dpsketch.words import shown_plainly

MAX_PERIOD = (1 << 63) - 1


class Disclosure(enum.Flag):
    """What a release shows without noise, by the caller's choice."""

    NONE = 0
    KEYS = 1
    WINDOWS = 2


@shown_plainly
@named("ReleaseTerms")
@dataclasses.dataclass(frozen=True)
class ReleaseTerms:
    """What a release promises, and to whom.

    Noise is calibrated by its bounds. Where the data choose the norm, `norm` says how, and until then the bounds are
    those of a norm of 1; `under` gives the terms after the choice. Nothing is released before the choice.

    Args:
      privacy: what the release may spend; taken from a budget, it pays for one release.
      bounds: what one unit contributes at most: the caller's promise, which the transforms enforce. Give `max_weight`
        where weights were accumulated. An `AutoNorm` becomes the `norm`.
      norm: how the data choose the norm; `None` if they do not, or have.
      unit: whose presence is hidden.
      window_count: releases (windows) that one unit can reach, each within the bounds; rho covers all of them.
      period_micros: length of a period in microseconds if the unit is one within a period, else 0; `window_count` is
        then the number of windows that the unit can reach in one period.
      overlapping: in how many windows a record is, at most.
      first_windows: whether a unit counts in its first `window_count` windows, as on streams.
      disclosed: what is published in addition to the release, for the statement.
      output_cells: how many releases, one for each key and window, one bound covers; `None` if that is not known.
      norm_spend: the part of rho that chose the norm, if it was not given.
      selection: what decides which keys, or items, are released; `None` if that is not decided from the data.
      lost_in: which histogram tells the weight that bounding took.
      total_cells: how many counters of the release sum to its total weight; `None` if none do.
      uncounted: what is dropped before anything is counted.
    """

    privacy: PrivacySpec
    bounds: Bounds = ONE_RECORD
    _: dataclasses.KW_ONLY
    norm: AutoNorm | None = None
    unit: PrivacyUnit = PrivacyUnit.RECORD
    window_count: int = 1
    period_micros: int = 0
    overlapping: int = 1
    first_windows: bool = False
    disclosed: Disclosure = Disclosure.NONE
    output_cells: int | None = 1
    norm_spend: Fraction | None = None
    selection: SelectionRule | GroupRule | None = None
    lost_in: LostIn = LostIn.RELEASE
    total_cells: int | None = dataclasses.field(default=None, compare=False)  # follows from the spec
    uncounted: Uncounted = Uncounted.NOTHING

    def __post_init__(self) -> None:
        _validate.instance(PrivacySpec, privacy=self.privacy)
        check_bounds(self.bounds)
        if isinstance(asked := cast(Any, self.bounds), AutoNorm):
            object.__setattr__(self, "norm", asked)
            object.__setattr__(self, "bounds", asked.bound(1))
        if self.norm is not None and self.bounds != self.norm.bound(1):
            raise ValueError("bounds must be those of a norm of 1 as long as the data have not chosen one")
        _validate.instance(PrivacyUnit, unit=self.unit)
        check_unit(self.unit, self.bounds, self.period_micros)
        self._check_horizon()
        _validate.whole_fields(self, "window_count", low=1, high=MAX_WINDOWS)
        _validate.whole_fields(self, "period_micros", low=0, high=MAX_PERIOD)
        if self.output_cells is not None:
            _validate.whole_fields(self, "output_cells", low=1, high=1 << 62)
        self.share_left  # noqa: B018  # refuses parts of rho that leave nothing for the sketch

    def _check_horizon(self) -> None:
        """Refuse a unit over a horizon: what a unit does to rows over time is in `RowTerms`."""
        if self.unit.over_horizon:
            raise ValueError(f"unit must not be one over a horizon here, got {self.unit.value}: transforms make rows")

    @functools.cached_property
    def counters(self) -> tuple[SideCounter, ...]:
        """What is counted aside, one number each in each release."""
        bounds = self.bounds
        clips = self.lost_in is LostIn.NOWHERE or bounds.signed
        cells = {"max_cells": self.output_cells, "total_cells": self.total_cells}
        return side_counters(self.privacy.side_counters, bounds, **cells, clips=clips, noise=self.noise)

    @property
    def noise(self) -> Noise:
        """Which noise the release has."""
        return self.privacy.spending.noise

    def with_noise(self, noise: Noise) -> ReleaseTerms:
        """Return the same with a noise that was decided."""
        return dataclasses.replace(self, privacy=self.privacy.with_noise(noise))

    def grid_bits(self, parameter: Fraction) -> int:
        """Return by how many bits the grid of noise is finer than counters, given the least parameter in records."""
        return self.noise.grid_bits(parameter, self.squared_unit)

    @functools.cached_property
    def lost(self) -> LostCounter | None:
        """What tells the weight that bounding took; `None` if no histogram does."""
        return lost_counter(
            self.privacy.side_counters,
            self.bounds,
            self.lost_in,
            one_record=self.unit.is_one_record,
            windows=self.window_count,
            noise=self.noise,
        )

    @property
    def aside(self) -> int:
        """How many numbers each release counts aside, without votes for keys."""
        return len(self.counters) + (0 if self.lost is None or self.lost.of_run else BINS)

    @property
    def selections(self) -> int:
        """How many selections of keys, each within the bounds, one unit can vote in."""
        return self.window_count

    @property
    def reach(self) -> Fraction:
        """The squared change of all releases by a unit, over that of one of them."""
        return Fraction(self.window_count)

    @property
    def delta(self) -> Fraction:
        """The delta that a unit loses to the selection of keys or items, over all of them and all windows."""
        return Fraction(0) if self.selection is None else self.selection.delta

    @property
    def epsilon(self) -> float:
        return self.shown[0]

    @property
    def shown(self) -> tuple[float, float]:
        """The epsilon that is shown, and its delta."""
        return self.loss.shown(self.privacy.shown_delta)

    @property
    def loss(self) -> Loss:
        return self.privacy.loss(self.delta)

    def foolish(self, people: float | None = None) -> list[str]:
        """Return what is foolish about epsilon and delta, in words; `people` is about how many units there are."""
        who, privacy = "records" if self.unit.is_one_record else "people", self.privacy
        epsilon, delta = self.shown
        noise = math.sqrt(privacy.spending.of_one_count)
        attack = self.loss.attack_words
        found = foolish(noise=noise, epsilon=epsilon, delta=delta, attack=attack, people=people, who=who)
        if self.bounds.has_norm and self.bounds.total_weight is not None and self.noise is Noise.GAUSSIAN:
            found.append("a norm of order 1 takes more than one of order 2, and Gaussian noise gains nothing by it")
        return found

    @property
    def share_left(self) -> Fraction:
        """The part of rho for the counters of the sketch, and for the votes that select keys."""
        spend = self.norm_spend if self.norm is None else self.norm.spend
        return share_left(self.counters, spend or Fraction(0), Fraction(0) if self.lost is None else self.lost.shares)

    @property
    def asked(self) -> ContributionLimit:
        """What the caller said: the bounds, or how the data choose the norm."""
        return self.bounds if self.norm is None else self.norm

    def under(self, max_norm: int | Fraction | None) -> ReleaseTerms:
        """Return the terms that noise is calibrated by: with this norm if the data choose it, else as they are."""
        if self.norm is None:
            return self
        assert max_norm is not None
        known = self.norm.bound(max_norm)
        return dataclasses.replace(self, bounds=known, norm=None, norm_spend=self.norm.spend)

    @property
    def votes(self) -> SelectionRule | None:
        """The rule by which units vote for keys or items; `None` if they do not."""
        return None if self.selection is None else self.selection.votes(self.bounds, self.noise)

    @property
    def votes_twice(self) -> bool:
        return self.votes is not None and self.votes.has_two_rounds

    @property
    def counts_items(self) -> bool:
        return self.selection is not None and self.selection.counts_items

    def without_side_counters(self) -> ReleaseTerms:
        """Return the terms of a release that counts nothing aside."""
        return dataclasses.replace(self, privacy=self.privacy.without_side_counters())

    def paying_for(self, release: Any) -> ReleaseTerms:
        """Return the same terms without a budget; raise if a part of a budget has paid for another release."""
        return dataclasses.replace(self, privacy=self.privacy.paying_for(release, self.delta))

    def bill(self, what: Mapping[str, Any]) -> Bill | None:
        """Return the bill for all that one run releases, with facts that are noted with it; without a ledger, none."""
        payer, terms = self.privacy.payer, {"unit": self.unit, "relation": self.privacy.relation}
        return None if payer is None else payer.bill(self.loss, terms, what)

    def without_budget(self) -> ReleaseTerms:
        """Return equal terms that pay for nothing: for releases of made-up data, which cost nothing."""
        return dataclasses.replace(self, privacy=self.privacy.without_budget())

    def for_noise(self) -> ReleaseTerms:
        """Return the terms that keyed noise depends on. A batch and a stream of the same data have equal ones."""
        return dataclasses.replace(self.without_budget(), uncounted=Uncounted.NOTHING)

    @property
    def scale_bits(self) -> int:
        return SCALE_BITS if self.bounds.has_norm else 0

    @property
    def squared_unit(self) -> int:
        """The square of what a record of weight 1 counts before the noise, where it counts most."""
        return 4**self.scale_bits


@shown_plainly
@named("RowTerms")
@dataclasses.dataclass(frozen=True, kw_only=True)
class RowTerms(ReleaseTerms):
    """What all rows of a horizon promise together; the unit is one over the horizon.

    Of `window_count`: under `RecordBounds` a unit counts in that many windows, and on unbounded input under a norm; on
    bounded input one norm covers all windows, and it is 1.
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
        if not self.unit.over_horizon:
            raise ValueError(f"unit must be one over the horizon, got {self.unit.value}")
        if self.window_count > self.mechanism.windows:
            raise ArgumentError(
                "max_windows",
                f"must be at most the {self.mechanism.windows} windows of the horizon, got {self.window_count}",
                "E215",
            )
