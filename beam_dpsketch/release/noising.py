"""Raw sketch to released sketch: the one place where noise is drawn.

Guarantee: the release is rho-zCDP for the given neighbouring relation, if no unit contributed more than `terms.bounds`
allow. Every call draws new noise from the operating system's entropy and is one more release: call it once for
each sketch. With keyed randomness the noise is a function of the secret, its context, all settings and all exact
counters: equal calls are one release, byte for byte, and calls that differ in anything have unrelated noise. If one
were left out, two releases of the same counters that differ only in it would share noise and reveal the counters. The
raw sketch does not change.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.mechanism import Randomness, add_noise, sigma_squared
from beam_dpsketch.privacy.norm_bounding import drowned_bits, round_off
from beam_dpsketch.privacy.sensitivity import squared_l2_sensitivity, squared_l2_sensitivity_over_time
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.release.choosing.keys import choose_keys, sketch_share
from beam_dpsketch.release.flat.count_min import ReleasedCountMin
from beam_dpsketch.release.flat.count_sketch import ReleasedCountSketch
from beam_dpsketch.release.flat.listed_items import ReleasedListedItems
from beam_dpsketch.release.format.release_format import pack
from beam_dpsketch.release.release_id import DRAW_BYTES, RUN_BYTES, part_of_run
from beam_dpsketch.release.released_sketch import KINDS, ReleasedSketch
from beam_dpsketch.release.side.notes import SideNote
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.release.tree.dyadic import ReleasedDyadicCountSketch
from beam_dpsketch.release.tree.prefix import ReleasedPrefixTree
from beam_dpsketch.sketches import CountMin, CountSketch, RawSketch, raw_type
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.listed_items import ListedHistogram
from beam_dpsketch.sketches.prefix import PrefixTree

Secret: TypeAlias = KeyedRandomness | None

# The version of what turns random bytes into noise; another version of a keyed release is another release.
NOISE_VERSION = 4


@overload
def release(raw: CountMin, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedCountMin: ...
@overload
def release(raw: CountSketch, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedCountSketch: ...
@overload
def release(raw: ListedHistogram, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedListedItems: ...
@overload
def release(raw: DyadicCountSketch, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedDyadicCountSketch: ...
@overload
def release(raw: PrefixTree, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedPrefixTree: ...
@overload
def release(raw: RawSketch, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedSketch: ...
def release(raw: RawSketch, terms: ReleaseTerms, randomness: Secret = None) -> ReleasedSketch:
    """Add noise to a raw sketch and return what may be published.

    Args:
      raw: the sketch of all the data.
      terms: what the release spends, whom it protects, and how much of each unit it holds.
      randomness: the secret that noise and release id are made from; `None` takes the entropy of the system.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, SketchSpec
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0)))
    >>> [frequency.item for frequency in released.top_k(1, ["a", "b", "c"])]
    ['a']
    """
    _validate.instance(ReleaseTerms, terms=terms)
    if terms.selection is not None:
        raise ValueError("selection must be None: only transforms choose keys, as with PerKey(keys=KeySelection(...))")
    return release_part(raw, np.zeros(0, dtype=np.int64), terms.without_side_counters(), randomness)


def release_part(
    raw: RawSketch,
    side: np.ndarray,
    terms: ReleaseTerms,
    randomness: Secret = None,
    *,
    run: bytes | None = None,
    part: bytes = b"",
) -> ReleasedSketch:
    """Do what `release` does, for one of several releases of a run, whose `part_name` is `part`.

    `side` has the exact number of each of `terms.counters`, int64, in units of 2**-scale_bits.

    `run` is 16 bytes for all releases of one run of a transform, and for no other: the caller's promise that the bounds
    hold over all of them together. `None` makes this release a run of its own.
    """
    _validate.instance(RawSketch, raw=raw)
    if raw.is_weighted and not terms.bounds.says_max_weight:
        raise ValueError("bounds must say max_weight for a sketch with weights, as in RecordBounds(1, max_weight=100)")
    if isinstance(terms.bounds, AutoNorm):
        raise ValueError("bounds must be a NormBound: only a transform chooses the norm of AutoNorm()")
    if raw.scale_bits != terms.scale_bits:
        raise ValueError(
            "raw must hold weights as its bounds make them: a NormBound scales them, which only transforms do, and "
            "RecordBounds leave them whole"
        )
    noise, privacy = calibrate(raw.spec, terms), terms.privacy.paying_for(object())
    statement = PrivacyStatement(
        rho=privacy.rho,
        sigma_squared_per_level=noise,
        relation=privacy.relation,
        unit=terms.unit,
        bounds=terms.bounds,
        window_count=terms.window_count,
        disclosed=terms.disclosed,
        period_micros=terms.period_micros,
        randomness=Randomness.SYSTEM if randomness is None else Randomness.KEYED,
        shown_delta=privacy.shown_delta,
        release_ids=(part_of_run(run or bytes(RUN_BYTES), part) + bytes(DRAW_BYTES),),
        side=_notes(np.zeros_like(side), terms),
        norm_spend=terms.norm_spend,
        delta=terms.delta,
        keys=None if (choice := choose_keys(raw.spec, terms)) is None else choice.note,
    )
    random_bytes = os.urandom if randomness is None else randomness.random_bytes(_all_of(raw, side, statement))
    release_id = part_of_run(run or random_bytes(RUN_BYTES), part) + random_bytes(DRAW_BYTES)
    add = add_noise if randomness is None else functools.partial(add_noise, random_bytes=random_bytes)
    scale = 4**raw.scale_bits
    variances = [note.sigma_squared * scale for note in statement.side]
    noisy = [add(exact, variance)[0] for exact, variance in zip(side[:, np.newaxis], variances, strict=True)]
    statement = dataclasses.replace(statement, release_ids=(release_id,), side=_notes(noisy, terms))
    counters = np.concatenate(
        [add(table, variance * scale) for table, variance in zip(raw.counter_tables(), noise, strict=True)], axis=None
    )
    drowned = min(raw.scale_bits, drowned_bits(noise))
    return KINDS[raw.name](raw.spec, round_off(counters, drowned), statement, raw.scale_bits - drowned)


def _all_of(raw: RawSketch, side: np.ndarray, statement: PrivacyStatement) -> bytes:
    """Return all that must be equal for equal noise: its version, kind, spec, exact counters, and the statement."""
    packed = pack(raw.name, raw.spec, raw.to_vector(), statement, raw.scale_bits)
    return encode(("noise", NOISE_VERSION, packed, *side.tolist()))


def _notes(values: Iterable[Any], terms: ReleaseTerms) -> tuple[SideNote, ...]:
    """Return the notes of a release whose side counters have these values."""
    return tuple(
        SideNote(
            names=counter.names,
            share=counter.share,
            squared_limit=counter.squared_limit,
            sigma_squared=variance,
            value=int(value),
            scale_bits=terms.scale_bits,
        )
        for counter, variance, value in zip(terms.counters, calibrate_side(terms), values, strict=True)
    )


def calibrate_side(terms: ReleaseTerms) -> tuple[Fraction, ...]:
    """Return the noise parameter sigma^2 of each side counter, in records; refuse settings that cannot work."""
    return tuple(
        counter.sigma_squared(
            terms.privacy.rho,
            terms.privacy.relation,
            one_cell=terms.one_cell,
            window_count=terms.window_count,
            scale_bits=terms.scale_bits,
        )
        for counter in terms.counters
    )


def calibrate(spec: Any, terms: ReleaseTerms) -> tuple[Fraction, ...]:
    """Return the noise parameter sigma^2 of each table in a release, in records; refuse settings that cannot work."""
    sensitivity = functools.partial(
        squared_l2_sensitivity_over_time if terms.unit.over_horizon else squared_l2_sensitivity,
        bounds=terms.bounds,
        relation=terms.privacy.relation,
        window_count=terms.window_count,
    )
    part = sketch_share(spec, terms)
    found = tuple(
        sigma_squared(
            squared_sensitivity=sensitivity(cells_per_item=cells, has_signs=signs),
            rho=terms.privacy.rho,
            share=part * share,
            scale_bits=terms.scale_bits,
        )
        for cells, signs, share in raw_type(spec).tables(spec)
    )
    calibrate_side(terms)
    return found
