"""What is modelled: how large the input is, of how many people and keys, the machines, and the settings of a job."""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_dpsketch import Scale
from beam_dpsketch.exact.bounding.parts import BLOCK, PARTS
from beam_dpsketch.transforms.steps.bounding import buffered_for, shards_for
from beam_dpsketch.transforms.steps.sums import key_shards_for
from benchmarks.scale.made_rows import SKEW

_HEAVIEST = 20_000
_KEY_GRID = 1024


@dataclasses.dataclass(frozen=True)
class Input:
    """Rows of people and keys.

    Attributes:
      rows: how many.
      people: of how many people; their shares are those of `made_rows.Rows`.
      keys: how many keys.
      zipf_keys: whether the share of a key is that of Zipf(1.0), or the same for all.
    """

    rows: int
    people: int = 1
    keys: int = 1
    zipf_keys: bool = False

    @property
    def per_id(self) -> float:
        """How many rows a person has on average."""
        return self.rows / self.people

    def of_shards(self, shards: int, generator: np.random.Generator) -> np.ndarray:
        """Return how many rows of people come to each shard; of the heaviest people each goes to one as a whole."""
        ranks = np.arange(min(_HEAVIEST, self.people) + 1)
        ends = np.rint(self.rows * (ranks / self.people) ** (1 / SKEW)).astype(np.int64)
        others = self.rows - ends[-1]
        # A person of the others counts as a whole too: their number in a shard varies, and so do their rows.
        spread = (
            generator.multinomial(self.people - ranks[-1], np.full(shards, 1 / shards)) if others else np.zeros(shards)
        )
        found = _shared(int(others), spread)
        np.add.at(found, generator.integers(0, shards, len(ranks) - 1), np.diff(ends))
        return found

    def distinct_keys(self, rows: float) -> float:
        """Return the expected number of different keys in these rows."""
        if not self.zipf_keys:
            return float(-self.keys * np.expm1(-rows / self.keys))
        edges = np.unique(np.geomspace(1, self.keys + 1, min(_KEY_GRID, self.keys + 1)).round().astype(np.int64))
        counts, middles = np.diff(edges), (edges[1:] + edges[:-1] - 1) / 2
        shares = 1 / middles
        return float(-(counts * np.expm1(-rows * shares / (counts * shares).sum())).sum())

    def hottest_key(self) -> float:
        """Return the share of rows of the most frequent key."""
        return 1 / (np.log(self.keys) + 0.5772) if self.zipf_keys and self.keys > 1 else 1 / self.keys


def _shared(total: int, weights: np.ndarray) -> np.ndarray:
    """Return whole numbers in proportion to weights, which add up to the total exactly."""
    if not total:
        return np.zeros(len(weights), dtype=np.int64)
    ends = np.rint(np.cumsum(weights) / weights.sum() * total).astype(np.int64)
    return np.diff(ends, prepend=0)


@dataclasses.dataclass(frozen=True)
class Machines:
    """Workers that are alike.

    Attributes:
      workers: how many.
      cores: of each.
      memory: of each, in bytes.
      network: what each sends or receives in a second, in bytes.
    """

    workers: int = 1000
    cores: int = 4
    memory: float = 16e9
    network: float = 1.25e9

    @property
    def slots(self) -> int:
        return self.workers * self.cores


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a job is set.

    Attributes:
      expecting: whether the transform is told how large the input is.
      bundle_rows: how many rows a bundle has, typically.
      spread: of the sizes of bundles: the standard deviation of their logarithm.
      buffered: how many rows of a bundle wait until they are sent to shards; `None` as the package does.
      sub_parts: in how many parts a shard is bounded, one after the other; `None` as the package does.
      made: whether rows are made by workers, or else read from Parquet.
    """

    expecting: bool = True
    bundle_rows: int = 1_000_000
    spread: float = 0.5
    buffered: int | None = None
    sub_parts: int | None = None
    made: bool = False

    def bundles(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Return the size of each bundle, given all rows."""
        count = max(1, round(rows / self.bundle_rows))
        return _shared(rows, generator.lognormal(0, self.spread, count))

    def at_once(self, rows: float) -> float:
        """Return how many of the rows of a shard are bounded at once."""
        usual = PARTS if rows > BLOCK else 1
        return rows / (usual if self.sub_parts is None else self.sub_parts)

    def waiting(self, shards: int) -> int:
        """Return how many rows of a bundle wait before they are sent to the shards."""
        return buffered_for(shards) if self.buffered is None else self.buffered

    def shards(self, given: Input) -> int:
        return shards_for(self._scale(given))

    def key_shards(self, given: Input, cells: int) -> int:
        return key_shards_for(self._scale(given), cells)

    def fanout(self, given: Input, *, bounded: bool) -> int:
        scale = self._scale(given)
        return 1 if scale is None else scale.fanout(shards_for(scale) if bounded else None)

    def _scale(self, given: Input) -> Scale | None:
        return Scale(given.rows, given.keys) if self.expecting else None
