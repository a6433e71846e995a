"""Released Count-Min: the minimum over rows, plus an offset E that keeps noise from causing underestimates.

Guarantee, while no item's net weight is negative: with "simultaneous", no item at all is underestimated, with
probability at least 1 - failure_probability; with "per_item", each single item is not. Source: Zhao et al., NeurIPS
2022, with E from the actual depth, width and sigma^2; tails of the discrete Gaussian, and of sums of independent
ones, are at most exp(-t^2 / (2 sigma^2)) (Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.hashing import cells
from beam_dpsketch.release.answers import Frequencies, Frequency, Many, One, as_asked, as_many
from beam_dpsketch.release.released_sketch import ReleasedFrequencies
from beam_dpsketch.sketches import CountMin
from beam_dpsketch.sketches.spec import SketchSpec

Guarantee: TypeAlias = Literal["simultaneous", "per_item"]


class ReleasedCountMin(ReleasedFrequencies):
    """A released Count-Min. Its two guarantees have different offsets: never compare one with the other.

    Methods without the argument `guarantee` use "simultaneous".
    """

    name = "count_min"
    raw_type = CountMin

    @overload
    def estimate(self, items: One, *, guarantee: Guarantee = ..., failure_probability: float = ...) -> float: ...
    @overload
    def estimate(self, items: Many, *, guarantee: Guarantee = ..., failure_probability: float = ...) -> np.ndarray: ...
    def estimate(self, items: Any, *, guarantee: Guarantee = "simultaneous", failure_probability: float = 0.01) -> Any:
        """Return the estimated total weight of each item, the minimum over rows plus E: float64 of shape (n,), or one.

        Args:
          items: one item or many.
          guarantee: whether E keeps all items ("simultaneous") or each one ("per_item") from being underestimated.
          failure_probability: with which it may fail to, in (0, 1).
        """
        items, single = as_many(items)
        return as_asked(self._estimates(items, guarantee, failure_probability), single)

    @overload
    def interval(self, items: One, confidence: float = ..., *, guarantee: Guarantee = ...) -> Frequency: ...
    @overload
    def interval(self, items: Many, confidence: float = ..., *, guarantee: Guarantee = ...) -> Frequencies: ...
    def interval(self, items: Any, confidence: float = 0.95, *, guarantee: Guarantee = "simultaneous") -> Any:
        """Return bounds for the true total weight of each item: [estimate - 2 E - collisions, estimate].

        The true weight is that of the records that bounding kept; see `ReleasedSketch.interval`.
        Half of 1 - confidence is for the noise, in the sense of `guarantee`; half is for collisions, per item.
        """
        items, single = as_many(items)
        return as_asked(self._frequencies(items, confidence, guarantee), single)

    def _estimates(
        self, items: Any, guarantee: Guarantee = "simultaneous", failure_probability: float = 0.01
    ) -> np.ndarray:
        return self._minimum(items) + self._offset(guarantee, failure_probability)

    def _frequencies(self, items: Any, confidence: float, guarantee: Guarantee = "simultaneous") -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        failure, sigma_squared = (1 - confidence) / 2, self._privacy.sigma_squared
        offset = self._offset(guarantee, failure)
        collisions = collision_bound(self.counters, self._spec, sigma_squared, failure_probability=failure)
        upper = self._minimum(items) + offset
        return Frequencies(items, upper, upper - 2 * offset - collisions, upper)

    def _minimum(self, items: Any) -> np.ndarray:
        return cells.read_rows(self.counters, self._keys(items), seed=self._spec.seed, has_signs=False).min(axis=0)

    def _offset(self, guarantee: Guarantee, failure_probability: float) -> float:
        _validate.one_of(get_args(Guarantee), guarantee=guarantee)
        _validate.open_unit_interval(failure_probability=failure_probability)
        sigma_squared = self._privacy.sigma_squared
        return noise_offset(self._spec, sigma_squared, failure_probability=failure_probability, guarantee=guarantee)


def noise_offset(spec: SketchSpec, sigma_squared: Fraction, *, failure_probability: float, guarantee: str) -> float:
    """Return E, so that noise below -E is improbable.

    "simultaneous" is the paper's, sigma sqrt(2 ln(4 depth width / beta)): P[any |noise| > E] <= beta / 2 over all
    counters. "per_item" is sigma sqrt(2 ln((depth + 1) / beta)): over one item's counters, P[any noise < -E] and
    P[noise > E in the row with the fewest collisions] are together at most beta.
    """
    noises = 4 * spec.cells if guarantee == "simultaneous" else spec.depth + 1
    return math.sqrt(float(2 * sigma_squared) * math.log(noises / failure_probability))


def collision_bound(
    counters: np.ndarray, spec: SketchSpec, sigma_squared: Fraction, *, failure_probability: float
) -> float:
    """Return how much other items may add to one item's minimum, from the noisy total, for non-negative net weights.

    Half the probability is for the total: the mean of the rows' sums has noise of variance sigma^2 width / depth.
    The other half is Markov's inequality in every row at once: P[min over rows > t] <= (total / (width t))^depth.
    """
    total_error = math.sqrt(float(2 * sigma_squared) * spec.width / spec.depth * math.log(2 / failure_probability))
    total = max(0.0, float(counters.sum(dtype=np.float64)) / spec.depth + total_error)
    return total / spec.width * (failure_probability / 2) ** (-1 / spec.depth)
