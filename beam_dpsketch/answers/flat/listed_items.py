"""Released histograms of listed items: each estimate is one noisy counter.

Guarantee: each item's interval holds with the given confidence or more, over the noise. There are no collisions.
`noise_margin` has the argument.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beam_dpsketch.answers.decoding.decoded import Decoded, Dictionary
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Many
from beam_dpsketch.estimators.comparing.tables import NoisyTable
from beam_dpsketch.estimators.decoding.listed import DecodedList
from beam_dpsketch.privacy.gaussian_tail import noise_margin
from beam_dpsketch.sketches.listed_items import ListedHistogram, find_all
from beam_dpsketch.statement.showing import shown


class ReleasedListedItems(ReleasedSketch):
    """A released histogram of listed items. Its answers are about these alone, and `top_k` needs no candidates.

    Questions about an item that is not listed raise `ValueError`: its records were dropped, so nothing is known of it.
    """

    name = "listed_items"
    raw_type = ListedHistogram

    def _estimates(self, items: Any) -> np.ndarray:
        return self.counters[self._places(items)].astype(np.float64)

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        return self._rows(items, self._estimates(items), confidence)

    def _search(self, confidence: float) -> Frequencies:
        order = np.argsort(-self.counters.astype(np.float64), kind="stable")
        return self._rows([self.spec.items[place] for place in order], self.counters[order], confidence)

    def decode(self, dictionary: Many | None = None) -> Decoded:
        """Return answers about items of the list, where `shrunk` is closer on average; see `Decoded`.

        Nothing collides, so estimates and intervals are those of the release.

        Args:
          dictionary: items of the list, 1 or more; repeated ones count once. `None` stands for the whole list.

        Raises `ValueError` for an item that is not listed, and if there are none.
        """
        items = Dictionary(self.spec.items if dictionary is None else dictionary, self._places)
        deviation, signed = math.sqrt(self.privacy.sigma_squared), self.privacy.bounds.signed
        counters = self.counters[items.keys].astype(np.float64)
        reading = DecodedList(counters, deviation, self._margin, signed=signed)
        summary = (
            f"Decoded {len(counters):,} listed items, each from one counter.\nNoise floor: intervals reach "
            f"+-{shown(self._margin(0.95))} (95 %); nothing collides.\nWhat is not listed was not counted."
        )
        return Decoded(items, reading, summary=summary, from_about=self._from_about)

    def _rows(self, items: Any, counters: np.ndarray, confidence: float) -> Frequencies:
        estimates = counters.astype(np.float64)
        margin = self._margin(confidence)
        return Frequencies(items, estimates, estimates - margin, estimates + margin, from_about=self._from_about)

    def _margin(self, confidence: float) -> float:
        return noise_margin(self.privacy.sigma_squared, confidence) + self._rounding

    @property
    def _table(self) -> NoisyTable:
        return NoisyTable.of(self.counters.reshape(1, -1), self._noise_variance(), "exact")

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return self.spec.items

    def _places(self, items: Any) -> np.ndarray:
        places = find_all(self.spec, items)
        if missing := np.count_nonzero(places < 0):
            raise ValueError(
                f"items must be listed, and {missing} of {len(places)} are not: ask for those in spec.items, or count "
                "with a SketchSpec where items are not known beforehand"
            )
        return places

    @property
    def _size(self) -> str:
        return f"{self.spec.cells} listed items"
