"""Raw sketch to released sketch: the one place where noise is drawn.

Guarantee: the release loses what its terms say, for the given neighbouring relation, if no unit contributed more than
`terms.bounds` allow: rho-zCDP by Gaussian noise, or epsilon-DP by Laplace noise. Every call draws new noise from the
operating system's entropy and is one more release: call it once for each sketch. With keyed randomness the noise is a
function of the secret, its context, all settings and all exact counters: equal calls are one release, byte for byte,
and calls that differ in anything have unrelated noise. If one were left out, two releases of the same counters that
differ only in it would share noise and reveal the counters. The raw sketch does not change.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from beam_dpsketch.engine.calibration import Calibration, empty_note
from beam_dpsketch.engine.parts import Part, PartColumns
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.hashing.encodings import canonical, encode
from beam_dpsketch.privacy.aside.lost_histogram import Uncounted
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.drawing import add_noise, add_whole_noise, drowned_bits, round_off
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.noise.random_words import RandomBytes
from beam_dpsketch.privacy.terms import ReleaseTerms, RowTerms
from beam_dpsketch.statement.format.release_format import pack
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.notes import RowNote
from beam_dpsketch.statement.release_id import DRAW_BYTES, RELEASE_ID_BYTES, RUN_BYTES, part_of_run
from beam_dpsketch.statement.side_notes import SideNote
from beam_dpsketch.statement.stated import Stated

Secret: TypeAlias = KeyedRandomness | None

# The version of what turns random bytes into noise; another version of a keyed release is another release.
NOISE_VERSION = 9


def release_parts(
    parts: Sequence[Part] | PartColumns,
    calibration: Calibration,
    randomness: Sequence[KeyedRandomness] | None = None,
    *,
    row: int | None = None,
    lost: LostNote | None = None,
) -> NoisyReleases:
    """Release one or more parts, each with noise of its own; what is equal for all is worked out once.

    Args:
      parts: all of one kind, and of the spec of the calibration; in columns, or one by one.
      calibration: the noise and the terms of each. What is taken from a budget pays for one part.
      randomness: the secret of each part; `None` takes the entropy of the system.
      row: the number of this row over time, under `RowTerms`; else `None`.
      lost: the noisy histogram of lost weight of the run; `None` if each release has its own, or none.
    """
    terms, noise = calibration.terms, calibration.per_table
    lost = calibration.lost if lost is None else lost
    if lost is not None and lost.of_run and lost is calibration.lost:
        raise ValueError("lost must be the histogram of the run, whose noise is drawn once for all of its releases")
    exact = parts if isinstance(parts, PartColumns) else PartColumns.of(parts, terms)
    terms.bounds.given(
        ArgumentError("bounds", "must be a $NormBound: only a transform chooses the norm of $AutoNorm", "E218")
    )
    for _ in exact.names[:2]:  # the second is refused
        terms.privacy.paying_for(object())
    note = None
    bits = terms.grid_bits(min(noise))
    drowned = drowned_bits(noise, terms.squared_unit * 4**bits, bits)
    if isinstance(terms, RowTerms):
        assert row is not None
        note = RowNote(terms.mechanism, row, max(drowned - bits, 0))
    else:
        drowned = min(exact.scale_bits + bits, drowned)
    statement = Stated.of(
        terms,
        noise,
        randomness=Randomness.SYSTEM if randomness is None else Randomness.KEYED,
        release_id=bytes(RELEASE_ID_BYTES),
        side=_notes(calibration),
        lost=lost,
        keys=calibration.note,
        over_time=note,
        uncounted=calibration.spec.uncounted,
    )
    if randomness is None:
        drawn = [_draw(exact, statement, bits, terms, os.urandom)]
    else:
        drawn = [
            _draw(part, statement, bits, terms, keyed.random_bytes(_all_of(part, _placed(statement, part))))
            for place, keyed in zip(range(len(exact.names)), randomness, strict=True)
            for part in [exact.alone(place)]
        ]
    release_ids, side, counters = zip(*drawn, strict=True)
    return NoisyReleases(
        exact.kind.name,
        exact.spec,
        statement,
        exact.scale_bits + bits - drowned + (note.dropped_bits if note else 0),
        release_ids=list(itertools.chain(*release_ids)),
        side=np.concatenate(side),
        counters=round_off(np.concatenate(counters), drowned),
    )


def draw_lost(exact: np.ndarray, calibration: Calibration, randomness: Secret = None) -> list[int]:
    """Add noise to what a run lost, as `LostNote.with_values` takes it. Each call is one more release.

    Args:
      exact: the counts of the histogram, and then the weight kept, int64.
      calibration: that of the releases of the run.
      randomness: the secret that the noise is made from; `None` takes the entropy of the system.
    """
    terms, lost, random_bytes = calibration.terms, calibration.lost, os.urandom
    assert lost is not None
    if randomness is not None:
        settings = canonical((calibration.spec, terms.for_noise(), lost))
        message = encode(("lost", NOISE_VERSION, settings, exact.astype("<i8").tobytes()))
        random_bytes = randomness.random_bytes(message)
    exact_counts = exact[: len(lost.counts)]
    counts = add_whole_noise(exact_counts, lost.sigma_squared, noise=lost.noise, random_bytes=random_bytes)
    kept = [] if lost.kept is None else _on_grid(exact[len(counts) :], lost.kept, terms, random_bytes).tolist()
    return [*counts.tolist(), *kept]


def _on_grid(exact: np.ndarray, note: SideNote, terms: ReleaseTerms, random_bytes: RandomBytes) -> np.ndarray:
    """Return a side counter with noise, int64, on the grid that its note says."""
    bits, variance = note.scale_bits - terms.scale_bits, note.sigma_squared * terms.squared_unit
    return add_noise(exact, variance, bits, noise=note.noise, random_bytes=random_bytes)


def _draw(
    parts: PartColumns, statement: Stated, bits: int, terms: ReleaseTerms, random_bytes: RandomBytes
) -> tuple[Any, ...]:
    """Return the release id of each part, its noisy side counters and noisy counters; keyed noise needs this order."""
    fresh = io.BytesIO(random_bytes(sum(DRAW_BYTES if run else RUN_BYTES + DRAW_BYTES for run in parts.runs)))
    ids = [
        part_of_run(run or fresh.read(RUN_BYTES), name) + fresh.read(DRAW_BYTES)
        for run, name in zip(parts.runs, parts.names, strict=True)
    ]
    side, notes, lost = parts.side.copy(), statement.side, statement.lost
    for column, note in zip(side.T[: len(notes)], notes, strict=True):
        column[:] = _on_grid(column.copy(), note, terms, random_bytes)
    if lost is not None and not lost.of_run:
        counts = np.ascontiguousarray(side[:, len(notes) :])
        side[:, len(notes) :] = add_whole_noise(counts, lost.sigma_squared, noise=lost.noise, random_bytes=random_bytes)
    facts, tables = parts.kind.tables(parts.spec), parts.kind.many_to_release(parts.spec, parts.counters, bits)
    noisy = []
    for fact, table, parameter in zip(facts, tables, statement.sigma_squared_per_level, strict=True):
        variance = parameter * terms.squared_unit * fact.squared_amount
        drawn = add_noise(table, variance, bits, noise=terms.noise, random_bytes=random_bytes)
        noisy.append(round_off(drawn, fact.dropped_bits).reshape(len(ids), -1))
    return ids, side, np.concatenate(noisy, axis=1)


def _placed(statement: Stated, part: PartColumns) -> Stated:
    """Return the statement with what is known of the id of the one release before the draw."""
    known = part_of_run(part.runs[0] or bytes(RUN_BYTES), part.names[0])
    return dataclasses.replace(statement, release_ids=(known + bytes(DRAW_BYTES),))


def _all_of(part: PartColumns, statement: Stated) -> bytes:
    """Return all that must be equal for equal noise: its version, kind, spec, exact counters, and the statement.

    What is never counted is left out, as `ReleaseTerms.for_noise` does.
    """
    alike = dataclasses.replace(statement, uncounted=Uncounted.NOTHING)
    packed = pack(part.kind.name, part.spec, part.counters[0], alike, part.scale_bits)
    return encode(("noise", NOISE_VERSION, packed, *part.side[0].tolist()))


def _notes(calibration: Calibration) -> tuple[SideNote, ...]:
    """Return the notes of a release whose side counters are 0."""
    terms = calibration.terms
    return tuple(
        empty_note(counter, variance, terms) for counter, variance in zip(terms.counters, calibration.side, strict=True)
    )
