"""Released sketches: releases that answer about single items and are comparable with releases of the same spec."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.difference import Difference, length
from beam_dpsketch.answers.estimators.comparing import ReleasedTable, inner_product
from beam_dpsketch.answers.estimators.presence import exceeds_noise
from beam_dpsketch.answers.item_answers import Changes, ItemAnswers
from beam_dpsketch.answers.notes import of_noise
from beam_dpsketch.answers.released import Released, pictures
from beam_dpsketch.answers.rows import Frequencies, Many
from beam_dpsketch.errors import ArgumentTypeError, IncompatibleSketchError
from beam_dpsketch.statement.clipping import weakest
from beam_dpsketch.statement.showing import shown
from beam_dpsketch.statement.summary_notes import Interval
from beam_dpsketch.statement.tabular import Note

_USELESS_SHARE = 0.2


class ReleasedSketch(Released, ItemAnswers):
    """A private release of a sketch. Methods accept one item or many, as in `ItemAnswers`.

    Two compared releases must have the same kind and spec, including the seed, and no component release in common,
    because their noise would be the same. Two answers from one timeline are rejected too. Methods then raise
    `IncompatibleSketchError`. A Count-Min with width 1 raises `ValueError`. Products and distances are about single
    items, for trees on the finest level.
    """

    kind: ClassVar[str] = "frequencies"
    _usual_picture: ClassVar[str] = "top_k"

    def top_k(self, k: int, candidates: Many | None = None, confidence: float = 0.95) -> Frequencies:
        """List the k items with the largest estimates, largest first, or fewer if fewer were given or found.

        Each interval has the given confidence for an item chosen before asking. A top-k list prefers items that the
        noise raised, and if many items have nearly equal weights, fewer intervals cover the truth. For intervals that
        are valid for all m candidates together, and so for any list, divide the error probability by m:
        ``confidence=1 - 0.05 / m``. Without candidates, m is at most the size of the domain or of the public list.

        Args:
          k: the number of items, 1 to 2**31.
          candidates: the items to choose from. Equal estimates keep their order, and repeated items count once. They
            must be public: candidates from the data would publish them. With `None`, a tree searches itself and lists
            the items that exceed the noise threshold, and all listed items are candidates. A flat sketch requires
            candidates.
          confidence: confidence per interval, in (0, 1).
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        if candidates is None:
            return self._search(confidence)[:k].with_places()
        return self._frequencies(_validate.many(candidates=candidates), confidence).largest(k)

    def inner_product(self, other: ReleasedSketch, confidence: float = 0.95) -> Interval:
        """Estimate the join size: the weight here times the weight there, summed over items.

        Its error grows with the square root of both sums of squared weights. The join of many rare items is therefore
        mostly noise.
        """
        self._check_comparable(other)
        found = Interval(*inner_product(self._table, other._table).interval(confidence))
        return found.of(weakest([self._clipping, other._clipping]))

    def distance(self, other: ReleasedSketch, confidence: float = 0.95) -> Interval:
        """Estimate the Euclidean distance: the square root of the summed squared changes in weight, over items.

        Equal weight on both sides cancels, including its collisions. Distances below the noise have a lower bound of 0.
        """
        self._check_comparable(other)
        found = length(self._table.minus(other._table), confidence)
        return found.of(weakest([self._clipping, other._clipping]))

    def minus(self, other: ReleasedSketch) -> Difference:
        """Subtract another release: counters subtract, and the noise of both adds.

        The difference has the statement of both releases together, like a combination.
        """
        self._check_comparable(other)
        both = self.combine(other).privacy
        return Difference(self._plus(other, both, sign=-1), self, other)

    def movers(
        self, before: ReleasedSketch, k: int = 20, candidates: Many | None = None, confidence: float = 0.95
    ) -> Changes:
        """List the k largest changes in ``minus(before)``, up or down, with the weights before and after.

        Changes may differ from after - before, because they come from the difference of the counters.
        `Difference.top_k` explains the arguments and the intervals.
        """
        return self.minus(before)._movers(k, candidates, confidence)

    def _check_comparable(self, other: ReleasedSketch) -> None:
        """Reject a release of another kind or spec, or with common noise."""
        if not isinstance(other, ReleasedSketch):
            raise ArgumentTypeError("other", f"must be a release, got {type(other).__name__}", "E704")
        self._check_same_kind(other, "compared")
        if self.privacy.shares_noise_with(other.privacy):
            raise IncompatibleSketchError(
                "Releases with common noise cannot be compared. For windows in the same timeline, use its methods "
                "minus, distance and movers"
            )

    def plot(
        self,
        kind: str | None = None,
        what: Any = None,
        *,
        candidates: Many | None = None,
        axes: Any = None,
        look: Any = None,
    ) -> Any:
        """Draw answers with their intervals; return the matplotlib axes.

        Args:
          kind: the question: "cdf", "histogram", "top_k" or "items". The default is the cdf for quantiles, and `top_k`
            for other releases.
          what: values for the cdf, edges or the number of bins, the k for `top_k`, or items. Each question has a
            default.
          candidates: see `top_k`.
          axes: where to draw; `None` makes a new figure: save it by `released.plot().figure.savefig("plot.png")`.
          look: a `beam_dpsketch.plots.Look`: names, confidence and color.

        Raises `ValueError` if the release does not answer, and `ImportError` without matplotlib: `pip install
        'beam-dpsketch[plot]'`.
        """
        kind = self._usual_picture if kind is None else kind
        return pictures().draw_release(self, kind, what, candidates=candidates, axes=axes, look=look)

    @abstractmethod
    def _search(self, confidence: float) -> Frequencies:
        """List the candidates that the release itself provides, largest first. Raise an error if it provides none."""

    @property
    @abstractmethod
    def _table(self) -> ReleasedTable:
        """Counters for single items."""

    @abstractmethod
    def _changed_candidates(self, before: Any, k: int) -> Any:
        """List items that include the k largest changes. Raise an error if none are known."""

    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        """Estimate as `_frequencies` does, without bias also for negative weights."""
        return self._frequencies(items, confidence)

    def _own_notes(self) -> tuple[Note, ...]:
        """Warn if the noise margin is large compared with the heaviest possible item.

        No item weighs more than the square root of the summed squares in a row, minus their noise. A sketch with signs
        does not contain the total, and summary counts have too much noise to bound it.
        """
        (counters, variance), reach = self._coarsest, self._noise_reach
        size, squares = counters.size / len(rows := np.atleast_2d(counters)), np.square(rows, dtype=np.float64)
        energy = squares.sum() / len(rows) - size * variance
        heaviest = math.sqrt(max(energy, 0.0) + 2 * variance * math.sqrt(2 * size / len(rows)))
        if self._privacy.bounds.signed or not reach or (self._exceeds_noise and reach <= _USELESS_SHARE * heaviest):
            return ()
        words = f"95 % intervals are at least ±{shown(reach)}, and no item weighs more than about {shown(heaviest)}"
        return of_noise(words)

    @property
    @abstractmethod
    def _noise_reach(self) -> float:
        """Half-width of a 95 % interval in an empty release, for ranks of the total."""

    @property
    def _coarsest(self) -> tuple[np.ndarray, float]:
        """Counters in the table that shows best whether the release is empty, and their noise variance."""
        return self.counters, self._noise_variance(0)

    @property
    def _exceeds_noise(self) -> bool:
        has_signs = self.raw_type.tables(self._spec)[0].has_signs
        return exceeds_noise(*self._coarsest, has_signs=has_signs, fourth=self._fourth_cumulant(0))
