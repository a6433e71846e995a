"""Keyed releases: equal calls are one release; calls that differ in anything have unrelated noise."""

from __future__ import annotations

import json
import pathlib
from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    IntegerDomain,
    PrefixTree,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.domains import TextDomain
from beam_dpsketch.privacy import discrete_gaussian
from beam_dpsketch.privacy.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.release import noising
from beam_dpsketch.sketches.prefix import PrefixSpec
from tests.helpers.noise_audit import audit
from tests.helpers.raw import raw_of

SECRET = b"a secret of more than thirty-two bytes"
GOLDEN = pathlib.Path(__file__).parents[1] / "vectors" / "keyed_noise.json"
SPEC = SketchSpec(depth=5, width=4096)
ITEMS = ["a"] * 900 + ["b"] * 100
KEYED = KeyedRandomness(SECRET, b"context")
PRIVACY = PrivacySpec(rho=0.01, relation=REPLACE_ONE)


def noise(raw=None, privacy=PRIVACY, keyed=KEYED, **terms):
    """The noise of one keyed release, in standard deviations."""
    raw = CountSketch(SPEC).accumulate(ITEMS) if raw is None else raw
    released = release(raw, ReleaseTerms(privacy, **terms), randomness=keyed)
    return (released.counters - raw.counters).ravel() / np.sqrt(float(released.privacy.sigma_squared))


def unrelated(first, second):
    """Whether two noises have a correlation of 0, within 6.5 / sqrt(n): false alarm below 1e-10.

    The first 64 are looked at alone, because uses of one stream for two sigmas run apart sooner or later.
    """
    return all(abs(np.corrcoef(first[:size], second[:size])[0, 1]) < 6.5 / np.sqrt(size) for size in (64, len(first)))


OTHERS = {
    "secret": {"keyed": KeyedRandomness(SECRET + b"!", b"context")},
    "context": {"keyed": KeyedRandomness(SECRET, b"contexts")},
    "sigma": {"privacy": PrivacySpec(rho=0.02, relation=REPLACE_ONE)},
    "a little less rho": {"privacy": PrivacySpec(rho=Fraction(1, 100) - Fraction(1, 10**12), relation=REPLACE_ONE)},
    "relation": {"privacy": PrivacySpec(rho=0.01, relation=ADD_OR_REMOVE_ONE)},
    "relation at the same sigma": {"privacy": PrivacySpec(rho=0.0025, relation=ADD_OR_REMOVE_ONE)},
    "bounds": {"bounds": RecordBounds(1, max_weight=2)},
    "signed": {"bounds": RecordBounds(1, signed=True)},
    "unit": {"unit": PrivacyUnit.PRIVACY_ID},
    "windows": {"window_count": 2},
    "windows at the same sigma": {"window_count": 4, "privacy": PrivacySpec(rho=0.04, relation=REPLACE_ONE)},
    "disclosed": {"disclosed": Disclosure.KEYS},
    "one counter": {"raw": CountSketch(SPEC).accumulate([*ITEMS, "c"])},
    "seed": {"raw": CountSketch(SketchSpec(depth=5, width=4096, seed=1)).accumulate(ITEMS)},
    "shape": {"raw": CountSketch(SketchSpec(depth=4, width=5120)).accumulate(ITEMS)},
    "kind": {"raw": raw_of(CountMin, SPEC).accumulate(ITEMS)},
}


@pytest.mark.parametrize("changed", OTHERS)
def test_whatever_changes_the_noise_is_unrelated(changed):
    assert unrelated(noise(), noise(**OTHERS[changed]))


@pytest.mark.parametrize("changed", ["sigma", "windows", "unit", "one counter", "kind"])
def test_the_test_finds_what_the_noise_does_not_depend_on(changed, monkeypatch):
    monkeypatch.setattr(noising, "_all_of", lambda raw, statement: b"forgotten")
    assert not unrelated(noise(), noise(**OTHERS[changed]))


def test_forgetting_sigma_would_give_the_counters_back():
    """Two releases of equal counters out of the same random bytes at two sigmas are solved for the counters."""
    raw = CountSketch(SketchSpec(depth=1, width=40)).accumulate(range(5000)).counters.ravel()
    narrow, wide = (
        raw + discrete_gaussian.sample(40, Fraction(sigma**2), random_bytes=KEYED.random_bytes(b"no sigma"))
        for sigma in (50, 100)
    )
    assert np.abs(2 * narrow - wide - raw).max() <= 1


RAW = {
    "count_min": lambda: CountMin(SketchSpec(kind="count_min", depth=3, width=8)).accumulate(ITEMS),
    "count_sketch": lambda: CountSketch(SketchSpec(depth=3, width=8)).accumulate(ITEMS),
    "dyadic": lambda: DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 999), 4000)).accumulate(range(500)),
    "prefix": lambda: PrefixTree(PrefixSpec.for_memory(TextDomain(3), 4000)).accumulate(ITEMS),
}


@pytest.mark.parametrize("kind", RAW)
def test_equal_calls_are_one_release(kind):
    first, second = (
        release(RAW[kind](), ReleaseTerms(PRIVACY), randomness=KeyedRandomness(SECRET, b"c")) for _ in range(2)
    )
    assert first.to_bytes() == second.to_bytes()
    assert first.privacy.randomness is Randomness.KEYED
    assert "keyed with a secret" in str(first.privacy)
    other = release(RAW[kind](), ReleaseTerms(PRIVACY), randomness=KeyedRandomness(SECRET, b"d"))
    assert not set(first.privacy.release_ids) & set(other.privacy.release_ids)
    assert (
        release(RAW[kind](), ReleaseTerms(PRIVACY)).to_bytes() != release(RAW[kind](), ReleaseTerms(PRIVACY)).to_bytes()
    )


def test_keyed_noise_is_the_discrete_gaussian_without_correlations():
    spec, privacy = SketchSpec(depth=4, width=8192), PrivacySpec(rho=0.5)
    raw = raw_of(CountMin, spec).accumulate(ITEMS)
    residuals = []
    for context in (b"first", b"second"):
        released = release(raw, ReleaseTerms(privacy), randomness=KeyedRandomness(SECRET, context))
        residuals.append((released.counters - raw.counters).ravel())
    assert audit(*residuals, released.privacy.sigma_squared) == set()
    assert "cross-correlation" in audit(residuals[0], residuals[0], released.privacy.sigma_squared)


def golden():
    """Noises of a fixed secret, by sigma^2."""
    return {
        str(value): discrete_gaussian.sample(
            8, Fraction(value), random_bytes=KEYED.random_bytes(f"golden {value}".encode())
        ).tolist()
        for value in ("1/4", "1", "7/3", "100", "1000003/7", "1000000000000", str(2**90))
    }


def test_the_noise_of_a_version_never_changes():
    """Where this fails, replays on workers of two package versions would differ: raise `NOISE_VERSION`."""
    assert noising.NOISE_VERSION == 2
    assert golden() == json.loads(GOLDEN.read_text())


def test_a_keyed_release_never_changes():
    raw = CountSketch(SketchSpec(depth=2, width=4)).accumulate(["a", "b"])
    released = release(raw, ReleaseTerms(PRIVACY), randomness=KeyedRandomness(SECRET, b"golden"))
    assert released.to_bytes().hex() == (GOLDEN.parent / "keyed_release.hex").read_text().strip()
