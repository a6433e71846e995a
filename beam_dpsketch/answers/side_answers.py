"""How much a release holds: what its side counters say of units, records and weight, and of what bounding took.

Guarantee: each interval holds with the given confidence or more, over the noise. It is one of the clipped sum: each
unit counts with at most K, as `privacy.aside.side_counters` says, over all keys and windows. The sum is one over what
bounding accepted, and says nothing about what was dropped before. Bounds are not cut at 0: noise is symmetric, and sums
over keys stay unbiased. Where a privacy id may have more than is counted, an interval has no upper end.

`mean_weight` and `lost` ask two counters at once. Each of the two intervals may fail with half the probability, so both
hold together with the given confidence, by the union bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.aside.side_counters import LOST, RECORDS, UNITS, WEIGHT
from beam_dpsketch.statement.lost_notes import Lost
from beam_dpsketch.statement.side_notes import Interval, SideNote
from beam_dpsketch.statement.statement import PrivacyStatement

_SURE = 0.99  # so that of three counters of nothing hardly one is told from it
_NOTHING_KNOWN = Interval(math.nan, -math.inf, math.inf)


class SideAnswers(ABC):
    """What each release answers about itself.

    >>> import numpy as np
    >>> from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec
    >>> from beam_dpsketch.engine.noising import release_part  # what transforms call
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
        return self._note(UNITS).interval(confidence)

    def records(self, confidence: float = 0.95) -> Interval:
        """Return about how many records are in the release, of those that bounding accepted.

        Under `RecordBounds` these are the records that were kept. Under a `NormBound` they are all records, at most 4
        max_norm of each unit, or max_norm where its order is 1. The upper end is infinite for privacy ids, because
        there may be any number more: read "at least lower". `lost` says how many. Bounds may lie below 0.

        Raises `ValueError` if the release does not count records.
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
        if fewest <= 0:
            return _NOTHING_KNOWN
        if weight is records:
            return Interval(1.0, 1.0, 1.0)
        if self.privacy.bounds.has_norm and self.privacy.is_at_least(RECORDS):
            return Interval(weight.estimate / records.estimate, -math.inf, math.inf)
        _, lower, upper = weight.interval((1 + confidence) / 2)
        return Interval(
            weight.estimate / records.estimate,
            lower / (most if lower > 0 else fewest),
            upper / (fewest if upper > 0 else most),
        )

    def lost(self, confidence: float = 0.95) -> Lost:
        """Return about which share of the weight bounding took; of the records, where each weighs 1.

        That is what a `NormBound` scaled away, what `RecordBounds` dropped, and what weights exceeded `max_weight` by.
        `at_least` holds with the confidence asked for. The estimate and `at_most` take the heaviest units to go on as
        the others do. Where too few units lost anything, they are NaN, and `at_least` is all that is known. Under a
        `NormBound` of order 2, a unit may keep more than the 4 max_norm that it counts with, if it has over 16 items.
        Then all three shares are too high: `most_kept` says from how much on, and `weight`, lost at least, still holds.
        Of keys and windows that one bound covers, the share is that of all of them together.

        Raises `ValueError` if the release does not tell it.
        """
        _validate.open_unit_interval(confidence=confidence)
        if (found := self.privacy.lost_share(confidence)) is not None:
            return found
        if self.privacy.bounds.signed:
            raise ArgumentError(
                "lost",
                "needs weights that are not signed: where they cancel, the weight kept is not the whole of a "
                "share; see print(released.privacy) for the weight clipped",
                "E716",
            )
        if self.privacy.lost is not None:
            raise self._untold(WEIGHT, WEIGHT)
        raise self._untold("what bounding took", LOST)

    def _note(self, name: str) -> SideNote:
        note = self.privacy.note(name)
        if note is None:
            raise self._untold(name, name)
        return note

    def _counted(self, name: str, confidence: float) -> Interval:
        """Return the interval of a count, without an upper end where the bounds may hide more of it."""
        estimate, lower, upper = self._note(name).interval(confidence)
        return Interval(estimate, lower, math.inf if self.privacy.is_at_least(name) else upper)

    def _untold(self, what: str, field: str) -> ArgumentError:
        return ArgumentError(
            "",
            f"this release does not count {what}: make it in a pipeline, with "
            f"PrivacySpec(side_counters=SideCounters({field}=...)), the default; release() counts nothing, "
            "a combination counts what all its parts count alike, and of several metrics, ask the whole release",
            "E716",
        )

    @property
    @abstractmethod
    def _exceeds_noise(self) -> bool:
        """Whether the counters of the release hold more than noise."""

    @property
    def _sizes(self) -> list[SideNote]:
        """The side counters that say how much is in the release, the best first."""
        return [*filter(None, map(self.privacy.note, (RECORDS, UNITS, WEIGHT)))]

    @property
    def _may_be_empty(self) -> bool:
        """Whether neither a side counter nor the counters of the release can be told from noise."""
        intervals = [note.interval(_SURE) for note in self._sizes]
        return all(lower <= 0 <= upper for _, lower, upper in intervals) and not self._exceeds_noise

    @property
    def _holds(self) -> str | None:
        """How much is in the release, in words; `None` if no side counter says it."""
        sizes = self._sizes
        if sizes and self._may_be_empty:
            return sizes[0].nothing
        seen = next((note for note in sizes if not note.may_be_nothing), sizes[0] if sizes else None)
        return None if seen is None else self.privacy.words_of(seen)
