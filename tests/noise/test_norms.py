"""The draw of a norm: its noise is as declared and keyed by all that matters; its settings are the release's."""

from __future__ import annotations

import dataclasses
import math
import os
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TextDomain,
    TreeSpec,
)
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.listed_items import GroupedItems
from beam_dpsketch.noise import norms as norm_choosing
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.norms import choice_table, choose_norm
from beam_dpsketch.planning.suiting import norm_units
from beam_dpsketch.privacy.noise.drawing import add_noise, round_off
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import ITEM_SHARES, AutoNorm
from beam_dpsketch.privacy.norm.choice import bin_count, choose
from beam_dpsketch.privacy.side_counters import LostIn, SideCounters
from beam_dpsketch.privacy.terms import Disclosure
from tests.helpers.binomials import binomial_tails
from tests.helpers.tolerances import discrete_gaussian

SECRET = b"a secret of more than thirty-two bytes"
KEYED = KeyedRandomness(SECRET, b"context")
SPEC = SketchSpec(depth=5, width=1024, seed=3)
RHO = Fraction(1, 10**6)
_AUDITED_RHO = Fraction(1, 100)
PRIVACY = PrivacySpec(rho=RHO, side_counters=None)
MANY_BINS = AutoNorm(max_weight=1 << 31)
COUNTS = np.arange(bin_count(1 << 31), 0, -1) * 50_000


def terms_of(privacy: PrivacySpec = PRIVACY, bounds: Any = MANY_BINS, **others: Any) -> ReleaseTerms:
    return ReleaseTerms(privacy, bounds, **{"unit": PrivacyUnit.PRIVACY_ID, **others})


def chosen(
    histogram: np.ndarray, spec: Any, terms: ReleaseTerms, randomness: KeyedRandomness | None = None
) -> Fraction:
    """Return the norm that is chosen with as many scaled units as a release of the spec wants."""
    units = norm_units(spec, terms)
    assert units is not None
    return choose_norm(histogram, spec, terms, randomness, scaled_units=units)


@pytest.fixture(autouse=True)
def any_norm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let norms be chosen whose noise no counter could hold: most tests are of the choice alone."""
    if "fits" not in request.node.name:
        monkeypatch.setattr(norm_choosing, "_largest_norm", lambda spec, terms: Fraction(1 << 40))


@pytest.mark.parametrize("lost_in", LostIn)
@pytest.mark.parametrize("shares", [None, SideCounters()])
@pytest.mark.parametrize("rho", [RHO, Fraction(1, 10), Fraction(2)])
def test_the_noise_of_a_chosen_norm_fits_into_counters(
    rho: Fraction, shares: SideCounters | None, lost_in: LostIn
) -> None:
    terms = terms_of(PrivacySpec(rho=rho, side_counters=shares), lost_in=lost_in)
    norm = chosen(np.full(62, 1 << 40), SPEC, terms, KEYED)
    Calibration.of(SPEC, terms.under(norm))
    with pytest.raises(ValueError, match=r"max_norm must be at most|sigma would exceed"):
        Calibration.of(SPEC, terms.under(norm + Fraction(1, 16)))


# The declared noise, seen from outside: in the last bin alone, the norm is a function of one noisy count.

DRAWS = 1500
_FALSE_ALARM = 1e-9


def alarms(relation: Any, spend: Fraction) -> list[int]:
    """Return the places, in sigmas, where the draws are more or less frequent than correct noise makes them."""
    terms = terms_of(PrivacySpec(rho=_AUDITED_RHO, relation=relation, side_counters=None), AutoNorm(spend))
    changed = 1 if relation is ADD_OR_REMOVE_ONE else 2
    sigma_squared = changed / (2 * spend * _AUDITED_RHO)
    sigma, reached = math.sqrt(sigma_squared), norm_units(SPEC, terms)
    assert reached is not None
    exact = np.zeros(bin_count(1), dtype=np.int64)
    exact[-1] = round(float(reached) + 7 * sigma)

    def norm_of(count: int) -> Fraction:
        noisy = np.append(exact[:-1], count)
        return choose(noisy, parameter=sigma_squared, scaled_units=reached)

    drawn = [
        chosen(exact, SPEC, terms, KeyedRandomness(SECRET, number.to_bytes(4, "little"))) for number in range(DRAWS)
    ]
    noise, found = discrete_gaussian(sigma_squared), []
    norms = {int(each): norm_of(int(exact[-1] + each)) for each in noise.support if abs(each) < 6 * sigma}
    for place in (-1, 0, 1):
        edge = norms[round(place * sigma)]
        probability = sum(
            float(share)
            for each, share in zip(noise.support.tolist(), noise.probabilities, strict=True)
            if each >= 6 * sigma or (each > -6 * sigma and norms[each] >= edge)
        )
        successes = sum(norm >= edge for norm in drawn)
        if binomial_tails(successes, DRAWS, probability) < _FALSE_ALARM / 4:
            found.append(place)
    return found


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("relation", "spend"),
    [(ADD_OR_REMOVE_ONE, Fraction(1, 20)), (REPLACE_ONE, Fraction(1, 20)), (REPLACE_ONE, Fraction(2, 5))],
)
def test_counts_have_the_declared_noise(relation: Any, spend: Fraction) -> None:
    """Three rates of norms that reach an edge, of exact binomial tails: false alarm below 1e-9 a case.

    The draws are keyed, so they are the same each time.
    """
    assert alarms(relation, spend) == []


@pytest.mark.one_fast_case
@pytest.mark.parametrize("factor", [Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(2)])
def test_planted_noise_of_another_size_is_found(factor: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(counts: np.ndarray, sigma_squared: Fraction, bits: int, **source: Any) -> np.ndarray:
        return add_noise(counts, factor * sigma_squared, bits, **source) if factor else counts << bits

    monkeypatch.setattr(tables, "add_noise", wrong)
    assert alarms(ADD_OR_REMOVE_ONE, Fraction(1, 20))


# What the noise depends on.


def noise(
    monkeypatch: pytest.MonkeyPatch,
    terms: ReleaseTerms | None = None,
    spec: Any = SPEC,
    counts: np.ndarray = COUNTS,
    keyed: KeyedRandomness | None = KEYED,
) -> np.ndarray:
    """The noise of one choice, in standard deviations."""
    seen = []

    def spy(exact: np.ndarray, sigma_squared: Fraction, bits: int, **source: Any) -> np.ndarray:
        noisy = add_noise(exact, sigma_squared, bits, **source)
        seen.append((round_off(noisy, bits) - exact) / math.sqrt(sigma_squared))
        return noisy

    with monkeypatch.context() as patch:
        patch.setattr(tables, "add_noise", spy)
        chosen(counts, spec, terms or terms_of(), keyed)
    (only,) = seen
    return only


def unrelated(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two noises have a correlation below 0.83, and their first 16 below 0.995.

    Uses of one stream for two sigmas run apart sooner or later. Of independent noises, one pair in 10^14 is as alike:
    the correlation of n has a density in proportion to (1 - r^2)^((n - 4) / 2).
    """
    size = min(len(first), len(second))
    return all(abs(np.corrcoef(first[:n], second[:n])[0, 1]) < limit for n, limit in ((size, 0.83), (16, 0.995)))


def with_privacy(**changed: Any) -> dict[str, Any]:
    settings = {"rho": RHO, "side_counters": None} | changed
    return {"terms": terms_of(PrivacySpec(**settings))}


def with_auto(**changed: Any) -> dict[str, Any]:
    return {"terms": terms_of(bounds=AutoNorm(**{"max_weight": 1 << 31} | changed))}


OTHERS: dict[str, dict[str, Any]] = {
    "secret": {"keyed": KeyedRandomness(SECRET + b"!", b"context")},
    "context": {"keyed": KeyedRandomness(SECRET, b"contexts")},
    "one count": {"counts": COUNTS + (np.arange(len(COUNTS)) == 40)},
    "two counts": {"counts": np.roll(COUNTS, 1)},
    "rho": with_privacy(rho=RHO / 2),
    "a little less rho": with_privacy(rho=RHO - Fraction(1, 10**18)),
    "shown delta": with_privacy(delta=1e-7),
    "relation": with_privacy(relation=REPLACE_ONE),
    "relation at the same sigma": with_privacy(relation=REPLACE_ONE, rho=2 * RHO),
    "side counters": with_privacy(side_counters=SideCounters()),
    "other side counters": with_privacy(side_counters=SideCounters(units=0.03)),
    "spend": with_auto(spend=0.1),
    "spend at the same sigma": {
        "terms": terms_of(PrivacySpec(rho=RHO / 2, side_counters=None), AutoNorm(Fraction(1, 10), max_weight=1 << 31))
    },
    "item share": with_auto(item_share=0.08),
    "weights": with_auto(max_weight=(1 << 31) - 1),
    "signed": with_auto(signed=True),
    "cap": with_auto(max_per_item=1),
    "another cap": with_auto(max_per_item=2),
    "resource limit": with_auto(resource_limit=1),
    "unit": {"terms": terms_of(unit=PrivacyUnit.PRIVACY_ID_IN_WINDOW)},
    "period": {"terms": terms_of(unit=PrivacyUnit.PRIVACY_ID_IN_PERIOD, period_micros=1)},
    "another period": {"terms": terms_of(unit=PrivacyUnit.PRIVACY_ID_IN_PERIOD, period_micros=2)},
    "disclosed": {"terms": terms_of(disclosed=Disclosure.KEYS)},
    "more disclosed": {"terms": terms_of(disclosed=Disclosure.KEYS | Disclosure.WINDOWS)},
    "lost in the run": {"terms": terms_of(lost_in=LostIn.RUN)},
    "cells": {"terms": terms_of(output_cells=2)},
    "more cells": {"terms": terms_of(output_cells=3)},
    "seed": {"spec": dataclasses.replace(SPEC, seed=4)},
    "width": {"spec": dataclasses.replace(SPEC, width=1025)},
    "depth": {"spec": dataclasses.replace(SPEC, depth=4)},
    "kind": {"spec": dataclasses.replace(SPEC, kind="count_min")},
    "hash": {"spec": dataclasses.replace(SPEC, item_hash="blake2b", item_key=bytes(16))},
    "another key": {"spec": dataclasses.replace(SPEC, item_hash="blake2b", item_key=bytes(range(16)))},
    "listed": {"spec": ListedItems(["a", "b"])},
    "another list": {"spec": ListedItems(["b", "a"])},
    "another type": {"spec": ListedItems(["a", b"b"])},
    "joined": {"spec": ListedItems([("a", "b")])},
}


def test_whatever_changes_the_noise_is_unrelated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of 37 calls: a false alarm of 666 pairs is below 1e-9."""
    noises = {"": noise(monkeypatch)} | {name: noise(monkeypatch, **OTHERS[name]) for name in OTHERS}
    names = list(noises)
    related = [
        (one, other)
        for place, one in enumerate(names)
        for other in names[:place]
        if not unrelated(noises[one], noises[other])
    ]
    assert related == []


def forget(patch: pytest.MonkeyPatch, argument: str) -> None:
    message, settings_of = tables.message, tables.settings_of

    def of_other_settings(found: Any, spec: Any, terms: Any) -> bytes:
        if argument == "terms":
            found, terms = [choice_table(terms_of())], terms_of()
        return settings_of(found, SPEC if argument == "spec" else spec, terms)

    def of_other_numbers(what: str, settings: bytes, exact: list[np.ndarray]) -> bytes:
        return message(what, settings, [COUNTS] if argument == "histogram" else exact)

    patch.setattr(norm_choosing, "settings_of", of_other_settings)
    patch.setattr(norm_choosing, "message", of_other_numbers)


@pytest.mark.parametrize(
    ("forgotten", "changed"),
    [
        ("histogram", "one count"),
        ("spec", "seed"),
        ("terms", "shown delta"),
        ("terms", "item share"),
        ("terms", "rho"),
        ("terms", "spend"),
    ],
)
def test_the_test_finds_what_the_noise_does_not_depend_on(
    forgotten: str, changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(monkeypatch, forgotten)
    assert not unrelated(noise(monkeypatch), noise(monkeypatch, **OTHERS[changed]))


def test_equal_calls_choose_equal_norms_and_calls_without_a_secret_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal settings are spelled in several ways. Norms of fresh noise agree 40 times with less than 1e-20."""
    spelled: list[dict[str, Any]] = [
        with_auto(spend=0.05, optimize_for="largest", max_weight=np.int64(1 << 31)),
        with_privacy(rho=0.000001),
        {"spec": SketchSpec(depth=np.int64(5), width=1024, seed=np.uint64(3))},
        {"keyed": KeyedRandomness(SECRET, b"context")},
        {"counts": COUNTS.copy()},
    ]
    assert all(np.array_equal(noise(monkeypatch), noise(monkeypatch, **each)) for each in spelled)
    keyed, again, fresh, other = (
        [chosen(COUNTS + extra, SPEC, terms_of(), key) for extra in range(40)] for key in (KEYED, KEYED, None, None)
    )
    assert keyed == again
    assert keyed != fresh != other


def test_a_keyed_norm_never_changes() -> None:
    """Where this fails, replays on workers of two package versions would differ: raise `NOISE_VERSION`."""
    norms = [chosen(COUNTS + extra, SPEC, terms_of(), KEYED) for extra in range(3)]
    assert norms == GOLDEN


GOLDEN = [Fraction(16098977391, 8), Fraction(16274283761, 8), Fraction(16274283761, 8)]


# The settings of the choice.


def reading_of(depth: int) -> float:
    """The deviation of a Huber mean of normal rows, simulated."""
    rows = np.random.default_rng(5).normal(size=(depth, 200_000))
    middle = np.median(rows, axis=0)
    return float((middle + np.clip(rows - middle, -1.5, 1.5).mean(axis=0)).std())


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
@pytest.mark.parametrize(
    ("spec", "cells", "signs"),
    [
        (SketchSpec(depth=5, width=64), 5, True),
        (SketchSpec(depth=1, width=64), 1, True),
        (SketchSpec(kind="count_min", depth=4, width=64), 4, False),
        (ListedItems(range(9)), 1, False),
    ],
    ids=["five rows", "one row", "count-min", "listed"],
)
def test_what_the_sketch_and_its_part_of_rho_are_decides_how_many_are_scaled(
    spec: Any, cells: int, signs: bool, relation: Any
) -> None:
    """m = 0.8 kappa / phi with kappa^2 = reading^2 cells c / (2 rho_sketch), where c = 4, 2 or 1."""
    shares: Any = {"units": 0.1, "records": None, "weight": 0.15, "lost": 0.2}
    privacy = PrivacySpec(rho=RHO, relation=relation, side_counters=SideCounters(**shares))
    auto = AutoNorm(Fraction(1, 10), item_share=Fraction(1, 4), max_weight=5)
    terms = terms_of(privacy, auto)
    found = norm_units(spec, terms)
    changes = 1 if relation is ADD_OR_REMOVE_ONE else (4 if signs else 2)
    reading = reading_of(cells) if cells > 1 else 1.0
    expected = 0.8 * 4 * reading * math.sqrt(cells * changes / (2 * 0.45 * float(RHO)))
    assert abs(float(found or 0) / expected - 1) < 0.02
    nine_cells = dataclasses.replace(terms, output_cells=9)
    nine = norm_units(spec, nine_cells)
    assert found is not None
    assert nine is not None
    assert abs(nine / found - 3) < Fraction(1, 1000)
    changed = 1 if relation is ADD_OR_REMOVE_ONE else 2
    assert choice_table(terms).parameter == choice_table(nine_cells).parameter == changed / (2 * RHO / 10)


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        (TreeSpec.for_memory(IntegerDomain(0, 9_999), 4000), "a node of each level"),
        (GroupedItems(TextDomain(8)), "a counter"),
    ],
)
def test_of_a_tree_the_finest_level_decides_and_of_groups_one_count(spec: Any, answer: str) -> None:
    auto = AutoNorm(Fraction(1, 10), item_share=Fraction(1, 4))
    terms = terms_of(PrivacySpec(rho=RHO, relation=ADD_OR_REMOVE_ONE, side_counters=None), auto)
    tables = raw_type(spec).tables(spec)
    cells, share, levels = tables[-1].cells_per_item, float(tables[-1].share), len(tables)
    medians = np.median(np.random.default_rng(0).normal(size=(1_000_000, cells)), axis=1).std()
    read = {"a node of each level": math.sqrt(levels) * medians, "a counter": 1.0}[answer]
    expected = 0.8 * 4 * read * math.sqrt(cells / (2 * 0.9 * float(RHO) * share))
    assert abs(float(norm_units(spec, terms) or 0) / expected - 1) < 0.02


def test_typical_items_have_a_smaller_norm() -> None:
    largest, typical = (norm_units(SPEC, terms_of(bounds=AutoNorm(optimize_for=each))) for each in ITEM_SHARES)
    assert largest is not None
    assert typical is not None
    assert abs(typical / largest - Fraction(7, 2)) < Fraction(1, 100)


def test_the_norm_is_in_the_bin_of_most_units_on_the_grid() -> None:
    """A million units are of the longest lengths, so no bin above them can look like one that holds units."""
    counts = np.zeros(32, dtype=np.int64)
    counts[-1] = 1_000_000
    for randomness in (KEYED, None):
        norm = chosen(counts, SPEC, terms_of(bounds=AutoNorm()), randomness)
        assert 2**15.5 <= norm <= 2**16
        assert (16 * norm).denominator == 1


def test_the_default_noise_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unrelated(noise(monkeypatch, keyed=None), noise(monkeypatch, keyed=None))
    sources: list[Any] = []

    def spy(exact: np.ndarray, parameter: Fraction, bits: int, *, noise: Noise, random_bytes: Any) -> np.ndarray:
        sources.append(random_bytes)
        return exact

    monkeypatch.setattr(tables, "add_noise", spy)
    chosen(COUNTS, SPEC, terms_of())
    assert sources == [os.urandom]


MARK = 86_753_090_123


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"terms": terms_of(bounds=NormBound(5))}, TypeError, "bounds must be a AutoNorm, got NormBound"),
        ({"terms": terms_of(bounds=RecordBounds(5))}, TypeError, "bounds must be a AutoNorm, got RecordBounds"),
        ({"terms": terms_of(window_count=2)}, ValueError, "window_count must be 1 where a norm is chosen"),
        ({"terms": terms_of(PrivacySpec(rho=9999, side_counters=None))}, ValueError, "rho must be at most"),
        ({"terms": terms_of(output_cells=None)}, ValueError, "bounds must be a NormBound where the number of keys"),
        ({"histogram": np.full(61, MARK)}, ValueError, "histogram must be int64, with one count for each bin"),
        ({"histogram": np.full((1, 62), MARK)}, ValueError, "histogram must be int64, with one count for each bin"),
        ({"histogram": np.full(62, float(MARK))}, ValueError, "histogram must be int64, with one count for each bin"),
    ],
)
def test_what_cannot_be_meant_is_refused_without_a_count(changed: Any, error: Any, message: str) -> None:
    given = {"histogram": np.full(62, MARK), "spec": SPEC, "terms": terms_of(), "scaled_units": Fraction(9)} | changed
    with pytest.raises(error, match=message) as raised:
        choose_norm(**given)
    assert str(MARK) not in str(raised.value)
