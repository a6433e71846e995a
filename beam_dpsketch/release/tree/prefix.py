"""Released prefix trees: frequent text and bytes that nobody had to list before.

Guarantee: post-processing. The search expands prefixes that exceed the noise threshold, from the first byte on; items
of a weight above `detection_limit` are found with a probability of 95 %, long or short. After an item's end
every further level counts the item alone, so its estimates are averaged.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from beam_dpsketch.release.answers import Frequencies, as_list
from beam_dpsketch.release.tree.heavy_hitters import ReleasedTree
from beam_dpsketch.release.tree.levels import TreeLevel, deviations_for
from beam_dpsketch.sketches.prefix import END, PrefixTree, extend, hash_prefixes, root

EXPANSION_DEVIATIONS = 4.0
"""With 257 children of each expanded prefix, fewer would let noise grow words of its own."""
_MAX_EXPANDED = 1024


@dataclasses.dataclass
class _Found:
    """Prefixes above the noise threshold: hashes, symbols (n, level), what levels after their ends said, weights."""

    prefixes: np.ndarray
    symbols: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    weights: np.ndarray


class ReleasedPrefixTree(ReleasedTree):
    """A released tree over the bytes of text or byte strings.

    Items of max_bytes bytes or more are counted by their beginning; answers list them as `truncated`.
    """

    name = "prefix"
    raw_type = PrefixTree
    _expansion_deviations = EXPANSION_DEVIATIONS

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        """Return the items of an estimated weight of `threshold` or more that exceed the noise threshold.

        Items of a true weight below `detection_limit` may be missing. Those of max_bytes bytes or more are reported by
        their beginning and listed as `truncated`. Bytes that are not valid text are left out where items are text.
        """
        found, truncated = [], set()
        # A cut text that ends within a character may be left with the name of a whole one, or of another cut one.
        whole = {self._item(data, cut=False) for data, _, count in self._heavy if count}
        for data, weight, count in self._heavy:
            item = self._item(data, cut=count == 0)
            is_taken = count == 0 and (item in whole or item in truncated)
            if item is not None and not is_taken and weight >= threshold:
                found.append((item, weight, count))
                if count == 0:
                    truncated.add(item)
        items, (weights, counts) = [item for item, *_ in found], np.array([row[1:] for row in found]).reshape(-1, 2).T
        margin, limit = self._margin(counts, confidence), self._detection_limit
        lower, upper = np.maximum(weights - margin, 0.0), weights + margin
        return Frequencies(items, weights, lower, upper, limit, frozenset(truncated))

    def _estimates(self, items: Any) -> np.ndarray:
        return self._weights(items)[0]

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        (weights, counts), items = self._weights(items), as_list(items)
        margin = self._margin(counts, confidence)
        truncated = frozenset(item for item, count in zip(items, counts, strict=True) if count == 0)
        return Frequencies(items, weights, weights - margin, weights + margin, truncated=truncated)

    def _weights(self, items: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimate of each item and how many levels after its end are averaged (0 if it is cut)."""
        keys, usable = self.spec.domain.index(items)
        if not usable.all():
            raise TypeError(f"items must be {self.spec.domain.item_type.__name__}")
        sums, counts, last = np.zeros(len(keys)), np.zeros(len(keys)), np.zeros(len(keys))
        for level, (prefixes, ended) in zip(self._levels, hash_prefixes(self.spec, keys), strict=True):
            last = level.estimates(prefixes)
            sums += np.where(ended, last, 0.0)
            counts += ended
        return np.where(counts > 0, sums / np.maximum(counts, 1), last), counts

    def _margin(self, counts: np.ndarray, confidence: float) -> np.ndarray:
        return deviations_for(confidence) * max(self.level_deviations) / np.sqrt(np.maximum(counts, 1))

    def _item(self, data: bytes, *, cut: bool) -> Any:
        """Return the item with these bytes; a cut text may end within a character, which is then left out."""
        for missing in range(4 if cut else 1):
            if (item := self.spec.domain.from_bytes(data[: len(data) - missing])) is not None:
                return item
        return None

    @functools.cached_property
    def _levels(self) -> list[TreeLevel]:
        spec = self.spec
        tables = self.counters.reshape(spec.domain.max_bytes, spec.depth, spec.width)
        return [
            TreeLevel("count_sketch", spec.level_spec(number), table, float(variance))
            for number, (table, variance) in enumerate(zip(tables, self.privacy.sigma_squared_per_level, strict=True))
        ]

    @functools.cached_property
    def _heavy(self) -> list[tuple[bytes, float, int]]:
        """Bytes, weight and number of levels after the end (0 if cut) of all above the noise, largest first."""
        zero = np.zeros(1)
        found = _Found(root(self.spec), np.zeros((1, 0), dtype=np.int64), zero, zero, zero)
        for level in self._levels:
            found = self._expanded(found, level)
        return [
            (bytes(symbols[symbols < END].astype(np.uint8)), float(weight), int(count))
            for symbols, weight, count in zip(found.symbols, found.weights, found.counts, strict=True)
        ]

    def _expanded(self, found: _Found, level: TreeLevel) -> _Found:
        """Return prefixes one symbol longer that exceed the noise, largest first; weights after an end are averages."""
        ended = found.counts > 0
        going_on = np.flatnonzero(~ended)
        parents = np.concatenate([np.repeat(going_on, END + 1), np.flatnonzero(ended)])
        symbols = np.concatenate([np.tile(np.arange(END + 1), len(going_on)), np.full(int(ended.sum()), END)])
        prefixes = extend(self.spec, found.prefixes[parents], symbols)
        estimates, at_end = level.estimates(prefixes), symbols == END
        sums = found.sums[parents] + np.where(at_end, estimates, 0.0)
        counts = found.counts[parents] + at_end
        weights = np.where(at_end, sums / np.maximum(counts, 1), estimates)
        limits = EXPANSION_DEVIATIONS * math.sqrt(level.variance()) / np.sqrt(np.maximum(counts, 1))
        kept = np.flatnonzero(weights > limits)
        kept = kept[np.argsort(-weights[kept], kind="stable")[:_MAX_EXPANDED]]
        longer = np.column_stack([found.symbols[parents[kept]], symbols[kept]])
        return _Found(prefixes[kept], longer, sums[kept], counts[kept], weights[kept])

    @property
    def _size(self) -> str:
        return f"{self.spec.domain.max_bytes} levels over {self.spec.domain}, {self.spec.cells} counters"
