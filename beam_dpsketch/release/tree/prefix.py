"""Released prefix trees: frequent text and bytes that nobody had to list before.

Guarantee: post-processing. The search opens prefixes that stand out of the noise, from the first byte on; items of a
weight above `detection_limit` are found with a probability of 95 %, whatever their length. After an item's end every
further level counts the item alone, so its estimates are averaged.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.release.frequencies import Frequency
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.tree.dyadic import HeavyHitters
from beam_dpsketch.release.tree.heavy_hitters import detection_limit
from beam_dpsketch.release.tree.levels import TreeLevel
from beam_dpsketch.sketches.prefix import END, PrefixTree, extend, hash_prefixes, root

OPENING_DEVIATIONS = 4.0
"""With 257 children to each open prefix, fewer would let noise grow words of its own."""
_MAX_OPEN = 1024


@dataclasses.dataclass
class _Found:
    """Prefixes that stand out: their hashes, symbols (n, level), and what levels after their ends said."""

    prefixes: np.ndarray
    symbols: np.ndarray
    sums: np.ndarray
    counts: np.ndarray


class ReleasedPrefixTree(ReleasedSketch):
    """A released tree over the bytes of text or byte strings."""

    name = "prefix"
    raw_type = PrefixTree

    def estimate(self, items: Iterable[Any]) -> np.ndarray:
        """The estimated total weight of each item, float64 of shape (n,); long items by their first bytes."""
        keys, usable = self.spec.domain.index(list(items))
        if not usable.all():
            raise TypeError(f"items must be {self.spec.domain.item_type.__name__}")
        sums, counts, last = np.zeros(len(keys)), np.zeros(len(keys)), np.zeros(len(keys))
        for level, (prefixes, ended) in zip(self._levels, hash_prefixes(self.spec, keys), strict=True):
            last = level.estimates(prefixes)
            sums += np.where(ended, last, 0.0)
            counts += ended
        return np.where(counts > 0, sums / np.maximum(counts, 1), last)

    def top_k(self, k: int, confidence: float = 0.95) -> HeavyHitters:
        """The k items of largest weight that stand out, without a candidate list; fewer if no more do.

        Intervals are for each item on its own, over the records that bounding kept. As for every list of the
        largest, fewer of them hold where many items have nearly equal weights.
        """
        _validate.whole(low=1, high=1 << 31, k=k)
        found = self.heavy_hitters(0.0, confidence)
        kept = found.found[:k]
        return HeavyHitters(kept, found.detection_limit, found.truncated & {frequency.item for frequency in kept})

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> HeavyHitters:
        """The items whose estimated weight is at least a threshold, as far as they stand out of the noise.

        Items of max_bytes bytes or more are reported by their beginning and listed as `truncated`. What is found but
        is no text is left out.
        """
        _validate.open_unit_interval(confidence=confidence)
        most = NormalDist().inv_cdf((1 + confidence) / 2) * max(self.level_deviations)
        frequencies, truncated = [], set()
        # A cut text that ends within a character may be left with the name of a whole one, or of another cut one.
        whole = {self._item(data, cut=False) for data, _, count in self._search if count}
        for data, weight, count in self._search:
            item = self._item(data, cut=count == 0)
            taken = count == 0 and (item in whole or item in truncated)
            if item is None or taken or weight < threshold:
                continue
            margin = most / math.sqrt(max(count, 1))
            frequencies.append(Frequency(item, weight, max(0.0, weight - margin), weight + margin))
            if count == 0:
                truncated.add(item)
        limit = detection_limit(self.level_deviations, opening=OPENING_DEVIATIONS)
        return HeavyHitters(frequencies, limit, frozenset(truncated))

    def _item(self, data: bytes, *, cut: bool) -> Any:
        """The item with these bytes; a cut text may end within a character, which is then left out."""
        for missing in range(4 if cut else 1):
            item = self.spec.domain.from_bytes(data[: len(data) - missing])
            if item is not None:
                return item
        return None

    @functools.cached_property
    def _levels(self) -> list[TreeLevel]:
        spec = self.spec
        tables = self.counters.reshape(spec.domain.max_bytes, spec.depth, spec.width)
        return [
            TreeLevel(
                bits=8,
                shift=0,
                nodes=0,
                sketch="count_sketch",
                spec=spec.level_spec(number),
                counters=table,
                sigma_squared=float(variance),
            )
            for number, (table, variance) in enumerate(zip(tables, self.privacy.sigma_squared_per_level, strict=True))
        ]

    @functools.cached_property
    def level_deviations(self) -> tuple[float, ...]:
        """The standard deviation of the estimate of a prefix, on each level, noise and collisions together."""
        return tuple(math.sqrt(level.variance()) for level in self._levels)

    @functools.cached_property
    def _search(self) -> list[tuple[bytes, float, int]]:
        """Bytes, weight and number of levels after the end (0 if cut) of all that stands out, largest first."""
        empty = np.zeros(1)
        found = _Found(root(self.spec), np.zeros((1, 0), dtype=np.int64), empty, empty.copy())
        weights = empty
        for level in self._levels:
            found, weights = self._opened(found, level)
        order = np.argsort(-weights, kind="stable")
        return [
            (bytes(row[row < END].astype(np.uint8)), float(weights[place]), int(found.counts[place]))
            for place, row in zip(order, found.symbols[order], strict=True)
        ]

    def _opened(self, found: _Found, level: TreeLevel) -> tuple[_Found, np.ndarray]:
        """Prefixes one symbol longer that stand out, with their weights: averages once they have ended."""
        ended = found.counts > 0
        going_on = np.flatnonzero(~ended)
        parents = np.concatenate([np.repeat(going_on, END + 1), np.flatnonzero(ended)])
        symbols = np.concatenate([np.tile(np.arange(END + 1), len(going_on)), np.full(int(ended.sum()), END)])
        prefixes = extend(self.spec, found.prefixes[parents], symbols)
        estimates = level.estimates(prefixes)
        at_end = symbols == END
        sums = found.sums[parents] + np.where(at_end, estimates, 0.0)
        counts = found.counts[parents] + at_end
        weights = np.where(at_end, sums / np.maximum(counts, 1), estimates)
        limits = OPENING_DEVIATIONS * math.sqrt(level.variance()) / np.sqrt(np.maximum(counts, 1))
        kept = np.flatnonzero(weights > limits)
        kept = kept[np.argsort(-weights[kept], kind="stable")[:_MAX_OPEN]]
        longer = np.column_stack([found.symbols[parents[kept]], symbols[kept]])
        return _Found(prefixes[kept], longer, sums[kept], counts[kept]), weights[kept]
