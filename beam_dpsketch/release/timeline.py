"""Releases over time: any range of windows, and every prefix, from the released nodes of a binary tree.

Guarantee: each node is one release of the exact sum of its windows, and any range of windows is a sum of at most
2 log2(T) nodes, a prefix of at most log2(T) + 1. All answers are post-processing of nodes whose noise was calibrated to
the whole tree, so their rho is that of the horizon, for any number of questions. Sources: Chan, Shi and Song 2011
(the tree), Zhao et al., NeurIPS 2022, Appendix D (its sketches), Honaker 2015 (the weighted average).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.domains.times import to_micros
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.privacy.sensitivity import tree_height
from beam_dpsketch.release.answers import Many, One, as_asked, as_many
from beam_dpsketch.release.flat.count_sketch import ReleasedCountSketch
from beam_dpsketch.release.flat.row_mean import RowReader
from beam_dpsketch.release.horizon import Horizon
from beam_dpsketch.release.release_id import RUN_BYTES, part_name, part_of_run, run_and_part
from beam_dpsketch.release.released_sketch import ReleasedSketch


@dataclasses.dataclass(frozen=True)
class TimelineNode:
    """One released node of a tree over time.

    Attributes:
      level: 0 for single windows; a node covers 2**level windows.
      index: its place on the level; its first window is index * 2**level.
      release: the sketch of these windows.
    """

    level: int
    index: int
    release: ReleasedSketch

    @property
    def windows(self) -> range:
        """The windows that it covers."""
        return range(self.index << self.level, (self.index + 1) << self.level)


def covering(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield (level, index) of the fewest nodes that make up the windows first to last.

    >>> list(covering(0, 6))
    [(2, 0), (1, 2), (0, 6)]
    """
    start, end = first, last + 1
    while start < end:
        fits = (end - start).bit_length() - 1
        aligned = (start & -start).bit_length() - 1 if start else fits
        level = min(fits, aligned)
        yield level, start >> level
        start += 1 << level


class SketchTimeline:
    """Answers about any range of windows of one horizon, from its released nodes.

    A node is released when its last window closes, so every range that ends by then can be asked about. Answers and
    their intervals are about the records that bounding kept: of each privacy id, those in `max_partitions` windows.

    Args:
      nodes: all nodes of one run of a continual release that there are so far, in any order. Nodes of another run, or
        of a horizon with another start or window_size, are refused.
      horizon: of the continual release.
    """

    def __init__(self, nodes: Iterable[TimelineNode], horizon: Horizon) -> None:
        _validate.instance(Horizon, horizon=horizon)
        height, windows = tree_height(horizon.windows), horizon.windows
        self._horizon, self._windows = horizon, windows
        self._nodes: dict[tuple[int, int], ReleasedSketch] = {}
        self._averages: dict[tuple[int, int], np.ndarray] = {}
        for node in nodes:
            place = node.level, node.index
            if not (0 <= node.level < height and 0 <= node.index < windows >> node.level):
                raise ValueError(f"no node {place} is in a tree over {windows} windows")
            if place in self._nodes:
                raise ValueError(f"node {place} was given twice: the nodes are of more than one release")
            privacy = node.release.privacy
            if not privacy.unit.over_horizon or privacy.window_count != windows:
                raise ValueError(f"node {place} was not released for a horizon of {windows} windows")
            self._check_run(node)
            self._nodes[place] = node.release

    @property
    def available(self) -> int:
        """The number of windows, from the first on, that are closed and can be asked about."""
        return next((window for window in range(self._windows) if not self._has_all_nodes_to(window)), self._windows)

    def window_of(self, time: Any) -> int:
        """Return the window that a time falls into: a `datetime`, a Beam `Timestamp`, or seconds since 1970."""
        window = self._horizon.index(to_micros(time=time))
        self._check(window, window)
        return window

    def between(self, first: int, last: int) -> ReleasedSketch:
        """Return the release of the windows first to last, both included: the sum of at most 2 log2(T) nodes."""
        nodes = [self._nodes[place] for place in self._places(first, last)]
        return functools.reduce(ReleasedSketch.combine_within_horizon, nodes)

    def prefix(self, last: int) -> ReleasedSketch:
        """Return the release of everything from the start of the horizon to the end of a window."""
        return self.between(0, last)

    @overload
    def averaged_estimate(self, items: One, first: int, last: int) -> float: ...
    @overload
    def averaged_estimate(self, items: Many, first: int, last: int) -> np.ndarray: ...
    def averaged_estimate(self, items: Any, first: int, last: int) -> Any:
        """Return what `estimate` does, for the windows first to last, with less noise; for CountSketches only.

        Each node is replaced by the average, weighted by inverse variances, of its own counters and of the sum of
        its two children's averages (Honaker's bottom-up estimate). The variance of a large node falls to about half.
        Averaged counters are not integers, so the result is not a release.
        """
        places = self._places(first, last)
        release = self._nodes[places[0]]
        if not isinstance(release, ReleasedCountSketch):
            raise TypeError(f"averages are made of CountSketches only, not of {type(release).__name__}")
        items, single = as_many(items)
        counters = np.sum([self._average(place) for place in places], axis=0)
        variance = float(release.privacy.sigma_squared) * sum(averaged_variance(level) for level, _ in places)
        keys = fingerprints(items, item_hash=release.spec.item_hash, item_key=release.spec.item_key)
        return as_asked(RowReader(release.spec, counters, variance).estimates(keys), single)

    def _average(self, place: tuple[int, int]) -> np.ndarray:
        """Return the averaged counters of a node."""
        if place not in self._averages:
            (level, index), counters = place, self._nodes[place].counters.astype(np.float64)
            if level:
                children = self._average((level - 1, 2 * index)) + self._average((level - 1, 2 * index + 1))
                own_share = averaged_variance(level)
                counters = own_share * counters + (1 - own_share) * children
            self._averages[place] = counters
        return self._averages[place]

    def _check_run(self, node: TimelineNode) -> None:
        """Refuse a node of another run than the first one, or of another horizon, level or index."""
        place, release_ids = (node.level, node.index), node.release.privacy.release_ids
        run = release_ids[0][:RUN_BYTES]
        first, other = next(iter(self._nodes.items()), (place, node.release))
        if other.privacy.release_ids[0][:RUN_BYTES] != run:
            raise ValueError(
                f"node {place} is of another run than node {first}: a timeline is made of the nodes of one run of one "
                "transform"
            )
        start, size = self._horizon.start_micros, self._horizon.size_micros
        name = part_name(("level", node.level), start + size * node.windows.start, start + size * node.windows.stop)
        if [*map(run_and_part, release_ids)] != [part_of_run(run, name)]:
            raise ValueError(
                f"node {place} was released for other windows: give the horizon, level and index it was made with"
            )

    def _places(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the nodes of a range; refuse what is not in the horizon or not released yet."""
        self._check(first, last)
        places = list(covering(first, last))
        if not self._nodes.keys() >= set(places):
            known = f"windows 0 to {self.available - 1} are available" if self.available else "no window is available"
            raise ValueError(f"windows {first} to {last} are not all released yet: {known}")
        return places

    def _check(self, first: int, last: int) -> None:
        _validate.whole(low=0, high=self._windows - 1, first=first, last=last)
        if first > last:
            raise ValueError(f"first must be at most last, got {first} and {last}")

    def _has_all_nodes_to(self, window: int) -> bool:
        """Return whether all nodes whose last window is this one are released."""
        end = window + 1
        return all((level, (end >> level) - 1) in self._nodes for level in range((end & -end).bit_length()))

    def __repr__(self) -> str:
        return f"<SketchTimeline of {self._windows} windows, {self.available} available>"


def averaged_variance(level: int) -> float:
    """Return the variance of a node's average in units of sigma^2: 1, 2/3, 4/7, ..., down to 1/2.

    It is also the share of the node's own counters in the average.
    """
    return 2**level / (2 ** (level + 1) - 1)
