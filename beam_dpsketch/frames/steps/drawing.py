"""Exact sums of a table to noisy releases; `read` makes of their numbers what the caller answers from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from beam_dpsketch.engine.calibration import Calibration
from beam_dpsketch.engine.counting import Counting
from beam_dpsketch.engine.run import Place, Run, Sum
from beam_dpsketch.frames.steps.sums import ExactLost
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.records.groups import Row, split_pair
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.sums.accumulator import SketchAccumulator
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
