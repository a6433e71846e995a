"""Released flat sketches: Count-Min and CountSketch, and the offset of the paper's Count-Min.

Guarantee of `ReleasedCountMin.minimum`, while no item's net weight is negative: no item at all is underestimated, with
probability at least 1 - failure_probability / 2. Source: Zhao et al., NeurIPS 2022, with E from the actual depth, width
and sigma^2; tails of the discrete Gaussian, and of sums of independent ones, are at most exp(-t^2 / (2 sigma^2))
(Canonne, Kamath and Steinke 2020). Tails of a discrete Laplace are at most exp(-t / scale). `tail_margin` applies
Chernoff's bound to sums with a Laplace.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.flat.frequencies import ReleasedFrequencies
from beam_dpsketch.answers.rows import Many, One, as_asked, as_many
from beam_dpsketch.hashing import cells
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.sketches import CountMin, CountSketch
from beam_dpsketch.sketches.spec import SketchSpec

_STEPS = 1 << 12


class ReleasedCountMin(ReleasedFrequencies):
    """A released Count-Min: Huber means over rows, each less the median of its cells, and two-sided intervals.

    Under `REPLACE_ONE`, with weights that are not signed, its noise is 1/sqrt(2) of that in a CountSketch: there it is
    the better choice, unless collisions dominate. Where they do, its estimates are too large on average. Under
    `ADD_OR_REMOVE_ONE` both have equal noise, and a CountSketch is at least as good. `minimum` is the paper's estimate.
    """

    name = "count_min"
    raw_type = CountMin

    @overload
    def minimum(self, items: One, failure_probability: float = ...) -> float: ...
    @overload
    def minimum(self, items: Many, failure_probability: float = ...) -> np.ndarray: ...
    def minimum(self, items: Any, failure_probability: float = 0.01) -> Any:
        """Compute the paper's estimate of each item: the minimum over rows plus the offset E, an upper bound.

        Args:
          items: one item or many.
          failure_probability: beta, in (0, 1): some item is underestimated with probability at most beta / 2.
        """
        items, single = as_many(items)
        _validate.open_unit_interval(failure_probability=failure_probability)
        rows = cells.read_rows(self.counters, self._keys(items), seed=self._spec.seed, has_signs=False)
        offset = noise_offset(
            self._spec, self._privacy.sigma_squared, failure_probability=failure_probability, noise=self._privacy.noise
        )
        return as_asked(rows.min(axis=0) + offset, single)

    def _own_total(self) -> tuple[float, float]:
        """Each row sums to the total, with the noise of all its cells."""
        depth, width = self._spec.depth, self._spec.width
        return float(self.counters.sum()) / depth, width / depth * self._noise_variance()


class ReleasedCountSketch(ReleasedFrequencies):
    """A released CountSketch: Huber means over rows, unbiased also with deletions, and two-sided intervals."""

    name = "count_sketch"
    raw_type = CountSketch


def noise_offset(
    spec: SketchSpec, parameter: Fraction, *, failure_probability: float, noise: Noise = Noise.GAUSSIAN
) -> float:
    """Compute E: with probability 1 - failure_probability / 2, no counter has noise beyond -E or E.

    The paper's, of a Gaussian sigma sqrt(2 ln(4 depth width / beta)).
    """
    return tail_margin(noise, parameter, failure_probability / (4 * spec.cells))


def tail_margin(noise: Noise, parameter: Fraction, probability: float) -> float:
    """Compute a number that a noise of this parameter exceeds with at most this probability.

    Chernoff's bound. With L the logarithm of 1 / probability and s the scale of a Laplace, a Laplace noise with others
    exceeds t with at most exp(-t x) / (1 - s^2 x^2), for all x below 1 / s. A Gaussian, or a sum of Laplace noises, of
    the same parameter has no larger moments. A single Laplace needs t = s L.
    """
    rare, variance = -math.log(probability), float(parameter)
    if noise is Noise.GAUSSIAN:
        return math.sqrt(2 * variance * rare)
    scale = math.sqrt(variance / 2)
    if noise is Noise.LAPLACE:
        return scale * rare
    x = np.linspace(0, 1, _STEPS + 2)[1:-1]
    return scale * float(np.min((rare - np.log1p(-(x**2))) / x))
