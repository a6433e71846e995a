"""What it costs not to know the best norm: one chosen with a part of rho, compared with the best one and all of rho.

What is chosen has the noise of a pipeline: the usual side counters have their parts of rho too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    NeighboringRelation,
    PrivacySpec,
    PrivacyUnit,
    ReleaseTerms,
)
from beam_dpsketch.privacy.mechanism import add_noise
from beam_dpsketch.privacy.norm_choice import choose
from benchmarks.people.bounded import DELTA
from benchmarks.people.judging import Judge

EPSILONS = (1.0, 2.0, 4.0)
_AUTO = AutoNorm()
_FIRST_SEED_OF_THE_BEST = 1_000_000
Norm: TypeAlias = int | Fraction


class Bars(NamedTuple):
    """The largest ratios allowed: their median, and what 9 in 10 are below."""

    median: float
    nine_in_ten: float = math.inf

    def __str__(self) -> str:
        """The bars of a table."""
        return f"met: median <= {self.median}" + (f", 9 in 10 <= {self.nine_in_ten}" if self.nine_in_ten < 9 else "")

    def met(self, ratios: np.ndarray) -> bool:
        return bool(np.median(ratios) <= self.median and np.quantile(ratios, 0.9) <= self.nine_in_ten)


ONE_SKETCH, KEYED = Bars(1.25, 1.7), Bars(1.35)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a release guarantees."""

    relation: NeighboringRelation
    epsilon: float

    @functools.cached_property
    def rho(self) -> Fraction:
        return PrivacySpec(epsilon=self.epsilon, delta=DELTA).rho

    @property
    def rest(self) -> Fraction:
        """What the choice and the usual side counters leave for the sketch."""
        terms = ReleaseTerms(PrivacySpec(self.rho, relation=self.relation), _AUTO, unit=PrivacyUnit.PRIVACY_ID)
        return self.rho * terms.sketch_share


SETTINGS = [Setting(relation, epsilon) for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE) for epsilon in EPSILONS]


def errors_of_norms(judge: Judge, norms: Sequence[Norm], releases: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean errors with all of rho and with the rest, both of shape (settings, norms)."""
    means = np.zeros((2, len(SETTINGS), len(norms)))
    for column, norm in enumerate(norms):
        for seed in range(releases):
            raw = judge.raw(_FIRST_SEED_OF_THE_BEST + seed, norm)
            for row, setting in enumerate(SETTINGS):
                for part, rho in enumerate((setting.rho, setting.rest)):
                    means[part, row, column] += judge.error(raw, norm, setting.relation, rho) / releases
    return means[0], means[1]


def chosen_norms(judge: Judge, lengths: np.ndarray, auto: AutoNorm, setting: Setting, draws: int) -> list[Fraction]:
    """Return norms chosen for the same people with new noise each time."""
    noise = auto.sigma_squared(setting.rho, setting.relation)
    wanted = judge.units_to_scale(auto, setting.relation, setting.rest)
    return [choose(add_noise(lengths, noise), sigma_squared=noise, scaled_units=wanted) for _ in range(draws)]


def measure(
    judge: Judge, norms: Sequence[Norm], bars: Bars = ONE_SKETCH, *, releases: int = 40, draws: int = 100
) -> None:
    """Print one line for each relation and epsilon.

    Args:
      judge: people and sketches, and how they are read.
      norms: where the best norm is looked for.
      bars: what the ratios may be.
      releases: of each of these norms.
      draws: choices of a norm, with one release each.
    """
    with_all, with_rest = errors_of_norms(judge, norms, releases)
    lengths = judge.lengths()
    print(
        f"\n{judge.people}\n{judge}. Best of {len(norms)} norms with all of rho: {releases} releases each, hash seeds"
    )
    print(
        f"from 1,000,000. {draws} choices, each with a release; hash seeds 0 to {draws - 1}. Errors over the mean error"
    )
    print("at the best norm: expected at the chosen norms, and of the releases.")
    print(f"{'':<26}{'best':>8}{'error':>10}   {'chosen (9 in 10 of them)':<28}{'expected':<18}{'releases':<18}{bars}")
    for row, setting in enumerate(SETTINGS):
        best = int(np.argmin(with_all[row]))
        least, chosen = with_all[row, best], chosen_norms(judge, lengths, _AUTO, setting, draws)
        expected = _interpolated(chosen, norms, with_rest[row]) / least
        drawn = enumerate(chosen)
        runs = [
            judge.error(judge.raw(seed, norm), norm, setting.relation, setting.rest) / least for seed, norm in drawn
        ]
        low, middle, high = np.quantile(np.array(chosen, dtype=float), (0.05, 0.5, 0.95))
        line = f"  {setting.relation.name:<18} {setting.epsilon:>4g}{norms[best]:>9g}{least:>10,.0f}   "
        line += f"{f'{middle:,.0f} ({low:,.1f} to {high:,.1f})':<28}"
        for ratios in (expected, np.array(runs)):
            line += f"{np.median(ratios):<8.2f}{np.quantile(ratios, 0.9):<10.2f}"
        met = [bars.met(ratios) for ratios in (expected, np.array(runs))]
        print(line + ", ".join("yes" if each else "NO" for each in met), flush=True)


def measure_shares(
    judges: Iterable[tuple[Judge, Sequence[Norm]]], shares: Sequence[float], *, releases: int = 20, draws: int = 60
) -> None:
    """Print one line for each data set: the largest median over relations and epsilons, for each item share.

    Args:
      judges: people and sketches, how they are read, and where the best norm is looked for.
      shares: what `item_share` may be.
      releases: of each of the norms.
      draws: choices of a norm.
    """
    print(
        f"\nLargest median over {len(SETTINGS)} settings of the expected error at chosen norms over the best, by item"
    )
    print(f"share. {releases} releases of each norm, {draws} choices.")
    print(f"{'':<96}" + "".join(f"{share:>8g}" for share in shares))
    largest = np.zeros(len(shares))
    for judge, norms in judges:
        with_all, with_rest = errors_of_norms(judge, norms, releases)
        lengths, found = judge.lengths(), np.zeros(len(shares))
        for row, setting in enumerate(SETTINGS):
            for column, share in enumerate(shares):
                chosen = chosen_norms(judge, lengths, AutoNorm(item_share=Fraction(str(share))), setting, draws)
                ratios = _interpolated(chosen, norms, with_rest[row]) / with_all[row].min()
                found[column] = max(found[column], np.median(ratios))
        print(f"{f'{judge.people.title}; {judge}':<96}" + "".join(f"{each:>8.2f}" for each in found), flush=True)
        largest = np.maximum(largest, found)
    met = "yes" if largest.min() <= KEYED.median else "NO: refused"
    print(
        f"{f'all; met by a share: <= {KEYED.median}':<96}" + "".join(f"{each:>8.2f}" for each in largest) + f"  {met}"
    )


def _interpolated(chosen: Sequence[Norm], norms: Sequence[Norm], errors: np.ndarray) -> np.ndarray:
    """Return the errors at norms between those with known errors."""
    return np.interp(np.log(np.array(chosen, dtype=float)), np.log(np.array(norms, dtype=float)), errors)
