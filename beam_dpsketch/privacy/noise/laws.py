"""Noise laws: the discrete Gaussian, the discrete Laplace and sums of both, with margins, quantiles and moments.

The PARAMETER of a law is one number, in squared records: sigma^2 for a Gaussian, 2 scale^2 for a Laplace. It is at
least the variance. The parameter of a sum is the sum of the parameters.

The GRID. Noise is drawn on whole multiples of 2^-bits records. A Gaussian is drawn on a fine grid (`drawing`), and a
Laplace on the grid of the weights: on whole records at epsilon 2 its standard deviation is 0.60, on a fine grid 0.71.

`margin` is the half-width of an interval around a noisy number. Guarantee: over the noise, the interval contains the
exact number with at least the given confidence.

* Gaussian: for m on the grid P[|noise| > m] <= P[|normal| > m] at the same sigma. The weights exp(-x^2 / (2 sigma^2))
  for x > m sum to less than the integral from m on, and all weights sum to at least sigma sqrt(2 pi) (Poisson
  summation). The noise of combined releases has the same tails up to a share below 1e-8, if each sigma is 1.5 steps or
  more.
* Laplace: with p = exp(-1 / scale) in grid steps, P[|noise| > m] = 2 p^(m + 1) / (1 + p), exactly. A margin is one step
  or more, because no noisy number should look exact.
* Sums: the tail of a sum with a Laplace term is between the tails of a normal and a Laplace law with its parameter,
  except near their crossing, at about 1.7 deviations. There it exceeds both by less than 0.3 %. A test compares all
  mixtures on a grid. Hence the margin is the larger of both, times 1.002.
"""

from __future__ import annotations

import enum
import math
from fractions import Fraction
from statistics import NormalDist

from beam_dpsketch import checks as _validate
from beam_dpsketch.privacy.noise import discrete_laplace

_LEAST_STEPS = 1 << 10
EXTRA = 4
"""Squared steps that `drawing` adds to the parameter of a Gaussian."""
_MIXED, _DRAWN = 1.002, 1 + 2.0**-18  # _DRAWN covers EXTRA, added to sigma^2 by `drawing`
_ROUNDING = 1e-12


class Noise(enum.Enum):
    """Noise law of a number. The value names it in words."""

    GAUSSIAN = "a discrete Gaussian"
    LAPLACE = "a discrete Laplace"
    SUM = "a sum of noises, some of them a discrete Laplace"

    def plus(self, other: Noise) -> Noise:
        return self if self is other is Noise.GAUSSIAN else Noise.SUM

    def grid_bits(self, parameter: Fraction, squared_unit: int = 1) -> int:
        """Compute the bits by which the noise grid is finer than counters.

        Args:
          parameter: in squared records, the smallest for several tables.
          squared_unit: squared record count.
        """
        if self is not Noise.GAUSSIAN:
            return 0
        steps = math.isqrt(math.floor(parameter * squared_unit * _LEAST_STEPS**2))  # in units of 2^-10 counters
        return max(0, (-(-(_LEAST_STEPS**2) // max(steps, 1)) - 1).bit_length())

    def margin(self, parameter: Fraction, confidence: float, bits: int) -> float:
        """Compute a number that the noise exceeds, up or down, with probability at most 1 - confidence, in records.

        Args:
          parameter: in squared records.
          confidence: between 0 and 1.
          bits: the noise is drawn in steps of 2**-bits. A Gaussian may use finer steps.
        """
        _validate.open_unit_interval(confidence=confidence)
        failure = (1 - confidence) / 2
        if self is Noise.LAPLACE:
            scale = float(scale_of(parameter)) * (1 << bits)
            p = math.exp(-1 / scale)
            steps = max(scale * math.log(1 / ((1 + p) * failure)) * (1 + _ROUNDING) - 1, 1.0)
        else:
            steps = self.deviations(failure) * math.sqrt(parameter) * (1 << bits) * _DRAWN
        return max(math.ceil(steps), 0) / (1 << bits)

    def deviations(self, probability: float) -> float:
        """Compute the one-sided quantile that noise exceeds with at most this probability, in roots of its parameter.

        The grid is assumed to be fine.
        """
        normal = -NormalDist().inv_cdf(probability)
        if self is Noise.GAUSSIAN:
            return normal
        laplace = math.log(1 / (2 * probability)) / math.sqrt(2) if probability < 0.5 else 0.0
        return laplace if self is Noise.LAPLACE else max(normal, laplace) * _MIXED

    def variance(self, parameter: Fraction, bits: int) -> float:
        """Compute the variance, in squared records, of noise drawn in steps of 2**-bits, or an upper bound for sums."""
        if self is not Noise.LAPLACE:
            return float(parameter)
        return discrete_laplace.variance(scale_of(parameter) * (1 << bits)) / 4**bits

    @property
    def measure(self) -> str:
        return "scale" if self is Noise.LAPLACE else "sigma"

    def spread(self, parameter: Fraction) -> float:
        """Compute the width of the noise from its parameter: the scale of a Laplace, sigma for other laws."""
        return math.sqrt(parameter / 2 if self is Noise.LAPLACE else parameter)

    def check(self, *parameters: Fraction) -> None:
        for each in parameters if self is Noise.LAPLACE else ():
            scale_of(each)

    def fourth_cumulant(self, variance: float, bits: int) -> float:
        """Compute the excess of the fourth moment over 3 variance^2, in records^4, or an upper bound for sums.

        For a discrete Laplace with variance V it is V + 3 V^2, in grid steps: squares vary more than for a Gaussian, by
        a factor that grows as the noise shrinks. Cumulants add up, and the square of a sum is at least the sum of
        squares.

        Args:
          variance: variance in squared records.
          bits: the noise is drawn in steps of 2**-bits.
        """
        return 0.0 if self is Noise.GAUSSIAN else variance / 4**bits + 3 * variance**2


NOISES = {noise.name.lower(): noise for noise in (Noise.GAUSSIAN, Noise.LAPLACE)}
"""Noise laws that a caller can request, by name."""


def scale_of(parameter: Fraction) -> Fraction:
    """Compute the scale of a Laplace from its parameter 2 scale^2, exactly.

    >>> scale_of(Fraction(1, 2))
    Fraction(1, 2)
    """
    squared = parameter / 2
    scale = Fraction(math.isqrt(squared.numerator), math.isqrt(squared.denominator))
    if scale**2 != squared:
        raise ValueError("the Laplace parameter must be twice a squared fraction")
    return scale
