"""Summary counts of a release: privacy units, records, weight and the clipped share.

Guarantee: each interval has at least the given confidence, over the noise. It is an interval for a clipped sum: each
unit counts with at most K, as in `privacy.summary_counts`, over all keys and windows. The sum covers records that
bounding accepted, not records dropped before it. Bounds are not cut at 0, because noise is symmetric and sums over keys
stay unbiased. If a privacy id may have more than is counted, an interval has no upper end.

`mean_weight` uses two counters at once. Each of the two intervals fails with half the probability. By the union bound,
both are valid together with the given confidence.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, clipping_of_units
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.summary_counts import RECORDS, UNITS, WEIGHT
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.summary_notes import Interval, SummaryNote

_SURE = 0.99  # high, because up to three counts are tested


class SummaryAnswers(ABC):
    """Answers about the size and the clipping of a release.

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
        """Privacy statement of the release; `print` it."""

    def privacy_units(self, confidence: float = 0.95) -> Interval:
        """Estimate the number of privacy units in the release: people, if a `PrivacyId` names them.

        A unit counts once for each key and window that a release has or combines, and a combination adds the counts.
        Bounds may be below 0. The answer states how the bounds limit units, not records. Raises `ValueError` if the
        release does not count units.
        """
        return self._note(UNITS).interval(confidence).of(clipping_of_units(self.privacy))

    def records(self, confidence: float = 0.95) -> Interval:
        """Estimate the number of records in the release, after bounding.

        Under `RecordBounds` these are the records that were not dropped. Under a `NormBound` they are all records, with
        at most 4 max_norm per unit, or max_norm if its order is 1. The upper end is infinite for privacy ids, because
        further records are not counted: read "at least lower". Bounds may be below 0.

        Raises `ValueError` if the release does not count records. Most releases with weights or privacy ids do not:
        request the count with `SummaryCounts(records=1/50)`.
        """
        return self._counted(RECORDS, confidence)

    def total_weight(self, confidence: float = 0.95) -> Interval:
        """Estimate the total weight in the release, over all items, after clipping.

        Under `RecordBounds` this is the weight after dropping and capping. Under a `NormBound` it is the weight after
        scaling, at most 4 max_norm per unit, and the upper end is infinite as for `records`. With an L1 norm it is the
        whole scaled weight, with a finite upper end. Bounds may be below 0. Raises `ValueError` if the release does not
        count weight.
        """
        return self._counted(WEIGHT, confidence)

    def mean_weight(self, confidence: float = 0.95) -> Interval:
        """Estimate the mean weight per record: the counted weight divided by the counted records.

        This is not the average of the values behind quantiles. It is 1 if each record weighs 1 and counts in full. If
        the number of records may be 0 within the noise, the answer is (NaN, -inf, inf). Under a `NormBound` with
        weights the interval is infinite, because both counts stop at a limit per unit. Raises `ValueError` if the
        release does not count both.
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
        """Estimate the share of the total that the contribution bounds removed, in five possible states.

        Clipping scales contributions (`NormBound`), drops records (`RecordBounds`) and caps weights at `max_weight`. If
        a bound covers several keys, windows or metrics, the share covers them together.

        Args:
          confidence: `at_least` is wrong with probability at most (1 - confidence) / 2.
        """
        return self.privacy.clipping(confidence)

    @functools.cached_property
    def _clipping(self) -> Clipping:
        return self.clipping()

    def _note(self, name: str) -> SummaryNote:
        note = self._counted_aside(name)
        if note is None:
            raise ArgumentError(
                "",
                f"This release does not count {name}. Set {name} in $summary_counts, and use a transform. A "
                "combination has a count only if all its parts have it. For several metrics, query the whole release",
                "E716",
            )
        return note

    def _counted_aside(self, name: str) -> SummaryNote | None:
        """Find a noisy count. Summary counts belong to a whole release, not to each metric."""
        if self.privacy.of_metric:
            return self.privacy.own_total if name == WEIGHT else None
        return self.privacy.note(name)

    def _counted(self, name: str, confidence: float) -> Interval:
        """Compute the interval of a count, without an upper end if further contributions may be uncounted."""
        estimate, lower, upper = self._note(name).interval(confidence)
        upper = math.inf if self.privacy.is_at_least(name) else upper
        return Interval(estimate, lower, upper).of(self._clipping)

    @property
    @abstractmethod
    def _exceeds_noise(self) -> bool:
        """Whether the counters exceed their noise."""

    @property
    def _sizes(self) -> list[SummaryNote]:
        return [*dict.fromkeys(filter(None, map(self._counted_aside, (RECORDS, UNITS, WEIGHT))))]

    @property
    def _may_be_empty(self) -> bool:
        """Whether all summary counts and counters are within their noise."""
        intervals = [note.interval(_SURE) for note in self._sizes]
        return all(lower <= 0 <= upper for _, lower, upper in intervals) and not self._exceeds_noise

    @property
    def _holds(self) -> str | None:
        """Contents in words: the units, and the total with the smallest margin, or `None` without any count."""
        sizes, privacy = self._sizes, self.privacy
        if self._may_be_empty:
            return sizes[0].nothing if sizes else None
        seen = [note for note in sizes if not note.may_be_nothing]
        units = [note for note in seen if UNITS in note.names and not privacy.privacy_unit.is_one_record]
        margins = {
            privacy.words_of(note): note.interval(0.95).upper - note.estimate for note in seen if note not in units
        }
        found = [*map(privacy.words_of, units or (sizes if not seen and not margins else [])[:1])]
        return ", ".join([*found, *sorted(margins, key=margins.__getitem__)[:1]]) or None
