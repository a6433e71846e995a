"""Raw sketch to released sketch: the one place where noise is drawn.

Guarantee: the release is rho-zCDP for the given neighbouring relation, if no unit contributed more than `bounds`
allow. Every call draws new noise from the operating system's entropy and is one more release: call it once for
each sketch. With `keyed` randomness the noise is a function of the secret, its context, all settings and all exact
counters: equal calls are one release, byte for byte, and calls that differ in anything have unrelated noise. Were any
of them left out, two releases of equal counters that differ in it would give the counters away. The raw sketch is left
as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.hashing.encodings import encode
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import DEFAULT_BOUNDS, ContributionBounds, PrivacyUnit, check_unit_fits_bounds
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.mechanism import Randomness, add_noise, sigma_squared
from beam_dpsketch.privacy.sensitivity import squared_l2_sensitivity, squared_l2_sensitivity_over_time
from beam_dpsketch.release.count_min import ReleasedCountMin
from beam_dpsketch.release.count_sketch import ReleasedCountSketch
from beam_dpsketch.release.format.release_format import pack
from beam_dpsketch.release.release_id import DRAW_BYTES, RUN_BYTES, part_of_run
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.statement import Disclosure, PrivacyStatement
from beam_dpsketch.release.tree.dyadic import ReleasedDyadicCountSketch
from beam_dpsketch.release.tree.prefix import ReleasedPrefixTree
from beam_dpsketch.sketches import RawSketch

NOISE_VERSION = 2
"""Of what turns random bytes into noise; another version of a keyed release is another release."""

_RELEASED: dict[type[RawSketch], type[ReleasedSketch]] = {
    kind.raw_type: kind
    for kind in (ReleasedCountMin, ReleasedCountSketch, ReleasedDyadicCountSketch, ReleasedPrefixTree)
}


def release(
    raw: RawSketch,
    privacy: PrivacySpec,
    *,
    bounds: ContributionBounds | None = None,
    unit: PrivacyUnit = PrivacyUnit.RECORD,
    windows: int = 1,
    disclosed: Disclosure = Disclosure.NONE,
    period_micros: int = 0,
    keyed: KeyedRandomness | None = None,
    run: bytes | None = None,
    part: bytes = b"",
) -> ReleasedSketch:
    """Adds noise to a raw sketch and returns what may be published.

    Args:
      raw: the sketch of all the data.
      privacy: what the release may spend; taken from a budget, it pays for one call.
      bounds: what one unit contributed at most; here the caller's promise, which the transforms enforce. May be left
        out if no weights were accumulated: one record of weight 1.
      unit: whose presence is hidden.
      windows: releases (windows) that one unit can reach; rho covers all of them. If the unit is one over a horizon,
        the raw sketch is one node of a binary tree over time, and this is the number of windows of the horizon.
      disclosed: what is published beside the release, for the statement.
      period_micros: how long a period is, if the unit is one within a period: then it can reach so many windows there.
      keyed: the secret that noise and release id are made from; `None` takes the system's entropy.
      run: 16 bytes for all releases of one run of a transform, and for no other: the caller's promise that the bounds
        hold over all of them together. `None` makes this release a run of its own.
      part: the name of this release within its run; see `part_name`.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, SketchSpec
    >>> raw = CountSketch(SketchSpec(depth=5, width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> released = release(raw, PrivacySpec(rho=1.0))
    >>> [frequency.item for frequency in released.top_k(["a", "b", "c"], k=1)]
    ['a']
    """
    _validate.instance(RawSketch, raw=raw)
    _validate.instance(PrivacySpec, privacy=privacy)
    if bounds is None:
        if raw.is_weighted:
            raise ValueError("bounds must be given for a sketch with weights: ContributionBounds(max_weight=...)")
        bounds = DEFAULT_BOUNDS
    _validate.instance(ContributionBounds, bounds=bounds)
    _validate.instance(PrivacyUnit, unit=unit)
    check_unit_fits_bounds(unit, bounds)
    noise = calibrate(type(raw), raw.spec, privacy, bounds=bounds, unit=unit, windows=windows)
    privacy = privacy.paying_for(object())
    statement = PrivacyStatement(
        rho=privacy.rho,
        sigma_squared_per_level=noise,
        neighboring=privacy.neighboring,
        unit=unit,
        bounds=bounds,
        windows=windows,
        disclosed=disclosed,
        period_micros=period_micros,
        randomness=Randomness.SYSTEM if keyed is None else Randomness.KEYED,
        shown_delta=privacy.shown_delta,
        release_ids=(part_of_run(run or bytes(RUN_BYTES), part) + bytes(DRAW_BYTES),),
    )
    random_bytes = os.urandom if keyed is None else keyed.random_bytes(_all_of(raw, statement))
    release_id = part_of_run(run or random_bytes(RUN_BYTES), part) + random_bytes(DRAW_BYTES)
    statement = dataclasses.replace(statement, release_ids=(release_id,))
    add = add_noise if keyed is None else functools.partial(add_noise, random_bytes=random_bytes)
    noisy = [add(counters, variance) for counters, variance in zip(raw.counter_tables(), noise, strict=True)]
    return _RELEASED[type(raw)](raw.spec, np.concatenate(noisy, axis=None), statement)


def _all_of(raw: RawSketch, statement: PrivacyStatement) -> bytes:
    """All that must be equal for the noise to be equal: its version, kind, spec, exact counters, and the statement."""
    return encode(("noise", NOISE_VERSION, pack(raw.name, raw.spec, raw.to_vector(), statement)))


def calibrate(
    kind: type[RawSketch],
    spec: Any,
    privacy: PrivacySpec,
    *,
    bounds: ContributionBounds,
    unit: PrivacyUnit = PrivacyUnit.RECORD,
    windows: int = 1,
) -> tuple[Fraction, ...]:
    """The noise parameter sigma^2 of each table in a release of such a sketch; refuses settings that cannot work."""
    sensitivity = squared_l2_sensitivity_over_time if unit.over_horizon else squared_l2_sensitivity
    return tuple(
        sigma_squared(
            squared_sensitivity=sensitivity(
                cells_per_item=table.cells_per_item,
                has_signs=table.has_signs,
                bounds=bounds,
                neighboring=privacy.neighboring,
                windows=windows,
            ),
            rho=privacy.rho * table.share,
        )
        for table in kind.tables(spec)
    )
