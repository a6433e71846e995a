"""Advice before any data is read: what a bound costs, what epsilon buys, and how many people are needed.

Guarantee: each error is that of the noise alone, with the noise that such a release has. Nothing is simulated. Settings
that a release would refuse are left out. What collisions and bounding add depends on the data.

Noise does not depend on how many take part. So every weight from error / share on meets a wanted error, which is a
share of the weight. Noise is proportional to the bound. So the number of people who fill it does not depend on it, but
for the half widths of listed items, which are whole numbers.
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
_MEASURES: dict[Purpose, str] = {"frequencies": "half width", "items": "detection limit", "ranks": "rank error"}
_ERRORS: dict[Purpose, Callable[[Any, ReleaseTerms, Sequence[Fraction]], float]] = {
    "frequencies": item_width,
    "items": lambda spec, terms, parameters: noise_detection(spec, terms, parameters).likely,
    "ranks": lambda spec, terms, parameters: noise_rank_deviation(spec, parameters),
}


@shown_plainly
class ErrorAt(NamedTuple):
    """An error, and the setting that gives it: a bound, or an epsilon."""

    setting: float | Fraction
    error: float


@shown_plainly
class Needed(NamedTuple):
    """How much must count for a wanted error.

    Attributes:
      wanted_error: the error, as a share of the weight that counts in one release.
      weight: the least weight for it.
      people: how many who fill the bound make up that weight; `None` where one record is protected.
      each: what one of them counts.
    """

    wanted_error: Fraction
    weight: int
    people: int | None
    each: int | Fraction


@shown_plainly
class Advice(NamedTuple):
    """What a release costs and needs, from the noise alone.

    Attributes:
      measure: what errors are: the "half width" of a 95 % interval, the root mean square "rank error", or the
        "detection limit", the weight of a value that is found with 95 % probability.
      bound: `max_norm` or `max_per_key`; 50 where an `AutoNorm` will choose it.
      by_bound: errors by this bound; empty where one record is protected.
      by_epsilon: errors by epsilon, at the delta that statements show.
      needed: what a wanted error needs.
      crossover: up to which total weight of a person, over its length, a norm of order 1 is closer than one of order 2;
        `None` where a norm can have one order only.
    """

    measure: str
    bound: int | Fraction
    by_bound: tuple[ErrorAt, ...]
    by_epsilon: tuple[ErrorAt, ...]
    needed: Needed
    crossover: float | None = None

    def as_dict(self) -> dict[str, Any]:
        needed = {"wanted_error": float(self.needed.wanted_error), "each": float(self.needed.each)}
        return {
            "measure": self.measure,
            "bound": float(self.bound),
            "by_bound": [{"bound": float(each.setting), "error": each.error} for each in self.by_bound],
            "by_epsilon": [{"epsilon": float(each.setting), "error": each.error} for each in self.by_epsilon],
            "needed": {**self.needed._asdict(), **needed},
            "crossover": self.crossover,
        }


def advise(calibration: Calibration, *, search: bool, wanted_error: Fraction | float) -> Advice:
    """Return advice on a release that is not over a horizon."""
    _validate.open_unit_interval(wanted_error=wanted_error)
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
        _needed(given, shown, bound, _validate.exact(wanted_error=wanted_error)),
        crossover(spec, terms),
    )


def measured(
    spec: Spec, terms: ReleaseTerms, parameters: Sequence[Fraction], *, search: bool = False
) -> tuple[str, float]:
    """Return what the error of a release is called, and its size from noise of these parameters alone."""
    purpose = spec.purpose(search=search)
    return _MEASURES[purpose], _ERRORS[purpose](spec, terms, parameters)


def errors_by_bound(terms: ReleaseTerms, error: Callable[[ReleaseTerms], float]) -> tuple[ErrorAt, ...]:
    """Return errors at the bound of the terms and at round ones near it; at usual norms if the data choose it.

    Empty where one record is protected.
    """
    bound = terms.asked.size
    near = _NORMS if bound is None else _around(bound, _ROUND_BOUNDS)
    return _errors_at(() if terms.unit.is_one_record else near, lambda size: error(of_bound(terms, size)))


def of_bound(terms: ReleaseTerms, bound: int | Fraction) -> ReleaseTerms:
    """Return the terms with another `max_norm` or `max_per_key`, or with a norm chosen."""
    resolved = terms.under(bound)
    if bound == resolved.bounds.size:
        return resolved
    return dataclasses.replace(resolved, bounds=resolved.bounds.bound(bound))


def of_epsilon(terms: ReleaseTerms, epsilon: float) -> ReleaseTerms:
    """Return the terms with this epsilon and the same noise, at the delta that statements show."""
    given = terms.privacy
    privacy = PrivacySpec(
        epsilon=epsilon, delta=given.shown_delta, relation=given.relation, side_counters=given.side_counters
    )
    lost = privacy.losing(terms.delta)
    return dataclasses.replace(terms, privacy=lost.with_noise(terms.noise))


def _around(value: Setting, round_values: Sequence[Setting]) -> list[Setting]:
    below = [each for each in round_values if each < value * (1 - _APART)]
    above = [each for each in round_values if each > value * (1 + _APART)]
    return [*below[-_NEIGHBOURS:], value, *above[:_NEIGHBOURS]]


def _errors_at(settings: Iterable[Setting], error: Callable[[Setting], float]) -> tuple[ErrorAt, ...]:
    """Return the errors by setting; those that a release would refuse are left out."""
    found = []
    for setting in settings:
        try:
            found.append(ErrorAt(setting, error(setting)))
        except ValueError:  # the noise of such a release would be too large for its counters, or too small to hide
            continue
    return tuple(found)


def _needed(error: float, terms: ReleaseTerms, bound: int | Fraction, wanted_error: Fraction) -> Needed:
    weight = math.ceil(Fraction(error) / wanted_error)
    each = bound * (1 if terms.bounds.has_norm else terms.bounds.max_weight)
    return Needed(wanted_error, weight, None if terms.unit.is_one_record else math.ceil(weight / each), each)
