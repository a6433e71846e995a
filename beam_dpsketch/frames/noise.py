"""The step that draws the noise of a table, once: exact sums to releases, named as the releases of a pipeline are.

Guarantee: each call draws new noise and is one more release of the same sums. With a secret it repeats itself, byte for
byte, and gives what a pipeline gives under the same secret and release id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.engine.counting import Counting, draw_of
from beam_dpsketch.engine.keys import find_chosen
from beam_dpsketch.engine.noising import Part, release_parts
from beam_dpsketch.engine.unreleased import spent_alone
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.groups import split_pair
from beam_dpsketch.records.release_spec import ResolvedRelease
from beam_dpsketch.statement.accounting import Unreleased
from beam_dpsketch.statement.release_id import (
    DRAW_BYTES,
    RUN_BYTES,
    name_run,
    part_name,
    part_of_run,
    release_randomness,
)

_COUNTERS = 1 << 18  # whose noise is drawn at once


def release_sums(
    sums: dict[Any, SketchAccumulator], resolved: ResolvedRelease, secret: KeyedRandomness | None = None
) -> dict[Any, ReleasedSketch]:
    """Return the release of each key, or of the key `None`."""
    per_key, calibration = resolved.declared.is_keyed, resolved.calibrated
    if per_key and calibration.choice is not None and sums:
        votes = np.stack([each.votes for each in sums.values()])
        chosen = find_chosen(calibration.choice, votes, _secrets([*sums], per_key, secret)).tolist()
        sums = {key: sums[key] for key, is_chosen in zip(sums, chosen, strict=True) if is_chosen}
    run = _run(secret) if per_key or secret is not None else None
    norms = {each.max_norm for each in sums.values()}  # one, if the data chose a norm
    calibration = calibration.with_norm(*norms) if norms else calibration
    released: dict[Any, ReleasedSketch] = {}
    for keys in _together(sums):
        sketches = SketchAccumulator.to_sketches([sums[key] for key in keys])
        parts = [
            Part(sketch, sums[key].total_side[: len(calibration.side)], _name(key, per_key), run)
            for sketch, key in zip(sketches, keys, strict=True)
        ]
        made = release_parts(parts, calibration, _secrets(keys, per_key, secret))
        released |= dict(zip(keys, cast(Any, made), strict=True))
    return released


def release_counts(
    counts: dict[bytes, int], resolved: ResolvedRelease, secret: KeyedRandomness | None = None
) -> dict[Any, ReleasedSketch]:
    """Return the grouped counts of each key, or of the key `None`: those above the threshold after the noise."""
    counting, per_key, run = resolved.calibrated, resolved.declared.is_keyed, _run(secret)
    always = map(encode, resolved.declared.public_keys or ()) if per_key else [b""]
    rows: dict[bytes, list[tuple[bytes, int]]] = {key: [] for key in always}
    for pair, noisy in _noisy_counts(counts, counting, secret):
        encoded, item = split_pair(pair, per_key=per_key)
        rows.setdefault(encoded, []).append((item, noisy))
    released: dict[Any, ReleasedSketch] = {}
    for encoded, each in rows.items():
        key = decode(encoded) if per_key else None
        if key is not None and not is_unicode(key):
            continue
        part = _name(key, per_key)
        draw, source = os.urandom(DRAW_BYTES), Randomness.SYSTEM
        if secret is not None:
            draw, source = draw_of(each, release_randomness(secret, part)), Randomness.KEYED
        released[key] = counting.gather(each, part_of_run(run, part), draw, source)
    return released


def nothing_released(resolved: ResolvedRelease, secret: KeyedRandomness | None = None) -> Unreleased:
    """Return what was spent where no key was chosen."""
    source = Randomness.SYSTEM if secret is None else Randomness.KEYED
    return spent_alone(resolved.calibrated, _run(secret), source)


def _noisy_counts(
    counts: dict[bytes, int], counting: Counting, secret: KeyedRandomness | None
) -> Iterator[tuple[bytes, int]]:
    """Yield the pairs that are released, with their noisy counts."""
    if secret is None:
        noisy, released = counting.add_noise(np.fromiter(counts.values(), dtype=np.int64, count=len(counts)))
        for pair, count, is_released in zip(counts, noisy.tolist(), released.tolist(), strict=True):
            if is_released:
                yield pair, count
        return
    for pair, count in counts.items():
        keyed = counting.add_keyed_noise(count, release_randomness(secret, part_name(("item", pair))))
        if keyed is not None:
            yield pair, keyed


def _together(sums: dict[Any, SketchAccumulator]) -> Iterator[list[Any]]:
    """Yield the keys in groups that are small enough to draw their noise at once."""
    keys: list[Any] = []
    for key, accumulator in sums.items():
        keys.append(key)
        if len(keys) * accumulator.cells >= _COUNTERS:
            yield keys
            keys = []
    if keys:
        yield keys


def _run(secret: KeyedRandomness | None) -> bytes:
    return os.urandom(RUN_BYTES) if secret is None else name_run(secret)


def _name(key: Any, per_key: bool) -> bytes:
    return part_name(("key", key) if per_key else ())


def _secrets(keys: list[Any], per_key: bool, secret: KeyedRandomness | None) -> list[KeyedRandomness] | None:
    return None if secret is None else [release_randomness(secret, _name(key, per_key)) for key in keys]
