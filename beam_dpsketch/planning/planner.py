"""The planner: what a release will cost and how good it will be, before any data is read."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.domains import BytesDomain, Domain
from beam_dpsketch.engine.calibration import Calibration, DeclaredCalibration
from beam_dpsketch.planning import expected_error
from beam_dpsketch.planning.advice import advise
from beam_dpsketch.planning.expected_error import REFERENCES, exact_tree_deviation, simulated_deviation
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.privacy.terms import DeclaredTerms, ReleaseTerms
from beam_dpsketch.records.count import USUAL_WANTED_ERROR
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.sketches.trees import PrefixSpec, spec_over


def plan(
    spec: SketchSpec | ListedItems | TreeSpec | PrefixSpec | Domain | BytesDomain,
    terms: DeclaredTerms,
    n: int | None = None,
    *,
    keys: int | None = None,
    search: bool = False,
    wanted_error: Fraction | float = USUAL_WANTED_ERROR,
) -> Plan:
    """Return layout, bytes, noise and expected errors of a release, before any data is read.

    Args:
      spec: the sketch, or the domain of a tree of the usual layout.
      terms: what the release spends, whom it protects, how much of each may count, and in how many windows.
      n: about how many records (or what weight) count in one release; `None` leaves out what depends on it.
      keys: how many output keys there are.
      search: whether the release serves a list of the most frequent values.
      wanted_error: an error as a share of the weight that counts in one release, between 0 and 1: the plan says how
        many people it needs. For an item that holds a tenth of the weight, 0.005 is 5 % of the item.

    >>> from beam_dpsketch import IntegerDomain, PrivacySpec, REPLACE_ONE
    >>> terms = ReleaseTerms(PrivacySpec(rho=1.0, relation=REPLACE_ONE, side_counters=None))
    >>> round(plan(IntegerDomain(0, 65_535), terms, n=100_000).rank_deviation["any"], 2)
    5.86
    """
    calibration = Calibration.of(spec_over(spec), terms)
    return plan_calibrated(calibration, n, keys=keys, search=search, wanted_error=wanted_error)


def plan_calibrated(
    calibration: DeclaredCalibration, n: int | None, *, keys: int | None, search: bool, wanted_error: Fraction | float
) -> Plan:
    """Return what to expect of a release whose noise is known; the other arguments are those of `plan`."""
    spec, terms, sigma_squared = calibration.spec, calibration.terms, calibration.per_table
    if n is not None:
        _validate.whole(low=1, high=1 << min(50, 62 - terms.scale_bits), n=n)  # scaled counters wrap around earlier
    expected: dict[str, Any] = {}
    if not terms.unit.over_horizon:
        expected["advice"] = advise(spec, terms, search=search, wanted_error=wanted_error)
        if terms.choosing is None:  # else the noise is not known yet
            expected |= _expected_answers(spec, terms.resolved(1), n, sigma_squared, search)
    return Plan(spec=spec, terms=terms, n=n, keys=keys, sigma_squared=sigma_squared, **expected)


def _expected_answers(
    spec: Any, terms: ReleaseTerms, n: int | None, sigma_squared: tuple[Fraction, ...], search: bool
) -> dict[str, Any]:
    purpose = spec.purpose(search=search)
    if purpose == "frequencies":
        half_width = expected_error.noise_half_width(spec, sigma_squared[0])
        if n is None or spec.is_listed:
            return {"half_width": half_width}
        return {"half_width": half_width, "errors": expected_error.simulated_errors(spec, terms, n)}
    if purpose == "items":
        on_data = None if n is None else expected_error.simulated_detection(spec, terms, n)
        return {"detection": expected_error.noise_detection(spec, sigma_squared), "detection_on_data": on_data}
    return {} if n is None else _expected_ranks(spec, terms, n, sigma_squared)


def _expected_ranks(spec: TreeSpec, terms: ReleaseTerms, n: int, sigma_squared: tuple[Fraction, ...]) -> dict[str, Any]:
    if any(level.sketch != "exact" for level in spec.levels):
        return {"rank_deviation": {name: simulated_deviation(spec, terms, n, reference=name) for name in REFERENCES}}
    return {
        "rank_deviation": {"any": exact_tree_deviation(spec, sigma_squared, known_total=False)},
        "rank_deviation_known_total": exact_tree_deviation(spec, sigma_squared, known_total=True),
    }
