"""Choose a sketch by the distance that it is to show between two releases, and say how wrong distances will be.

Guarantee: the error is that of two releases with equal terms and independent noise. Collisions count as if the change
were spread over many items, an upper bound. Nothing is simulated.

For two rows of width w with noise of variance s^2 each, let t = 2 s^2. The squared distance D^2 of a row has a variance
of 4 t D^2 + 2 w t^2 from noise, and of 2 D^4 / w from collisions. So noise hides more in a wide sketch, and the best
width is D^2 / t. Source: the moments of `release.comparing`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from beam_dpsketch import _validate
from beam_dpsketch.engine.calibration import calibrate
from beam_dpsketch.estimators.tree.levels import median_variance
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.sketches.spec import MAX_CELLS, MAX_WIDTH, SketchSpec
from beam_dpsketch.sketches.tree_spec import BYTES_PER_COUNTER, DEFAULT_MEMORY

_MIN_WIDTH = 16
_USUAL_ROWS = 5


class DistanceError(NamedTuple):
    """How wrong a distance between two releases will be.

    Attributes:
      deviation: about the standard deviation of its estimate.
      floor: smaller distances are hidden by the noise: their squares are below two standard deviations of a square.
    """

    deviation: float
    floor: float


def spec_for_distance(
    distance: float,
    terms: ReleaseTerms,
    *,
    memory: int = DEFAULT_MEMORY,
    kind: str = "count_sketch",
    depth: int = _USUAL_ROWS,
    seed: int = 0,
) -> SketchSpec:
    """Return the spec whose releases show a distance best; `distance_error` says how well.

    Distances add the noise of all counters, so a sketch for small ones is narrow. It is worse for single items.

    Args:
      distance: Euclidean, in records: if one item alone changes, its change.
      terms: of each of the two releases.
      memory: bytes of the counters at most, counted at 4 a counter.
      kind: "count_sketch" or "count_min". The latter has less noise under `REPLACE_ONE`.
      depth: rows, 1 to 64; fewer than 3 do not resist collisions of heavy items.
      seed: chooses the hash functions; both releases need the same.

    >>> from beam_dpsketch import PrivacySpec
    >>> terms = ReleaseTerms(PrivacySpec(rho=0.1, side_counters=None))
    >>> spec = spec_for_distance(300, terms)
    >>> spec.width, round(distance_error(spec, terms, 300).deviation, 1)
    (1800, 5.4)
    """
    _validate.positive_finite(distance=distance)
    _validate.whole(low=1, high=1 << 40, memory=memory)
    narrow = SketchSpec(kind=kind, depth=depth, width=_MIN_WIDTH, seed=seed)
    widest = min(memory // BYTES_PER_COUNTER // depth, MAX_WIDTH, MAX_CELLS // depth)
    if widest < _MIN_WIDTH:
        needed = _MIN_WIDTH * depth * BYTES_PER_COUNTER
        raise ValueError(f"memory must be at least {needed} bytes for {depth} rows, got {memory}")
    best = distance**2 / _joint_noise(narrow, terms)
    return dataclasses.replace(narrow, width=round(min(max(best, _MIN_WIDTH), widest)))


def distance_error(spec: SketchSpec, terms: ReleaseTerms, distance: float) -> DistanceError:
    """Return how wrong the distance between two releases of these terms will be, in records.

    Args:
      spec: of both releases.
      terms: of each release.
      distance: the true one, above 0. Below the floor, the deviation means little.
    """
    _validate.instance(SketchSpec, spec=spec)
    _validate.positive_finite(distance=distance)
    noise, width, rows = _joint_noise(spec, terms), spec.width, median_variance(spec.depth)
    hidden = 2 * width * noise**2
    squared = hidden + 4 * noise * distance**2 + 2 * distance**4 / width
    return DistanceError(math.sqrt(rows * squared) / (2 * distance), math.sqrt(2 * math.sqrt(rows * hidden)))


def _joint_noise(spec: SketchSpec, terms: ReleaseTerms) -> float:
    _validate.instance(ReleaseTerms, terms=terms)
    terms.bounds.given("terms must say the norm, as in NormBound(50): noise is not known before AutoNorm() chose one")
    return 2 * float(calibrate(spec, terms)[0])
