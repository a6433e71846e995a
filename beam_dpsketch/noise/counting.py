"""Noise and thresholds for exact counts.

Guarantee: `privacy.thresholded_counts` proves the loss. It requires one decision per item, key and window, with
  independent
noise: another decision from the same count and votes is another release. An item that neither its count nor its votes
release is omitted.
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
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import check_paid, counter_tables
from beam_dpsketch.noise.keys import KeyChoice, choose_keys, find_chosen
from beam_dpsketch.noise.tables import NoisyTable, message, settings_of
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.drawing import least_quantile, round_off
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness, RandomBytes
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.notes import ThresholdNote
from beam_dpsketch.statement.release_id import DRAW_BYTES
from beam_dpsketch.statement.stated import Stated

_LIKELY = Fraction(1, 100)


class Counting(NamedTuple):
    """Noise and thresholds for counts, fixed before the data are read.

    Attributes:
      spec: the item domain.
      terms: privacy terms per release, with the chosen norm, or with a norm of 1 before the choice.
      declared: the terms as declared.
      items: the table for all counts.
      note: statement note for the items.
      choice: item selection by votes, or `None` if units do not vote.
      scaled_units: target for the number of units longer than the norm, or `None` if no norm is chosen
        from the data.
    """

    spec: ThresholdedItems
    terms: ReleaseTerms
    declared: ReleaseTerms
    items: NoisyTable
    note: ThresholdNote
    choice: KeyChoice | None = None
    scaled_units: Fraction | None = None

    @classmethod
    def of(cls, spec: ThresholdedItems, declared: ReleaseTerms, norm: Fraction | int = 1) -> Counting:
        """Calibrate releases under these terms, or raise if the settings cannot work.

        Args:
          spec: the item domain.
          declared: the terms.
          norm: the norm, if it is chosen from the data, or 1 before the choice. Noise grows with it.
        """
        terms = declared.under(norm)
        (table,) = counter_tables(spec, terms)
        items = dataclasses.replace(table, names=("items",))
        note, choice = note_of(terms, items.parameter), choose_keys(spec, terms)
        check_paid([items], terms, choice)
        note = note if choice is None else dataclasses.replace(note, votes=choice.note)
        return cls(spec, terms, declared, items, note, choice)

    def with_norm(self, max_norm: Fraction | None) -> Counting:
        """Calibrate for a chosen norm; unchanged unless it is chosen from the data."""
        return self if max_norm is None else Counting.of(self.spec, self.declared, max_norm)

    @property
    def _deciding(self) -> tuple[Any, ...]:
        """Settings that determine the released items, without the texts of the note."""
        votes = None if self.choice is None else self.choice.deciding
        return self.note.max_items, self.note.threshold, self.note.scale_bits, votes

    @property
    def per_table(self) -> tuple[Fraction, ...]:
        """Noise parameter for counts."""
        return (self.items.parameter,)

    def with_terms(self, terms: ReleaseTerms) -> Counting:
        """Replace the terms, which may differ only in their budget or their disclosed facts."""
        return self._replace(terms=terms.under(self.terms.bounds.size), declared=terms)

    def add_noise(self, counts: np.ndarray, random_bytes: RandomBytes = os.urandom) -> tuple[np.ndarray, np.ndarray]:
        """Draw noisy counts on the note's grid, int64, shape (n,), and compare them with the threshold, bool.

        Args:
          counts: the exact count per item, in units of 2**-scale_bits, int64, shape (n,). Items without a contributing
            unit must be absent.
          random_bytes: source of the randomness.
        """
        noisy = self.items.draw(counts, random_bytes)
        return noisy, noisy >= self.note.threshold

    def draw(
        self, rows: np.ndarray, randomness: Sequence[KeyedRandomness] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the noisy counts of items, like `add_noise`, and select the released items by count or votes.

        Keyed randomness is bound to the count and to all settings, so that equal bytes never serve two counts.

        Args:
          rows: the exact count per item, followed by the columns of `find_chosen` if units vote, int64, shape (n, m).
          randomness: the secret for each item, key and window. `None` uses system entropy.
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
        """Build a release from released counts: post-processing.

        Args:
          rows: items as `short_keys`, each once, with their noisy counts.
          part: the first two thirds of the release id. `draw` is its last third.
          draw: see `part`.
          randomness: source of the noise.
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
        spec = ThresholdedItems.of(self.spec.domain, [key for _, key in kept])
        counts = np.array([count for count, _ in kept], dtype=np.int64)
        return NoisyReleases(
            spec,
            statement,
            self.note.scale_bits - drowned,
            release_ids=[part + draw],
            side=np.zeros((1, 0), dtype=np.int64),
            counters=counts[np.newaxis],
        )

    def _nameable(self, ordered: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Select rows whose items have a unique name.

        Bytes that are not valid text have no name. Text that is cut within a character may have another item's name.
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


def note_of(terms: ReleaseTerms, parameter: Fraction) -> ThresholdNote:
    """Build the note for the threshold on counts, without votes, from the noise parameter in squared records."""
    rule = terms.selection
    assert isinstance(rule, ThresholdRule)
    if (votes := terms.votes) is not None:
        rule = dataclasses.replace(rule, delta=rule.delta - votes.delta)
    scale_bits = terms.scale_bits + terms.grid_bits(parameter)
    tail = functools.partial(least_quantile, terms.noise, parameter * 4**scale_bits)
    threshold = rule.threshold(terms.bounds, tail, scale_bits, terms.window_count)
    most = threshold + tail(_LIKELY) - 1
    return ThresholdNote(max_items=rule.max_items, threshold=threshold, most=most, scale_bits=scale_bits)


def draw_of(rows: Iterable[tuple[bytes, int]], randomness: KeyedRandomness) -> bytes:
    """Derive the last third of a release id from the released rows and a secret."""
    digest = hashlib.blake2b(encode(tuple(sorted(rows))), digest_size=32).digest()
    return randomness.random_bytes(message("rows", digest, []))(DRAW_BYTES)
