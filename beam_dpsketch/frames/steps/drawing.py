"""Convert exact sums of a table to noisy releases or timeline rows, with one draw of noise each.

`read` converts their numbers to objects with answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from beam_dpsketch.encodings import decode, encode, is_unicode
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.groups import Row, split_pair
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums, next_rows
from beam_dpsketch.frames.steps.sums import Contributed
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.run import Place, Run, Sum, place_of_horizon
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.statement.noisy import NoisyReleases

Read: TypeAlias = Callable[[NoisyReleases], Iterable[Any]]


def release_sums(
    sums: dict[Place, KeyedSums],
    contributed: Contributed,
    declared: ReleaseSpec,
    calibration: Calibration,
    run: Run,
    read: Read,
) -> dict[Place, Any]:
    """Release exact sums of windows, with noise."""
    name = run.name() if run.is_named or declared.is_keyed or declared.time is not None else None
    lost = None
    if contributed.lost is not None:
        lost = run.draw_lost(contributed.lost, calibration, contributed.max_norm)
    released: dict[Place, Any] = {}
    waiting = (Sum(window, each, name) for window, each in sums.items())
    for together, releases in run.release(waiting, calibration, lost):
        released |= zip([place for place, _ in together], read(releases), strict=True)
    return released


def release_counts(
    counts: dict[Place, dict[bytes, Row]], declared: ReleaseSpec, counting: Counting, run: Run, read: Read
) -> dict[Place, Any]:
    """Release the thresholded counts of each window, or key and window."""
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
    sums: dict[Place, KeyedSums], horizon: Horizon, calibration: Calibration, run: Run, read: Read
) -> dict[Place, list[Any]]:
    """Release the timeline rows of each key, in order, from exact sums of windows. Data-dependent keys are selected."""
    sketch_input = next(iter(sums.values())).sketch_input
    by_key: dict[bytes, dict[int, KeyedSums]] = defaultdict(dict)
    for window, of_window in sums.items():
        for key, each in of_window.each():
            by_key[key][horizon.index(window.start)] = each
    votes = KeyedSums.of_nothing(sketch_input, by_key)
    for side, windows in zip(votes.side, by_key.values(), strict=True):
        side += sum(each.side[0] for each in windows.values())
    places, chosen = run.find_released(calibration.choice, votes, place_of_horizon(horizon))
    released: dict[Place, list[Any]] = {Place(places[number].key): [] for number in chosen.tolist()}
    keys = votes.keys.take(pa.array(chosen)).to_pylist()
    name = run.name()
    exact = (row for key in keys for row in _exact_rows(key, by_key[key], sketch_input, horizon, name))
    for together, releases in run.release(exact, calibration):
        for (place, _), row in zip(together, read(releases), strict=True):
            released[Place(place.key)].append(row)
    return {place: sorted(rows, key=lambda row: row.number) for place, rows in released.items()}


def _exact_rows(
    key: bytes, windows: dict[int, KeyedSums], sketch_input: SketchInput, horizon: Horizon, name: bytes
) -> Iterator[Sum]:
    encoder = RowEncoder(horizon.rows)
    for window in range(horizon.windows):
        place = Place((), *horizon.edges(window))
        for row in next_rows(encoder, sketch_input, key, windows.get(window)):
            yield Sum(place, row, name)
