"""How much a release holds: what its side counters say of units, records and weight, and of what a norm took away.

Guarantee: each interval holds with the given confidence or more, over the noise. It is one of the clipped sum: each
unit counts with at most K, as `privacy.side_counters` says, over all keys and windows. The sum is one over what
bounding accepted, and says nothing about what was dropped before. Bounds are not cut at 0: noise is symmetric, and sums
over keys stay unbiased.

`mean` and `clipped_share` ask two counters at once. Each of the two intervals may fail with half the probability, so
both hold together with the given confidence, by the union bound.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.side_counters import CLIPPED, RECORDS, SCALED, UNITS, WEIGHT
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.side_notes import Interval, SideNote
from beam_dpsketch.statement.statement import PrivacyStatement

_NOTHING_KNOWN = Interval(math.nan, -math.inf, math.inf)


class ClippedShare(NamedTuple):
    """How much of the weight a norm took away, of what the side counters see.

    Attributes:
      at_least: a lower bound of the share, 0 to 1, that holds with the confidence asked for.
      seen: the estimated share, 0 to 1; NaN if neither clipped nor kept weight is above 0.
      scaled: how many units were scaled down, once for each key and window.
    """

    at_least: float
    seen: float
    scaled: Interval

    def __repr__(self) -> str:
        estimate, _, upper = self.scaled
        around = f"{shown(estimate)} (+-{shown(upper - estimate)})"
        return f"<ClippedShare of at least {100 * self.at_least:.2g} %, with {around} scaled units>"


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
        max_norm of each unit. Bounds may lie below 0. Raises `ValueError` if the release does not count records.
        """
        return self._note(RECORDS).interval(confidence)

    def total_weight(self, confidence: float = 0.95) -> Interval:
        """Return about how much weight is in the release: the sum of what all items count.

        Under `RecordBounds` this is the weight that was kept. Under a `NormBound` it is the weight after scaling, at
        most 4 max_norm of each unit. Bounds may lie below 0. Raises `ValueError` if the release does not count weight.
        """
        return self._note(WEIGHT).interval(confidence)

    def mean(self, confidence: float = 0.95) -> Interval:
        """Return about how much weight a record has on average: the weight counted, divided by the records counted.

        This is not the average of values whose quantiles a release has. It is 1 where each record weighs 1 and counts
        in full. Where the records may be 0 within the noise, nothing is known, and the answer is (NaN, -inf, inf).
        Raises `ValueError` if the release does not count both.
        """
        _validate.open_unit_interval(confidence=confidence)
        weight, records = self._note(WEIGHT), self._note(RECORDS)
        _, fewest, most = records.interval((1 + confidence) / 2)
        if fewest <= 0:
            return _NOTHING_KNOWN
        if weight is records:
            return Interval(1.0, 1.0, 1.0)
        _, lower, upper = weight.interval((1 + confidence) / 2)
        return Interval(
            weight.estimate / records.estimate,
            lower / (most if lower > 0 else fewest),
            upper / (fewest if upper > 0 else most),
        )

    def clipped_share(self, confidence: float = 0.95) -> ClippedShare:
        """Return a lower bound for how much of the weight a `NormBound` took away by scaling.

        Show it as "at least". The counters see little of what a few heavy units lose: each counts with at most max_norm
        of clipped weight. In a web log that lost 22.8 %, they see 2.1 %.

        It is a share of that and of `total`, where a unit counts with at most 4 max_norm. So the true share can be
        below the bound, but only where many units keep more than that, spread over many items. A tree for quantiles
        counts kept weight in full, and there the bound is one of the true share.

        Raises `ValueError` if the release does not count clipped and kept weight, and where negative weights cancel.
        """
        clipped, scaled, kept = self._note(CLIPPED), self._note(SCALED), self.total_weight(confidence)
        if self.privacy.bounds.signed:
            raise ArgumentError(
                "clipped_share",
                "needs weights that are not signed: where they cancel, the weight kept is not the whole of a "
                "share; see print(released.privacy) for the weight clipped",
                "E716",
            )
        # Both one-sided bounds of an interval fail with half of 1 - confidence.
        return ClippedShare(
            _share(clipped.interval(confidence).lower, kept.upper, nothing=0.0),
            _share(clipped.estimate, kept.estimate, nothing=math.nan),
            scaled.interval(confidence),
        )

    def _note(self, name: str) -> SideNote:
        for note in self.privacy.side:
            if name in note.names:
                return note
        field, bounds = (CLIPPED if name == SCALED else name), self.privacy.bounds
        if field == CLIPPED and not bounds.has_norm:
            raise ArgumentError(
                "",
                "clipped weight is counted under a $NormBound only: other bounds drop records and scale none",
                "E716",
            )
        raise ArgumentError(
            "",
            f"this release does not count {name}: make it in a pipeline, with "
            f"PrivacySpec(side_counters=SideCounters({field}=...)), the default; release() counts nothing, "
            "and a combination counts what all its parts count alike",
            "E716",
        )

    @property
    def _about(self) -> SideNote | None:
        """The side counter that says best how much is in the release."""
        found = {name: note for note in self.privacy.side for name in note.names}
        return next((found[name] for name in (RECORDS, UNITS, WEIGHT) if name in found), None)

    @property
    def _from_about(self) -> str | None:
        """How much is in the release, in words, if that may be nothing."""
        about = self._about
        return str(about) if about is not None and about.may_be_nothing else None


def _share(part: float, rest: float, *, nothing: float) -> float:
    """Return the share of a part in part and rest, where numbers below 0 are noise and count as 0."""
    part, rest = max(part, 0.0), max(rest, 0.0)
    return part / (part + rest) if part + rest > 0 else nothing
