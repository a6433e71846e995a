"""A release before it is made, and what to expect of it, in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.planning.advice import Advice
from beam_dpsketch.planning.expected_error import Detection, Errors, QuantileError, has_numbers
from beam_dpsketch.planning.plan_text import (
    OverTime,
    aside_lines,
    bound_in_words,
    in_digits,
    listed,
    noise_in_words,
    order_line,
    over_time_lines,
    privacy_lines,
    terms_fields,
    under_norm,
)
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.count import Guess
from beam_dpsketch.sketches.levels import BYTES_PER_COUNTER
from beam_dpsketch.statement.notes import KeyNote
from beam_dpsketch.statement.showing import html_table, shown

USELESS_SHARE = 0.1


@shown_plainly
@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan(OverTime):
    """A release before it is made, with what to expect of it; `print` it.

    Attributes:
      spec: the sketch.
      terms: what the release spends, whom it protects, how much of each may count, and in how many windows.
      n: the expected weight of one release; `None` if it is not known.
      keys: how many output keys there are; `None` without, or where they are not known.
      sigma_squared: the noise parameter of each table of counters; under an `AutoNorm`, that of a norm of 1.
      rank_deviation: of quantiles, the expected root mean square rank error, by data: "any" for trees of exact levels,
        otherwise by reference distribution.
      rank_deviation_known_total: the same where the total weight is public; of trees of exact levels only.
      detection: of searches, from which weight on the noise alone lets values be found.
      detection_on_data: the same with collisions, on made-up data.
      half_width: of frequencies, half the width of a 95 % interval from the noise alone.
      errors: the errors of frequencies with collisions, on made-up data; `None` for listed items, which have none.
      guess: about what the values of quantiles are; `None` if nobody said it.
      value_errors: how wrong quantiles are in values, on made-up data of this shape.
      advice: what another bound or epsilon would give, and how many people a wanted error needs, from the noise alone;
        `None` for continual release.
      key_note: how keys are chosen; `None` if the data do not choose them.
      layout: why the layout was chosen, in words; empty if it was given.
      even_records: of quantiles under a norm, how many records of a person count in full if their values are spread
        evenly over the domain.
    """

    spec: Any
    terms: DeclaredTerms
    n: int | None
    keys: int | None
    sigma_squared: tuple[Fraction, ...]
    rank_deviation: dict[str, float] | None = None
    rank_deviation_known_total: float | None = None
    detection: Detection | None = None
    detection_on_data: Detection | None = None
    half_width: float | None = None
    errors: Errors | None = None
    guess: Guess | None = None
    value_errors: tuple[QuantileError, ...] = ()
    advice: Advice | None = None
    key_note: KeyNote | None = None
    layout: str = ""
    even_records: int | None = None

    @property
    def memory(self) -> int:
        """Bytes of the counters of all keys, at 4 a counter."""
        return self.spec.cells * BYTES_PER_COUNTER * (self.keys or 1)

    @property
    def is_mostly_noise(self) -> bool:
        """Whether answers would be wrong by a tenth of the weight on any data, or a search would find nothing."""
        if self.n is None:
            return False
        if self.detection_on_data is not None:
            return not self.detection_on_data.reaching
        if self.rank_deviation:
            error: float | None = min(self.rank_deviation.values())
        else:
            error = self.errors.half_width if self.errors else self.half_width
        return bool(error and error > USELESS_SHARE * self.n)

    @property
    def foolish(self) -> list[str]:
        """What is foolish about epsilon and delta, in words; n records are from people who fill the bound, or more."""
        each = None if self.advice is None else self.advice.needed.each
        people = None if self.n is None or each is None else self.n / float(each)
        return [*self.terms.foolish(people), *self._full()]

    def _full(self) -> Iterator[str]:
        """Say that rows of a factor may have no room for n records."""
        if self.spec.has_factor and self.n is not None:
            room = self.spec.factor.room(self.terms.scale_bits + self.terms.grid_bits(min(self.sigma_squared)))
            if self.n >= room:
                yield (
                    f"rows of a square-root factor have room for {room:,} records of one value: a release of more may "
                    "be refused at its end [dpsketch-E515]. Use TreeSpec.for_memory(domain), or layout: tree"
                )

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain Python values, with `None` for what is not known."""
        return {
            "kind": self.spec.kind,
            "counters": self.spec.cells,
            "layout": self.layout,
            "even_records": self.even_records,
            "keys": self.keys,
            "bytes": self.memory,
            "sigma": [math.sqrt(each) for each in self.sigma_squared],
            **terms_fields(self.terms),
            "warnings": self.foolish,
            "n": self.n,
            "rank_deviation": self.rank_deviation,
            "rank_deviation_known_total": self.rank_deviation_known_total,
            "detection": None if self.detection is None else self.detection._asdict(),
            "detection_on_data": None if self.detection_on_data is None else self.detection_on_data._asdict(),
            "half_width": self.half_width,
            "errors": None if self.errors is None else self.errors._asdict(),
            "value_errors": [each._asdict() for each in self.value_errors],
            "is_mostly_noise": self.is_mostly_noise,
            "advice": None if self.advice is None else self.advice.as_dict(),
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        return html_table(([line] for line in _lines(self)), caption="Plan")


def _lines(plan: Plan) -> Iterator[str]:
    spec, terms = plan.spec, plan.terms
    sigmas = [math.sqrt(value) for value in plan.sigma_squared]
    tables = f"{len(sigmas)} tables" if len(sigmas) > 1 else "1 table"
    copies = f" for each of {plan.keys} keys" if plan.keys else ""
    yield f"{spec.title}: {tables}, {spec.cells} counters, {spec.cells * 4} bytes at 4 a counter{copies}."
    for number, (level, sigma) in enumerate(zip(spec.describe_levels(), sigmas, strict=False)):
        yield f"  level {number}: {level}, sigma = {sigma:.4g}"
    if plan.layout:
        yield f"Layout: {plan.layout}."
    rows = " of each row" if terms.unit.over_horizon else ""
    yield f"Noise: {noise_in_words(terms, plan.sigma_squared)} on {spec.noisy}{rows}{under_norm(terms)}."
    yield from privacy_lines(terms, plan.foolish)
    if plan.even_records is not None:
        yield (
            f"Length: if the values of a person are spread evenly over the domain, {plan.even_records:,} records count "
            "in full; of more, each counts less. A rehearsal on public data tells what is lost."
        )
    yield from aside_lines(terms)
    if plan.key_note is not None:
        yield f"Keys: {plan.key_note}."
    yield from over_time_lines(spec, terms, sigmas, copies, plan.apart)
    yield from _expected(plan)


def _expected(plan: Plan) -> Iterator[str]:
    bounds = plan.terms.bounds
    counted = "kept records" if not (bounds.has_norm or bounds.has_weights) else "kept weight"
    yield from _ranks(plan)
    if plan.detection is not None:
        yield (
            f"Found: with 95 % probability, values with {plan.detection.likely:,.0f} {counted} or more; with 50 %, "
            f"those with {plan.detection.even:,.0f}. Values with fewer will probably be missed."
        )
    if plan.detection_on_data is not None:
        found = plan.detection_on_data
        collided = "" if plan.spec.is_histogram else f"With collisions, {found.likely:,.0f} and {found.even:,.0f}. "
        yield (
            f"{collided}Of {plan.n:,} records with frequencies like 1/rank, {found.reaching:,} of the values have "
            "that many. Other data differ."
        )
    is_listed = plan.spec.is_listed
    if plan.half_width is not None:
        certain = "from the noise alone; nothing collides" if is_listed else "from the noise alone"
        yield f"Estimates: 95 % intervals of about +- {plan.half_width:,.3g} {certain}."
    if plan.errors is not None:
        yield (
            f"With collisions, on {plan.n:,} records with frequencies like 1/rank: +- {plan.errors.half_width:,.3g}, "
            f"and a root mean square error of {plan.errors.deviation:,.3g}. Other data differ."
        )
    elif plan.n is None and not plan.terms.unit.over_horizon and not is_listed and bounds.size is not None:
        yield "This is from the noise alone; n adds what about n records would give, on made-up data."
    if plan.is_mostly_noise:
        more = f"raise {plan.terms.privacy.currency}{'' if is_listed else ' or memory'}"
        yield f"Answers would have much noise: {more}, lower the bounds, or collect more records."
    if plan.advice is not None:
        yield from _advised(plan.advice, plan.terms)


def _ranks(plan: Plan) -> Iterator[str]:
    for name, deviation in (plan.rank_deviation or {}).items():
        data = "on any data, at most about" if name == "any" else f"on {name} data, about"
        share = deviation / (plan.n or 1)
        yield f"Rank error {data} {deviation:.3g} of {plan.n} ({share:.2g}), root mean square."
    if plan.rank_deviation_known_total is not None:
        yield f"With a public total: {plan.rank_deviation_known_total:.3g}."
    if plan.guess is not None:
        yield from _values(plan, plan.guess)
    elif plan.advice is not None and plan.advice.measure == "rank error" and has_numbers(plan.spec):
        yield (
            "Errors are of ranks. Where values are few, as in a long tail of a wide domain, values move much more: n "
            "and typical, about the median and the 99 % point, tell errors of values."
        )


def _values(plan: Plan, guess: Guess) -> Iterator[str]:
    median, high = map(shown, guess[:2])
    errors = ", ".join(
        f"{shown(each.value)} +- {shown(float(f'{each.deviation:.2g}'))} at {each.quantile:g}"
        for each in plan.value_errors
    )
    yield (
        f"Errors of values, root mean square, on {guess.shape} data with a median of {median} and a 99 % point of "
        f"{high}: {errors}. Other data differ."
    )
    yield "Errors of tails can reach the ends of the domain; one that is narrower or coarser has smaller ones."


def _advised(advice: Advice, terms: DeclaredTerms) -> Iterator[str]:
    bounds, needed = terms.bounds, advice.needed
    measure, of_norm = advice.measure.capitalize(), ""
    if advice.crossover is not None:
        yield order_line(terms, advice.crossover)
    if advice.by_bound:
        yield f"{measure} from the noise alone, by {bound_in_words(terms)}: {listed(advice.by_bound)}."
    if bounds.size is None:
        of_norm = f" under a norm of {in_digits(advice.bound)}"
    yield (
        f"{measure} from the noise alone, by epsilon at delta = {terms.shown[1]:g}{of_norm}: "
        f"{listed(advice.by_epsilon)}."
    )
    given = f"For a {advice.measure} of {float(100 * needed.wanted_error):g} % of all that counts{of_norm}"
    weight = f"a weight of {needed.weight:,}" if bounds.has_weights else f"{needed.weight:,} records"
    if needed.people is None:
        yield f"{given}: {weight} or more must count."
    else:
        each = f"a weight of {in_digits(needed.each)}" if bounds.has_weights else f"{in_digits(needed.each)} record(s)"
        yield f"{given}: {weight} or more must count, as from {needed.people:,} people with {each} each."
