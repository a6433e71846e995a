"""How good top-K lists and frequencies will be, before any data is read.

Guarantee: what noise alone does to a search has a closed form, with the median of noisy rows taken as normal. The
interval of a CountSketch that holds noise alone is found as a release finds it, from normal values. What collisions
add depends on the data, and no useful formula holds for all. So for an expected weight, the release of made-up data is
simulated and asked. Its frequencies are proportional to 1/rank (Zipf). Its values share no beginnings, which helps a
search least.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.answers.flat.count_min import noise_offset
from beam_dpsketch.answers.tree.heavy_hitters import FOUND, detection_limit
from beam_dpsketch.estimators import row_mean
from beam_dpsketch.estimators.tree import least_squares, prefix_search
from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.repeats import sort_by_key, sum_by_key
from beam_dpsketch.planning.expected_error import made_up_release, noise_variances, reference_distribution
from beam_dpsketch.privacy.gaussian_tail import noise_margin
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.sketches import raw_type
from beam_dpsketch.sketches.spec import SketchSpec

_CONFIDENCE = 0.95
_MAX_VALUES = 100_000


class Detection(NamedTuple):
    """The weights that a search finds with probabilities of 95 % and 50 %, and how many made-up values reach 95 %."""

    likely: float
    even: float
    reaching: int = 0


class Errors(NamedTuple):
    """How wrong estimates are on made-up data: the root mean square, and half the mean width of a 95 % interval."""

    deviation: float
    half_width: float


def noise_detection(spec: Any, sigma_squared: Sequence[Fraction]) -> Detection:
    """Return what the search of a tree finds where noise alone disturbs it."""
    variances = noise_variances(spec, sigma_squared)
    if not spec.domain.is_ordered:  # its search takes the mean of rows that are free of heavy collisions
        variances = [float(each) / spec.depth for each in sigma_squared]
    return _detection(spec, [math.sqrt(each) for each in variances])


def simulated_detection(spec: Any, terms: ReleaseTerms, weight: int) -> Detection:
    """Return what the search of a tree finds in made-up data of a total weight."""
    if spec.domain.is_ordered:
        keys, weights = reference_distribution("scattered zipf", spec.domain.size, weight)
    else:
        keys, weights = _texts(spec, weight)
    released: Any = made_up_release(spec, terms, keys, weights)
    found = _detection(spec, released.search_deviations)
    return found._replace(reaching=int(np.sum(weights >= found.likely)))


def noise_half_width(spec: Any, sigma_squared: Fraction) -> float:
    """Return half the width of a 95 % interval that holds nothing but noise."""
    if spec.is_listed:
        return noise_margin(sigma_squared, _CONFIDENCE)
    if spec.kind == "count_min":
        return noise_offset(spec, sigma_squared, failure_probability=(1 - _CONFIDENCE) / 2, guarantee="simultaneous")
    return row_mean.noise_margin(spec.depth, _CONFIDENCE) * math.sqrt(sigma_squared)


def simulated_errors(spec: SketchSpec, terms: ReleaseTerms, weight: int) -> Errors:
    """Return the errors of a flat sketch, over all values of made-up data of a total weight."""
    values, weights = reference_distribution("zipf", min(weight, _MAX_VALUES), weight)
    items = values.astype(np.int64)
    keys, _ = raw_type(spec).usable_keys(spec, items)
    released: Any = made_up_release(spec, terms, keys, weights)
    found = released.interval(items, _CONFIDENCE)
    squares = np.mean((released.estimate(items) - weights) ** 2)
    return Errors(math.sqrt(float(squares)), float(np.mean(found.upper - found.lower)) / 2)


def _detection(spec: Any, deviations: Sequence[float]) -> Detection:
    tree = least_squares if spec.domain.is_ordered else prefix_search
    limit = functools.partial(detection_limit, deviations, expansion=tree.EXPANSION_DEVIATIONS)
    return Detection(limit(probability=FOUND), limit(probability=0.5))


def _texts(spec: Any, weight: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys of random printable texts of the full length, with Zipf weights."""
    ranks, weights = reference_distribution("zipf", min(weight, _MAX_VALUES), weight)
    size = spec.domain.max_bytes
    columns = [cells.mix(ranks, seed=0, row=place) % np.uint64(94) + np.uint64(33) for place in range(size)]
    texts = np.stack(columns, axis=1).astype(np.uint8).view(f"S{size}").ravel().tolist()
    keys, _ = spec.domain.index(list(map(spec.domain.from_bytes, texts)))
    return sum_by_key(*sort_by_key(keys, weights))
