"""The source: unbounded, in real time, and after a failure again from the tick where its checkpoint was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from benchmarks.streams.soak.records import PER_SECOND, SHARDS, Plan, Visit, visits

AT_ONCE = 10 * PER_SECOND  # ticks: a source that is behind catches up, and lets checkpoints through in between
FOR_EVER = 1 << 40
SOURCE = "Visits"


class _Ticks(RestrictionProvider):
    """The ticks that a shard has still to send."""

    def initial_restriction(self, shard: int) -> OffsetRange:
        return OffsetRange(0, FOR_EVER)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, shard: int, restriction: OffsetRange) -> int:
        return restriction.size()

    def truncate(self, shard: int, restriction: OffsetRange) -> None:
        return None


_TRACKER = beam.DoFn.RestrictionParam(_Ticks())
_WATERMARK = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class Clocked(beam.DoFn):
    """A shard to its visits, each when it is due; the watermark never passes one that is still to be sent."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @beam.DoFn.unbounded_per_element()
    def process(self, shard: int, tracker: Any = _TRACKER, watermark: Any = _WATERMARK) -> Iterator[TimestampedValue]:
        first = tracker.current_restriction().start
        for tick in range(first, first + AT_ONCE):
            due = self._plan.time_of(tick)
            watermark.set_watermark(Timestamp(due))
            wait = due - time.time()
            if wait > 0:
                tracker.defer_remainder(Duration(wait))
                return
            if not tracker.try_claim(tick):
                return
            for visit in visits(self._plan, shard, tick):
                yield TimestampedValue(visit, due)
        tracker.defer_remainder(Duration(0))


def source(pipeline: beam.Pipeline, plan: Plan) -> beam.PCollection:
    """Send all visits of a plan, then nothing but the watermark."""
    shards = pipeline | "Shards" >> beam.Create(range(SHARDS), reshuffle=False)
    return shards | SOURCE >> beam.ParDo(Clocked(plan)).with_output_types(Visit)
