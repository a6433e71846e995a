"""The planner: what a release will cost and how good it will be, before any data is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from beam_dpsketch.engine.calibration import DeclaredCalibration
from beam_dpsketch.planning import expected_error
from beam_dpsketch.planning.advice import advise
from beam_dpsketch.planning.expected_error import REFERENCES, noise_rank_deviation, simulated_deviation
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.planning.suiting import item_width
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.records.count import Guess, check_size, refuse_guess
from beam_dpsketch.sketches.tree_spec import TreeSpec


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
        return {"detection": expected_error.noise_detection(spec, terms, sigma_squared), "detection_on_data": on_data}
    return {} if n is None else _expected_ranks(spec, terms, n, sigma_squared)


def _expected_ranks(spec: TreeSpec, terms: ReleaseTerms, n: int, sigma_squared: tuple[Fraction, ...]) -> dict[str, Any]:
    if isinstance(spec, TreeSpec) and not all(level.counts_all for level in spec.levels):
        return {"rank_deviation": {name: simulated_deviation(spec, terms, n, reference=name) for name in REFERENCES}}
    known = noise_rank_deviation(spec, sigma_squared, known_total=True)
    return {"rank_deviation": {"any": noise_rank_deviation(spec, sigma_squared)}, "rank_deviation_known_total": known}
