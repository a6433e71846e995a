"""Noisy tables: the only containers of numbers that get noise, and `NoisyTable.draw`, the only place that adds it.

A table is a vector of exact integers. Its sensitivity, its budget share, and therefore its noise and noise grid are
known before the data. (Keys that are selected by a probability table get no noise: `privacy.noise.geometric_table`
draws each decision.)

Guarantee: `draw` costs `cost`, if no unit changes the exact numbers by more than `change`: rho for a Gaussian
(`privacy.noise.drawing`), epsilon for a Laplace (`privacy.noise.discrete_laplace`). Costs of tables drawn with
independent bytes add up, even if a later table depends on an earlier output (`privacy.loss.composition`). Each builder
below names the proof for its `change`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch.encodings import Item, canonical, encode, named
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.mechanism import Sensitivity, Spending, change_factor, one_count, sensitivity
from beam_dpsketch.privacy.noise.drawing import add_noise, drowned_bits, round_off
from beam_dpsketch.privacy.noise.keyed_randomness import RandomBytes
from beam_dpsketch.privacy.noise.laws import Noise, scale_of
from beam_dpsketch.privacy.norm.bounds import AutoNorm
from beam_dpsketch.privacy.norm.choice import bin_count
from beam_dpsketch.privacy.summary_counts import BINS, SummaryCount
from beam_dpsketch.privacy.terms import ReleaseTerms

NOISE_VERSION = 11
"""Version of the derivation from a secret to noise and decisions. Another version of a keyed draw is another draw."""


@named("NoisyTable")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyTable:
    """Numbers that get noise, described before the data are read.

    Attributes:
      names: "counters", "units", "records", "weight", "clipped", "scaled", "lost", "kept", "votes", "lengths" or
        "items". Several names are equal by definition.
      size: count of numbers per release, or `None` if the spec or the data determine it.
      change: sensitivity to a unit, in records.
      share: its budget share.
      noise: a discrete Gaussian, or a discrete Laplace.
      parameter: noise parameter, in squared records, exact.
      unit: squared largest count of a record in the exact numbers.
      grid_bits: bits by which the noise grid is finer than the exact numbers.
      dropped_bits: low bits that are rounded off after the noise.
    """

    names: tuple[str, ...]
    size: int | None = None
    change: Sensitivity
    share: Fraction
    noise: Noise
    parameter: Fraction
    unit: int = 1
    grid_bits: int = 0
    dropped_bits: int = 0

    @classmethod
    def of(
        cls, *names: str, change: Sensitivity, spending: Spending, share: Fraction, unit: int = 1, size: int | None = 1
    ) -> NoisyTable:
        """Build the table with the noise for its share, or raise if the noise is too small or does not fit.

        Args:
          names: see `NoisyTable`.
          change: sensitivity to a unit.
          spending: loss that the release spends.
          share: its budget share.
          unit: squared record count.
          size: see `NoisyTable`.
        """
        parameter, noise = spending.parameter(change, share=share, squared_unit=unit), spending.noise
        return cls(
            names=names,
            size=size,
            change=change,
            share=share,
            noise=noise,
            parameter=parameter,
            unit=unit,
            grid_bits=noise.grid_bits(parameter, unit),
        )

    def in_whole_numbers(self) -> NoisyTable:
        """Round to integers after the noise, which adds up to 1/12 to its variance."""
        return dataclasses.replace(self, dropped_bits=self.grid_bits)

    @property
    def cost(self) -> Fraction:
        """Rho for a Gaussian, or epsilon for a Laplace."""
        if self.noise is Noise.GAUSSIAN:
            return self.change.squared / (2 * self.parameter)
        assert self.change.total is not None
        return self.change.total / scale_of(self.parameter)

    def draw(self, exact: np.ndarray, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
        """Add noise to the numbers, int64, same shape. Each call is another release.

        Args:
          exact: int64, in which a record counts at most the root of `unit`.
          random_bytes: source of the randomness.
        """
        parameter = self.parameter * self.unit
        drawn = add_noise(exact, parameter, self.grid_bits, noise=self.noise, random_bytes=random_bytes)
        return round_off(drawn, self.dropped_bits)


def settings_of(found: Sequence[NoisyTable], *settings: Any) -> bytes:
    """Encode a draw's settings, including its tables, for `message`."""
    return canonical((settings, tuple(found)))


def message(what: str, settings: bytes, exact: Iterable[np.ndarray], place: Item = ()) -> bytes:
    """Encode the inputs of keyed noise: its version, the draw's kind and place, all settings, all exact numbers.

    If an input were omitted, two draws of the same numbers that differ only in it would share noise and reveal them.

    Args:
      what: kind of draw.
      settings: result of `settings_of`.
      exact: the exact numbers, int64.
      place: distinguishes draws of the same numbers, unless the secret does.
    """
    numbers = [np.ascontiguousarray(each, dtype="<i8").tobytes() for each in exact]
    return encode(("draw", NOISE_VERSION, what, settings, place, *numbers))


def counters(spec: Any, terms: ReleaseTerms, share: Fraction) -> tuple[NoisyTable, ...]:
    """Build a sketch's tables, or of each timeline row, on the noise grid of the least noisy table.

    Proof: `privacy.mechanism` and `privacy.norm.scaling`; for timeline rows `privacy.over_time`.
    """
    relation, spending, unit = terms.privacy.relation, terms.privacy.spending, terms.squared_unit
    found = []
    for fact in raw_type(spec).tables(spec):
        change = sensitivity(
            cells_per_item=fact.cells_per_item,
            has_signs=fact.has_signs,
            bounds=terms.bounds,
            relation=relation,
            reach=terms.reach,
        )
        part, amount = share * fact.share, unit * fact.squared_amount
        table = NoisyTable.of("counters", change=change, spending=spending, share=part, unit=amount, size=None)
        found.append(dataclasses.replace(table, dropped_bits=fact.dropped_bits))
    bits = terms.grid_bits(min(table.parameter for table in found))
    return tuple(dataclasses.replace(table, grid_bits=bits) for table in found)


def aside(terms: ReleaseTerms) -> tuple[NoisyTable, ...]:
    """Build the tables of the summary counts. Proof: `privacy.summary_counts`."""
    return tuple(of_counter(counter, counter.names, terms, terms.reach) for counter in terms.counters)


def lost(terms: ReleaseTerms) -> tuple[NoisyTable, ...]:
    """Build the clipping histogram, and the clipped weight if it is counted per run, or () without one.

    Proof: `privacy.summary_counts`.
    """
    if (counter := terms.lost) is None:
        return ()
    change = one_count(terms.privacy.relation, counter.reach)
    bins = NoisyTable.of("lost", change=change, spending=terms.privacy.spending, share=counter.share, size=BINS)
    kept = () if counter.kept is None else (of_counter(counter.kept, ("kept",), terms),)
    return bins.in_whole_numbers(), *kept


def lengths(auto: AutoNorm, spending: Spending, relation: NeighboringRelation) -> NoisyTable:
    """Build the histogram of lengths for a norm choice: a unit is in a single bin. Proof: `noise.norms`."""
    size = bin_count(auto.max_weight)
    return NoisyTable.of(
        "lengths", change=one_count(relation), spending=spending, share=auto.share, size=size
    ).in_whole_numbers()


def votes(
    grid: int, parameter: Fraction, relation: NeighboringRelation, window_count: int, share: Fraction
) -> NoisyTable:
    """Build a voting round: the votes of a unit have a norm of `grid` in each of its windows.

    Proof: `privacy.selection`.
    """
    change = Sensitivity(Fraction(change_factor(relation) * window_count * grid**2))
    return NoisyTable(names=("votes",), change=change, share=share, noise=Noise.GAUSSIAN, parameter=parameter)


def drowned(tables: Sequence[NoisyTable], unit: int) -> int:
    """Count the low counter bits, on the noise grid, that are far below the noise in these tables."""
    bits = tables[0].grid_bits
    return drowned_bits([table.parameter for table in tables], unit * 4**bits, bits)


def of_counter(
    counter: SummaryCount, names: tuple[str, ...], terms: ReleaseTerms, reach: Fraction | int = 1
) -> NoisyTable:
    """Build the table of a summary count, with a number in each of the `reach` windows of a unit."""
    change, unit = counter.sensitivity(terms.privacy.relation, reach=reach), terms.squared_unit
    return NoisyTable.of(*names, change=change, spending=terms.privacy.spending, share=counter.share, unit=unit)
