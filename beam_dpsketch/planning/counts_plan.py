"""A release of grouped counts before it is made, and what to expect of it, in words."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.keys import sketch_share
from beam_dpsketch.planning.advice import ErrorAt, errors_at, of_bound, round_bounds
from beam_dpsketch.planning.plan_text import (
    bound_in_words,
    listed,
    noise_in_words,
    order_line,
    paid_in_words,
    privacy_lines,
    terms_fields,
    under_norm,
    windows_in_words,
)


@dataclasses.dataclass(frozen=True)
class CountsPlan:
    """A release of grouped counts before it is made; `print` it.

    Attributes:
      counting: how counts are released; of a norm of 1, if the data choose it.
      crossover: as in `Advice`.
      by_bound: the smallest counts that are released with probability 0.99, by `max_norm` or `max_per_key`; empty where
        one record is protected.
    """

    counting: Counting
    crossover: float | None = None
    by_bound: tuple[ErrorAt, ...] = ()

    @classmethod
    def of(cls, counting: Counting, crossover: float | None) -> CountsPlan:
        """Return the plan, with what other bounds would release."""
        terms = counting.declared

        def likely(size: int | Fraction) -> float:
            return Counting.of(counting.spec, of_bound(terms, size)).note.likely_count

        sizes = () if terms.unit.is_one_record else round_bounds(terms.bounds.size)
        return cls(counting, crossover, errors_at(sizes, likely))

    @property
    def sigma(self) -> float:
        return math.sqrt(self.counting.items.parameter)

    @property
    def _share(self) -> Fraction:
        return sketch_share(self.counting.spec, self.counting.declared)

    @property
    def half_width(self) -> float:
        counting = self.counting
        return counting.terms.noise.margin(counting.items.parameter, 0.95, counting.note.scale_bits)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": "groups",
            "sigma": [self.sigma],
            **terms_fields(self.counting.terms),
            "warnings": self.counting.terms.foolish(),
            "half_width": self.half_width,
            "items": self.counting.note.as_dict(),
            "crossover": self.crossover,
            "by_bound": [{"bound": float(each.setting), "likely": each.error} for each in self.by_bound],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        terms, domain = self.counting.terms, self.counting.spec.domain
        yield f"groups: a count for each item of {domain}; nothing collides, and its size grows with data."
        declared, noise = self.counting.declared, noise_in_words(terms, (self.counting.items.parameter,))
        under = under_norm(declared)
        yield f"Noise: {noise} on each count{under}; {paid_in_words(declared, self._share)} for it."
        yield from privacy_lines(declared, declared.foolish())
        yield f"Items{under}: {dataclasses.replace(self.counting.note, votes=None)}."
        if (votes := self.counting.note.votes) is not None:
            yield f"Votes, for {votes.share} of rho: at any count, {votes.words('an item', 'item')}."
        if terms.window_count > 1:
            yield f"Windows: {terms.privacy.currency} and delta cover {windows_in_words(terms)}."
        if self.by_bound:
            released = "Released" if votes is None else "By counts alone, released"
            bounds = f"by {bound_in_words(terms)}: from {listed(self.by_bound)}"
            yield f"{released} with probability 99 %, {bounds}."
        if self.crossover is not None:
            yield order_line(terms, self.crossover)
        yield f"Estimates{under}: 95 % intervals of about +- {self.half_width:,.3g} from the noise alone."
