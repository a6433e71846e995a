"""Differences between two releases with the same spec and independent noise.

Guarantee: post-processing of both releases. Their two privacy statements cover every answer. Answers describe the
clipped data. Intervals include noise and collisions, each at about the given confidence.

Because counters are linear, the difference is a sketch of signed changes with the noise of both releases. Its estimates
are unbiased. Unchanged weight cancels, including its collisions.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators.comparing import ReleasedTable, second_moment
from beam_dpsketch.answers.item_answers import Changes, ItemAnswers
from beam_dpsketch.answers.notes import NOT_PRIVATE, Notes, lines
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.rows import Frequencies, Many, as_list
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.summary_notes import Interval


class Difference(ItemAnswers):
    """Change in the weight of each item between two releases. Made by `minus`, not by hand.

    Weights in answers are changes and may be negative. Answers describe the clipped data. For a tree, they use the
    finest level, and for a Count-Min centered counters. `ItemAnswers` lists the accepted arguments.
    """

    def __init__(self, signed: Any, after: Any, before: Any) -> None:
        self._signed, self._after, self._before = signed, after, before

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the statement as it is: `to_bytes` omits the total on both sides, which clipping divides by."""
        return _restored, (self._signed, self._signed.privacy, self._after, self._before)

    @property
    def privacy(self) -> PrivacyStatement:
        """Privacy statement for both releases together; `print` it."""
        return self._signed.privacy

    @property
    def spec(self) -> Any:
        """Shape and hash functions, equal in both releases."""
        return self._signed.spec

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Estimate the clipped share of both totals together."""
        return self.privacy.clipping(confidence)

    def top_k(self, k: int, candidates: Many | None = None, confidence: float = 0.95) -> Frequencies:
        """List the k candidates with the largest changes, up or down, largest first.

        As in `ReleasedSketch.top_k`, confidence applies to an item chosen before asking, and on average to all
        candidates. A list prefers items that the noise moved. If an interval contains 0, the item may be unchanged.

        Args:
          k: the number of items, 1 to 2**31. Fewer are listed if fewer were given or found.
          candidates: the public items to choose from. Without them, a tree searches below the nodes that exceed the
            noise in either release, if weights are not negative. A flat sketch requires candidates.
          confidence: confidence per interval, in (0, 1).
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        given = self._after._changed_candidates(self._before, k) if candidates is None else candidates
        return self._frequencies(_validate.many(candidates=given), confidence).largest_changes(k)

    def _movers(self, k: int, candidates: Many | None, confidence: float) -> Changes:
        """List `top_k` with the weights before and after, for a tree from its finest level too."""
        rows = self.top_k(k, candidates, confidence)
        items = as_list(rows.item)
        before, after = (each._signed_frequencies(items, confidence).estimate for each in (self._before, self._after))
        change = rows.estimate, rows.lower, rows.upper
        return Changes(items, before, after, *change, truncated=rows.truncated, basis=rows.basis)

    def _estimates(self, items: Any) -> np.ndarray:
        return self._frequencies(items, 0.95).estimate

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        rows = self._signed._signed_frequencies(items, confidence)
        return dataclasses.replace(rows, basis=dataclasses.replace(rows.basis, notes=self._notes, asked=0))

    @property
    def _notes(self) -> Notes:
        """Note that a seed is public. Notes about weights do not apply to changes."""
        return () if self.privacy.is_private else (NOT_PRIVATE,)

    def __repr__(self) -> str:
        told = lines(self.clipping(), self._notes)
        return f"<Difference of two {type(self._signed).__name__} of {self._signed._size}>{told}"


def _restored(signed: Any, privacy: PrivacyStatement, after: Any, before: Any) -> Difference:
    return Difference(type(signed)(signed.spec, signed._counters, privacy, signed._scale_bits), after, before)


def length(table: ReleasedTable, confidence: float) -> Interval:
    """Estimate the Euclidean length of a table."""
    squared = second_moment(table).interval(confidence)
    return Interval(*(math.sqrt(max(each, 0.0)) for each in squared))
