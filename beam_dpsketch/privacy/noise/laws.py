"""The laws of noise: the discrete Gaussian, the discrete Laplace, and sums of both; how far each may be from 0.

The PARAMETER of a law is one number, in squared records: sigma^2 of a Gaussian, 2 scale^2 of a Laplace. It is at least
the variance. Parameters of noises that are added up add up too.

The GRID. Noise is drawn on whole numbers of 2^-bits of a record. A Gaussian is drawn on a fine grid (`drawing`), and a
Laplace on that of the weights: on whole records at epsilon 2 its standard deviation is 0.60, on a fine grid 0.71.

`margin` is that of an interval around one noisy number. Guarantee: such an interval holds with the given confidence or
more, over the noise.

* Gaussian: for m on the grid P[|noise| > m] <= P[|normal| > m] at the same sigma. The weights exp(-x^2 / (2 sigma^2))
  of x > m sum to less than the integral from m on, and all weights sum to sigma sqrt(2 pi) or more (Poisson summation).
  The noise of combined releases has the same tails but for a share below 1e-8, if each sigma is 1.5 steps or more.
* Laplace: with p = exp(-1 / scale) in steps of the grid, P[|noise| > m] = 2 p^(m + 1) / (1 + p), exactly. A margin is
  one step at least, so that no noisy number looks exact.
* Sums: the tail of a sum that has a Laplace in it is between that of a normal and a Laplace law of its parameter, but
  where these two cross, at about 1.7 deviations. There it is above both by less than 0.3 %. A test compares all
  mixtures of a grid. So the larger of both is taken, times 1.002.
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
"""The squared steps that `drawing` adds to the parameter of a Gaussian."""
_MIXED, _DRAWN = 1.002, 1 + 2.0**-18  # the latter covers what `drawing` adds to sigma
_ROUNDING = 1e-12


class Noise(enum.Enum):
    """What noise a number has; the value says it in words."""

    GAUSSIAN = "a discrete Gaussian"
    LAPLACE = "a discrete Laplace"
    SUM = "a sum of noises, some of them a discrete Laplace"

    def plus(self, other: Noise) -> Noise:
        """Return the law of a sum of independent noises."""
        return self if self is other is Noise.GAUSSIAN else Noise.SUM

    def grid_bits(self, parameter: Fraction, squared_unit: int = 1) -> int:
        """Return by how many bits the grid of the noise is finer than counters.

        Args:
          parameter: in squared records; of several tables, the smallest.
          squared_unit: the square of what a record counts.
        """
        if self is not Noise.GAUSSIAN:
            return 0
        steps = math.isqrt(math.floor(parameter * squared_unit * _LEAST_STEPS**2))  # of 2^-10 of a counter
        return max(0, (-(-(_LEAST_STEPS**2) // max(steps, 1)) - 1).bit_length())

    def margin(self, parameter: Fraction, confidence: float, bits: int) -> float:
        """Return a number that noise exceeds, up or down, with a probability of at most 1 - confidence, in records.

        Args:
          parameter: in squared records.
          confidence: between 0 and 1.
          bits: it is drawn in steps of 2**-bits, or finer ones of a Gaussian.
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
        """Return from how many roots of its parameter on noise is larger, to one side, with at most this probability.

        The grid is taken as fine.
        """
        normal = -NormalDist().inv_cdf(probability)
        if self is Noise.GAUSSIAN:
            return normal
        laplace = math.log(1 / (2 * probability)) / math.sqrt(2) if probability < 0.5 else 0.0
        return laplace if self is Noise.LAPLACE else max(normal, laplace) * _MIXED

    def variance(self, parameter: Fraction, bits: int) -> float:
        """Return the variance, in squared records, of noise that is drawn in steps of 2**-bits; of sums, the most."""
        if self is not Noise.LAPLACE:
            return float(parameter)
        return discrete_laplace.variance(scale_of(parameter) * (1 << bits)) / 4**bits

    @property
    def measure(self) -> str:
        """What `spread` is called."""
        return "scale" if self is Noise.LAPLACE else "sigma"

    def spread(self, parameter: Fraction) -> float:
        """Return how wide noise is, from its parameter: the scale of a Laplace, sigma of others."""
        return math.sqrt(parameter / 2 if self is Noise.LAPLACE else parameter)

    def check(self, *parameters: Fraction) -> None:
        """Refuse parameters that this noise cannot have."""
        for each in parameters if self is Noise.LAPLACE else ():
            scale_of(each)

    def fourth_cumulant(self, variance: float, bits: int) -> float:
        """Return by how much the fourth moment exceeds 3 variance^2, in records^4; of sums, the most.

        Of a discrete Laplace of variance V it is V + 3 V^2, in steps of the grid: squares vary more than those of a
        Gaussian, and far more where there is little noise. Cumulants add up, and the square of a sum is as large as
        the sum of squares, or larger.

        Args:
          variance: of the noise, in squared records.
          bits: it is drawn in steps of 2**-bits.
        """
        return 0.0 if self is Noise.GAUSSIAN else variance / 4**bits + 3 * variance**2


NOISES = {noise.name.lower(): noise for noise in (Noise.GAUSSIAN, Noise.LAPLACE)}
"""What may be asked for, by name."""


def scale_of(parameter: Fraction) -> Fraction:
    """Return the scale of a Laplace from its parameter 2 scale^2, exactly.

    >>> scale_of(Fraction(1, 2))
    Fraction(1, 2)
    """
    squared = parameter / 2
    scale = Fraction(math.isqrt(squared.numerator), math.isqrt(squared.denominator))
    if scale**2 != squared:
        raise ValueError("the parameter of Laplace noise must be twice the square of a fraction")
    return scale
