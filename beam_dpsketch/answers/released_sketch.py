"""Released sketches: releases that answer about items, one by one, and are compared with others of their spec."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, TypeVar

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.comparable import Comparable
from beam_dpsketch.answers.item_answers import ItemAnswers
from beam_dpsketch.answers.notes import Note, of_noise
from beam_dpsketch.answers.released import DRAWERS, Released
from beam_dpsketch.answers.rows import Frequencies, Many
from beam_dpsketch.estimators.presence import exceeds_noise
from beam_dpsketch.statement.showing import shown

Self = TypeVar("Self", bound="ReleasedSketch")
_USELESS_SHARE = 0.2


class ReleasedSketch(Released, ItemAnswers, Comparable):
    """A private release of a sketch. Methods take one item or many; see `ItemAnswers`."""

    made_as: ClassVar[str] = "frequencies"
    _usual_picture: ClassVar[str] = "top_k"

    def top_k(self, k: int, candidates: Many | None = None, confidence: float = 0.95) -> Frequencies:
        """Return the k items of largest estimate, largest first; fewer if fewer were given or found.

        Each interval holds at the given confidence for an item chosen before asking. A list of the largest estimates
        prefers items that the noise raised. Where many items have nearly equal weights, fewer of its intervals hold.
        For intervals that hold for all m candidates together, and so for any list of them, divide what may fail:
        ``confidence=1 - 0.05 / m``. Without candidates, m is at most the size of the domain, or of the list of items.

        Args:
          k: the number of items, 1 to 2**31.
          candidates: the items to choose from; equal estimates keep their order, and repeated items count once. They
            must be public: candidates taken from the data would publish them. A tree searches by itself where they
            are `None`, and lists what exceeds the noise threshold. Listed items are all candidates. A flat sketch
            needs some.
          confidence: of each interval, in (0, 1).
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        if candidates is None:
            return self._search(confidence)[:k]
        return self._frequencies(_validate.many(candidates=candidates), confidence).largest(k)

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
          kind: of question: "cdf", "histogram", "top_k" or "items". If not given, the cdf of a release for quantiles,
            and the `top_k` of others.
          what: values of the cdf, edges or the number of bins, the k of `top_k`, or items; the usual ones if not given.
          candidates: see `top_k`.
          axes: where to draw; `None` makes a new figure: save it by `released.plot().figure.savefig("plot.png")`.
          look: a `beam_dpsketch.plots.Look`: names, confidence and colour.

        Raises `ValueError` where the release does not answer, and `ImportError` without matplotlib:
        `pip install 'beam-dpsketch[plot]'`.
        """
        kind = self._usual_picture if kind is None else kind
        return DRAWERS["release"](self, kind, what, candidates=candidates, axes=axes, look=look)

    @abstractmethod
    def _search(self, confidence: float) -> Frequencies:
        """Return the items that a list without candidates may hold, largest first; raise where there are none."""

    def _difference(self: Self, other: Released) -> Self:
        return self._plus(other, self._privacy.composed(other._privacy, units_disjoint=False), sign=-1)

    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        """Do as `_frequencies`, unbiased also where weights may be negative."""
        return self._frequencies(items, confidence)

    def _own_notes(self) -> tuple[Note, ...]:
        """Return the notes of a release that holds something.

        No item weighs more than the root of the sum of squares of a row, with its noise left out. A sketch with signs
        does not tell the total, and side counters have too much noise to bound it.
        """
        (counters, variance), reach = self._coarsest, self._noise_reach
        size, squares = counters.size / len(rows := np.atleast_2d(counters)), np.square(rows, dtype=np.float64)
        energy = squares.sum() / len(rows) - size * variance
        heaviest = math.sqrt(max(energy, 0.0) + 2 * variance * math.sqrt(2 * size / len(rows)))
        if self._privacy.bounds.signed or not reach or (self._exceeds_noise and reach <= _USELESS_SHARE * heaviest):
            return ()
        return of_noise(reach, f"no item weighs more than about {shown(heaviest)}")

    @property
    @abstractmethod
    def _noise_reach(self) -> float:
        """How far a 95 % interval reaches to a side where a release holds nothing."""

    @property
    def _coarsest(self) -> tuple[np.ndarray, float]:
        """The counters of the table that shows best whether there is anything, and the variance of their noise."""
        return self.counters, self._noise_variance(0)

    @property
    def _exceeds_noise(self) -> bool:
        has_signs = self.raw_type.tables(self._spec)[0].has_signs
        return exceeds_noise(*self._coarsest, has_signs=has_signs, fourth=self._fourth_cumulant(0))
