"""Exact histogram of lengths to chosen norm.

Guarantee: the norm costs its part of the loss, (spend rho)-zCDP or (spend epsilon)-DP, for the given neighbouring
relation, where each unit is in one bin at most, by its own records alone. With counters that cost the rest, choice and
release are rho-zCDP together.

Proof. Adding or removing a unit changes one count by 1. Replacing one changes up to two counts by 1 each. The discrete
Gaussian of parameter Delta^2 / (2 spend rho) is then (spend rho)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4).
The norm is a function of the noisy counts and of public numbers, so it costs no more: the noisy counts themselves are
never published. For each norm that can come out, the release is zCDP of the part of rho that is left. zCDP composes
where the second mechanism depends on what the first one says, and the parts add (Bun and Steinke 2016, Lemma 2.3). So
the statement of the release may say the norm. The same holds of Laplace noise, whose epsilons add up.

The proof needs one draw: whoever scales and whoever adds noise must read the same norm. Another draw from the same
counts is another release of them.
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
"""What names the choice among all that one secret makes."""


def choose_norm(
    histogram: np.ndarray,
    spec: Any,
    terms: ReleaseTerms,
    randomness: KeyedRandomness | None = None,
    *,
    scaled_units: Fraction,
) -> Fraction:
    """Add noise to a histogram of lengths and return the norm that it leads to, which may be published.

    Every call draws new noise and is one more release. With keyed randomness the noise is a function of the secret, its
    context, the spec, the terms and the exact counts. Equal calls choose equal norms. The noises of calls that differ
    in anything are unrelated.

    Args:
      histogram: how many units are of each length, as `norm.choice.histogram` returns it: int64 of shape (bins,).
      spec: the sketch whose counters are scaled.
      terms: those of the release, with an `AutoNorm`; its `spend` pays for the choice.
      randomness: the secret that the noise is made from; `None` takes the entropy of the system.
      scaled_units: how many units should be longer than the norm: a public number, on which no guarantee rests.

    Returns:
      The norm in records of one item: a multiple of 1/16, 1 or more.
    """
    table = choice_table(terms)
    if histogram.dtype != np.int64 or histogram.shape != (table.size,):
        raise ValueError("histogram must be int64, with one count for each bin that max_weight needs")
    random_bytes: RandomBytes = os.urandom
    if randomness is not None:
        settings = settings_of([table], spec, terms)
        random_bytes = randomness.random_bytes(message("lengths", settings, [histogram]))
    noisy = table.draw(histogram, random_bytes)
    chosen = choose(noisy, noise=table.noise, parameter=table.parameter, scaled_units=scaled_units)
    return min(chosen, _largest_norm(spec, terms))


def choice_table(terms: ReleaseTerms) -> NoisyTable:
    """Return the noisy histogram of lengths; refuse terms under which a norm cannot be chosen."""
    auto, privacy = terms.norm, terms.privacy
    _validate.instance(AutoNorm, bounds=terms.asked)
    assert auto is not None
    if terms.window_count != 1:
        raise ArgumentError(
            "window_count",
            f"must be 1 where a norm is chosen, so that a unit is in one bin; got {terms.window_count}",
            "E219",
        )
    if terms.output_cells is None:
        raise ArgumentError(
            "bounds",
            "must be a $NormBound where the number of keys and windows is not public, got $AutoNorm: list "
            "the keys with $PublicKeys, declare $windows_TimeRange, or give $norm_of_b",
            "E221",
        )
    return lengths(auto, privacy.spending, privacy.relation)


def _largest_norm(spec: Any, terms: ReleaseTerms) -> Fraction:
    """Return the largest norm whose noise counters can hold; noise is proportional to it, or grows less."""
    of_one = terms.under(1)
    of_weights = (*counter_tables(spec, of_one), *aside(of_one), *lost(of_one)[1:])
    largest = max(table.parameter * table.unit for table in of_weights)
    return Fraction(math.isqrt(math.floor(MAX_SIGMA_SQUARED / largest * GRID**2)), GRID)
