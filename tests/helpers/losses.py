"""What one unit loses to all releases of a run, by brute force: no noise, and the package's own bounds and noise.

A unit is a list of records. What the rules of bounding keep of it becomes exact counters of each release, a part. Each
counter is divided by the root of 2 sigma^2 of its noise, so that the loss of a pair of inputs is the squared distance
of two units; or by the scale of Laplace noise, and then it is the sum of absolute differences.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, PrivacyStatement, ReleaseTerms, SummaryCounts
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.exact.reading.items import SECOND, VOTES
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.noise import keys
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.noise.norms import choice_table
from beam_dpsketch.noise.tables import NoisyTable
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import LOST
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.statement.release_id import DRAW_BYTES, PART_BYTES, RUN_BYTES
from tests.helpers import norms
from tests.helpers.combinations import Parts
from tests.helpers.kept_units import CHOICE, KEPT, OF_RUN, kept_of, table_of
from tests.helpers.loss_settings import NORM, SPECS, Setting


class Run:
    """One run of a setting: its statement, and what each of many units adds to each part.

    Attributes:
      statement: of one release of the run.
      claimed: what the statement says a release loses: its rho, or the epsilon of Laplace noise.
      choice: what decides which keys or items are published, or `None` without votes.
      scale_bits: what counts is in units of 2^-scale_bits.
      grams: for each part, the inner products of what units add, over 2 sigma^2, (units, units); for Laplace noise,
        half of what the sizes of two units sum to beyond their distance. All rows over time of a key are one part.
      of_run: the same of what is told once for all parts: the choice of the norm, and what the run lost.
      of_tables: the same over all parts, for the counters and for each table aside.
    """

    def __init__(self, setting: Setting, relation: NeighboringRelation, sides: SummaryCounts | None) -> None:
        if setting.layout.keys == "chosen twice" or setting.kind == "groups":
            keys._calibrated.cache_clear()  # which a planted fault would not reach
        plan = setting.plan(setting.privacy(relation, sides))
        noise: dict[Any, Fraction] = {}
        terms = plan.terms
        if terms.norm is not None:
            noise[CHOICE] = choice_table(terms).parameter
            terms = terms.under(NORM)
        self.relation, self.setting, self.statement = relation, setting, statement_of(setting, terms)
        self.claimed = claim_of(self.statement.loss)
        counters, aside = _drawn(setting, terms)
        stated = self.statement.sigma_squared_per_level
        assert stated == tuple(table.parameter for table in counters), "the noise that is drawn is not what is said"
        for number, (table, amount) in enumerate(zip(counters, norms.amounts_of(SPECS[setting.kind]), strict=True)):
            noise[number] = table.parameter * table.unit / amount**2
        for table in aside:
            noise[KEPT if table.names == ("kept",) else table.names[0]] = table.parameter * table.unit
        self.choice, self.scale_bits = keys.choose_keys(SPECS[setting.kind], terms), terms.scale_bits
        if (choice := self.choice) is not None:
            note: Any = self.statement.keys
            noise[VOTES] = (note.votes if note.of_items else note).sigma_squared
            if choice.rounds is not None:
                noise[VOTES], noise[SECOND] = choice.rounds.sigma_squared
        self.grams: dict[Any, Any] = defaultdict(float)
        self.of_tables: dict[Any, Any] = defaultdict(float)
        for part, (columns, added) in _added(
            setting, relation if setting.kind == "groups" else ADD_OR_REMOVE_ONE
        ).items():
            scales = [self._scale(noise[column]) if column in noise else 0.0 for column in columns]
            scaled = added * np.array(scales)
            self.grams[part if setting.layout.horizon is None else part[0]] += self._products(scaled)
            for table in set(columns):
                own = scaled[:, [column == table for column in columns]]
                self.of_tables["counters" if isinstance(table, int) else table] += self._products(own)
        self.of_run = self.grams.pop(OF_RUN, np.zeros((1, 1)))

    def _scale(self, parameter: Fraction) -> float:
        return float(2 * parameter if self.statement.noise is Noise.GAUSSIAN else parameter / 2) ** -0.5

    def _products(self, scaled: np.ndarray) -> np.ndarray:
        if self.statement.noise is Noise.GAUSSIAN:
            return scaled @ scaled.T
        sizes = np.abs(scaled).sum(axis=1)
        return (sizes[:, None] + sizes - np.array([np.abs(scaled - row).sum(axis=1) for row in scaled])) / 2

    def loss(self, first: dict[Any, int], second: dict[Any, int]) -> float:
        """Return the largest loss where a unit in some parts is replaced by one in others; in none, it is removed.

        The numbers say how often a part is drawn.
        """
        lengths = [self._lengths(first), self._lengths(second)]
        if not first or not second:
            return float(sum(lengths).max())
        total = lengths[0][:, None] + lengths[1][None, :] - 2 * self.of_run
        for part in first.keys() & second.keys():
            total = total - 2 * min(first[part], second[part]) * self.grams[part]
        return float(total.max())

    def _lengths(self, parts: dict[Any, int]) -> Any:
        """Return the loss of removing each unit from these parts."""
        zero = np.zeros(len(next(iter(self.grams.values()))))
        return sum((times * np.diag(self.grams[part]) for part, times in parts.items()), zero) + bool(parts) * np.diag(
            self.of_run
        )

    def loss_of_parts(self, first: Parts, second: Parts) -> float:
        """Return the same of `two_parts`, by their places."""
        return self.loss(*({self.two_parts[place]: times for place, times in each} for each in (first, second)))

    @property
    def removal(self) -> float:
        """The loss of a removal, or an addition, over all parts."""
        return self.loss(dict.fromkeys(self.grams, 1), {})

    @property
    def worst(self) -> float:
        """The largest loss of neighbouring inputs, over all parts."""
        whole = dict.fromkeys(self.grams, 1)
        return self.removal if self.relation is ADD_OR_REMOVE_ONE else max(self.removal, self.loss(whole, whole))

    def parts_of_shares(self) -> dict[Any, float]:
        """Return the largest loss of neighbouring inputs to each table, in parts of what it may cost.

        A unit of fewer keys may vote more, because it counts less. So votes have a bound together with counters alone.
        """
        found = {}
        for table, share in _shares(self.statement).items():
            if (gram := self.of_tables.get(table)) is not None:
                lengths = np.diag(gram)
                lost = lengths.max()
                if self.relation is not ADD_OR_REMOVE_ONE:
                    lost = max(lost, (lengths[:, None] + lengths[None, :] - 2 * gram).max())
                found[table] = float(lost) / float(self.claimed * share)
        return found

    @functools.cached_property
    def two_parts(self) -> list[Any]:
        """The part that a unit changes most, and another."""
        return sorted(self.grams, key=lambda part: (-float(np.diag(self.grams[part]).max()), repr(part)))[:2]


def claim_of(loss: Loss) -> Fraction:
    """Return the epsilon of a loss by Laplace noise alone, or its rho."""
    return loss.pure if loss.is_pure else loss.rho


def _shares(said: PrivacyStatement) -> dict[Any, Fraction]:
    """Return the share of each table but votes, as a release states it; all counters have one."""
    found: dict[Any, Fraction] = {note.names[0]: note.share for note in said.side} | {"counters": said.sketch_share}
    if said.lost is not None:
        found |= {LOST: said.lost.share} | ({} if said.lost.kept is None else {KEPT: said.lost.kept.share})
    return found if said.norm_share is None else found | {CHOICE: said.norm_share}


def _drawn(setting: Setting, terms: ReleaseTerms) -> tuple[tuple[NoisyTable, ...], tuple[NoisyTable, ...]]:
    """Return the tables of the sketch as they are drawn, and those of the numbers aside."""
    if setting.kind == "groups":
        return (Counting.of(SPECS[setting.kind], terms).items,), ()
    found = Calibration.of(SPECS[setting.kind], terms)
    return found.counters, (*found.aside, *found.lost)


def statement_of(setting: Setting, terms: ReleaseTerms) -> PrivacyStatement:
    """Return what a release under these terms says."""
    spec = SPECS[setting.kind]
    if setting.kind == "groups":
        name = bytes(RUN_BYTES + PART_BYTES)
        gathered = Counting.of(spec, terms).gather([], name, bytes(DRAW_BYTES), Randomness.SYSTEM)
        (counted,) = answers_of(gathered)
        return counted.privacy
    raw = raw_type(spec)(spec).in_units_of(terms.scale_bits)
    part = Part(raw, np.zeros(terms.aside, dtype=np.int64))
    row = 0 if isinstance(terms, RowTerms) else None
    found = Calibration.of(spec, terms)
    (released,) = answers_of(release_parts([part], found, row=row, lost=found.empty_lost))
    return released.privacy


@functools.lru_cache(maxsize=8)
def _added(setting: Setting, relation: NeighboringRelation) -> dict[Any, tuple[list[Any], np.ndarray]]:
    """Return for each part whose noise each column has, and what each unit adds to it, (units, columns)."""
    kept = kept_of(setting, relation)
    units = {unit: place for place, unit in enumerate(dict.fromkeys(each.unit for each in kept))}
    columns: dict[Any, dict[Any, int]] = defaultdict(dict)
    for each in kept:
        columns[each.part].setdefault(each.column, len(columns[each.part]))
    added = {part: np.zeros((len(units), len(of_part))) for part, of_part in columns.items()}
    for unit, part, column, value in kept:
        added[part][units[unit], columns[part][column]] += value
    return {part: ([*map(table_of, columns[part])], each) for part, each in added.items()}
