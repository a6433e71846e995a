"""Steps of thresholded counts: count the records of each pair, draw the noise of each count, gather released rows.

Noise is drawn once for each pair of key and item in a window, and the decision is made with it, in the same step. The
`GroupByKey` after it makes both final, as a `Reshuffle` does, before the rows of a key and window become one release.
If units vote for pairs in two rounds, `SecondRound` draws the noisy votes of the first, once, before that step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.encodings import decode, is_unicode
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities
from beam_dpsketch.exact.bounding.rules import rule_of
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.hashing.lookup import in_parts, pack, unpack
from beam_dpsketch.exact.reading.groups import Row, split_pair, sum_by_pair
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import Columns, RecordReader, read_units
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.transforms.steps.bounding import ShardRecords, ShardWindowedRecords
from beam_dpsketch.transforms.steps.bounding_over_windows import Contributions
from beam_dpsketch.transforms.steps.exact_sums import ExactStep
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.release_once import name_of, run_input
from beam_dpsketch.transforms.steps.whole_runs import WrappingSum, norm_of
from beam_dpsketch.transforms.steps.windows import create_always, in_time_range, is_global, place_of

_BUFFERED = 1 << 16
_NO_ITEM = (b"", 0)
"""Row that marks an empty release."""
_COUNTED, _ROWS = tuple[bytes, Row], tuple[bytes, tuple[bytes, int]]


class CountPairs(ExactStep):
    """Count elements exactly as (pair, exact row) for each usable pair, in each window.

    A privacy id is bounded as if the pairs were output keys. Returns a dict: "counts", and "norm", in units of 1/16
    record, if it is chosen from the data.
    """

    def expand(self, pcoll: beam.PCollection) -> dict[str, beam.PCollection]:
        elements, sketch_input = in_time_range(pcoll, self._plan.starts), self.sketch_input
        if self._declared.privacy_id is not None:
            bounded = self._bounded(elements)
        else:
            count = CountRecords if is_global(elements) else CountWindowedRecords
            counted = beam.ParDo(count(self._declared.reader, sketch_input)).with_output_types(_COUNTED)
            bounded = Contributions(elements | "Count" >> counted)
        counts = bounded.values | "Sum" >> beam.CombinePerKey(WrappingSum()).with_output_types(_COUNTED)
        return {"counts": counts} if bounded.max_norm is None else {"counts": counts, "norm": bounded.max_norm}


class CountRecords(ShardRecords):
    """Count the records of a bundle by pair, if each record is a unit."""

    def __init__(self, reader: RecordReader, sketch_input: SketchInput) -> None:
        super().__init__(reader, rule_of(sketch_input, RandomPriorities()), sketch_input)

    def _table(self, columns: Columns) -> pa.Table:
        assert self._sketch_input is not None
        return read_units(self._reader, columns, self._sketch_input)

    def _emit(self, records: pa.Table, window: Any) -> Iterator[WindowedValue]:
        for counted in sum_by_pair(records["key"], records["weight"].to_numpy()[:, np.newaxis]):
            yield WindowedValue(counted, window.max_timestamp(), (window,))


class CountWindowedRecords(CountRecords, ShardWindowedRecords):
    """Counting for windowed elements."""

    process = ShardWindowedRecords.process


class ReleaseGroups(beam.PTransform):
    """Release thresholded counts as ([key], `NoisyReleases`), or (`None`, `NoisyReleases`), per window."""

    def __init__(
        self,
        declared: ReleaseSpec,
        plan: WindowPlan,
        counting: Counting,
        idempotent_noise: IdempotentNoise | None,
        paid: beam.PCollection | None = None,
    ) -> None:
        super().__init__()
        self._declared, self._plan, self._counting = declared, plan, counting
        self._idempotent_noise, self._paid = idempotent_noise, paid

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        noise, per_key, paid = self._idempotent_noise, self._declared.is_keyed, name_of(self._paid)
        run = run_input(pcoll, self._declared, self._plan, self._counting, noise, self._paid)
        exact = pcoll | "ExactCounts" >> CountPairs(
            self._declared, self._plan, noise, paid, choice=self._counting.choice
        )
        norm = {"norm": beam.pvalue.AsSingleton(exact["norm"])} if "norm" in exact else {}
        add_noise = beam.ParDo(NoiseOnce(self._counting, per_key=per_key, idempotent_noise=noise), **paid, **norm)
        gather = beam.ParDo(GatherRows(self._counting, per_key=per_key, idempotent_noise=noise), **run, **norm)
        rows = exact["counts"] | "NoiseOnce" >> add_noise.with_output_types(_ROWS)
        return (
            self._with_empty(rows)
            | "RowsFinal" >> beam.GroupByKey()
            | "GatherRows" >> gather.with_output_types(tuple[Any, NoisyReleases])
        )

    def _with_empty(self, rows: beam.PCollection) -> beam.PCollection:
        """Add a row without an item for every release that must exist regardless of the data."""
        starts, keys = self._plan.starts, self._declared.public_keys
        parts = in_parts(keys or ()) if self._declared.is_keyed else [pack([b""])]
        if not parts or (starts is None and not self._plan.is_global):
            return rows
        created = create_always(rows, starts, parts, _without_items, _ROWS)
        return (rows, created) | "WithEmpty" >> beam.Flatten()


def _without_items(packed_keys: bytes) -> list[tuple[bytes, Any]]:
    return [(key, _NO_ITEM) for key in unpack(packed_keys)]


class _OfCounting(DrawsNoise):
    """Base of steps with counts' noise parameters.

    Args:
      counting: the parameters before a norm is chosen.
      per_key: whether pairs have keys.
    """

    def __init__(self, counting: Counting, *, per_key: bool, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__(idempotent_noise)
        self._counting, self._per_key = counting, per_key
        self._norm: int | None = None
        self._under = counting

    def under(self, norm: int | None) -> Counting:
        """Compute the parameters under a norm, in units of 1/16 record, if it is chosen from the data."""
        if norm != self._norm:
            self._norm, self._under = norm, self._counting.with_norm(norm_of(norm))
        return self._under


class NoiseOnce(_OfCounting):
    """Turn (pair, exact row) into (encoded key, (item, noisy count)), for released pairs only."""

    def start_bundle(self) -> None:
        self._waiting: dict[Any, list[tuple[bytes, Row]]] = defaultdict(list)
        self._size = 0

    def process(
        self,
        element: tuple[bytes, Row],
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        norm: int | None = None,
        run: bytes | None = None,
    ) -> Iterable[Any] | None:
        if (place := place_of(window, pane)) is None:
            return []
        self._waiting[window, place, norm].append(element)
        self._size += 1
        return None if self._size < _BUFFERED else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for (window, place, norm), counted in self._waiting.items():
            for pair, noisy in self.run().count(self.under(norm), counted, place):
                key, item = split_pair(pair, per_key=self._per_key)
                yield WindowedValue((key, (item, noisy)), window.max_timestamp(), (window,))
        self.start_bundle()


class GatherRows(_OfCounting):
    """Gather (encoded key, rows) to ([key], `NoisyReleases`), or (`None`, `NoisyReleases`)."""

    def process(
        self,
        element: tuple[bytes, Iterable[tuple[bytes, int]]],
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
        norm: int | None = None,
    ) -> Iterator[Any]:
        keys = [decode(element[0])] if self._per_key else None
        place = place_of(window, pane, *keys or ())
        if place is None or not all(map(is_unicode, keys or ())):
            return
        rows = [row for row in element[1] if row != _NO_ITEM]
        yield keys, self.run().gather(self.under(norm), rows, place, run)
