"""What it costs not to know the best norm: one chosen with a part of rho, compared with the best one and all of rho.

What is chosen has the noise of a pipeline: the usual summary counts have their parts of rho too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, REPLACE_ONE, AutoNorm, PrivacySpec, ReleaseTerms
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.keys import sketch_share
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.mechanism import Spending
from beam_dpsketch.privacy.norm.choice import choose
from benchmarks.people.bounded import DELTA, SKETCH
from benchmarks.people.judging import Judge
from benchmarks.table import Bar, Table

EPSILONS = (1.0, 2.0, 4.0)
_AUTO = AutoNorm()
_FIRST_SEED_OF_THE_BEST = 1_000_000
Norm: TypeAlias = int | Fraction


class Bars(NamedTuple):
    """The largest ratios allowed: their median, and what 9 in 10 are below."""

    median: float
    nine_in_ten: float = math.inf

    def of(self, ratios: np.ndarray) -> list[Bar]:
        """What these ratios must be."""
        bars = [Bar(float(np.median(ratios)), "<=", self.median)]
        if self.nine_in_ten < math.inf:
            bars.append(Bar(float(np.quantile(ratios, 0.9)), "<=", self.nine_in_ten, " for 9 in 10"))
        return bars


ONE_SKETCH, KEYED = Bars(1.2, 1.5), Bars(1.35)


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a release guarantees."""

    relation: NeighboringRelation
    epsilon: float

    @functools.cached_property
    def rho(self) -> Fraction:
        return PrivacySpec(epsilon=self.epsilon, delta=DELTA).rho

    def rest(self, auto: AutoNorm = _AUTO) -> Fraction:
        """What the choice and the usual summary counts leave for the sketch."""
        privacy = PrivacySpec(rho=self.rho, relation=self.relation)
        terms = ReleaseTerms(privacy, auto.bound(1), norm=auto, privacy_unit=PrivacyUnit.PRIVACY_ID)
        return self.rho * sketch_share(SKETCH, terms)


SETTINGS = [Setting(relation, epsilon) for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE) for epsilon in EPSILONS]


def errors_of_norms(
    judge: Judge, norms: Sequence[Norm], releases: int, autos: Sequence[AutoNorm] = (_AUTO,)
) -> tuple[np.ndarray, ...]:
    """Return the mean errors with all of rho, and with what each choice leaves, each of shape (settings, norms)."""
    means = np.zeros((1 + len(autos), len(SETTINGS), len(norms)))
    for column, norm in enumerate(norms):
        for seed in range(releases):
            raw = judge.raw(_FIRST_SEED_OF_THE_BEST + seed, norm)
            for row, setting in enumerate(SETTINGS):
                for part, rho in enumerate((setting.rho, *(setting.rest(auto) for auto in autos))):
                    means[part, row, column] += judge.error(raw, norm, setting.relation, rho) / releases
    return tuple(means)


def chosen_norms(judge: Judge, lengths: np.ndarray, auto: AutoNorm, setting: Setting, draws: int) -> list[Fraction]:
    """Return norms chosen for the same people with new noise each time."""
    table = tables.lengths(auto, Spending(setting.rho), setting.relation)
    wanted = judge.units_to_scale(auto, setting.relation, setting.rest(auto))
    return [choose(table.draw(lengths), parameter=table.parameter, scaled_units=wanted) for _ in range(draws)]


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
    title = (
        f"{judge.people}\n{judge}. Best of {len(norms)} norms with all of rho: {releases} releases each, hash seeds\n"
        f"from 1,000,000. {draws} choices, each with a release; hash seeds 0 to {draws - 1}. Errors over the mean\n"
        "error at the best norm, median and 9 in 10: expected at the chosen norms, and of the releases."
    )
    heads = ("", "best", "error", "  chosen (9 in 10 of them)", "expected", "releases")
    table = Table(title, heads, (26, -8, -12, 34, 16, 16), bar=26)
    for row, setting in enumerate(SETTINGS):
        best = int(np.argmin(with_all[row]))
        least, chosen = with_all[row, best], chosen_norms(judge, lengths, _AUTO, setting, draws)
        expected = _interpolated(chosen, norms, with_rest[row]) / least
        drawn = enumerate(chosen)
        errors = [judge.error(judge.raw(seed, norm), norm, setting.relation, setting.rest()) for seed, norm in drawn]
        low, middle, high = np.quantile(np.array(chosen, dtype=float), (0.05, 0.5, 0.95))
        both = (expected, np.array(errors) / least)
        table.row(
            f"  {setting.relation.name} {setting.epsilon:g}",
            f"{norms[best]:g}",
            f"{least:,.0f}",
            f"  {middle:,.0f} ({low:,.1f} to {high:,.1f})",
            *(f"{np.median(ratios):.2f}  {np.quantile(ratios, 0.9):.2f}" for ratios in both),
            bars=[bar for ratios in both for bar in bars.of(ratios)],
        )


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
    title = (
        f"Largest median over {len(SETTINGS)} settings of the expected error at chosen norms over the best, by item\n"
        f"share. {releases} releases of each norm, {draws} choices. The bar is for one share that suits all data."
    )
    table = Table(title, ("", *(f"{share:g}" for share in shares)), (96, -8))
    largest = np.zeros(len(shares))
    for judge, norms in judges:
        with_all, with_rest = errors_of_norms(judge, norms, releases)
        lengths, found = judge.lengths(), np.zeros(len(shares))
        for row, setting in enumerate(SETTINGS):
            for column, share in enumerate(shares):
                chosen = chosen_norms(judge, lengths, AutoNorm(item_share=Fraction(str(share))), setting, draws)
                ratios = _interpolated(chosen, norms, with_rest[row]) / with_all[row].min()
                found[column] = max(found[column], np.median(ratios))
        table.row(f"{judge.people.title}; {judge}", *(f"{each:.2f}" for each in found))
        largest = np.maximum(largest, found)
    bars = [Bar(float(largest.min()), "<=", KEYED.median)]
    table.row("all; met by a share", *(f"{each:.2f}" for each in largest), bars=bars)


def measure_few(
    judges: Iterable[tuple[Judge, Sequence[Norm]]], spends: Sequence[Fraction], *, releases: int = 20, draws: int = 200
) -> None:
    """Print one line for each number of people: what the choice costs with each part of rho that pays for it.

    Args:
      judges: some people each, and sketches, how they are read, and where the best norm is looked for.
      spends: what `spend` may be.
      releases: of each of the norms.
      draws: choices of a norm.
    """
    autos = [AutoNorm(spend) for spend in spends]
    title = (
        "Expected error at chosen norms over the error at the best norm with all of rho, by the part of rho that pays\n"
        f"for the choice: median, and what 9 in 10 are below. {releases} releases of each norm, {draws} choices."
    )
    table = Table(title, ("", *map(str, spends)), (76, -14))
    for judge, norms in judges:
        with_all, *with_rest = errors_of_norms(judge, norms, releases, autos)
        lengths = judge.lengths()
        people = f"{len(np.unique(judge.people.units)):,} of {judge.people.title}"
        for row, setting in enumerate(SETTINGS):
            cells = []
            for auto, errors in zip(autos, with_rest, strict=True):
                chosen = chosen_norms(judge, lengths, auto, setting, draws)
                ratios = _interpolated(chosen, norms, errors[row]) / with_all[row].min()
                cells.append(f"{np.median(ratios):.2f}  {np.quantile(ratios, 0.9):.2f}")
            table.row(f"{people}; {setting.relation.name} {setting.epsilon:g}", *cells)


def _interpolated(chosen: Sequence[Norm], norms: Sequence[Norm], errors: np.ndarray) -> np.ndarray:
    """Return the errors at norms between those with known errors."""
    return np.interp(np.log(np.array(chosen, dtype=float)), np.log(np.array(norms, dtype=float)), errors)
