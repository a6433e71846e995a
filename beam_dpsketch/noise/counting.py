"""Exact counts to released ones.

Guarantee: `privacy.grouped_counts` proves what a release costs. It needs one decision for each item, key and window,
with noise of its own: whoever decides again from the same count and votes makes another release. What neither its count
nor its votes bring in is left out with its item.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.domains.text import TRUNCATED
from beam_dpsketch.exact.sketches.listed_items import GroupedHistogram, GroupedItems
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import check_paid, counter_tables
from beam_dpsketch.noise.keys import KeyChoice, choose_keys, find_chosen
from beam_dpsketch.noise.tables import NoisyTable, message, settings_of
from beam_dpsketch.privacy.grouped_counts import GroupRule
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.drawing import least_quantile, round_off
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness, RandomBytes
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.notes import GroupNote
from beam_dpsketch.statement.release_id import DRAW_BYTES
from beam_dpsketch.statement.stated import Stated

_LIKELY = Fraction(1, 100)


class Counting(NamedTuple):
    """How counts become a release, worked out before there are data.

    Attributes:
      spec: the domain of the items.
      terms: of each release; where the data choose the norm, with the one that they chose, or with 1 before that.
      declared: the same as they are declared.
      items: the table of all counts.
      note: what a release says of its items.
      choice: how votes bring items in; `None` if units do not vote.
      scaled_units: how many units should be longer than the norm; `None` if the data do not choose it.
    """

    spec: GroupedItems
    terms: ReleaseTerms
    declared: ReleaseTerms
    items: NoisyTable
    note: GroupNote
    choice: KeyChoice | None = None
    scaled_units: Fraction | None = None

    @classmethod
    def of(cls, spec: GroupedItems, declared: ReleaseTerms, norm: Fraction | int = 1) -> Counting:
        """Return how releases under these terms are made; refuse settings that cannot work.

        Args:
          spec: the domain of the items.
          declared: the terms.
          norm: counts where the data choose it; before that, all is of a norm of 1, and noise grows with it.
        """
        terms = declared.under(norm)
        (table,) = counter_tables(spec, terms)
        items = dataclasses.replace(table, names=("items",))
        note, choice = note_of(terms, items.parameter), choose_keys(spec, terms)
        check_paid([items], terms, choice)
        note = note if choice is None else dataclasses.replace(note, votes=choice.note)
        return cls(spec, terms, declared, items, note, choice)

    def with_norm(self, max_norm: Fraction | None) -> Counting:
        """Return the same of a release: under this norm if the data choose it, else as it is."""
        return self if max_norm is None else Counting.of(self.spec, self.declared, max_norm)

    @property
    def _deciding(self) -> tuple[Any, ...]:
        """The settings of the choice of items, without the words of the note."""
        votes = None if self.choice is None else self.choice.deciding
        return self.note.max_items, self.note.threshold, self.note.scale_bits, votes

    @property
    def per_table(self) -> tuple[Fraction, ...]:
        """The noise parameter of the one table of counts."""
        return (self.items.parameter,)

    def with_terms(self, terms: ReleaseTerms) -> Counting:
        """Return the same under terms that differ in their budget, or in what is disclosed, alone."""
        return self._replace(terms=terms.under(self.terms.bounds.size), declared=terms)

    def add_noise(self, counts: np.ndarray, random_bytes: RandomBytes = os.urandom) -> tuple[np.ndarray, np.ndarray]:
        """Return the noisy counts on the grid of the note, int64 of shape (n,), and which reach the threshold, bool.

        Args:
          counts: the exact count of each item, in units of 2**-scale_bits, int64 of shape (n,); items that no unit
            counts for must not be among them.
          random_bytes: where the randomness comes from.
        """
        noisy = self.items.draw(counts, random_bytes)
        return noisy, noisy >= self.note.threshold

    def draw(
        self, rows: np.ndarray, randomness: Sequence[KeyedRandomness] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the noisy counts of one or more items as `add_noise` does, and which are released, by count or votes.

        Keyed randomness is bound to the count and to all settings, so that equal bytes never serve two counts.

        Args:
          rows: the exact count of each item, then, if units vote, what `find_chosen` takes; int64 of shape (n, m).
          randomness: the secret of each item, key and window; `None` takes the entropy of the system.
        """
        if randomness is None:
            noisy, released = self.add_noise(rows[:, 0])
        else:
            settings = settings_of([self.items], self.spec, self.terms.for_noise(), *self._deciding)
            drawn = [
                self.add_noise(count, keyed.random_bytes(message("count", settings, [count])))
                for count, keyed in zip(rows[:, :1], randomness, strict=True)
            ]
            noisy, released = (np.concatenate(each) for each in zip(*drawn, strict=True))
        if self.choice is not None:
            votes = rows[:, 1:]
            released = (votes[:, 0] > 0) & (released | find_chosen(self.choice, votes, randomness))
        return noisy, released

    def gather(
        self, rows: Iterable[tuple[bytes, int]], part: bytes, draw: bytes, randomness: Randomness
    ) -> NoisyReleases:
        """Return one release of released counts: post-processing.

        Args:
          rows: items as `short_keys` gives them, each once, with their noisy counts.
          part: the first two thirds of the release id, and `draw` its last third.
          draw: see `part`.
          randomness: where the noise came from.
        """
        terms = self.terms
        drowned = min(self.note.scale_bits, tables.drowned([self.items], terms.squared_unit))
        rows = list(rows)
        counters = round_off(np.array([count for _, count in rows], dtype=np.int64), drowned).tolist()
        ordered = sorted(zip(counters, (key for key, _ in rows), strict=True), key=lambda row: (-row[0], row[1]))
        kept = self._nameable(ordered)
        statement = Stated.of(
            terms,
            self.per_table,
            randomness=randomness,
            release_id=part + draw,
            keys=self.note,
            uncounted=self.spec.uncounted,
        )
        spec = GroupedItems.of(self.spec.domain, [key for _, key in kept])
        counts = np.array([count for count, _ in kept], dtype=np.int64)
        return NoisyReleases(
            GroupedHistogram.name,
            spec,
            statement,
            self.note.scale_bits - drowned,
            release_ids=[part + draw],
            side=np.zeros((1, 0), dtype=np.int64),
            counters=counts[np.newaxis],
        )

    def _nameable(self, ordered: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the rows whose items have a name of their own.

        Bytes that are not valid text have none. A text that is cut within a character may have the name of another.
        """
        names = self.spec.domain.from_short_keys([key for _, key in ordered])
        whole_first = sorted(range(len(ordered)), key=lambda place: ordered[place][1][-1] == TRUNCATED)
        taken: set[object] = {None}
        kept = []
        for place in whole_first:
            if names[place] not in taken:
                taken.add(names[place])
                kept.append(place)
        return [ordered[place] for place in sorted(kept)]


def note_of(terms: ReleaseTerms, parameter: Fraction) -> GroupNote:
    """Return the note of the threshold on counts, without votes; the parameter of their noise is in squared records."""
    rule = terms.selection
    assert isinstance(rule, GroupRule)
    if (votes := terms.votes) is not None:
        rule = dataclasses.replace(rule, delta=rule.delta - votes.delta)
    scale_bits = terms.scale_bits + terms.grid_bits(parameter)
    tail = functools.partial(least_quantile, terms.noise, parameter * 4**scale_bits)
    threshold = rule.threshold(terms.bounds, tail, scale_bits, terms.window_count)
    most = threshold + tail(_LIKELY) - 1
    return GroupNote(max_items=rule.max_items, threshold=threshold, most=most, scale_bits=scale_bits)


def draw_of(rows: Iterable[tuple[bytes, int]], randomness: KeyedRandomness) -> bytes:
    """Return the last third of a release id, a function of what is released and of a secret."""
    digest = hashlib.blake2b(encode(tuple(sorted(rows))), digest_size=32).digest()
    return randomness.random_bytes(message("rows", digest, []))(DRAW_BYTES)
