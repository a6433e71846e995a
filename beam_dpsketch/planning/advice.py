"""Advice from public settings: the noise per bound and per epsilon, and the number of people for a target error.

Guarantee: each error covers only noise, with the same noise as the release. There is no simulation. Settings that a
release would refuse are omitted. Collisions and clipping depend on the data and add to these errors.

Noise does not depend on the number of people. Therefore every total weight from error / share on meets a target error,
which is a share of the total weight. Noise is proportional to the bound. Therefore the number of people who fill the
bound does not depend on it, except for listed items, whose half-widths are whole numbers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from beam_dpsketch import checks as _validate
from beam_dpsketch.exact.sketches.spec import Purpose, Spec
from beam_dpsketch.noise.calibration import Calibration, calibrate
from beam_dpsketch.planning.expected_error import noise_detection, noise_rank_deviation
from beam_dpsketch.planning.suiting import crossover, item_width
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.words import shown_plainly

Setting = TypeVar("Setting", bound=float | Fraction)
_USUAL_NORM, _NORMS = 50, [5, 10, 20, 50, 100, 200, 500]
_ROUND_BOUNDS: list[int | Fraction] = [step * 10**power for power in range(10) for step in (1, 2, 5)]
_ROUND_EPSILONS = [2.0**power for power in range(-8, 8)]
_NEIGHBOURS, _APART = 2, 0.1
_MEASURES: dict[Purpose, str] = {"frequencies": "margin of error", "items": "detection limit", "ranks": "rank error"}
_ERRORS: dict[Purpose, Callable[[Any, ReleaseTerms, Sequence[Fraction]], float]] = {
    "frequencies": item_width,
    "items": lambda spec, terms, parameters: noise_detection(spec, terms, parameters).likely,
    "ranks": lambda spec, terms, parameters: noise_rank_deviation(spec, parameters),
}


@shown_plainly
class ErrorAt(NamedTuple):
    """Error for a setting, which is a bound or an epsilon."""

    setting: float | Fraction
    error: float

    def as_dict(self, name: str) -> dict[str, float]:
        """Convert to plain values. `name` is the setting."""
        return {name: float(self.setting), "error": self.error}


@shown_plainly
class Needed(NamedTuple):
    """Data required for a target error.

    Attributes:
      target_error: the error as a share of the weight that counts in a release.
      weight: the smallest sufficient weight.
      people: the number of people who fill the bound and add up to this weight, or `None` if the privacy unit is a
        record.
      each: the weight per person.
    """

    target_error: Fraction
    weight: int
    people: int | None
    each: int | Fraction


@shown_plainly
class Advice(NamedTuple):
    """Errors by bound and epsilon, and the required data, from the noise alone.

    Attributes:
      measure: the kind of error: "margin of error" for a 95 % interval, root mean square "rank error", or "detection
        limit", which is the weight that a search finds with 95 % probability.
      bound: `max_norm` or `max_records`. 50 for an `AutoNorm`, which will choose it.
      by_bound: errors by bound. Empty if the privacy unit is a record.
      by_epsilon: errors by epsilon, at the delta in statements.
      needed: the data required for a target error.
      crossover: the largest ratio between a person's total weight and its L2 norm at which an L1 norm is more accurate.
        `None` if a single norm is supported, or an L1 norm is never more accurate.
    """

    measure: str
    bound: int | Fraction
    by_bound: tuple[ErrorAt, ...]
    by_epsilon: tuple[ErrorAt, ...]
    needed: Needed
    crossover: float | None = None

    def as_dict(self) -> dict[str, Any]:
        needed = {"target_error": float(self.needed.target_error), "each": float(self.needed.each)}
        return {
            "measure": self.measure,
            "bound": float(self.bound),
            "by_bound": [each.as_dict("bound") for each in self.by_bound],
            "by_epsilon": [each.as_dict("epsilon") for each in self.by_epsilon],
            "needed": {**self.needed._asdict(), **needed},
            "crossover": self.crossover,
        }


def advise(calibration: Calibration, *, search: bool, target_error: Fraction | float) -> Advice:
    """Compute advice for a release without a horizon."""
    _validate.open_unit_interval(target_error=target_error)
    spec, terms = calibration.spec, calibration.terms
    bound = terms.asked.size or _USUAL_NORM
    shown = of_bound(terms, bound)
    parameters = calibration.per_table if terms.norm is None else calibrate(spec, shown)
    epsilon, (measure, given) = shown.epsilon, measured(spec, shown, parameters, search=search)

    def error(at: ReleaseTerms) -> float:
        return given if at == shown else measured(spec, at, calibrate(spec, at), search=search)[1]

    return Advice(
        measure,
        bound,
        errors_by_bound(terms, error),
        _errors_at(_around(epsilon, _ROUND_EPSILONS), lambda e: error(shown if e == epsilon else of_epsilon(shown, e))),
        _needed(given, shown, bound, _validate.exact(target_error=target_error)),
        crossover(spec, terms),
    )


def measured(
    spec: Spec, terms: ReleaseTerms, parameters: Sequence[Fraction], *, search: bool = False
) -> tuple[str, float]:
    """Name the kind of error for a release, and compute it from noise with these parameters."""
    purpose = spec.purpose(search=search)
    return _MEASURES[purpose], _ERRORS[purpose](spec, terms, parameters)


def errors_by_bound(terms: ReleaseTerms, error: Callable[[ReleaseTerms], float]) -> tuple[ErrorAt, ...]:
    """Compute errors at the bound of the terms and at round bounds near it, or at common norms for an `AutoNorm`.

    Empty if the privacy unit is a record.
    """
    bound = terms.asked.size
    near = _NORMS if bound is None else _around(bound, _ROUND_BOUNDS)
    return _errors_at(() if terms.privacy_unit.is_one_record else near, lambda size: error(of_bound(terms, size)))


def of_bound(terms: ReleaseTerms, bound: int | Fraction) -> ReleaseTerms:
    """Replace `max_norm` or `max_records` in terms, or set the norm of an `AutoNorm`."""
    resolved = terms.under(bound)
    if bound == resolved.bounds.size:
        return resolved
    return dataclasses.replace(resolved, bounds=resolved.bounds.bound(bound))


def of_epsilon(terms: ReleaseTerms, epsilon: float) -> ReleaseTerms:
    """Replace epsilon in terms with the same kind of noise, at the delta in statements."""
    given = terms.privacy
    privacy = PrivacySpec(
        epsilon=epsilon, delta=given.reported_delta, relation=given.relation, summary_counts=given.summary_counts
    )
    lost = privacy.losing(terms.delta)
    return dataclasses.replace(terms, privacy=lost.with_noise(terms.noise))


def _around(value: Setting, round_values: Sequence[Setting]) -> list[Setting]:
    below = [each for each in round_values if each < value * (1 - _APART)]
    above = [each for each in round_values if each > value * (1 + _APART)]
    return [*below[-_NEIGHBOURS:], value, *above[:_NEIGHBOURS]]


def _errors_at(settings: Iterable[Setting], error: Callable[[Setting], float]) -> tuple[ErrorAt, ...]:
    """Compute errors by setting, without settings that a release would refuse."""
    found = []
    for setting in settings:
        try:
            found.append(ErrorAt(setting, error(setting)))
        except ValueError:  # refused: noise too large for the counters, or too small to protect
            continue
    return tuple(found)


def _needed(error: float, terms: ReleaseTerms, bound: int | Fraction, target_error: Fraction) -> Needed:
    weight = math.ceil(Fraction(error) / target_error)
    each = bound * (1 if terms.bounds.has_norm else terms.bounds.max_weight)
    return Needed(target_error, weight, None if terms.privacy_unit.is_one_record else math.ceil(weight / each), each)
