"""Norm choice from an exact histogram of lengths.

Guarantee: the norm costs its share of the loss, (spend rho)-zCDP or (spend epsilon)-DP, under the given neighboring
relation, if each unit is in at most one bin, by its own records alone. With counters that cost the rest, choice and
release together are rho-zCDP.

Proof. Adding or removing a unit changes one count by 1. Replacing a unit changes up to two counts by 1 each. The
discrete Gaussian with parameter Delta^2 / (2 spend rho) is then (spend rho)-zCDP (Canonne, Kamath and Steinke 2020,
Theorem 4). The norm is a function of the noisy counts and public numbers, hence it costs no more. The noisy counts
themselves are never published. For each possible norm, the release is zCDP with the remaining share of rho. zCDP
composes if the second mechanism depends on the first's output, and the shares add (Bun and Steinke 2016, Lemma 2.3).
Hence the release's statement may report the norm. The same is true for Laplace noise, whose epsilons add up.

The proof requires a single draw: scaling and noise must use the same norm. Another draw from the same counts is another
release.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import encode
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.noise.calibration import counter_tables
from beam_dpsketch.noise.tables import NoisyTable, aside, lengths, lost, message, settings_of
from beam_dpsketch.privacy.noise.drawing import MAX_SIGMA_SQUARED
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness, RandomBytes
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.choice import GRID, choose
from beam_dpsketch.privacy.terms import ReleaseTerms

NORM_PART = encode(("norm",))
"""Name of the norm choice among all draws from a secret."""


def choose_norm(
    histogram: np.ndarray,
    spec: Any,
    terms: ReleaseTerms,
    randomness: KeyedRandomness | None = None,
    *,
    scaled_units: Fraction,
) -> Fraction:
    """Choose a norm from a histogram of lengths after adding noise. The norm may be published.

    Every call draws new noise and is another release. With keyed randomness the noise is a function of the secret, its
    context, the spec, the terms and the exact counts. Equal calls choose equal norms. Calls that differ in anything
    have unrelated noise.

    Args:
      histogram: number of units by length, from `norm.choice.histogram`: int64, shape (bins,).
      spec: the sketch whose counters are scaled.
      terms: privacy terms of the release, with an `AutoNorm`. Its `spend` pays for the choice.
      randomness: the secret for the noise. `None` uses system entropy.
      scaled_units: target for the number of units longer than the norm. It is public, and no guarantee depends on it.

    Returns:
      The norm in records with the same item: a multiple of 1/16, at least 1.
    """
    table = choice_table(terms)
    if histogram.dtype != np.int64 or histogram.shape != (table.size,):
        raise ValueError("histogram must be int64, with a count for each bin that max_weight requires")
    random_bytes: RandomBytes = os.urandom
    if randomness is not None:
        settings = settings_of([table], spec, terms)
        random_bytes = randomness.random_bytes(message("lengths", settings, [histogram]))
    noisy = table.draw(histogram, random_bytes)
    chosen = choose(noisy, noise=table.noise, parameter=table.parameter, scaled_units=scaled_units)
    return min(chosen, _largest_norm(spec, terms))


def choice_table(terms: ReleaseTerms) -> NoisyTable:
    """Build the noisy histogram of lengths, or raise if the terms do not allow a chosen norm."""
    auto, privacy = terms.norm, terms.privacy
    _validate.instance(AutoNorm, bounds=terms.asked)
    assert auto is not None
    if terms.window_count != 1:
        raise ArgumentError(
            "window_count",
            f"must be 1 if the norm is chosen from the data, got {terms.window_count}. A privacy unit must be in a "
            "single bin",
            "E219",
        )
    if terms.output_cells is None:
        raise ArgumentError(
            "bounds",
            "must be $NormBound if the number of keys and windows is not public, got $AutoNorm. List the keys with "
            "$PublicKeys, declare $windows_TimeRange, or use $norm_of_b",
            "E221",
        )
    return lengths(auto, privacy.spending, privacy.relation)


def _largest_norm(spec: Any, terms: ReleaseTerms) -> Fraction:
    """Compute the largest norm whose noise fits the counters. Noise grows at most in proportion to the norm."""
    of_one = terms.under(1)
    of_weights = (*counter_tables(spec, of_one), *aside(of_one), *lost(of_one)[1:])
    largest = max(table.parameter * table.unit for table in of_weights)
    return Fraction(math.isqrt(math.floor(MAX_SIGMA_SQUARED / largest * GRID**2)), GRID)
