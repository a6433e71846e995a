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
from beam_dpsketch.engine.keys import choose_keys, find_chosen
from beam_dpsketch.engine.noising import Part, release_parts
from beam_dpsketch.engine.unreleased import spent_alone
from beam_dpsketch.frames.plan import FramePlan
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.terms import DeclaredTerms, ReleaseTerms
from beam_dpsketch.records.accumulator import SketchAccumulator
from beam_dpsketch.records.pairs import split_pair
from beam_dpsketch.statement.release_id import (
    DRAW_BYTES,
    RUN_BYTES,
    name_run,
    part_name,
    part_of_run,
    release_randomness,
)
from beam_dpsketch.statement.unreleased import Unreleased

_COUNTERS = 1 << 18  # whose noise is drawn at once


def release_sums(
    sums: dict[Any, SketchAccumulator], plan: FramePlan, secret: KeyedRandomness | None = None
) -> dict[Any, ReleasedSketch]:
    """Return the release of each key, or of the key `None`."""
    terms = plan.terms
    if plan.is_keyed and (choice := choose_keys(plan.declaration.spec, terms)) is not None and sums:
        votes = np.stack([each.votes for each in sums.values()])
        chosen = find_chosen(choice, votes, _secrets(plan, [*sums], secret)).tolist()
        sums = {key: sums[key] for key, is_chosen in zip(sums, chosen, strict=True) if is_chosen}
    run = _run(secret) if plan.is_keyed or secret is not None else None
    released: dict[Any, ReleasedSketch] = {}
    for keys in _together(sums):
        sketches = SketchAccumulator.to_sketches([sums[key] for key in keys])
        resolved = _terms_of(sums[keys[0]], terms)
        parts = [
            Part(sketch, sums[key].total_side[: len(resolved.counters)], _name(plan, key), run)
            for sketch, key in zip(sketches, keys, strict=True)
        ]
        released |= dict(
            zip(keys, cast(Any, release_parts(parts, resolved, _secrets(plan, keys, secret))), strict=True)
        )
    return released


def release_counts(
    counts: dict[bytes, int], plan: FramePlan, secret: KeyedRandomness | None = None
) -> dict[Any, ReleasedSketch]:
    """Return the grouped counts of each key, or of the key `None`: those above the threshold after the noise."""
    counting, run = Counting.of(plan.declaration.spec, plan.terms.resolved(None)), _run(secret)
    always = plan.declaration.public_keys or () if plan.is_keyed else ()
    rows: dict[bytes, list[tuple[bytes, int]]] = {encode(key): [] for key in always} if plan.is_keyed else {b"": []}
    for pair, noisy in _noisy_counts(counts, counting, secret):
        encoded, item = split_pair(pair, per_key=plan.is_keyed)
        rows.setdefault(encoded, []).append((item, noisy))
    released: dict[Any, ReleasedSketch] = {}
    for encoded, each in rows.items():
        key = decode(encoded) if plan.is_keyed else None
        if key is not None and not is_unicode(key):
            continue
        part = _name(plan, key)
        draw, source = os.urandom(DRAW_BYTES), Randomness.SYSTEM
        if secret is not None:
            draw, source = draw_of(each, release_randomness(secret, part)), Randomness.KEYED
        released[key] = counting.gather(each, part_of_run(run, part), draw, source)
    return released


def nothing_released(plan: FramePlan, secret: KeyedRandomness | None = None) -> Unreleased:
    """Return what was spent where no key was chosen."""
    source = Randomness.SYSTEM if secret is None else Randomness.KEYED
    return spent_alone(plan.declaration.spec, plan.terms.resolved(None), _run(secret), source)


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


def _terms_of(accumulator: SketchAccumulator, terms: DeclaredTerms) -> ReleaseTerms:
    """Return the terms; a norm that the data chose is the one that scaled what is in the accumulator."""
    return terms.resolved(accumulator.max_norm)


def _run(secret: KeyedRandomness | None) -> bytes:
    return os.urandom(RUN_BYTES) if secret is None else name_run(secret)


def _name(plan: FramePlan, key: Any) -> bytes:
    return part_name(("key", key) if plan.is_keyed else ())


def _secrets(plan: FramePlan, keys: list[Any], secret: KeyedRandomness | None) -> list[KeyedRandomness] | None:
    return None if secret is None else [release_randomness(secret, _name(plan, key)) for key in keys]
