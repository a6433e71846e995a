"""Measures unit costs: what each step of a release takes of a worker, by the package's own steps, without Beam.

Each is processor time, the least of three times. Steps:
  make     make a batch of rows; read: read it from Parquet instead
  sum      add up the rows of a bundle; encode: its sum to bytes; merge: add these bytes to the sum of others
  release  draw the noise of a release, send it and read it
  shard    read records, and send them to shards of privacy ids, at two numbers of shards: so much a row, and a part
  bound    bound a shard, and add up what is kept; open: read its parts, at two sizes of them
  hold     bytes of memory for records that are bounded at once, or for sums of keys, in a process of its own
  split    take a batch apart by key, at two numbers of keys
  group    add up these parts by key: of few keys many, and of many keys one; parts are keys, bytes are those that wait
  send     the sums of a bundle to shards of keys, at two numbers of shards; rows are sums
  gather   add up the sums of a shard of keys, in parts of two sizes; encode and merge: sums of a whole shard
"""

from __future__ import annotations

import dataclasses
import gc
import io
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_dpsketch.exact.bounding.parts import BLOCK, KEY_SHARDS
from benchmarks.measuring import in_new_process, peak_megabytes, status
from benchmarks.scale.costs import Cost
from benchmarks.scale.kinds import KINDS, Kind
from benchmarks.scale.made_rows import BATCH, Rows
from benchmarks.scale.steps import Steps

PEOPLE, KEYS = 10**7, (10**3, 10**6)
BUNDLES = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
SHARDED = 1 << 18
SHARDS = (1 << 8, 1 << 14)
SHARD_ROWS = (1 << 8, 1 << 14, 1 << 17, 1 << 20)
ROWS_OF_AN_ID = (1, 10, 1000)
PART_ROWS = (16, 1024)
PART_KEYS = (16, 256)
GROUPED, GATHERED, AGAIN = 20 * BATCH, 1 << 15, 16
HELD_KEYS = 40_000


def measured(names: list[str]) -> Iterator[Cost]:
    """Yield all costs of these kinds."""
    for name in names:
        kind = KINDS[name]
        steps, rows = Steps(kind, KEYS[1]), kind.rows(PEOPLE, KEYS[1])
        found = [_rows(rows)]
        if kind.keyed:
            found += [_keys(kind, steps), _memory(name)]
        elif kind.bounded:
            found += [_sharding(steps, rows), _bounding(kind, steps), _memory(name)]
        else:
            found.append(_bundles(steps, rows))
        for costs in found:
            yield from (dataclasses.replace(cost, kind=name) for cost in costs)


def timed(run: Callable[..., Any], *prepare: Callable[[], Any], repetitions: int = 3) -> tuple[float, Any]:
    """Nanoseconds of processor time, the least, and what it returned; what is prepared each time does not count."""
    times, made = [], None
    for _ in range(repetitions):
        made = None
        given = [each() for each in prepare]
        gc.collect()
        start = time.process_time()
        made = run(*given)
        times.append(1e9 * (time.process_time() - start))
    return min(times), made


def batches(rows: Rows, size: int) -> list[pa.RecordBatch]:
    return [rows.batch(number, min(BATCH, size - start)) for number, start in enumerate(range(0, size, BATCH))]


def _rows(rows: Rows) -> Iterator[Cost]:
    nanoseconds, made = timed(lambda: rows.batch(0))
    yield Cost("", "make", BATCH, nanoseconds=nanoseconds)
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([made]), file)
    read = partial(pq.ParquetFile, pa.BufferReader(file.getvalue()))
    nanoseconds, _ = timed(lambda: list(read().iter_batches(BATCH, use_threads=False)))
    yield Cost("", "read", BATCH, nanoseconds=nanoseconds, size=len(file.getvalue()))


def _bundles(steps: Steps, rows: Rows) -> Iterator[Cost]:
    total = steps.add_up(batches(rows, 1_000_000))
    for size in BUNDLES:
        made = batches(rows, size)
        nanoseconds, accumulator = timed(lambda made=made: steps.add_up(made))
        yield Cost("", "sum", size, nanoseconds=nanoseconds)
        yield from _sums(steps, accumulator, total, size)
    nanoseconds, _ = timed(lambda: steps.release(total.to_sums()))
    yield Cost("", "release", 1, nanoseconds=nanoseconds)


def _sums(steps: Steps, accumulator: Any, total: Any, size: int) -> Iterator[Cost]:
    nanoseconds, payloads = timed(lambda: steps.encode([accumulator]))
    yield Cost("", "encode", size, nanoseconds=nanoseconds, size=len(payloads[0]))
    several = payloads * 8
    nanoseconds, _ = timed(lambda: steps.merge(several, total))
    yield Cost("", "merge", size, nanoseconds=nanoseconds / len(several), size=len(payloads[0]))


def _sharding(steps: Steps, rows: Rows) -> Iterator[Cost]:
    made = batches(rows, SHARDED)
    for shards in SHARDS:
        nanoseconds, payloads = timed(lambda shards=shards: steps.shard(made, shards))
        yield Cost("", "shard", SHARDED, len(payloads), nanoseconds=nanoseconds, size=sum(map(len, payloads)))


def payloads_of(kind: Kind, steps: Steps, size: int, per_id: int, part: int = PART_ROWS[1]) -> Iterator[bytes]:
    """Yield the parts of a shard, as bundles send them to it; each id has about `per_id` rows."""
    rows = kind.rows(max(1, size // per_id), 0)
    for number, first in enumerate(range(0, size, BATCH)):
        batch = rows.batch(number, min(BATCH, size - first))
        for start in range(0, len(batch), part):
            yield from steps.shard([batch.slice(start, part)], 1)


def _bounding(kind: Kind, steps: Steps) -> Iterator[Cost]:
    total: Any = None
    for per_id in ROWS_OF_AN_ID:
        for size in SHARD_ROWS:
            payloads = list(payloads_of(kind, steps, size, per_id))
            nanoseconds, accumulator = timed(lambda payloads=payloads: steps.bound(payloads))
            yield Cost("", "bound", size, len(payloads), per_id, nanoseconds)
            total = accumulator if total is None else total
            if per_id == ROWS_OF_AN_ID[1]:
                yield from _sums(steps, accumulator, steps.merge(steps.encode([total])), size)
    for part in PART_ROWS:
        payloads = list(payloads_of(kind, steps, SHARD_ROWS[1], 10, part))
        nanoseconds, _ = timed(lambda payloads=payloads: steps.gather(payloads))
        yield Cost("", "open", SHARD_ROWS[1], len(payloads), nanoseconds=nanoseconds)
    nanoseconds, _ = timed(lambda: steps.release(total.to_sums()))
    yield Cost("", "release", 1, nanoseconds=nanoseconds)


def _memory(name: str) -> Iterator[Cost]:
    keyed = KINDS[name].keyed
    for per_id in (0,) if keyed else ROWS_OF_AN_ID[::2]:
        rows, size = in_new_process("scale.unit_costs", name, per_id, HELD_KEYS if keyed else BLOCK)
        yield Cost("", "hold", rows, per_id=per_id, size=size)


def held(name: str, per_id: int, rows_held: int) -> tuple[int, int]:
    """Return of how many rows of a shard, or keys, it is how many bytes more this process took than before."""
    kind = KINDS[name]
    steps, rows = Steps(kind, KEYS[1]), kind.rows(PEOPLE, KEYS[1])

    def hold(size: int) -> int:
        if kind.keyed:
            pairs = steps.split(batches(rows, size))
            steps.send_keys(steps.add_up_keys(pairs))
            return len(_keys_of(pairs))
        steps.bound(payloads_of(kind, steps, size, per_id, BATCH))
        return size

    hold(SHARD_ROWS[0])
    before = (status("VmRSS") or 0) * 1024
    size = hold(rows_held)
    return size, max(0, round(1e6 * peak_megabytes() - before))


def _keys(kind: Kind, steps: Steps) -> Iterator[Cost]:
    for keys in KEYS:
        made = batches(kind.rows(PEOPLE, keys), BATCH)
        nanoseconds, pairs = timed(lambda made=made: steps.split(made))
        yield Cost("", "split", BATCH, len(pairs), nanoseconds=nanoseconds)
    few, many = steps.split(batches(kind.rows(PEOPLE, KEYS[0]), GROUPED)), pairs[: len(pairs) // 2]
    for pairs in (few, many):
        nanoseconds, bundle = timed(lambda pairs=pairs: steps.add_up_keys(pairs))
        yield Cost("", "group", len(pairs), len(_keys_of(pairs)), 0, nanoseconds, steps.waiting_bytes(bundle))
    for shards in SHARDS:
        nanoseconds, payloads = timed(
            lambda bundle, shards=shards: steps.send_keys(bundle, shards), lambda: steps.add_up_keys(many)
        )
        yield Cost("", "send", len(many), len(payloads), 0, nanoseconds, sum(map(len, payloads)))
    yield from _shard_of_keys(kind, steps)


def _shard_of_keys(kind: Kind, steps: Steps) -> Iterator[Cost]:
    rows = kind.rows(PEOPLE, KEYS[1] // KEY_SHARDS)
    for size in PART_KEYS:
        parts = [steps.split([rows.batch(number, size)]) for number in range(GATHERED // size)]
        payloads = AGAIN * [payload for pairs in parts for payload in steps.send_keys(steps.add_up_keys(pairs), 1)]
        nanoseconds, sums = timed(lambda payloads=payloads: steps.gather_keys(payloads))
        yield Cost("", "gather", AGAIN * sum(map(len, parts)), len(payloads), nanoseconds=nanoseconds)
    nanoseconds, payload = timed(sums.to_bytes)
    yield Cost("", "encode", len(sums), nanoseconds=nanoseconds, size=len(payload))
    several = [payload] * AGAIN
    nanoseconds, _ = timed(lambda: steps.gather_keys(several))
    yield Cost("", "merge", len(sums), nanoseconds=nanoseconds / AGAIN)
    nanoseconds, count = timed(lambda: steps.release(sums))
    yield Cost("", "release", count, nanoseconds=nanoseconds)


def _keys_of(pairs: list[tuple[Any, Any]]) -> set[Any]:
    return {key for key, _ in pairs}


if __name__ == "__main__":
    print(json.dumps(held(sys.argv[1], *map(int, sys.argv[2:]))))
