"""Keyed releases: equal calls are one release; calls that differ in anything have unrelated noise."""

from __future__ import annotations

import itertools
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
    NormBound,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.by_hand import release_part
from beam_dpsketch.noise import noising, tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import draw_lost
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise import discrete_gaussian, discrete_laplace
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.side_counters import LostIn, SideCounters
from beam_dpsketch.privacy.terms import Disclosure
from tests.helpers.noise_audit import audit
from tests.helpers.raw import raw_of

SECRET = b"a secret of more than thirty-two bytes"
GOLDEN = pathlib.Path(__file__).parents[1] / "vectors" / "keyed_noise.json"
SPEC = SketchSpec(depth=5, width=4096)
ITEMS = ["a"] * 900 + ["b"] * 100
KEYED = KeyedRandomness(SECRET, b"context")


def spending(rho, relation=REPLACE_ONE):
    return PrivacySpec(rho=rho, relation=relation, side_counters=None)


PRIVACY = spending(0.01)


def keyed_release(raw=None, privacy=PRIVACY, keyed=KEYED, side=(), **terms):
    """A keyed release of a sketch and of what is counted aside: side counters, then units by what they lost."""
    raw = CountSketch(SPEC).accumulate(ITEMS) if raw is None else raw
    terms = ReleaseTerms(privacy, **terms)
    raw = raw.in_units_of(terms.scale_bits)
    numbers = np.zeros(terms.aside, dtype=np.int64)
    numbers[: len(side)] = side
    return raw, release_part(raw, numbers, terms, keyed)


def noise(*arguments, **settings):
    """The noise of one keyed release, in standard deviations."""
    raw, released = keyed_release(*arguments, **settings)
    noise = released.counters - raw.counters / (1 << raw.scale_bits)
    return noise.ravel() / np.sqrt(float(released.privacy.sigma_squared))


def unrelated(first, second):
    """Whether two noises have a correlation of 0, within 6.5 / sqrt(n): false alarm below 1e-10.

    The first 64 are looked at alone, because uses of one stream for two sigmas run apart sooner or later.
    """
    return all(abs(np.corrcoef(first[:size], second[:size])[0, 1]) < 6.5 / np.sqrt(size) for size in (64, len(first)))


OTHERS = {
    "secret": {"keyed": KeyedRandomness(SECRET + b"!", b"context")},
    "context": {"keyed": KeyedRandomness(SECRET, b"contexts")},
    "sigma": {"privacy": spending(0.02, REPLACE_ONE)},
    "a little less rho": {"privacy": spending(Fraction(1, 100) - Fraction(1, 10**12), REPLACE_ONE)},
    "relation": {"privacy": spending(0.01, ADD_OR_REMOVE_ONE)},
    "relation at the same sigma": {"privacy": spending(0.0025, ADD_OR_REMOVE_ONE)},
    "bounds": {"bounds": RecordBounds(1, max_weight=2)},
    "signed": {"bounds": RecordBounds(1, signed=True)},
    "unit": {"unit": PrivacyUnit.PRIVACY_ID},
    "windows": {"window_count": 2},
    "windows at the same sigma": {"window_count": 4, "privacy": spending(0.04, REPLACE_ONE)},
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
    monkeypatch.setattr(noising, "message", lambda *_: b"forgotten")
    assert not unrelated(noise(), noise(**OTHERS[changed]))


def counting(rho=Fraction(1, 100), **shares):
    shares = {"units": 0.02, "records": 0.04, "weight": 0.02, **shares}
    return PrivacySpec(rho=rho, relation=REPLACE_ONE, side_counters=SideCounters(**shares))


PEOPLE = {"unit": PrivacyUnit.PRIVACY_ID, "bounds": RecordBounds(3, max_weight=2)}
LOST = [0, 60, 30, 7]
ASIDE = {"privacy": counting(), "side": [500, 900, 1200, *LOST], **PEOPLE}
NORM = {"privacy": PRIVACY, "unit": PrivacyUnit.PRIVACY_ID, "bounds": NormBound(20), "raw": CountSketch(SPEC)}
CHANGES_ASIDE = {
    "a side value": (ASIDE, {"side": [500, 900, 1201, *LOST]}),
    "two side values": (ASIDE, {"side": [900, 500, 1200, *LOST]}),
    "how many lost how much": (ASIDE, {"side": [500, 900, 1200, 0, 60, 31, 6]}),
    "which share is whose": (ASIDE, {"privacy": counting(units=0.04, records=0.02)}),
    "a little less of a share": (ASIDE, {"privacy": counting(weight=Fraction(1, 50) - Fraction(1, 10**12))}),
    "a counter less": (ASIDE, {"privacy": counting(weight=None), "side": [500, 900, *LOST]}),
    "another share of lost weight": (ASIDE, {"privacy": counting(lost=Fraction(1, 50) - Fraction(1, 10**12))}),
    "no lost weight": (ASIDE, {"privacy": counting(lost=None), "side": [500, 900, 1200]}),
    "cells": ({**NORM, "privacy": counting(), "side": [500, 900, 1200, *LOST]}, {"output_cells": None}),
    "norm_spend": (NORM, {"norm_spend": Fraction(1, 20)}),
    "norm_spend at the same sigma": (
        {**NORM, "norm_spend": Fraction(1, 10)},
        {"norm_spend": Fraction(1, 5), "privacy": spending(Fraction(9, 800))},
    ),
}


@pytest.mark.parametrize("changed", CHANGES_ASIDE)
def test_noise_depends_on_what_is_counted_aside(changed):
    settings, changes = CHANGES_ASIDE[changed]
    first, second = noise(**settings), noise(**{**settings, **changes})
    assert not unrelated(first, noise(**settings))
    assert unrelated(first, second)
    ids = {keyed_release(**each)[1].privacy.release_ids for each in (settings, {**settings, **changes})}
    assert len(ids) == 2


@pytest.mark.parametrize(
    "changed",
    ["a side value", "two side values", "how many lost how much", "norm_spend", "norm_spend at the same sigma"],
)
def test_the_test_finds_what_is_forgotten_aside(changed, monkeypatch):
    monkeypatch.setattr(noising, "message", lambda *_: b"forgotten")
    settings, changes = CHANGES_ASIDE[changed]
    assert not unrelated(noise(**settings), noise(**{**settings, **changes}))


def test_forgetting_side_values_would_give_their_difference_away(monkeypatch):
    """Two releases that differ by one unit alone would show it, with the noise in common."""

    def values(side):
        return [note.estimate for note in keyed_release(**{**ASIDE, "side": side})[1].privacy.side]

    monkeypatch.setattr(noising, "message", lambda *_: b"forgotten")
    assert np.subtract(values([501, 902, 1203]), values([500, 900, 1200])).tolist() == [1, 2, 3]
    monkeypatch.undo()
    assert np.subtract(values([501, 902, 1203]), values([500, 900, 1200])).tolist() != [1, 2, 3]


def test_forgetting_sigma_would_give_the_counters_back():
    """Two releases of equal counters out of the same random bytes at two sigmas are solved for the counters."""
    raw = CountSketch(SketchSpec(depth=1, width=40)).accumulate(range(5000)).counters.ravel()
    narrow, wide = (
        raw + discrete_gaussian.sample(40, Fraction(sigma**2), random_bytes=KEYED.random_bytes(b"no sigma"))
        for sigma in (50, 100)
    )
    assert np.abs(2 * narrow - wide - raw).max() <= 1


RUN = {"lost": (0, 60, 30, 7), "kept": 1500, "spec": SPEC, "keyed": KEYED, "privacy": PrivacySpec(rho=0.01)}


def lost_of_run(lost, kept, spec, keyed, privacy, **terms):
    """What a keyed run tells of the weight that its bounds took, and the noise in it, in standard deviations."""
    terms = {"lost_in": LostIn.RUN, **PEOPLE, **terms}
    calibration = Calibration.of(spec, ReleaseTerms(privacy, **terms))
    exact = np.zeros(calibration.terms.lost.size, dtype=np.int64)
    exact[: len(lost)], exact[-1] = lost, kept << calibration.terms.scale_bits
    told = draw_lost(exact, calibration, keyed)
    note = calibration.empty_lost
    values = [*told[:-1], told[-1] / 2 ** (note.kept.scale_bits - calibration.terms.scale_bits)]
    variances = [note.sigma_squared] * len(note.counts) + [note.kept.sigma_squared * calibration.terms.squared_unit]
    return told, (np.array(values) - exact) / np.sqrt(np.array(variances, dtype=np.float64))


CHANGES_OF_A_RUN = {
    "nothing": {},
    "secret": {"keyed": KeyedRandomness(SECRET + b"!", b"context")},
    "one unit": {"lost": (0, 61, 30, 7)},
    "where one unit is": {"lost": (0, 60, 31, 6)},
    "what is kept": {"kept": 1501},
    "rho": {"privacy": PrivacySpec(rho=0.02)},
    "a share": {"privacy": PrivacySpec(rho=0.01, side_counters=SideCounters(lost=0.04))},
    "bounds": {"bounds": RecordBounds(3, max_weight=3)},
    "windows": {"window_count": 2},
    "seed": {"spec": SketchSpec(depth=5, width=4096, seed=1)},
}


def test_whatever_changes_what_a_run_lost_has_unrelated_noise():
    """A correlation of 12 noises above 0.995: below 1e-10 a pair."""
    noises = {name: lost_of_run(**RUN | changes)[1][-12:] for name, changes in CHANGES_OF_A_RUN.items()}
    pairs = itertools.combinations(noises, 2)
    assert [pair for pair in pairs if abs(np.corrcoef(*(noises[name] for name in pair))[0, 1]) > 0.995] == []
    assert lost_of_run(**RUN)[0] == lost_of_run(**RUN)[0]
    assert lost_of_run(**RUN | {"keyed": None})[0] != lost_of_run(**RUN | {"keyed": None})[0]


def test_what_a_keyed_run_lost_never_changes():
    assert lost_of_run(**RUN)[0] == [71, -45, 1, 42, -30, 8, 39, -6, 12, 143, 17, 8882]


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
    assert tables.NOISE_VERSION == 10
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
    _, released = keyed_release(raw, keyed=KeyedRandomness(SECRET, b"golden"), **ASIDE)
    assert released.to_bytes().hex() == (GOLDEN.parent / "keyed_side_release.hex").read_text().strip()
