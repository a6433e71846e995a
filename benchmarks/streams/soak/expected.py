"""What each pipeline has to publish: the same transforms over all that the source sends, in memory, from columns.

Noise is a function of the secret and of the exact counters. So equal bytes mean that no record was lost or added.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import release_frame
from benchmarks.streams.soak.pipelines import (
    BY_NORM,
    COUNT,
    NEXT_TO_EXACT,
    NORM,
    ROWS,
    SPEC,
    WINDOWS,
    Place,
    Publish,
    private,
)
from benchmarks.streams.soak.records import MAX_WINDOWS, WINDOW, Plan, as_table, in_first_windows, of_window

OF_FIRST_WINDOWS = {
    "kind": "frequencies",
    "item": "page",
    "spec": {"depth": SPEC.depth, "width": SPEC.width},
    "privacy_unit": {"privacy_id": "user", "norm": {"max_norm": NORM}},
    "privacy": {"rho": float(NEXT_TO_EXACT.rho) / MAX_WINDOWS},
}
"""What makes a release of the records of one window that are in the first windows of their user."""


def releases(plan: Plan) -> dict[Place, bytes]:
    """What is published of each pipeline and window. Needs the secret in the environment."""
    tables = {window: of_window(plan, window) for window in range(len(plan.rates))}
    found = {(COUNT, window): str(records.shape[1]).encode() for window, records in tables.items()}
    found |= _in_pipeline(WINDOWS, plan, tables) | _in_pipeline(ROWS, plan, tables)
    return found | {
        (BY_NORM, window): release_frame(as_table(records), OF_FIRST_WINDOWS).to_bytes()
        for window, records in in_first_windows(plan)
    }


def _in_pipeline(name: str, plan: Plan, tables: dict[int, np.ndarray]) -> dict[Place, bytes]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "sink")
        folder.mkdir()
        with beam.Pipeline(runner=FnApiRunner()) as pipeline:
            timed = [TimestampedValue(as_table(each), plan.start + WINDOW * number) for number, each in tables.items()]
            batches = pipeline | beam.Create(timed) | beam.Map(lambda table: table).with_output_types(pa.Table)
            if name != ROWS:
                batches = batches | beam.WindowInto(FixedWindows(WINDOW))
            _ = batches | private(name, plan) | beam.ParDo(Publish(name, plan, folder))
        return {place: each.first for place, each in published(folder).items()}


class Published(NamedTuple):
    """What was made of a place.

    Attributes:
      first: which left.
      seconds: when it left.
      again: what was withheld.
    """

    first: bytes
    seconds: float
    again: list[bytes]


def published(folder: Path) -> dict[Place, Published]:
    """What is in the folder of each place."""
    files: dict[Place, list[Path]] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name.endswith("first"), reverse=True):
        name, number, _ = path.name.split(";")
        files.setdefault((name, int(number)), []).append(path)
    return {
        place: Published(first.read_bytes(), first.stat().st_mtime, [path.read_bytes() for path in again])
        for place, (first, *again) in files.items()
    }
