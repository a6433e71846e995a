"""Rows over time of a table: exact sums of windows to exact rows, and one draw of noise for each row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.engine.keys import KeyChoice
from beam_dpsketch.engine.run import Place, Run, Sum
from beam_dpsketch.frames.steps.drawing import Read
from beam_dpsketch.privacy.over_time.encoder import RowEncoder
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.sums.accumulator import SketchAccumulator


def release_rows(
    sums: dict[Place, SketchAccumulator],
    sketch_input: SketchInput,
    horizon: Horizon,
    calibration: Calibration,
    run: Run,
    read: Read,
) -> dict[Place, list[Any]]:
    """Return the rows of each key, in order, given the exact sums of its windows; keys that data choose are chosen."""
    by_key: dict[tuple[Any, ...], dict[int, SketchAccumulator]] = defaultdict(dict)
    for place, each in sums.items():
        by_key[place.key][horizon.index(place.start)] = each
    chosen = _chosen(by_key, horizon, calibration.choice, run)
    released: dict[Place, list[Any]] = {Place(key): [] for key in chosen}
    name = run.name()
    exact = (each for key, windows in chosen.items() for each in _exact_rows(key, windows, sketch_input, horizon, name))
    for together, releases in run.release(exact, calibration):
        for waited, row in zip(together, read(releases), strict=True):
            released[Place(waited.place.key)].append(row)
    return {place: sorted(rows, key=lambda row: row.number) for place, rows in released.items()}


def _chosen(
    by_key: dict[tuple[Any, ...], dict[int, SketchAccumulator]], horizon: Horizon, choice: KeyChoice | None, run: Run
) -> dict[tuple[Any, ...], dict[int, SketchAccumulator]]:
    """Return the keys that the votes of all windows together bring in."""
    if choice is None or not by_key:
        return by_key
    votes = np.stack([sum(each.votes for each in windows.values()) for windows in by_key.values()])
    places = [Place(key, horizon.start_micros, horizon.end_micros) for key in by_key]
    kept = run.choose(choice, votes, places).tolist()
    return {key: windows for (key, windows), is_kept in zip(by_key.items(), kept, strict=True) if is_kept}


def _exact_rows(
    key: tuple[Any, ...],
    windows: dict[int, SketchAccumulator],
    sketch_input: SketchInput,
    horizon: Horizon,
    name: bytes,
) -> Iterator[Sum]:
    encoder = RowEncoder(horizon.rows)
    for window in range(horizon.windows):
        counters = windows.get(window, SketchAccumulator(sketch_input)).to_vector()
        for number, row in encoder.push(counters):
            place = Place(key, *horizon.edges(window))
            yield Sum(place, SketchAccumulator.of_row(sketch_input, number, row), name)
