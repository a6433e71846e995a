"""The steps of a job as tasks: what every bundle, shard, merge and release takes, and what it sends.

A runner shares out the tasks of a step among its workers; the next step begins when all are done.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Iterator

import numpy as np

from beam_dpsketch.exact.bounding.parts import BLOCK
from beam_dpsketch.transforms.steps.sums import PENDING_BYTES
from benchmarks.scale.costs import Costs
from benchmarks.scale.kinds import SMALL, Kind
from benchmarks.scale.made_rows import BATCH
from benchmarks.scale.scenarios import Input, Settings

_GRID = 256


@dataclasses.dataclass(frozen=True)
class Engine:
    """What a runner takes beside the steps of the package, in seconds of processor time.

    Attributes:
      job: of a job, whatever its size.
      worker: of a worker process, to start.
      byte: of a byte that is sent from one step to the next.
      element: of an element that is sent, or comes to the step of a worker that adds up by key.
    """

    job: float = 0.0
    worker: float = 0.0
    byte: float = 0.0
    element: float = 0.0


@dataclasses.dataclass(frozen=True)
class Stage:
    """Tasks that can run at once.

    Attributes:
      name: of the step.
      seconds: what each takes of a core.
      rows: how many rows, sums or keys each has.
      received: how many bytes come to each; `None` for none.
      sent: how many bytes all of them send.
      memory: bytes that the largest holds.
    """

    name: str
    seconds: np.ndarray
    rows: np.ndarray
    received: np.ndarray | None = None
    sent: float = 0.0
    memory: float = 0.0

    @property
    def work(self) -> float:
        """Seconds of processor time of all tasks."""
        return float(self.seconds.sum())


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of one kind.

    Attributes:
      kind: of the release.
      costs: of its steps.
      engine: of the runner.
      given: what is read.
      settings: how it is set.
    """

    kind: Kind
    costs: Costs
    engine: Engine
    given: Input
    settings: Settings

    def stages(self, seed: int = 0) -> Iterator[Stage]:
        """Yield its steps; the seed draws sizes of bundles and places of people."""
        generator = np.random.default_rng(seed)
        bundles = self.settings.bundles(self.given.rows, generator)
        reading = self.costs.of_one("make" if self.settings.made else "read").seconds * bundles
        if self.kind.keyed:
            yield from self._keyed(bundles, reading, generator)
            return
        if self.kind.bounded:
            sums = yield from self._bounded(bundles, reading, generator)
        else:
            sums, sent = bundles, self._each("encode", bundles, self.costs.size).sum()
            seconds = reading + self._each("sum", bundles) + self._each("encode", bundles)
            yield Stage("sum", seconds, bundles, sent=float(sent))
        yield from self._merged(sums, generator)
        yield Stage("release", np.array([self.costs.seconds("release", 1)]), np.ones(1))

    def _bounded(
        self, bundles: np.ndarray, reading: np.ndarray, generator: np.random.Generator
    ) -> Generator[Stage, None, np.ndarray]:
        """Yield what bounding takes, and return how many rows each shard has."""
        given, shards = self.given, self.settings.shards(self.given)
        waiting = self.settings.waiting(shards)
        buffers, rest = np.divmod(bundles, waiting)
        parts = buffers * _met(shards, waiting) + _met(shards, rest)
        row, part = self.costs.a_row_and_a_part("shard")
        sizes = row.size * bundles + part.size * parts
        halves = (self.engine.byte * sizes.sum() + self.engine.element * parts.sum()) / 2
        seconds = reading + row.seconds * bundles + (part.seconds + halves / parts.sum()) * parts
        yield Stage("shard", seconds, bundles, sent=float(sizes.sum()))
        rows = given.of_shards(shards, generator)
        share, opened = rows / given.rows, self.costs.a_row_and_a_part("open")[1].seconds
        more_parts = np.maximum(parts.sum() / shards - rows / self.costs.rows_of_a_part("bound"), 0)
        bound = self._each("bound", rows, lambda step, size: self.costs.seconds(step, size, given.per_id))
        seconds = bound + opened * more_parts + halves * share + self._each("encode", rows)
        received, sent = sizes.sum() * share, self._each("encode", rows, self.costs.size)
        memory = self._held(float(rows.max()), float(received.max()))
        yield Stage("bound", seconds, rows, received, float(sent.sum()), memory)
        return rows

    def _held(self, rows: float, encoded: float) -> float:
        """Return the bytes of a shard: its records wait encoded where they are parted, in blocks that are decoded."""
        at_once, of_row = self.settings.at_once(rows), self.costs.of_one("hold", self.given.per_id).size
        if at_once == rows:
            return rows * of_row
        return encoded + max(at_once, min(rows, BLOCK)) * of_row

    def _merged(self, sums: np.ndarray, generator: np.random.Generator) -> Iterator[Stage]:
        """Yield what adding up sums of these numbers of rows takes: by some workers and the last one, or it alone."""
        count, rows = len(sums), float(np.median(sums))
        fanout = self.settings.fanout(self.given, bounded=self.kind.bounded)
        if fanout > 1:
            counts = generator.multinomial(count, np.full(fanout, 1 / fanout))
            of_all = rows * count / fanout
            seconds = self._merging(rows) * counts + self.costs.seconds("encode", of_all)
            size = self.costs.size("encode", of_all)
            yield Stage("merge", seconds, counts, self.costs.size("encode", rows) * counts, size * fanout)
            count, rows = fanout, of_all
        last, received = self._merging(rows) * count, self.costs.size("encode", rows) * count
        yield Stage("last merge", np.array([last]), np.array([count]), np.array([received]))

    def _merging(self, rows: float) -> float:
        """Return what it takes to receive a sum of this number of rows, and add it up."""
        size = self.costs.size("encode", rows)
        return self.costs.seconds("merge", rows) + self.engine.byte * size + self.engine.element

    def _keyed(self, bundles: np.ndarray, reading: np.ndarray, generator: np.random.Generator) -> Iterator[Stage]:
        """Yield the steps of a release for each key."""
        given, costs, engine = self.given, self.costs, self.engine
        row, pair = costs.a_row_and_a_part("split")
        added, key = costs.a_row_and_a_part("group")
        of_sum, of_part = costs.a_row_and_a_part("send")
        shards = self.settings.key_shards(given, SMALL.cells)
        full = self.rows_until_full()
        times, rest = np.divmod(bundles, full)
        many, few = given.distinct_keys(full), _at_sizes(given.distinct_keys, rest)
        pairs, sums = _at_sizes(self._pairs, bundles), times * many + few
        parts = times * _met(shards, many) + _met(shards, few)
        sizes = of_sum.size * sums + of_part.size * parts
        halves = (engine.byte * sizes + engine.element * parts) / 2
        adding = (pair.seconds + added.seconds + engine.element) * pairs + (key.seconds + of_sum.seconds) * sums
        seconds = reading + row.seconds * bundles + adding + of_part.seconds * parts + halves
        held = given.distinct_keys(min(full, float(bundles.max()))) * costs.of_one("hold").size
        yield Stage("sum", seconds, bundles, sent=float(sizes.sum()), memory=held)
        keys = generator.multinomial(given.keys, np.full(shards, 1 / shards))
        share, received = keys / given.keys, sizes.sum() * keys / given.keys
        of_sum, of_part = costs.a_row_and_a_part("gather")
        seconds = (of_sum.seconds * sums.sum() + of_part.seconds * parts.sum() + halves.sum()) * share
        fanout, count = self.settings.fanout(given, bounded=False), sums.sum() * share
        if fanout > 1:
            met = given.distinct_keys(given.rows / fanout) * share
            encode, merge = (costs.of_one(step) for step in ("encode", "merge"))
            first = seconds / fanout + encode.seconds * met
            first, sent, came = (np.repeat(each, fanout) for each in (first, count / fanout, received / fanout))
            yield Stage("merge", first, sent, came, float(encode.size * met.sum() * fanout))
            count, received = met * fanout, encode.size * met * fanout
            seconds = merge.seconds * count + engine.byte * received + engine.element * fanout
        yield Stage("last merge", seconds, count, received)
        yield Stage("release", costs.of_one("release").seconds * keys, keys)

    def _pairs(self, rows: float) -> float:
        """Return the expected number of sums of a key, given the rows of all batches."""
        return self.given.distinct_keys(min(rows, BATCH)) * max(1.0, rows / BATCH)

    def rows_until_full(self) -> float:
        """Return after how many rows the sums of a bundle are sent, because they take too much; infinite if never."""
        pair, key = self.costs.a_row_and_a_part("group")
        most = self.costs.largest_part("group")

        def waiting(rows: float) -> float:
            keys = self.given.distinct_keys(rows)
            return min(pair.size * self._pairs(rows) + key.size * keys, most * keys)

        low, high = 0.0, 1e6 * self.given.keys
        if waiting(high) < PENDING_BYTES:
            return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if waiting(middle) < PENDING_BYTES else (low, middle)
        return high

    def _each(self, step: str, sizes: np.ndarray, read: Callable[[str, float], float] | None = None) -> np.ndarray:
        """Return what a step takes at each of some sizes."""
        read = self.costs.seconds if read is None else read
        return _at_sizes(lambda size: read(step, size), sizes)


def _at_sizes(measure: Callable[[float], float], sizes: np.ndarray) -> np.ndarray:
    """Return a measure of many sizes; between those of a grid, straight."""
    low, high = max(float(sizes.min()), 1.0), max(float(sizes.max()), 1.0)
    grid = np.geomspace(low, high, _GRID if high > low else 1)
    return np.interp(sizes, grid, [measure(float(size)) for size in grid])


def _met(shards: int, rows: np.ndarray | float) -> np.ndarray:
    """Return how many of some shards rows go to, expected."""
    return np.asarray(-shards * np.expm1(np.asarray(rows) * np.log1p(-1 / shards)))
