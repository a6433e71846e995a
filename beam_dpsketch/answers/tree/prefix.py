"""Released prefix trees: frequent text and bytes that nobody had to list before.

Guarantee: post-processing. The search expands prefixes that exceed the noise threshold, from the first byte on; items
of a weight above `detection_limit` are found with a probability of 95 %, long or short. `prefix_search` describes it.
After an item's end every further level counts the item alone, so its estimates are averaged.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from beam_dpsketch.answers.rows import Frequencies, as_list
from beam_dpsketch.answers.tree.heavy_hitters import ReleasedTree
from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.estimators.presence import deviations_for
from beam_dpsketch.estimators.tree.levels import TreeLevel
from beam_dpsketch.estimators.tree.prefix_search import EXPANSION_DEVIATIONS, Found, search
from beam_dpsketch.hashing import cells
from beam_dpsketch.sketches.trees import PrefixTree, extension_keys, hash_prefixes, root


class ReleasedPrefixTree(ReleasedTree):
    """A released tree over the bytes of text or byte strings.

    Items of max_bytes bytes or more are counted by their beginning; answers list them as `truncated`.

    A search subtracts what it finds from the counters and reads them again. So found items have closer estimates, and
    narrower intervals, than `estimate` and `interval` give: there each item is read on its own, whoever else is asked.
    """

    name = made_as = "top_k"
    raw_type = PrefixTree
    _expansion_deviations = EXPANSION_DEVIATIONS

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        """Return the items of an estimated weight of `threshold` or more that exceed the noise threshold.

        Items of a true weight below `detection_limit` may be missing. Those of max_bytes bytes or more are reported by
        their beginning and listed as `truncated`. Bytes that are not valid text are left out where items are text.
        """
        found, truncated = [], set()
        # A cut text that ends within a character may be left with the name of a whole one, or of another cut one.
        whole = {self._item(data, cut=False) for data, _, _, ended in self._found.rows() if ended}
        for data, weight, variance, ended in self._found.rows():
            item = self._item(data, cut=not ended)
            is_taken = not ended and (item in whole or item in truncated)
            if item is not None and not is_taken and weight >= threshold:
                found.append((item, weight, variance))
                if not ended:
                    truncated.add(item)
        items, (weights, variances) = (
            [item for item, *_ in found],
            np.array([row[1:] for row in found]).reshape(-1, 2).T,
        )
        margin, limit = deviations_for(confidence) * np.sqrt(variances), self._detection_limit
        lower, upper = np.maximum(weights - margin, 0.0), weights + margin
        basis = self._basis(confidence)
        return Frequencies(items, weights, lower, upper, limit, frozenset(truncated), basis=basis)

    @property
    def search_deviations(self) -> tuple[float, ...]:
        return self._found.deviations

    def reading(self, confidence: float) -> dict[str, Any]:
        """Return what `Released.reading` says: how prefixes are hashed on each level, and the counters.

        A prefix starts as `root`, and is extended by mixing with `extension_keys`. `row_keys` have the shape (levels,
        depth, 2), `counters` (levels, depth, width) of float64. The truth is `margin` from an estimate at most, over
        the root of the number of levels that are averaged.
        """
        spec = self.spec
        levels = range(spec.domain.max_bytes)
        keys = [np.hstack(cells.keys_of_rows(spec.level_spec(level).seed, range(spec.depth))) for level in levels]
        return {
            "type": "prefix",
            "domain": spec.domain.reading(),
            "depth": spec.depth,
            "width": spec.width,
            "root": root(spec),
            "extension_keys": extension_keys(spec),
            "row_keys": np.array(keys),
            "counters": self.counters.astype(np.float64),
            "margin": float(self._margin(np.ones(1), confidence)[0]),
        }

    def _estimates(self, items: Any) -> np.ndarray:
        return self._weights(items)[0]

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        (weights, counts), items = self._weights(items), as_list(items)
        margin = self._margin(counts, confidence)
        truncated = frozenset(item for item, count in zip(items, counts, strict=True) if count == 0)
        lower, upper = weights - margin, weights + margin
        basis = self._basis(confidence, len(items))
        return Frequencies(items, weights, lower, upper, truncated=truncated, basis=basis)

    def _changed_candidates(self, before: Any, k: int) -> Any:
        return [*dict.fromkeys([*before._search(0.5).item, *self._search(0.5).item])]

    def _weights(self, items: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimate of each item and how many levels after its end are averaged (0 if it is cut)."""
        keys, usable = self.spec.domain.index(items)
        if not usable.all():
            raise ArgumentTypeError("items", f"must be {self.spec.domain.takes}, which the release counted", "E717")
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
    def _found(self) -> Found:
        return search(self.spec, self._levels)

    @property
    def _size(self) -> str:
        return f"{self.spec.domain.max_bytes} levels over {self.spec.domain}, {self.spec.cells} counters"
