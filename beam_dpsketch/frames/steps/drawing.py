"""Exact sums of a table to noisy releases; `read` makes of their numbers what the caller answers from.

Rows over time of a table: exact sums of windows to exact rows, and one draw of noise for each row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from beam_dpsketch.encodings import decode, encode, is_unicode
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.groups import Row, split_pair
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.frames.steps.sums import ExactLost
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.noise.run import Place, Run, Sum
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.statement.noisy import NoisyReleases

Read: TypeAlias = Callable[[NoisyReleases], Iterable[Any]]


def release_sums(
    sums: dict[Place, SketchAccumulator],
    lost: ExactLost | None,
    declared: ReleaseSpec,
    calibration: Calibration,
    run: Run,
    read: Read,
) -> dict[Place, Any]:
    """Return the release of each exact sum, with noise; `lost` is what the run lost."""
    name = run.name() if run.is_named or declared.is_keyed or declared.time is not None else None
    waiting = [Sum(place, each, name, place) for place, each in sums.items()]
    released: dict[Place, Any] = {}
    noisy_lost = None if lost is None else run.draw_lost(lost.exact, calibration, lost.max_norm)
    choice = calibration.choice if declared.is_keyed else None
    for together, releases in run.release(run.chosen(choice, waiting), calibration, noisy_lost):
        released |= zip([each.output for each in together], read(releases), strict=True)
    return released


def release_counts(
    counts: dict[Place, dict[bytes, Row]], declared: ReleaseSpec, counting: Counting, run: Run, read: Read
) -> dict[Place, Any]:
    """Return the grouped counts of each window, or key and window: those that a count or votes bring in."""
    per_key, name = declared.is_keyed, run.name()
    always = [*map(encode, declared.public_keys or ())] if per_key else [b""]
    released: dict[Place, Any] = {}
    for window, pairs in counts.items():
        rows: dict[bytes, list[tuple[bytes, int]]] = {key: [] for key in always}
        for pair, noisy in run.count(counting, [*pairs.items()], window):
            encoded, item = split_pair(pair, per_key=per_key)
            rows.setdefault(encoded, []).append((item, noisy))
        for encoded, each in rows.items():
            key = (decode(encoded),) if per_key else ()
            if all(map(is_unicode, key)):
                place = window._replace(key=key)
                (released[place],) = read(run.gather(counting, each, place, name))
    return released


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
