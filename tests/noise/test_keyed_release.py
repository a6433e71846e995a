"""Keyed releases: equal calls are one release, and its noise never changes. What it depends on: `test_draws.py`."""

from __future__ import annotations

import json
import pathlib
from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    IntegerDomain,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.by_hand import release_part
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import draw_lost
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise import discrete_gaussian, discrete_laplace
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.summary_counts import LostIn, SummaryCounts
from tests.helpers.noise_audit import audit
from tests.helpers.raw import raw_of

SECRET = b"a secret of more than thirty-two bytes"
GOLDEN = pathlib.Path(__file__).parents[1] / "vectors" / "keyed_noise.json"
SPEC = SketchSpec(depth=5, width=4096)
ITEMS = ["a"] * 900 + ["b"] * 100
KEYED = KeyedRandomness(SECRET, b"context")


PRIVACY = PrivacySpec(rho=0.01, relation=REPLACE_ONE, summary_counts=None)
COUNTED = SummaryCounts(units=0.02, records=0.04, weight=0.02)
PEOPLE = {"privacy_unit": PrivacyUnit.PRIVACY_ID, "bounds": RecordBounds(3, max_weight=2)}
LOST = [0, 60, 30, 7]
WITH_COUNTERS = PrivacySpec(rho=0.01, relation=REPLACE_ONE, summary_counts=COUNTED)


def test_what_a_keyed_run_lost_never_changes():
    terms = ReleaseTerms(PrivacySpec(rho=0.01), lost_in=LostIn.RUN, **PEOPLE)
    calibration = Calibration.of(SPEC, terms)
    exact = np.array([*LOST, *[0] * (terms.lost.size - 5), 1500 << terms.scale_bits])
    assert draw_lost(exact, calibration, KEYED) == [45, 3, -4, -30, 12, 3, -79, 62, -45, 116, 59, 5438]


RAW = {
    "count_min": lambda: CountMin(SketchSpec(kind="count_min", depth=3, width=8)).accumulate(ITEMS),
    "count_sketch": lambda: CountSketch(SketchSpec(depth=3, width=8)).accumulate(ITEMS),
    "dyadic": lambda: DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 999), 4000)).accumulate(range(500)),
}


@pytest.mark.parametrize("kind", RAW)
def test_equal_calls_are_one_release(kind):
    first, second = (
        release(RAW[kind](), ReleaseTerms(PRIVACY), randomness=KeyedRandomness(SECRET, b"c")) for _ in range(2)
    )
    assert first.to_bytes() == second.to_bytes()
    assert first.privacy.randomness is Randomness.KEYED
    assert "keyed with a secret" in first.privacy.details()
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
    """Noises of a fixed secret, by sigma^2 of a Gaussian, and by the scale of a Laplace."""
    cases = [
        *((discrete_gaussian, each, each) for each in ("1/4", "1", "7/3", "100", "1000003/7", "1000000000000", 2**90)),
        *((discrete_laplace, each, f"laplace {each}") for each in ("1/20", "1/2", "7/3", "100", "1000003/7", 2**45)),
    ]
    return {
        str(name): law.sample(8, Fraction(value), random_bytes=KEYED.random_bytes(f"golden {name}".encode())).tolist()
        for law, value, name in cases
    }


def test_the_noise_of_a_version_never_changes():
    """Where this fails, replays on workers of two package versions would differ: raise `NOISE_VERSION`."""
    assert tables.NOISE_VERSION == 11
    assert golden() == json.loads(GOLDEN.read_text())


def test_a_keyed_release_never_changes():
    raw = CountSketch(SketchSpec(depth=2, width=4)).accumulate(["a", "b"])
    released = release(raw, ReleaseTerms(PRIVACY), randomness=KeyedRandomness(SECRET, b"golden"))
    assert released.to_bytes().hex() == (GOLDEN.parent / "keyed_release.hex").read_text().strip()


def test_a_keyed_release_with_laplace_noise_never_changes():
    raw = CountSketch(SketchSpec(depth=2, width=4)).accumulate(["a", "b"])
    released = release(raw, ReleaseTerms(PrivacySpec(epsilon=1)), randomness=KeyedRandomness(SECRET, b"golden"))
    assert released.to_bytes().hex() == (GOLDEN.parent / "keyed_laplace_release.hex").read_text().strip()


def test_a_keyed_release_with_side_counters_never_changes():
    raw = CountSketch(SketchSpec(depth=2, width=4)).accumulate(["a", "b"])
    terms, side = ReleaseTerms(WITH_COUNTERS, **PEOPLE), np.zeros(14, dtype=np.int64)
    side[:7] = [500, 900, 1200, *LOST]
    released = release_part(raw, side, terms, KeyedRandomness(SECRET, b"golden"))
    assert released.to_bytes().hex() == (GOLDEN.parent / "keyed_side_release.hex").read_text().strip()
