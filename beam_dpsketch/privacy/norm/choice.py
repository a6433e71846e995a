"""Choice of max_norm from a noisy histogram of unit lengths.

Guarantee: each unit is in at most one bin, by its own records alone. Hence the noisy histogram costs the `spend` of an
`AutoNorm`, and its rho adds to the rho of the counters: zCDP composes even if the second release depends on the first
(Bun and Steinke 2016, Lemma 2.3). The chosen norm is a function of the noisy histogram and public numbers. The function
uses exact arithmetic, which is the same on every machine.

Bins. A unit with length N, in records with the same item, is in bin j = floor(2 log2 N): 2^j <= N^2 < 2^(j + 1). The
first bin starts at 1. The last bin, number 32, starts at 2^15.5 and is unbounded, but a choice assumes that it ends at
2^16. Weights, which make units longer, add two bins per doubling of max_weight, up to 62 bins.

Number of units to scale. Let b be the norm, kappa b the standard deviation of an estimate, and phi the share of a
scaled unit's length that a single item has: n(x) / N for a queried item x, on average. A unit longer than b counts b /
N of its records, hence x loses n(x) (1 - b / N). Per unit increase of b that is phi less for each of the m(b) longer
units. The mean error is at most the clipping loss plus the mean of |noise|, sqrt(2 / pi) kappa b, about 0.8 kappa b.
The sum is smallest where its slope is 0: at m = 0.8 kappa / phi, which does not depend on the data. Hence b is the m-th
largest length.

kappa follows from the noise of a counter under a norm of 1, with the budget share for the sketch's counters, and from
the estimator: kappa^2 = reading^2 squared_l2_sensitivity(norm 1) / (2 rho).

phi is `item_share` if a single sketch counts all records. A unit spread evenly over k sketches, for keys and windows,
is sqrt(k) times as long as in each, and an item in a sketch has phi / sqrt(k) of N. Therefore phi is divided by the
root of keys times windows. This is a compromise: units in a single sketch each would have phi / k on average over
sketches, and phi stays if a few sketches contain most units.

Where the rule applies: to flat sketches and item lists, judged by the true top 10 of each sketch, where the median
error is 1.0 to 1.7 times the error at the best norm with all of rho (`benchmarks.people`). In thresholded counts a pair
of key and item is such an item.

Means. Scaling a unit reduces a key's count and sum alike. If the key has n records, the unit's own mean differs from
theirs by d value ranges, and the unit loses a part of its n(x) records, the mean moves by at most d times that part
over n. The noise of the mean is 0.7 to 1 times kappa b / n, from the interval of a mean. The rule therefore applies to
means if phi is multiplied by the average d of the scaled units, which is small because differences cancel. 1/400 is
that product for half of a unit's length in each key and an average d of 1/200. Median errors are then 1.3 to 1.4 times
the error at the best norm (`benchmarks.people means`). They are larger if heavy units have larger or smaller numbers
than others, because clipping then biases the mean, and a larger `item_share` is better.

Trees. A rank replaces an item's count, and has the noise of about one node per level. Hence kappa describes the finest
level, and phi the change of a rank when a heavy unit is scaled. No phi is right for all data, because scaling moves
quantiles only as far as busy units differ from others: errors are up to three times the error at the best norm.

The choice. The largest lengths are rare, and noise in empty bins above them would add up to units that do not exist.
Therefore the rule first determines the largest significant length. A bin is significant for its lengths, or longer
lengths, if a sum that starts there is far enough above 0. The sum covers eight bins, each with 3/4 of the weight of the
bin below, because tails become thinner. The end of a sum is not significant, as its first bin may contain the whole
sum. Bins are examined upwards. The bin after a significant bin requires 3.2 standard deviations of the sum. All others
require 4.5, because they are many, and a norm that is many times too large costs most. From three bins above the last
significant bin, noisy counts are added up downwards until they reach m. Within that bin, lengths are assumed to be
uniform in log N. The norm is at most 1.493 times the start of the last significant bin. The result is rounded to a
public grid, sixteenths of a record.

False detections. The norm exceeds 1.5 times the largest length only if empty bins appear significant. The lowest such
bin is the bin after the longest unit's, or has a sum above 4.5 deviations. With up to 62 bins, the probability is at
most Q(3.2) + 61 Q(4.5) < 1 / 1000, for all lengths. Q is the tail of a normal distribution, which approximates the
noise. Laplace noise has longer tails. Therefore a bin requires 4 deviations after a significant bin, and 6.3 alone. A
sum over eight bins exceeds these in less than 5 of 10,000 and 4 of 10^6 cases, by exact sums in a test.

L1 norm. A unit's total weight W replaces its length N, in choice and bound. All else is the same except
kappa: with Laplace noise, kappa^2 = reading^2 2 (L1 sensitivity(norm 1) / epsilon)^2.
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
_STEPS = 1 << _ROOTS - 1  # steps per bin, each a factor 2^(1 / 128) of the norm


def bin_count(max_weight: int) -> int:
    """Compute the number of bins for records with at most this weight."""
    return min(_MOST_BINS, _BINS + 2 * (max_weight - 1).bit_length())


def histogram(norms: np.ndarray, denominator: int, bins: int) -> np.ndarray:
    """Count the units in each bin, int64, shape (bins,). The counts are not private: never publish them.

    Args:
      norms: denominator * N^2 per unit, as returned by `norm.scaling.squared_norms`. Units with 0 are not counted.
      denominator: at most 2^40. The bin edges are exact in float64, and so are norms below 2^53.
      bins: bin count.
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
    """Compute the target number of units longer than the norm: m, rounded down to a multiple of 2^-16.

    Args:
      auto: the share of the queried item, and whether weights have signs.
      cells_per_item: counters that an item touches: the depth of a flat sketch; 1 for listed items. For a tree,
        counters on its finest level.
      has_signs: whether an item may count negatively in a cell.
      relation: the relation between neighboring inputs.
      spending: loss that the release spends.
      share: the share of it for the sketch's counters.
      reading: standard deviation of an estimate divided by the counter's: 1 for a single counter;
        `estimators.row_mean.noise_margin(depth, 0.683)`, 0.46 with five rows, for the Huber mean over rows.
      output_cells: sketches covered by a norm, keys times windows.
    """
    change = sensitivity(cells_per_item=cells_per_item, has_signs=has_signs, bounds=auto.bound(1), relation=relation)
    counter = spending.parameter(change, share=share)
    squared = counter * output_cells * (_MEAN_OF_NOISE * Fraction(reading) / auto.asked_share) ** 2
    return Fraction(math.isqrt(math.floor(squared * 4**_UNITS_BITS)), 1 << _UNITS_BITS)


def choose(
    noisy: np.ndarray, *, parameter: Fraction, scaled_units: Fraction, noise: Noise = Noise.GAUSSIAN
) -> Fraction:
    """Choose the norm that about this number of units exceed: a multiple of 1/16, from 1 to the end of the bins.

    The norm is 1 if the histogram shows fewer units, or no units above the noise.

    Args:
      noisy: the noisy histogram, whole numbers, shape (bins,).
      parameter: noise parameter of each count.
      scaled_units: target number of units longer than the norm, above 0.
      noise: noise law of each count.
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
    of_one = parameter * sum(weight**2 for weight in _WEIGHTS)
    near, far = (math.isqrt(math.floor(each**2 * of_one)) for each in (after, alone))
    shown = None
    for start in range(len(counts)):
        total = sum(weight * count for weight, count in zip(_WEIGHTS, counts[start:], strict=False))
        if total > (near if shown == start - 1 else far):
            shown = start
    return shown


def _norm(octaves: Fraction) -> Fraction:
    """Compute the largest multiple of 1/16 whose square is at most 2^octaves, after rounding octaves to a step."""
    power = 1 << round(octaves * _STEPS) + 2 * _STEPS * (GRID.bit_length() - 1)
    for _ in range(_ROOTS):
        power = math.isqrt(power)  # nested rounded-down roots equal the rounded-down root of the number
    return Fraction(power, GRID)
