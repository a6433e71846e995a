"""The planner: what a release will cost and how good it will be, before any data is read.

Of the distance between two releases: which sketch shows it, and how wrong it will be. Guarantee: the error is that of
two releases with equal terms and independent noise. Collisions count as if the change were spread over many items, an
upper bound. Nothing is simulated.

For two rows of width w with noise of variance s^2 each, let t = 2 s^2. The squared distance D^2 of a row has a variance
of 4 t D^2 + 2 w t^2 from noise, and of 2 D^4 / w from collisions. So noise hides more in a wide sketch, and the best
width is D^2 / t. Source: the moments of `estimators.comparing`.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any, NamedTuple

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.engine.calibration import DeclaredCalibration, calibrate
from beam_dpsketch.engine.suiting import item_width
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.estimators.tree.levels import median_variance
from beam_dpsketch.planning import expected_error
from beam_dpsketch.planning.advice import advise
from beam_dpsketch.planning.expected_error import REFERENCES, exact_tree_deviation, simulated_deviation
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.count import Guess, check_size, refuse_guess
from beam_dpsketch.sketches.levels import BYTES_PER_COUNTER
from beam_dpsketch.sketches.spec import MAX_CELLS, MAX_WIDTH, SketchSpec
from beam_dpsketch.sketches.tree_spec import DEFAULT_MEMORY, TreeSpec


def plan_calibrated(
    calibration: DeclaredCalibration,
    n: int | None,
    *,
    keys: int | None,
    search: bool,
    wanted_error: Fraction | float,
    guess: Guess | None = None,
) -> Plan:
    """Plan a release whose noise is known; the other arguments are those of `kinds.layouts.plan`."""
    spec, terms, sigma_squared = calibration.spec, calibration.terms, calibration.per_table
    check_size(n, terms)
    if n is None or terms.unit.over_horizon or spec.purpose(search=search) != "ranks":
        refuse_guess(guess)
    expected: dict[str, Any] = {}
    if not terms.unit.over_horizon:
        expected["advice"] = advise(spec, terms, search=search, wanted_error=wanted_error)
        if terms.choosing is None:  # else the noise is not known yet
            expected |= _expected_answers(spec, terms.resolved(1), n, sigma_squared, search)
            if n is not None and guess is not None:
                expected["guess"] = guess
                expected["value_errors"] = expected_error.value_errors(spec, terms.resolved(1), n, guess)
    return Plan(
        spec=spec, terms=terms, n=n, keys=keys, sigma_squared=sigma_squared, key_note=calibration.note, **expected
    )


def _expected_answers(
    spec: Any, terms: ReleaseTerms, n: int | None, sigma_squared: tuple[Fraction, ...], search: bool
) -> dict[str, Any]:
    purpose = spec.purpose(search=search)
    if purpose == "frequencies":
        half_width = item_width(spec, terms, sigma_squared)
        if n is None or spec.is_listed:
            return {"half_width": half_width}
        return {"half_width": half_width, "errors": expected_error.simulated_errors(spec, terms, n)}
    if purpose == "items":
        on_data = None if n is None else expected_error.simulated_detection(spec, terms, n)
        return {"detection": expected_error.noise_detection(spec, sigma_squared), "detection_on_data": on_data}
    return {} if n is None else _expected_ranks(spec, terms, n, sigma_squared)


def _expected_ranks(spec: TreeSpec, terms: ReleaseTerms, n: int, sigma_squared: tuple[Fraction, ...]) -> dict[str, Any]:
    if (closed := spec.rank_deviation(sigma_squared, known_total=False)) is not None:
        known = spec.rank_deviation(sigma_squared, known_total=True)
        return {"rank_deviation": {"any": closed}, "rank_deviation_known_total": known}
    if not all(level.counts_all for level in spec.levels):
        return {"rank_deviation": {name: simulated_deviation(spec, terms, n, reference=name) for name in REFERENCES}}
    noise = expected_error.noise_variances(spec, sigma_squared)
    return {
        "rank_deviation": {"any": exact_tree_deviation(spec, noise, known_total=False)},
        "rank_deviation_known_total": exact_tree_deviation(spec, noise, known_total=True),
    }


_MIN_WIDTH = 16
_USUAL_ROWS = 5


@shown_plainly
class DistanceError(NamedTuple):
    """How wrong a distance between two releases will be.

    Attributes:
      deviation: about the standard deviation of its estimate.
      floor: smaller distances are hidden by the noise: their squares are below two standard deviations of a square.
    """

    deviation: float
    floor: float


@_validate.explained
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
        raise ArgumentError("memory", f"must be at least {needed} bytes for {depth} rows, got {memory}", "E506")
    best = distance**2 / _joint_noise(narrow, terms)
    return dataclasses.replace(narrow, width=round(min(max(best, _MIN_WIDTH), widest)))


@_validate.explained
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
    terms.bounds.given(
        ArgumentError(
            "terms", "must say the norm, as in $norm_of_b: noise is not known before $AutoNorm chose one", "E218"
        )
    )
    return 2 * float(calibrate(spec, terms)[0])
