"""Bounding over several windows with bounds for each window: select max_windows windows of each privacy id.

Guarantee: in each period a privacy id counts in at most max_windows windows, chosen uniformly at random among the
windows in which it has data, and within the bounds in each of them. The column `window` contains the last millisecond
of each record's window. All records of an id in a period must end up in a single table.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.exact.bounding import selection
from beam_dpsketch.exact.bounding.netting import Codes
from beam_dpsketch.exact.bounding.parts import shard_hash
from beam_dpsketch.exact.bounding.record_rule import Priorities, RecordRule, max_multiplicity_at_most
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.reading.columns import encode_ids
from beam_dpsketch.exact.reading.groups import dictionary_codes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.contributions import RecordBounds


class RuleOverWindows(RecordRule):
    """Rule that samples records within `RecordBounds` per window, and then windows."""

    def __init__(
        self, bounds: RecordBounds, sketch_input: SketchInput, priorities: Priorities, max_windows: int
    ) -> None:
        counters, selection = sketch_input.counters, sketch_input.selection
        super().__init__(bounds, priorities, counters, selection, sketch_input.over_time, sketch_input.lost)
        self._max_windows = max_windows

    def keeps_all(self, units: np.ndarray) -> bool:
        """Whether no id can exceed the bounds. An id with few records is in few windows."""
        return super().keeps_all(units) and max_multiplicity_at_most(units, self._max_windows)

    def _prune(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        """Shrink a part of the records. Keep all windows of signed weights, because a window may become empty."""
        bounded = self._in_each_window(records, lambda each: super(RuleOverWindows, self)._prune(each)[0])
        return (bounded if self.bounds.signed else self._keep_windows(bounded)), None

    def _select(self, records: pa.Table) -> tuple[pa.Table, Codes | None]:
        kept = self._in_each_window(records, lambda each: super(RuleOverWindows, self)._select(each)[0])
        return self._keep_windows(kept), None

    def _in_each_window(self, records: pa.Table, bound: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Bound with privacy id and window as the unit."""
        place = records.column_names.index("unit")
        records = records.set_column(place, "unit", encode_ids(records["unit"]))
        ends = records["window"].to_numpy().astype(">i8")
        ends = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(ends), [None, pa.py_buffer(ends)])
        units = pc.binary_join_element_wise(
            records["unit"], ends.cast(pa.large_binary()), pa.scalar(b"", pa.large_binary())
        )
        kept = bound(records.append_column("id", records["unit"]).set_column(place, "unit", units))
        return kept.set_column(place, "unit", kept["id"]).drop_columns(["id"])

    def _keep_windows(self, records: pa.Table) -> pa.Table:
        units, distinct = dictionary_codes(records["unit"])
        windows = records["window"].to_numpy()
        hashes = cells.mix(shard_hash(distinct), seed=self._priorities.salt, row=2)[units]
        priorities = cells.mix(hashes ^ windows.view(np.uint64), seed=self._priorities.salt, row=3)
        positions = selection.select_parts(units, windows, priorities, self._max_windows)
        return records if len(positions) == len(records) else records.take(pa.array(positions))
