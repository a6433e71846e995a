"""Noisy releases from exact sketches: each table in a release is drawn once.

Guarantee: the release loses at most its terms, under the given neighboring relation, if no unit contributed more than
`terms.bounds` allow: rho-zCDP with Gaussian noise, or epsilon-DP with Laplace noise. Every call draws new noise from
system entropy and is another release. Call it once per sketch. With keyed randomness the noise is a function of the
secret, its context, all settings and all exact counters: equal calls are the same release, byte for byte, and calls
that differ in anything have unrelated noise. Omitting any of these would let two releases with the same counters share
noise and reveal the counters. The raw sketch does not change.

`Part` and `PartColumns` contain the components of a run before their noise, separately or in columns.
"""

from __future__ import annotations

import io
import itertools
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches import RawSketch
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.tables import NoisyTable, message, settings_of
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.drawing import round_off
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness, RandomBytes
from beam_dpsketch.privacy.terms import ReleaseTerms, RowTerms
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.notes import RowNote
from beam_dpsketch.statement.release_id import DRAW_BYTES, RELEASE_ID_BYTES, RUN_BYTES, part_of_run
from beam_dpsketch.statement.stated import Stated


class Part(NamedTuple):
    """Component of a run (a key or window), before its noise.

    Attributes:
      raw: the sketch over all data in the component.
      side: the exact summary counts in `ReleaseTerms.counters`, int64, in units of 2**-scale_bits, followed by the
        clipping histogram if it is counted per release.
      name: result of `part_name` for the component.
      run: 16 bytes, unique to a run of a transform. They are the caller's promise that the bounds cover all its
        releases together. For a timeline row, they name its timeline. `None` makes the release a separate run.
    """

    raw: RawSketch
    side: np.ndarray
    name: bytes = b""
    run: bytes | None = None


class PartColumns(NamedTuple):
    """Components of a run, before their noise, in columns with the fields of `Part`.

    Attributes:
      kind: class of their sketches with `spec`, which count in units of 2**-scale_bits.
      spec: see `kind`.
      scale_bits: see `kind`.
      counters: the exact counters, int64, shape (parts, spec.cells).
      side: the side values, int64, shape (parts, numbers).
      names: name of each component.
      runs: run of each component.
    """

    kind: type[RawSketch]
    spec: Any
    scale_bits: int
    counters: np.ndarray
    side: np.ndarray
    names: Sequence[bytes]
    runs: Sequence[bytes | None]

    @classmethod
    def of(cls, parts: Sequence[Part], terms: ReleaseTerms) -> PartColumns:
        """Convert components to columns, or raise if they do not match the terms or each other."""
        for part in parts:
            checked(part.raw, parts[0].raw, terms)
        first = parts[0].raw
        return cls(
            type(first),
            first.spec,
            first.scale_bits,
            np.stack([part.raw.to_vector() for part in parts]),
            np.stack([part.side for part in parts]),
            [part.name for part in parts],
            [part.run for part in parts],
        )

    def alone(self, place: int) -> PartColumns:
        """Select a single component."""
        one = slice(place, place + 1)
        return self._replace(
            counters=self.counters[one], side=self.side[one], names=self.names[one], runs=self.runs[one]
        )


def checked(raw: RawSketch, first: RawSketch, terms: ReleaseTerms) -> RawSketch:
    """Validate a raw sketch against the terms and the kind of the first sketch."""
    _validate.instance(RawSketch, raw=raw)
    if raw.is_weighted and not terms.bounds.says_max_weight:
        raise ArgumentError(
            "bounds", "must set max_weight for a sketch with weights, for example $records_of_weights", "E203"
        )
    if raw.scale_bits != terms.scale_bits:
        raise ArgumentError(
            "raw",
            "must have weights that match the bounds. $NormBound scales them, which only transforms do; $RecordBounds "
            "does not scale them",
            "E617",
        )
    if type(raw) is not type(first) or raw.spec != first.spec:
        raise ValueError("parts must have the same kind and spec")
    return raw


Secret: TypeAlias = KeyedRandomness | None


def release_parts(
    parts: Sequence[Part] | PartColumns,
    calibration: Calibration,
    randomness: Sequence[KeyedRandomness] | None = None,
    *,
    row: int | None = None,
    lost: LostNote | None = None,
) -> NoisyReleases:
    """Release components, each with independent noise, and compute common results once.

    Args:
      parts: components of the same kind, with the calibration's spec, in columns or separately.
      calibration: noise and terms. A budget share pays for a single component.
      randomness: the secret for each component. `None` uses system entropy.
      row: this timeline row's number under `RowTerms`, otherwise `None`.
      lost: the run's noisy clipping histogram. `None` if it is counted per release, or absent.
    """
    terms = calibration.terms
    if calibration.lost_is_of_run and lost is None:
        raise ValueError("lost must be the clipping histogram of the run, whose noise is drawn once for all releases")
    lost = calibration.empty_lost if lost is None else lost
    exact = parts if isinstance(parts, PartColumns) else PartColumns.of(parts, terms)
    if terms.norm is not None:
        raise ArgumentError("bounds", "must be $NormBound. Only transforms support $AutoNorm", "E218")
    for _ in exact.names[:2]:  # raises for the second component
        terms.privacy.paying_for(object())
    note = None
    bits, drowned = calibration.counters[0].grid_bits, tables.drowned(calibration.counters, terms.squared_unit)
    if isinstance(terms, RowTerms):
        assert row is not None
        note = RowNote(terms.mechanism, row, max(drowned - bits, 0))
    else:
        drowned = min(exact.scale_bits + bits, drowned)
    statement = Stated.of(
        terms,
        calibration.per_table,
        randomness=Randomness.of(None if randomness is None else randomness[0]),
        release_id=bytes(RELEASE_ID_BYTES),
        side=calibration.notes,
        lost=lost,
        keys=calibration.note,
        over_time=note,
        uncounted=calibration.spec.uncounted,
    )
    if randomness is None:
        drawn = [_draw(exact, calibration, os.urandom)]
    else:
        choice = None if calibration.choice is None else calibration.choice.deciding
        found = (*calibration.of_release, *calibration.counters)
        settings = settings_of(found, exact.spec, terms.for_noise(), choice, lost)
        drawn = [
            _draw(part, calibration, keyed.random_bytes(_message(part, settings, row)))
            for number, keyed in zip(range(len(exact.names)), randomness, strict=True)
            for part in [exact.alone(number)]
        ]
    release_ids, side, counters = zip(*drawn, strict=True)
    return NoisyReleases(
        exact.spec,
        statement,
        exact.scale_bits + bits - drowned + (note.dropped_bits if note else 0),
        release_ids=list(itertools.chain(*release_ids)),
        side=np.concatenate(side),
        counters=round_off(np.concatenate(counters), drowned),
    )


def draw_lost(exact: np.ndarray, calibration: Calibration, randomness: Secret = None) -> list[int]:
    """Add noise to the run's clipping histogram, for `LostNote.with_values`. Each call is another release.

    Args:
      exact: the histogram counts, followed by the clipped weight, int64.
      calibration: calibration of the run's releases.
      randomness: the secret for the noise. `None` uses system entropy.
    """
    if not calibration.lost_is_of_run:
        raise ValueError("calibration must include a clipping histogram per run")
    random_bytes: RandomBytes = os.urandom
    if randomness is not None:
        settings = settings_of(calibration.lost, calibration.spec, calibration.terms.for_noise())
        random_bytes = randomness.random_bytes(message("lost", settings, [exact]))
    return _draw_columns(exact[np.newaxis], calibration.lost, random_bytes)[0].tolist()


def _draw(parts: PartColumns, calibration: Calibration, random_bytes: RandomBytes) -> tuple[Any, ...]:
    """Draw the release ids, noisy summary counts and noisy counters, in the order that keyed noise requires."""
    fresh = io.BytesIO(random_bytes(sum(DRAW_BYTES if run else RUN_BYTES + DRAW_BYTES for run in parts.runs)))
    ids = [
        part_of_run(run or fresh.read(RUN_BYTES), name) + fresh.read(DRAW_BYTES)
        for run, name in zip(parts.runs, parts.names, strict=True)
    ]
    side, found = _draw_columns(parts.side, calibration.of_release, random_bytes), calibration.counters
    exact = parts.kind.many_to_release(parts.spec, parts.counters, found[0].grid_bits)
    noisy = [table.draw(each, random_bytes).reshape(len(ids), -1) for table, each in zip(found, exact, strict=True)]
    return ids, side, np.concatenate(noisy, axis=1)


def _draw_columns(exact: np.ndarray, found: Sequence[NoisyTable], random_bytes: RandomBytes) -> np.ndarray:
    """Add noise to side values, int64, shape (parts, numbers), drawing the columns of each table together."""
    ends = [*itertools.accumulate((table.size or 0 for table in found), initial=0)]
    if exact.shape[1] != ends[-1]:
        raise ValueError("side must have a column for each number in the tables")
    if not found:
        return exact.copy()
    columns = [np.ascontiguousarray(each) for each in np.split(exact, ends[1:-1], axis=1)]
    noisy = [table.draw(each, random_bytes) for table, each in zip(found, columns, strict=True)]
    return np.concatenate(noisy, axis=1)


def _message(part: PartColumns, settings: bytes, row: int | None) -> bytes:
    place = (part.runs[0] or b"", part.names[0], *(() if row is None else (row,)))
    return message("release", settings, [part.side[0], part.counters[0]], place)
