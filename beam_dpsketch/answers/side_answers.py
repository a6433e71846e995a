"""How much a release holds: what its side counters say of units, records and weight, and how much was clipped.

Guarantee: each interval holds with the given confidence or more, over the noise. It is one of the clipped sum: each
unit counts with at most K, as `privacy.aside.side_counters` says, over all keys and windows. The sum is one over what
bounding accepted, and says nothing about what was dropped before. Bounds are not cut at 0: noise is symmetric, and sums
over keys stay unbiased. Where a privacy id may have more than is counted, an interval has no upper end.

`mean_weight` asks two counters at once. Each of the two intervals may fail with half the probability, so both hold
together with the given confidence, by the union bound.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.side_counters import RECORDS, UNITS, WEIGHT
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.side_notes import Interval, SideNote

_SURE = 0.99  # so that of three counters of nothing hardly one is told from it


class SideAnswers(ABC):
    """What each release answers about itself.

    >>> import numpy as np
    >>> from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec
    >>> from beam_dpsketch.by_hand import release_part  # what transforms call
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> released = release_part(raw, np.array([1000]), ReleaseTerms(PrivacySpec(rho=2.0)))
    >>> 900 < released.records().lower < released.records().upper < 1100
    True
    >>> nothing = release_part(CountSketch(raw.spec), np.array([0]), ReleaseTerms(PrivacySpec(rho=1.0)))
    >>> abs(nothing.records().estimate) < 100
    True
    """

    @property
    @abstractmethod
    def privacy(self) -> PrivacyStatement:
        """What is protected and how well; `print` it."""

    def privacy_units(self, confidence: float = 0.95) -> Interval:
        """Return about how many privacy units are in the release: people, if a `PrivacyId` names them.

        A unit counts once for each key and window that a release has or combines. A combination adds its parts. Bounds
        may lie below 0. Raises `ValueError` if the release does not count units.
        """
        return self._note(UNITS).interval(confidence).of(self._clipping)

    def records(self, confidence: float = 0.95) -> Interval:
        """Return about how many records are in the release, of those that bounding accepted.

        Under `RecordBounds` these are the records that were kept. Under a `NormBound` they are all records, at most 4
        max_norm of each unit, or max_norm where its order is 1. The upper end is infinite for privacy ids, because
        there may be any number more: read "at least lower". Bounds may lie below 0.

        Raises `ValueError` if the release does not count records, as most releases with weights or of privacy ids do
        not: ask for them with `SideCounters(records=1/50)`.
        """
        return self._counted(RECORDS, confidence)

    def total_weight(self, confidence: float = 0.95) -> Interval:
        """Return about how much weight is in the release: the sum of what all items count.

        Under `RecordBounds` this is the weight that was kept. Under a `NormBound` it is the weight after scaling, at
        most 4 max_norm of each unit, and the upper end is infinite as that of `records` is. Of order 1 it is all of
        that weight, with an upper end. Bounds may lie below 0.
        Raises `ValueError` if the release does not count weight.
        """
        return self._counted(WEIGHT, confidence)

    def mean_weight(self, confidence: float = 0.95) -> Interval:
        """Return about how much weight a record has on average: the weight counted, divided by the records counted.

        This is not the average of values whose quantiles a release has. It is 1 where each record weighs 1 and counts
        in full. Where the records may be 0 within the noise, nothing is known, and the answer is (NaN, -inf, inf).
        Under a `NormBound` with weights the estimate has no ends: of each unit, either counts up to a limit only.
        Raises `ValueError` if the release does not count both.
        """
        _validate.open_unit_interval(confidence=confidence)
        weight, records = self._note(WEIGHT), self._note(RECORDS)
        _, fewest, most = records.interval((1 + confidence) / 2)
        lower, upper = -math.inf, math.inf
        if fewest <= 0:
            return Interval(math.nan, lower, upper).of(self._clipping)
        if weight is records:
            lower = upper = 1.0
        elif not (self.privacy.bounds.has_norm and self.privacy.is_at_least(RECORDS)):
            _, least, largest = weight.interval((1 + confidence) / 2)
            lower, upper = least / (most if least > 0 else fewest), largest / (fewest if largest > 0 else most)
        return Interval(weight.estimate / records.estimate, lower, upper).of(self._clipping)

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Return the share of the total that the contribution bounds removed, in one of five states.

        They clip by scaling (`NormBound`), by dropping records (`RecordBounds`) and by capping weights at `max_weight`.
        Where one bound covers several keys, windows or metrics, the share is that of all of them together.

        Args:
          confidence: `at_least` fails with half of the probability that this leaves out.
        """
        return self.privacy.clipping(confidence)

    @functools.cached_property
    def _clipping(self) -> Clipping:
        """The clipping that all answers carry."""
        return self.clipping()

    def _note(self, name: str) -> SideNote:
        note = self._counted_aside(name)
        if note is None:
            raise ArgumentError(
                "",
                f"this release does not count {name}: it was made without $side_counters for it ({name}), or of a "
                "raw sketch. A combination counts what all its parts do; of several metrics, ask the whole release",
                "E716",
            )
        return note

    def _counted_aside(self, name: str) -> SideNote | None:
        """Return a noisy count of this release; side counters of several metrics are of the whole, and of no metric."""
        if self.privacy.of_metric:
            return self.privacy.own_total if name == WEIGHT else None
        return self.privacy.note(name)

    def _counted(self, name: str, confidence: float) -> Interval:
        """Return the interval of a count, without an upper end where the bounds may hide more of it."""
        estimate, lower, upper = self._note(name).interval(confidence)
        upper = math.inf if self.privacy.is_at_least(name) else upper
        return Interval(estimate, lower, upper).of(self._clipping)

    @property
    @abstractmethod
    def _exceeds_noise(self) -> bool:
        """Whether the counters of the release hold more than noise."""

    @property
    def _sizes(self) -> list[SideNote]:
        """The noisy counts of how much is in the release, each once."""
        return [*dict.fromkeys(filter(None, map(self._counted_aside, (RECORDS, UNITS, WEIGHT))))]

    @property
    def _may_be_empty(self) -> bool:
        """Whether neither a side counter nor the counters of the release can be told from noise."""
        intervals = [note.interval(_SURE) for note in self._sizes]
        return all(lower <= 0 <= upper for _, lower, upper in intervals) and not self._exceeds_noise

    @property
    def _holds(self) -> str | None:
        """How much is in the release, in words: its units, and its most exact total; `None` if nothing tells it."""
        sizes, privacy = self._sizes, self.privacy
        if self._may_be_empty:
            return sizes[0].nothing if sizes else None
        seen = [note for note in sizes if not note.may_be_nothing]
        units = [note for note in seen if UNITS in note.names and not privacy.unit.is_one_record]
        margins = {
            privacy.words_of(note): note.interval(0.95).upper - note.estimate for note in seen if note not in units
        }
        found = [*map(privacy.words_of, units or (sizes if not seen and not margins else [])[:1])]
        return ", ".join([*found, *sorted(margins, key=margins.__getitem__)[:1]]) or None
