"""Released flat sketches: estimates of single items, and of all items of a public dictionary together.

Guarantee: each item's interval holds with about the given confidence, over the seed and the noise, for data of any
skew, also with deletions; `row_mean` has the argument. Source: Charikar, Chen and Farach-Colton 2002, who take the
median over rows; private form: Zhao et al., NeurIPS 2022.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.flat.decoded import Decoded, decode_flat
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequencies, Many
from beam_dpsketch.errors import ArgumentError, ElementsWarning
from beam_dpsketch.estimators.comparing import Hashing, ReleasedTable
from beam_dpsketch.estimators.row_mean import RowReader, noise_margin
from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.encodings import decode, encode
from beam_dpsketch.hashing.fingerprints import fingerprints


class ReleasedFrequencies(ReleasedSketch):
    """A released flat sketch: how often any item occurred. It stores no items, so `top_k` needs `candidates`.

    Estimates are Huber means over rows: the median plus the mean of the rows' distances from it, each clipped at one
    scale.
    """

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._spec.depth, self._spec.width

    @property
    def _size(self) -> str:
        return f"{self._spec.depth} x {self._spec.width} counters"

    def decode(self, dictionary: Many) -> Decoded:
        """Return closer answers about all items of a public dictionary together.

        What is known of one item is subtracted from the counters that it shares with others, round by round. So
        collisions between items of the dictionary fade. The fuller the dictionary, the closer the answers. Items that
        it lacks stay in the counters, and the intervals cover them. `estimate` of the release itself does not change.

        Args:
          dictionary: the items, 1 or more, in any order; repeated ones count once. They must be public: a list that
            is taken from the data would publish it. Decoding takes about 125 bytes of memory for each item and row.

        Raises `TypeError` or `ValueError` for items that cannot be counted, and `ValueError` if there are none. Source:
        see `estimators/decoding.py`.
        """
        return decode_flat(
            dictionary, self._spec, self.counters, self.privacy, keys_of=self._keys, basis=self._basis(0.95)
        )

    def reading(self, confidence: float) -> dict[str, Any]:
        """Return the hashing of items and the reading of rows, as `Released.reading` does.

        An estimate is the Huber mean of an item's counters with this `scale`. The truth is at most `below` under it and
        `above` over it. `row_keys`, of shape (depth, 2), are made by `hashing.cells`. `counters` are float64 of shape
        (depth, width); from each counter of a Count-Min the median of its row is subtracted.
        """
        _validate.open_unit_interval(confidence=confidence)
        spec, (below, above) = self._spec, self._rows.margins(confidence)
        return {
            "type": "flat",
            "item_hash": spec.item_hash,
            "item_key": spec.item_key.hex(),
            "depth": spec.depth,
            "width": spec.width,
            "row_keys": np.hstack(cells.keys_of_rows(spec.seed, range(spec.depth))),
            "has_signs": spec.kind == "count_sketch",
            "counters": self._rows.counters.astype(np.float64),
            "scale": self._rows.scale,
            "below": below,
            "above": above,
        }

    def _estimates(self, items: Any) -> np.ndarray:
        return self._rows.estimates(self._keys(items))

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        middle, (below, above) = self._estimates(items), self._rows.margins(confidence)
        return Frequencies(items, middle, middle - below, middle + above, basis=self._basis(confidence, len(items)))

    @property
    def _noise_reach(self) -> float:
        return noise_margin(self._spec.depth, 0.95, self._privacy.noise) * math.sqrt(self._privacy.sigma_squared)

    @functools.cached_property
    def _rows(self) -> RowReader:
        return RowReader(self._spec, self.counters, self._privacy.sigma_squared, self._privacy.noise)

    @property
    def _table(self) -> ReleasedTable:
        hashing: Hashing = "signs" if self._spec.kind == "count_sketch" else "columns"
        return ReleasedTable.of(self.counters, self._noise_variance(), hashing, self._fourth_cumulant())

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return self._search(0.5)

    def _keys(self, items: Any) -> np.ndarray:
        _warn_of_spellings(items)
        return fingerprints(items, item_hash=self._spec.item_hash, item_key=self._spec.item_key)

    def _search(self, confidence: float) -> Frequencies:
        raise ArgumentError(
            "candidates",
            "must be given, because this release stores no items. A release with $top_k finds items that are not known",
            "E714",
        )


def _warn_of_spellings(items: Any) -> None:
    """Warn of items of several types, or with blanks around them: a flat sketch does not know its own items."""
    listed = items if isinstance(items, list) else []
    one_of_each = {type(item): item for item in listed}
    names = {type(decode(encode(item))).__name__ for item in one_of_each.values()} if len(one_of_each) > 1 else ()
    words = 'items are of several types, {}; 1 and "1" are two items, so each must be of the type that was counted'
    found = [words.format(", ".join(sorted(names)))] if len(names) > 1 else []
    if any(isinstance(item, str) and item != item.strip() for item in listed):
        found.append('some items begin or end with a blank; "a" and "a " are two items')
    for words in found:
        warnings.warn(words, ElementsWarning, stacklevel=5)
