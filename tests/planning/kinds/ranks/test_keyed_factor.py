"""Keyed releases of a factor: the same counters always give the same bytes, and other counters give other noise."""

from __future__ import annotations

import pathlib
from fractions import Fraction

import numpy as np

from beam_dpsketch import FactorizationSpec, IntegerDomain, PrivacySpec, Released, ReleaseTerms, release
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness

GOLDEN = pathlib.Path(__file__).parents[3] / "vectors" / "keyed_factor_release.hex"
SPEC = FactorizationSpec(IntegerDomain(-3, 12))


def released_of(*values: int) -> Released:
    terms = ReleaseTerms(PrivacySpec(rho=Fraction(1, 3)))
    keyed = KeyedRandomness(b"a secret of thirty-two bytes ...", b"golden")
    return release(FactorHistogram(SPEC).accumulate(values), terms, randomness=keyed)


def test_a_keyed_release_never_changes() -> None:
    """Where this fails, replays on workers of two package versions would differ: raise `NOISE_VERSION`."""
    assert released_of(0, 0, 7).to_bytes().hex() == GOLDEN.read_text().strip()


def test_other_counters_have_other_noise_even_where_rows_are_equal() -> None:
    """Rows before a value are 0 with and without it."""
    one, other = released_of(11), released_of(12)
    assert not np.any(np.equal(one.counters[:-2], other.counters[:-2]))
