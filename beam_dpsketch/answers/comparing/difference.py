"""The signed difference of two releases: answers about changes of weight.

Guarantee: post-processing. Counters are linear, so their difference is that of a sketch of signed changes, with the
noise of both. Estimates are unbiased. What did not change cancels, and its collisions too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.item_answers import ItemAnswers
from beam_dpsketch.answers.rows import Frequencies, Many, as_many

if TYPE_CHECKING:
    from beam_dpsketch.answers.released_sketch import ReleasedSketch
    from beam_dpsketch.statement.statement import PrivacyStatement


class Difference(ItemAnswers):
    """How much more an item weighs in one release than in another. Made by `minus`, not by hand.

    Weights in answers are changes, and may be negative. All answers are about the records that bounding kept. Those of
    a tree are read from its finest level alone; those of a Count-Min are centred. `ItemAnswers` says what methods take.
    """

    def __init__(self, signed: ReleasedSketch) -> None:
        self._signed = signed

    @property
    def privacy(self) -> PrivacyStatement:
        """What both releases together protect and how well; `print` it."""
        return self._signed.privacy

    @property
    def spec(self) -> Any:
        """The shape and the hash functions of both releases."""
        return self._signed.spec

    def top_k(self, k: int, candidates: Many, confidence: float = 0.95) -> Frequencies:
        """Return the k candidates of largest change, up or down, largest first; `movers` finds candidates of trees.

        Equal changes keep their order, and repeated items count once. Candidates must be public. A list of the largest
        changes prefers items that the noise moved; see `ReleasedSketch.movers`.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        return self._frequencies(as_many(candidates)[0], confidence).largest_changes(k)

    def _estimates(self, items: Any) -> np.ndarray:
        return self._frequencies(items, 0.95).estimate

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        return self._signed._signed_frequencies(items, confidence)

    def __repr__(self) -> str:
        return f"<Difference of two {type(self._signed).__name__} of {self._signed._size}>"
