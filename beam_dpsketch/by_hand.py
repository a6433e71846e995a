"""Releases without a transform, for sketches that were made and merged by hand.

Guarantee: the same as in `noise.noising`, for the unit and the bounds in the terms. The caller must enforce the bounds.
Each call is a further release.
"""

from __future__ import annotations

import os
from typing import overload

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.batch import answers_of
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.flat import ReleasedCountMin, ReleasedCountSketch
from beam_dpsketch.answers.released import Released
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.sketches import CountMin, CountSketch, RawSketch
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.exact.sketches.trees import DyadicCountSketch
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import Part, Secret, checked, release_parts
from beam_dpsketch.planning.suiting import decided
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.release_id import RUN_BYTES


@overload
def release(raw: CountMin, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedCountMin: ...
@overload
def release(raw: CountSketch, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedCountSketch: ...
@overload
def release(raw: ListedHistogram, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedListedItems: ...
@overload
def release(raw: DyadicCountSketch, terms: ReleaseTerms, randomness: Secret = ...) -> ReleasedDyadicCountSketch: ...
@overload
def release(raw: RawSketch, terms: ReleaseTerms, randomness: Secret = ...) -> Released: ...
@_validate.explained
def release(raw: RawSketch, terms: ReleaseTerms, randomness: Secret = None) -> Released:
    """Add noise to a raw sketch and return the release.

    Args:
      raw: the sketch of all the data.
      terms: privacy loss, privacy unit and contribution bounds.
      randomness: the secret for noise and release id. `None` uses the entropy of the system.

    >>> from beam_dpsketch import CountSketch, PrivacySpec, SketchSpec
    >>> raw = CountSketch(SketchSpec(width=64)).accumulate(["a"] * 900 + ["b"] * 100)
    >>> released = release(raw, ReleaseTerms(PrivacySpec(rho=1.0)))
    >>> [frequency.item for frequency in released.top_k(1, ["a", "b", "c"])]
    ['a']
    """
    _validate.instance(ReleaseTerms, terms=terms)
    _validate.instance(RawSketch, raw=raw)
    if randomness is not None:
        _validate.instance(KeyedRandomness, randomness=randomness)
    if terms.selection is not None:
        raise ArgumentError(
            "selection", "must be None. Only transforms select keys, for example with $keys_KeySelection", "E318"
        )
    terms = decided(raw.spec, terms.without_summary_counts())
    run = None
    if (bill := terms.bill({"kind": type(raw).__name__})) is not None:
        Calibration.of(checked(raw, raw, terms).spec, terms)  # raises an error before the payment
        run, terms = os.urandom(RUN_BYTES), terms.without_budget()
        bill.pay(run)
    return release_part(raw, np.zeros(0, dtype=np.int64), terms, randomness, run=run)


def release_part(
    raw: RawSketch,
    side: np.ndarray,
    terms: ReleaseTerms,
    randomness: Secret = None,
    *,
    run: bytes | None = None,
    part: bytes = b"",
) -> Released:
    """Release a `Part` of a run. `part` is its `part_name`."""
    secrets = None if randomness is None else [randomness]
    calibration = Calibration.of(checked(raw, raw, terms).spec, terms)
    (released,) = answers_of(release_parts([Part(raw, side, part, run)], calibration, secrets))
    assert isinstance(released, Released)
    return released
