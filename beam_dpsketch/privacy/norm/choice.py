"""Choose max_norm from a noisy histogram of how long units are.

Guarantee: each unit is in one bin at most, by its own records alone. So the noisy histogram costs the
`spend` of an `AutoNorm`, and rho adds up with that of the counters: zCDP composes also where the second release
depends on the first (Bun and Steinke 2016, Lemma 2.3). What is chosen is a function of the noisy histogram and of
public numbers. It is exact arithmetic, the same on every machine.

Bins. A unit of length N, in records of one item, is in bin j = floor(2 log2 N): 2^j <= N^2 < 2^(j + 1). The first bin
starts at 1. The last one, of 32, starts at 2^15.5 and has no end, but a choice takes it to end at 2^16. Weights, which
make units longer, have two more bins for each doubling of max_weight, up to 62 bins.

How many units to scale. Let b be the norm, kappa b the standard deviation of an estimate, and phi the part of a scaled
unit's length that is one item's: n(x) / N for an item x asked for, on average. A unit longer than b counts b / N of its
records, so x loses n(x) (1 - b / N). Per unit of b that is phi less for each of the m(b) units that are longer. The
mean error is at most the loss plus the mean of |noise|, sqrt(2 / pi) kappa b, about 0.8 kappa b. The sum is least where
its slope is 0: at m = 0.8 kappa / phi, which does not depend on the data. So b is the m-th largest length.

kappa follows from the noise of a counter under a norm of 1, with the part of rho that the sketch's counters get, and
from how the sketch is read: kappa^2 = reading^2 squared_l2_sensitivity(norm 1) / (2 rho).

phi is `item_share` where one sketch counts all records. A unit that is spread evenly over k sketches, of keys and
windows, is sqrt(k) times as long as in each, and an item of one of them holds phi / sqrt(k) of N. So phi is divided by
the root of keys times windows: a middle, because units of one sketch each would have phi / k on average over sketches,
and phi stays where a few sketches have most units.

Where the rule holds: for flat sketches and lists of items, judged by the true top 10 of each sketch, where the error
is 1.0 to 1.7 times that at the best norm with all of rho, in the median (`benchmarks.people`). In grouped counts a
pair of key and item is such an item.

Trees. In place of an item's count stands a rank, which has the noise of about one node of each level. So kappa is about
the finest level, and phi about how far a rank moves where a heavy unit is scaled. No phi suits all data, because
scaling moves quantiles only as far as busy units differ from others: errors are up to three times those at the best
norm.

The choice. The largest lengths are rare, and noise in empty bins above them would add up to units that do not exist. So
it is found first how long units are shown to be. A bin shows units of its lengths, or longer ones, if a sum from it on
upwards is far enough above 0. The sum is of eight bins, each with 3/4 of the weight of the one below, because tails get
thinner. Where a sum ends shows nothing, as its first bin may hold all. Bins are gone through upwards. The one after a
bin that is shown needs 3.2 standard deviations of the sum. All others need 4.5, because they are many, and a norm that
is many times too large costs most. From three bins above the last one that is shown, noisy counts are added up
downwards until they reach m. Within that bin, lengths are taken to be even in log N. The norm is at most 1.493 times
where the last bin that is shown starts. The result is rounded to a public grid, sixteenths of a record.

How often noise is followed. The norm is above 1.5 times the largest length only if empty bins show units. The lowest of
these is the bin after the longest unit's, or has a sum of more than 4.5 deviations. With up to 62 bins, this happens
with probability at most Q(3.2) + 61 Q(4.5) < 1 / 1000, for all lengths. Q is the tail of a normal distribution, which
the noise is close to. Laplace noise has longer tails. So a bin needs 4 deviations after one that is shown, and
6.3 alone. A sum of eight surpasses these in less than 5 of 10,000 and 4 of 10^6 cases, by exact sums in a test.

Order 1. A unit's total weight W stands in place of its length N, in choice and bound, and all else is the same but for
kappa: under Laplace noise, kappa^2 = reading^2 2 (L1 sensitivity(norm 1) / epsilon)^2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION, NeighboringRelation
from beam_dpsketch.privacy.mechanism import Spending, sensitivity
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import AutoNorm

_BINS = 32
_MOST_BINS = 2 * (MAX_CONTRIBUTION.bit_length() - 1)
GRID = 16
_WEIGHTS = tuple(3**above * 4 ** (7 - above) for above in range(8))
_DEVIATIONS = {Noise.GAUSSIAN: (Fraction(16, 5), Fraction(9, 2)), Noise.LAPLACE: (Fraction(4), Fraction(63, 10))}
_BINS_ABOVE = 3
_MOST_ABOVE = Fraction(37, 32)  # bins: 2^(37 / 64) is 1.493
_MEAN_OF_NOISE = Fraction(4, 5)
_UNITS_BITS = 16
_ROOTS = 7
_STEPS = 1 << _ROOTS - 1  # of a bin: a step multiplies the norm by the 128th root of 2


def bin_count(max_weight: int) -> int:
    """Return the number of bins for records of up to this weight."""
    return min(_MOST_BINS, _BINS + 2 * (max_weight - 1).bit_length())


def histogram(norms: np.ndarray, denominator: int, bins: int) -> np.ndarray:
    """Return how many units are in each bin, int64 of shape (bins,). It is not private: never publish it.

    Args:
      norms: denominator * N^2 of each unit, as `norm.scaling.squared_norms` returns it; units of 0 are not counted.
      denominator: at most 2^40. The edges of the bins are exact in float64, and so are norms below 2^53.
      bins: how many.
    """
    edges = np.ldexp(float(denominator), np.arange(1, bins))
    return np.bincount(np.searchsorted(edges, norms[norms > 0], side="right"), minlength=bins).astype(np.int64)


def units_to_scale(
    auto: AutoNorm,
    *,
    cells_per_item: int,
    has_signs: bool,
    relation: NeighboringRelation,
    spending: Spending,
    share: Fraction,
    reading: Fraction | float,
    output_cells: int = 1,
) -> Fraction:
    """Return how many units should be longer than the norm: m, rounded down to a multiple of 2^-16.

    Args:
      auto: the share of the item that is asked for, and whether weights have signs.
      cells_per_item: counters that one item touches: the depth of a flat sketch; 1 for listed items. Of a tree, those
        of the finest level.
      has_signs: whether an item may count negatively in a cell.
      relation: the relation between neighbouring inputs.
      spending: what the release spends.
      share: the part of it that the sketch's counters get.
      reading: the standard deviation of an estimate over that of a counter: 1 if it is one counter;
        `estimators.row_mean.noise_margin(depth, 0.683)`, 0.46 with five rows, if it is the Huber mean over rows.
      output_cells: how many sketches one norm covers, keys times windows.
    """
    change = sensitivity(cells_per_item=cells_per_item, has_signs=has_signs, bounds=auto.bound(1), relation=relation)
    counter = spending.parameter(change, share=share)
    squared = counter * output_cells * (_MEAN_OF_NOISE * Fraction(reading) / auto.asked_share) ** 2
    return Fraction(math.isqrt(math.floor(squared * 4**_UNITS_BITS)), 1 << _UNITS_BITS)


def choose(
    noisy: np.ndarray, *, parameter: Fraction, scaled_units: Fraction, noise: Noise = Noise.GAUSSIAN
) -> Fraction:
    """Return the norm that about this number of units exceed: a multiple of 1/16, from 1 to the end of the bins.

    It is 1 where the histogram shows fewer units, or none that exceed the noise.

    Args:
      noisy: the noisy histogram, whole numbers of shape (bins,).
      parameter: of the noise of each count.
      scaled_units: how many units should be longer than the norm, above 0.
      noise: of each count.
    """
    counts, above = [int(count) for count in noisy], 0
    shown = _longest_shown(counts, parameter, *_DEVIATIONS[noise])
    if shown is None:
        return Fraction(1)
    for place in reversed(range(min(len(counts), shown + 1 + _BINS_ABOVE))):
        if above + counts[place] >= scaled_units:
            found = place + 1 - (scaled_units - above) / counts[place]
            return _norm(min(found, shown + _MOST_ABOVE))
        above += counts[place]
    return Fraction(1)


def _longest_shown(counts: Sequence[int], parameter: Fraction, after: Fraction, alone: Fraction) -> int | None:
    """Return the largest bin that shows units of its lengths or longer ones, or `None`."""
    of_one = parameter * sum(weight**2 for weight in _WEIGHTS)
    near, far = (math.isqrt(math.floor(each**2 * of_one)) for each in (after, alone))
    shown = None
    for start in range(len(counts)):
        total = sum(weight * count for weight, count in zip(_WEIGHTS, counts[start:], strict=False))
        if total > (near if shown == start - 1 else far):
            shown = start
    return shown


def _norm(octaves: Fraction) -> Fraction:
    """Return the largest multiple of 1/16 whose square is at most 2^octaves, which is rounded to a step first."""
    power = 1 << round(octaves * _STEPS) + 2 * _STEPS * (GRID.bit_length() - 1)
    for _ in range(_ROOTS):
        power = math.isqrt(power)  # a root of a rounded-down root, rounded down, is that of the number itself
    return Fraction(power, GRID)
