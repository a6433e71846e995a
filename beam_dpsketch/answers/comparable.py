"""What may be asked of two releases of one spec, with independent noise.

Guarantee: post-processing of both, so the two privacy statements cover every answer. All answers are about the records
that bounding kept. Intervals cover noise and collisions, each at about the given confidence.

Counters are linear, so the difference of two releases is that of a sketch of signed changes, with the noise of both.
Its estimates are unbiased. What did not change cancels, and its collisions too.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.item_answers import Changes, ItemAnswers
from beam_dpsketch.answers.rows import Frequencies, Many, as_list
from beam_dpsketch.errors import ArgumentTypeError, IncompatibleSketchError
from beam_dpsketch.estimators import comparing
from beam_dpsketch.estimators.comparing import NoisyTable
from beam_dpsketch.statement.clipping import Clipping, weakest
from beam_dpsketch.statement.side_notes import Interval
from beam_dpsketch.statement.statement import PrivacyStatement


class Comparable(ABC):
    """What each release answers about itself and another one.

    The other release must be of the same kind and spec, seed included. A release that is inside both is refused,
    because the noise of both sides would be the same. So are two answers of one timeline.
    Methods then raise `IncompatibleSketchError`. A Count-Min of width 1 raises `ValueError`.

    Products and distances are about single items: of trees, they are read from the finest level.
    """

    def inner_product(self, other: Comparable, confidence: float = 0.95) -> Interval:
        """Return the sum over items of the weight here times the weight there: the size of a join.

        Its error grows with the root of both second moments. So the join of many rare items is mostly noise.
        """
        self._check_comparable(other)
        return self._with(other, _interval(comparing.inner_product(self._table, other._table), confidence))

    def second_moment(self, confidence: float = 0.95) -> Interval:
        """Return the sum over items of the squared weight, at least 0: how skewed the data are."""
        found = _at_least_zero(_interval(comparing.second_moment(self._table), confidence))
        return found.of(self.privacy.clipping())

    def distance(self, other: Comparable, confidence: float = 0.95) -> Interval:
        """Return the Euclidean distance: the root of the sum over items of the squared change of weight.

        What is equal on both sides cancels, collisions included. Distances that noise hides have a lower bound of 0;
        `spec_for_distance` chooses a sketch that shows smaller ones.
        """
        self._check_comparable(other)
        squared = comparing.second_moment(self._table.minus(other._table))
        return self._with(other, Interval(*map(math.sqrt, _at_least_zero(_interval(squared, confidence)))))

    def cosine(self, other: Comparable, confidence: float = 0.95) -> Interval:
        """Return the cosine of the angle between both, in [-1, 1]: 1 for equal shares, 0 without common items.

        Where a second moment may be 0 within the noise, nothing is known, and the answer is (NaN, -1, 1).
        """
        self._check_comparable(other)
        value, lower, upper = _interval(comparing.cosine(self._table, other._table), confidence)
        found = (-1.0, 1.0) if math.isnan(value) else (max(lower, -1.0), min(upper, 1.0))
        return self._with(other, Interval(value, *found))

    def minus(self, other: Comparable) -> Difference:
        """Return the signed difference of both: counters subtract, and the noise of both adds.

        Its statement is that of both releases together, as of a combination.
        """
        self._check_comparable(other)
        return Difference(self._difference(other))

    def movers(
        self, before: Comparable, k: int = 20, candidates: Many | None = None, confidence: float = 0.95
    ) -> Changes:
        """Return the k items of largest change since an earlier release, up or down, largest first.

        Changes are read from the difference of the counters, where what did not change cancels. So they may differ from
        after - before. Of trees over ordered domains, all three are read from the finest level alone, which has no part
        in the search.

        Each interval holds at the given confidence for an item chosen before asking, and on average over all
        candidates. A list of the largest changes prefers items that the noise moved, so fewer of its intervals hold.
        For intervals that hold for all m candidates together, divide what may fail: ``confidence=1 - 0.05 / m``. A
        row whose interval holds 0 may not have changed.

        Args:
          before: the earlier release, of the same kind and spec.
          k: the number of items, 1 to 2**31; fewer are returned where fewer were given or found.
          candidates: the items to choose from. They must be public. A tree searches by itself where they are `None`:
            below what exceeds the noise in either release, for weights that are not negative. Listed items are all
            candidates. A flat sketch needs some.
          confidence: of each interval, in (0, 1).
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        self._check_comparable(before)
        return self._changes(before, self._difference(before), k, candidates, confidence)

    def _with(self, other: Comparable, answer: Interval) -> Interval:
        """Let an answer about two releases carry the clipping of the one that knows less of it."""
        return answer.of(weakest([self.privacy.clipping(), other.privacy.clipping()]))

    def _changes(
        self, before: Any, difference: Comparable, k: int, candidates: Many | None, confidence: float
    ) -> Changes:
        found = self._changed_candidates(before, k) if candidates is None else _validate.many(candidates=candidates)
        largest = Difference(difference).top_k(k, found, confidence)
        items = as_list(largest.item)
        weights = before._signed_frequencies(items, confidence), self._signed_frequencies(items, confidence)
        earlier, later = (each.estimate for each in weights)
        columns = largest.estimate, largest.lower, largest.upper
        return Changes(items, earlier, later, *columns, truncated=largest.truncated, basis=largest.basis)

    def _check_comparable(self, other: Comparable) -> None:
        """Refuse a release of another kind or spec, or with common noise."""
        if not isinstance(other, Comparable):
            raise ArgumentTypeError("other", f"must be a release, got {type(other).__name__}", "E704")
        self._check_same_kind(other, "compared")
        if self.privacy.shares_noise_with(other.privacy):
            raise IncompatibleSketchError(
                "both sides have noise in common: compare releases that share none, and windows of one timeline by its "
                "minus, distance and movers; second_moment() is the product of a release with itself"
            )

    @property
    @abstractmethod
    def privacy(self) -> PrivacyStatement:
        """What is protected and how well; `print` it."""

    @property
    @abstractmethod
    def spec(self) -> Any:
        """The shape and the hash functions."""

    @property
    @abstractmethod
    def _size(self) -> str:
        """The shape in a few words."""

    @property
    @abstractmethod
    def _table(self) -> NoisyTable:
        """The counters of single items."""

    @abstractmethod
    def _difference(self, other: Any) -> Comparable:
        """Return this release minus the other one, to be read where weights may be negative."""

    @abstractmethod
    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        """Return estimates and bounds, unbiased also where weights may be negative."""

    @abstractmethod
    def _changed_candidates(self, before: Any, k: int) -> Any:
        """Return items among which the k largest changes are; raise where none are known."""

    @abstractmethod
    def _check_same_kind(self, other: Any, done: str) -> None:
        """Refuse a release of another kind or spec, which cannot be combined, or compared."""


class Difference(ItemAnswers):
    """How much more an item weighs in one release than in another. Made by `minus`, not by hand.

    Weights in answers are changes, and may be negative. All answers are about the records that bounding kept. Those of
    a tree are read from its finest level alone; those of a Count-Min are centred. `ItemAnswers` says what methods take.
    """

    def __init__(self, signed: Comparable) -> None:
        self._signed = signed

    @property
    def privacy(self) -> PrivacyStatement:
        """What both releases together protect and how well; `print` it."""
        return self._signed.privacy

    @property
    def spec(self) -> Any:
        """The shape and the hash functions of both releases."""
        return self._signed.spec

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Return the share of the total of both releases that the bounds removed."""
        return self.privacy.clipping(confidence)

    def top_k(self, k: int, candidates: Many, confidence: float = 0.95) -> Frequencies:
        """Return the k candidates of largest change, up or down, largest first; `movers` finds candidates of trees.

        Equal changes keep their order, and repeated items count once. Candidates must be public. A list of the largest
        changes prefers items that the noise moved; see `ReleasedSketch.movers`.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        return self._frequencies(_validate.many(candidates=candidates), confidence).largest_changes(k)

    def _estimates(self, items: Any) -> np.ndarray:
        return self._frequencies(items, 0.95).estimate

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        rows = self._signed._signed_frequencies(items, confidence)
        # What is noted of weights does not hold of changes.
        return dataclasses.replace(rows, basis=dataclasses.replace(rows.basis, notes=(), asked=0))

    def __repr__(self) -> str:
        return f"<Difference of two {type(self._signed).__name__} of {self._signed._size}>\n{self.clipping()}"


def _interval(estimate: comparing.Estimate, confidence: float) -> Interval:
    margin = estimate.margin(confidence)
    return Interval(estimate.value, estimate.value - margin, estimate.value + margin)


def _at_least_zero(interval: Interval) -> Interval:
    return Interval(*(max(each, 0.0) for each in interval))
