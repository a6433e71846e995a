"""Noisy tables: all numbers that get noise are in one, and `NoisyTable.draw` is the one place that adds it.

A table is a vector of exact whole numbers. Before there are data it is known how far one unit moves it, which part of
the loss pays for that, and so which noise it gets, on which grid. (Keys that are chosen by a table of probabilities get
no noise: `privacy.noise.geometric_table` draws each decision.)

Guarantee: `draw` costs `cost`, if no unit moves the exact numbers further than `change` says: rho of a Gaussian
(`privacy.noise.drawing`), epsilon of a Laplace (`privacy.noise.discrete_laplace`). Costs of tables that are drawn with
independent bytes add up, also where a later table depends on what an earlier one says (`privacy.loss.composition`).
Each builder below names the proof of its `change`.
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
from beam_dpsketch.privacy.side_counters import BINS, SideCounter
from beam_dpsketch.privacy.terms import ReleaseTerms

NOISE_VERSION = 10
"""The version of what turns a secret into noise and decisions; another version of a keyed draw is another draw."""


@named("NoisyTable")
@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyTable:
    """Numbers that get noise, before there are data.

    Attributes:
      names: "counters", "units", "records", "weight", "clipped", "scaled", "lost", "kept", "votes", "lengths" or
        "items"; several are equal by definition.
      size: how many numbers it has in each release; `None` where the spec or the data say.
      change: how far one unit moves it at most, in records.
      share: its part of what the release spends.
      noise: a discrete Gaussian, or a discrete Laplace.
      parameter: of the noise, in squared records, exact.
      unit: the square of what a record counts, at most, in the exact numbers.
      grid_bits: by how many bits the grid of the noise is finer than the exact numbers.
      dropped_bits: how many low bits are rounded off after the noise.
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
        """Return the table with the noise that its share pays for; refuse noise that hides nothing or has no room.

        Args:
          names: see `NoisyTable`.
          change: how far one unit moves it.
          spending: what the release spends.
          share: the part of that for this table.
          unit: the square of what a record counts.
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
        """Return the same, rounded to whole numbers after the noise, which adds up to 1/12 to its variance."""
        return dataclasses.replace(self, dropped_bits=self.grid_bits)

    @property
    def cost(self) -> Fraction:
        """The rho of a Gaussian, or the epsilon of a Laplace."""
        if self.noise is Noise.GAUSSIAN:
            return self.change.squared / (2 * self.parameter)
        assert self.change.total is not None
        return self.change.total / scale_of(self.parameter)

    def draw(self, exact: np.ndarray, random_bytes: RandomBytes = os.urandom) -> np.ndarray:
        """Return the numbers with noise, int64 of the same shape. Each call is one more release of them.

        Args:
          exact: int64; a record counts the root of `unit` at most.
          random_bytes: where the randomness comes from.
        """
        parameter = self.parameter * self.unit
        drawn = add_noise(exact, parameter, self.grid_bits, noise=self.noise, random_bytes=random_bytes)
        return round_off(drawn, self.dropped_bits)


def settings_of(found: Sequence[NoisyTable], *settings: Any) -> bytes:
    """Return the bytes of all settings of a draw, and of its tables, for `message`."""
    return canonical((settings, tuple(found)))


def message(what: str, settings: bytes, exact: Iterable[np.ndarray], place: Item = ()) -> bytes:
    """Return what keyed noise is a function of: its version, what is drawn and where, all settings, all exact numbers.

    If one were left out, two draws of the same numbers that differ only in it would share noise and reveal them.

    Args:
      what: which draw it is.
      settings: what `settings_of` returns.
      exact: the exact numbers, int64.
      place: what tells the draw from others of the same numbers, as far as the secret itself does not.
    """
    numbers = [np.ascontiguousarray(each, dtype="<i8").tobytes() for each in exact]
    return encode(("draw", NOISE_VERSION, what, settings, place, *numbers))


def counters(spec: Any, terms: ReleaseTerms, share: Fraction) -> tuple[NoisyTable, ...]:
    """Return the tables of a sketch, or of each row over time, on the grid of the one with the least noise.

    Proof: `privacy.mechanism` and `privacy.norm.scaling`; of rows over time `privacy.over_time`.
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
    """Return what each release counts aside. Proof: `privacy.aside.side_counters`."""
    return tuple(of_counter(counter, counter.names, terms, terms.reach) for counter in terms.counters)


def lost(terms: ReleaseTerms) -> tuple[NoisyTable, ...]:
    """Return the histogram of lost weight, and the weight kept where it is of the run; () if it is not told.

    Proof: `privacy.aside.lost_histogram`.
    """
    if (counter := terms.lost) is None:
        return ()
    change = one_count(terms.privacy.relation, counter.reach)
    bins = NoisyTable.of("lost", change=change, spending=terms.privacy.spending, share=counter.share, size=BINS)
    kept = () if counter.kept is None else (of_counter(counter.kept, ("kept",), terms),)
    return bins.in_whole_numbers(), *kept


def lengths(auto: AutoNorm, spending: Spending, relation: NeighboringRelation) -> NoisyTable:
    """Return the histogram of lengths that chooses a norm: one unit is in one bin. Proof: `engine.norms`."""
    size = bin_count(auto.max_weight)
    return NoisyTable.of(
        "lengths", change=one_count(relation), spending=spending, share=auto.spend, size=size
    ).in_whole_numbers()


def votes(
    grid: int, parameter: Fraction, relation: NeighboringRelation, window_count: int, share: Fraction
) -> NoisyTable:
    """Return one round of votes: those of one unit have a norm of `grid` in each of its windows.

    Proof: `privacy.selection`.
    """
    change = Sensitivity(Fraction(change_factor(relation) * window_count * grid**2))
    return NoisyTable(names=("votes",), change=change, share=share, noise=Noise.GAUSSIAN, parameter=parameter)


def drowned(tables: Sequence[NoisyTable], unit: int) -> int:
    """Return how many low bits of counters, on their grid, the noise of these tables drowns."""
    bits = tables[0].grid_bits
    return drowned_bits([table.parameter for table in tables], unit * 4**bits, bits)


def of_counter(
    counter: SideCounter, names: tuple[str, ...], terms: ReleaseTerms, reach: Fraction | int = 1
) -> NoisyTable:
    """Return the table of one number that is counted aside, in each of `reach` windows that a unit is in."""
    change, unit = counter.sensitivity(terms.privacy.relation, reach=reach), terms.squared_unit
    return NoisyTable.of(*names, change=change, spending=terms.privacy.spending, share=counter.share, unit=unit)
