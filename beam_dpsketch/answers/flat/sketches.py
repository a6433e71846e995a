"""Released flat sketches: Count-Min and CountSketch.

Count-Min: the minimum over rows plus an offset E that keeps noise from causing underestimates, or a mean.

Guarantee of method="minimum", while no item's net weight is negative: with guarantee="simultaneous", no item at all is
underestimated, with probability at least 1 - failure_probability; with "per_item", each single item is not. Source:
Zhao et al., NeurIPS 2022, with E from the actual depth, width and sigma^2; tails of the discrete Gaussian, and of sums
of independent ones, are at most exp(-t^2 / (2 sigma^2)) (Canonne, Kamath and Steinke 2020). Those of a discrete Laplace
are at most exp(-t / scale). Of sums with a Laplace, `tail_margin` has Chernoff's bound.

Guarantee of method="centred": each item's two-sided interval holds with about the given confidence, over the seed and
the noise, for data of any skew, also with deletions; `row_mean` has the argument.

CountSketch: the Huber mean over rows, unbiased, with intervals read from the noisy counters. Guarantee: each item's
interval holds with about the given confidence, over the seed and the noise, for data of any skew; `row_mean` has the
argument. Source: Charikar, Chen and Farach-Colton 2002, who take the median over rows; private form: Zhao et al.,
NeurIPS 2022.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.flat.frequencies import ReleasedFrequencies
from beam_dpsketch.answers.rows import Frequencies, Frequency, Many, One, as_asked, as_many
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.estimators.row_mean import RowReader, noise_margin
from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.sketches import CountMin, CountSketch
from beam_dpsketch.sketches.spec import SketchSpec

Guarantee: TypeAlias = Literal["simultaneous", "per_item"]
Method: TypeAlias = Literal["minimum", "centred"]
_STEPS = 1 << 12


class ReleasedCountMin(ReleasedFrequencies):
    """A released Count-Min, read by one of two methods.

    "minimum" takes the minimum over rows and lifts it by an offset, so that it does not underestimate. Its two
    guarantees have different offsets: never compare one with the other. Methods without the argument `guarantee` use
    "simultaneous".

    "centred" subtracts from each row the median of its cells, then takes the Huber mean over rows, as a CountSketch
    does. It is nearly unbiased where most cells hold little, and its error is a fraction of the offset. Under
    `REPLACE_ONE`, with weights that are not signed, its noise is 1/sqrt(2) of that in a CountSketch: there it is the
    better choice, unless collisions dominate. Under `ADD_OR_REMOVE_ONE` both have equal noise, and a CountSketch is at
    least as good. Where collisions dominate, a CountSketch is better: there, centred estimates are too large on
    average.
    """

    name = "count_min"
    raw_type = CountMin

    @overload
    def estimate(
        self,
        items: One,
        *,
        method: Method = ...,
        guarantee: Guarantee | None = ...,
        failure_probability: float | None = ...,
    ) -> float: ...
    @overload
    def estimate(
        self,
        items: Many,
        *,
        method: Method = ...,
        guarantee: Guarantee | None = ...,
        failure_probability: float | None = ...,
    ) -> np.ndarray: ...
    def estimate(
        self,
        items: Any,
        *,
        method: Method = "minimum",
        guarantee: Guarantee | None = None,
        failure_probability: float | None = None,
    ) -> Any:
        """Return the estimated total weight of each item: float64 of shape (n,), or a float for a single item.

        Args:
          items: one item or many.
          method: "minimum", the minimum over rows plus E, or "centred"; see the class.
          guarantee: whether E keeps all items ("simultaneous", the default) or each one ("per_item") from being
            underestimated. For method="minimum" only.
          failure_probability: with which it may fail to, in (0, 1); 0.01 by default. For method="minimum" only.
        """
        items, single = as_many(items)
        return as_asked(self._estimates(items, method, guarantee, failure_probability), single)

    @overload
    def interval(
        self, items: One, confidence: float = ..., *, method: Method = ..., guarantee: Guarantee | None = ...
    ) -> Frequency: ...
    @overload
    def interval(
        self, items: Many, confidence: float = ..., *, method: Method = ..., guarantee: Guarantee | None = ...
    ) -> Frequencies: ...
    def interval(
        self, items: Any, confidence: float = 0.95, *, method: Method = "minimum", guarantee: Guarantee | None = None
    ) -> Any:
        """Return each item's estimate with bounds for its true total weight, of the records that bounding kept.

        With "minimum" they are [estimate - 2 E - collisions, estimate]. Half of 1 - confidence is for the noise, in
        the sense of `guarantee`; half is for collisions, per item. With "centred" they reach to both sides, and hold
        for each item alone; half of 1 - confidence is for each side. See `ReleasedSketch.interval`.
        """
        items, single = as_many(items)
        return as_asked(self._frequencies(items, confidence, method, guarantee), single)

    def as_rows(
        self, items: One | Many, confidence: float = 0.95, *, method: Method = "minimum"
    ) -> list[dict[str, Any]]:
        """Return one plain dict per item with the fields item, estimate, lower and upper, for any sink."""
        return self._frequencies(as_many(items)[0], confidence, method).to_rows()

    def top_k(
        self, k: int, candidates: Many | None = None, confidence: float = 0.95, *, method: Method = "minimum"
    ) -> Frequencies:
        """Return the k candidates of largest estimate by this method; see `ReleasedSketch.top_k`."""
        if candidates is None or method == "minimum":
            return super().top_k(k, candidates, confidence)
        _validate.whole(low=1, high=1 << 31, k=k)
        return self._frequencies(_validate.many(candidates=candidates), confidence, method).largest(k)

    def _estimates(
        self,
        items: Any,
        method: Method = "minimum",
        guarantee: Guarantee | None = None,
        failure_probability: float | None = None,
    ) -> np.ndarray:
        _check_method(method, guarantee, failure_probability)
        if method == "centred":
            return self._centred.estimates(self._keys(items))
        failure_probability = 0.01 if failure_probability is None else failure_probability
        return self._minimum(items) + self._offset(guarantee, failure_probability)

    def _frequencies(
        self, items: Any, confidence: float, method: Method = "minimum", guarantee: Guarantee | None = None
    ) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        _check_method(method, guarantee)
        if method == "centred":
            middle, (below, above) = self._centred.estimates(self._keys(items)), self._centred.margins(confidence)
            return Frequencies(items, middle, middle - below, middle + above, basis=self._basis(confidence, len(items)))
        offset, below = self._reach(guarantee, confidence)
        upper, basis = self._minimum(items) + offset, self._basis(confidence, len(items))
        return Frequencies(items, upper, upper - below, upper, basis=basis)

    def _reach(self, guarantee: Guarantee | None, confidence: float) -> tuple[float, float]:
        """Return E, and how far the truth may be below an estimate by the minimum."""
        failure, privacy = (1 - confidence) / 2, self._privacy
        offset = self._offset(guarantee, failure)
        collisions = collision_bound(
            self.counters, self._spec, privacy.sigma_squared, failure_probability=failure, noise=privacy.noise
        )
        return offset, 2 * offset + collisions

    def _rows_and_margins(self, confidence: float) -> dict[str, Any]:
        offset, below = self._reach(None, confidence)
        counters = self.counters.astype(np.float64)
        return {"counters": counters, "method": "minimum", "scale": 0.0, "lift": offset, "below": below, "above": 0.0}

    def _own_total(self) -> tuple[float, float]:
        """Each row sums to the total, with the noise of all its cells."""
        depth, width = self._spec.depth, self._spec.width
        return float(self.counters.sum()) / depth, width / depth * self._noise_variance()

    @property
    def _noise_reach(self) -> float:
        return self._offset(None, (1 - 0.95) / 2)

    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        return self._frequencies(items, confidence, "centred")

    def _minimum(self, items: Any) -> np.ndarray:
        return cells.read_rows(self.counters, self._keys(items), seed=self._spec.seed, has_signs=False).min(axis=0)

    def _offset(self, guarantee: Guarantee | None, failure_probability: float) -> float:
        guarantee = "simultaneous" if guarantee is None else guarantee
        _validate.one_of(get_args(Guarantee), guarantee=guarantee)
        _validate.open_unit_interval(failure_probability=failure_probability)
        return noise_offset(
            self._spec,
            self._privacy.sigma_squared,
            failure_probability=failure_probability,
            guarantee=guarantee,
            noise=self._privacy.noise,
        )

    @functools.cached_property
    def _centred(self) -> RowReader:
        return RowReader(self._spec, self.counters, self._privacy.sigma_squared, self._privacy.noise)


def _check_method(method: Method, guarantee: Guarantee | None, failure_probability: float | None = None) -> None:
    _validate.one_of(get_args(Method), method=method)
    for name, value in (("guarantee", guarantee), ("failure_probability", failure_probability)):
        if value is not None and method != "minimum":
            raise ArgumentError("", f'{name} is of method="minimum" only: leave it out with method="{method}"', "E709")


def noise_offset(
    spec: SketchSpec, parameter: Fraction, *, failure_probability: float, guarantee: str, noise: Noise = Noise.GAUSSIAN
) -> float:
    """Return E, so that noise below -E is improbable.

    "simultaneous" is the paper's, of a Gaussian sigma sqrt(2 ln(4 depth width / beta)): P[any |noise| > E] <= beta / 2
    over all counters. "per_item" is sigma sqrt(2 ln((depth + 1) / beta)): over one item's counters, P[any noise < -E]
    and P[noise > E in the row with the fewest collisions] are together at most beta.
    """
    noises = 4 * spec.cells if guarantee == "simultaneous" else spec.depth + 1
    return tail_margin(noise, parameter, failure_probability / noises)


def collision_bound(
    counters: np.ndarray,
    spec: SketchSpec,
    parameter: Fraction,
    *,
    failure_probability: float,
    noise: Noise = Noise.GAUSSIAN,
) -> float:
    """Return how much other items may add to one item's minimum, from the noisy total, for non-negative net weights.

    Half the probability is for the total: the mean of the rows' sums has the noise of all counters over depth.
    The other half is Markov's inequality in every row at once: P[min over rows > t] <= (total / (width t))^depth.
    """
    total_error = tail_margin(noise, parameter, failure_probability / 2, count=spec.cells) / spec.depth
    total = max(0.0, float(counters.sum(dtype=np.float64)) / spec.depth + total_error)
    return total / spec.width * (failure_probability / 2) ** (-1 / spec.depth)


def tail_margin(noise: Noise, parameter: Fraction, probability: float, count: int = 1) -> float:
    """Return a number that a sum of noises of this parameter exceeds with at most this probability.

    Chernoff's bound. With L the logarithm of 1 / probability and s the scale of a Laplace, the sum of n Laplace noises
    exceeds t with at most exp(-t x) (1 - s^2 x^2)^-n, for all x below 1 / s. A Gaussian, or a sum of Laplace noises, of
    the same parameter has no larger moments. A single Laplace needs t = s L.
    """
    rare, variance = -math.log(probability), float(parameter)
    if noise is Noise.GAUSSIAN:
        return math.sqrt(2 * variance * count * rare)
    scale = math.sqrt(variance / 2)
    if noise is Noise.LAPLACE and count == 1:
        return scale * rare
    x = np.linspace(0, 1, _STEPS + 2)[1:-1]
    return scale * float(np.min((rare - count * np.log1p(-(x**2))) / x))


class ReleasedCountSketch(ReleasedFrequencies):
    """A released CountSketch: Huber means over rows, unbiased also with deletions, and two-sided intervals.

    The Huber mean is the median over rows plus the mean of the rows' distances from it, each clipped at one scale.
    """

    name = "count_sketch"
    raw_type = CountSketch

    def _estimates(self, items: Any) -> np.ndarray:
        return self._rows.estimates(self._keys(items))

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        middle, (below, above) = self._estimates(items), self._rows.margins(confidence)
        return Frequencies(items, middle, middle - below, middle + above, basis=self._basis(confidence, len(items)))

    def _rows_and_margins(self, confidence: float) -> dict[str, Any]:
        counters, scale = self._rows.counters.astype(np.float64), self._rows.scale
        below, above = self._rows.margins(confidence)
        return {"counters": counters, "method": "huber", "scale": scale, "lift": 0.0, "below": below, "above": above}

    @property
    def _noise_reach(self) -> float:
        return noise_margin(self._spec.depth, 0.95, self._privacy.noise) * math.sqrt(self._privacy.sigma_squared)

    @functools.cached_property
    def _rows(self) -> RowReader:
        return RowReader(self.spec, self.counters, self.privacy.sigma_squared, self.privacy.noise)
