"""How likely keys and items are published that a single unit has: what delta pays for, by what each unit counts."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

from beam_dpsketch.exact.reading.items import VOTES
from beam_dpsketch.privacy.noise.gaussian_bounds import tail_bound
from beam_dpsketch.privacy.noise.laws import EXTRA, Noise
from tests.helpers.kept_units import kept_of, table_of
from tests.helpers.losses import Run


def chances_of(run: Run) -> dict[str, Fraction]:
    """Return the largest probability over units that one of their counts, or of their votes, is above its threshold.

    What has no vote is never published. In two rounds, all votes of the second may be for one key
    (`privacy.two_rounds`).
    """
    note: Any = run.statement.keys
    counts, votes = Counter[Any](), Counter[Any]()
    for unit, part, column, value in kept_of(run.setting, run.relation):
        place = unit, part, column[1] if isinstance(column, tuple) else None
        if table_of(column) == VOTES and value and run.choice is not None:
            votes[place] += value
        elif table_of(column) == 0 and note.of_items:
            counts[place] += value << note.scale_bits - run.scale_bits
    of_counts, of_votes = defaultdict[Any, Fraction](Fraction), defaultdict[Any, Fraction](Fraction)
    for place, count in counts.items():
        if run.choice is None or place in votes:
            parameter = run.statement.sigma_squared * 4**note.scale_bits
            of_counts[place[0]] += _tail(run.statement.noise, parameter, note.threshold - count)
    for place, count in votes.items():
        of_votes[place[0]] += _chance_of_votes(run.choice, count)
    return {
        "counts": max(of_counts.values(), default=Fraction(0)),
        "votes": max(of_votes.values(), default=Fraction(0)),
    }


def _chance_of_votes(choice: Any, count: int) -> Fraction:
    if (rounds := choice.rounds) is None:
        return _tail(Noise.GAUSSIAN, choice.note.sigma_squared, choice.note.threshold - count)
    at_once = _tail(Noise.GAUSSIAN, rounds.sigma_squared[0], rounds.at_once - count)
    together = sum(rounds.sigma_squared) + EXTRA  # two draws have twice that
    return at_once + _tail(Noise.GAUSSIAN, together, rounds.together - count - 5 * rounds.grid)


@functools.cache
def _tail(noise: Noise, parameter: Fraction, start: int) -> Fraction:
    """Return P(Z >= start), or for a start below 1 a bound."""
    if noise is Noise.GAUSSIAN:
        return Fraction(float(tail_bound(parameter + EXTRA, max(1, start))))
    scale = math.sqrt(parameter / 2)
    return Fraction(math.exp(-start / scale) / (1 + math.exp(-1 / scale)))
