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
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TextDomain,
    TreeSpec,
)
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.noise import norms as norm_choosing
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.norms import choice_table, choose_norm
from beam_dpsketch.planning.suiting import norm_units
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import ITEM_SHARES, AutoNorm
from beam_dpsketch.privacy.norm.choice import bin_count
from beam_dpsketch.privacy.summary_counts import LostIn, SummaryCounts

SECRET = b"a secret of more than thirty-two bytes"
KEYED = KeyedRandomness(SECRET, b"context")
SPEC = SketchSpec(depth=5, width=1024, seed=3)
RHO = Fraction(1, 10**6)
_AUDITED_RHO = Fraction(1, 100)
PRIVACY = PrivacySpec(rho=RHO, summary_counts=None)
MANY_BINS = AutoNorm(max_weight=1 << 31)
COUNTS = np.arange(bin_count(1 << 31), 0, -1) * 50_000


def terms_of(privacy: PrivacySpec = PRIVACY, bounds: Any = MANY_BINS, **others: Any) -> ReleaseTerms:
    return ReleaseTerms(privacy, bounds, **{"privacy_unit": PrivacyUnit.PRIVACY_ID, **others})


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
@pytest.mark.parametrize("shares", [None, SummaryCounts()])
@pytest.mark.parametrize("rho", [RHO, Fraction(1, 10), Fraction(2)])
def test_the_noise_of_a_chosen_norm_fits_into_counters(
    rho: Fraction, shares: SummaryCounts | None, lost_in: LostIn
) -> None:
    terms = terms_of(PrivacySpec(rho=rho, summary_counts=shares), lost_in=lost_in)
    norm = chosen(np.full(62, 1 << 40), SPEC, terms, KEYED)
    Calibration.of(SPEC, terms.under(norm))
    with pytest.raises(ValueError, match=r"max_norm must be at most|sigma would exceed"):
        Calibration.of(SPEC, terms.under(norm + Fraction(1, 16)))


def norms_of(counts: np.ndarray = COUNTS, spec: Any = SPEC, terms: Any = None, keyed: Any = KEYED) -> list[Fraction]:
    """Return the norms of 40 histograms."""
    return [chosen(counts + extra, spec, terms or terms_of(), keyed) for extra in range(40)]


def test_equal_calls_choose_equal_norms_and_calls_without_a_secret_do_not() -> None:
    """Equal settings are spelled in several ways. Norms of fresh noise agree 40 times with less than 1e-20."""
    keyed = norms_of()
    auto: dict[str, Any] = {"share": 0.05, "optimize_for": "top_items", "max_weight": np.int64(1 << 31)}
    for spelled in (
        {"terms": terms_of(bounds=AutoNorm(**auto))},
        {"terms": terms_of(PrivacySpec(rho=0.000001, summary_counts=None))},
        {"spec": SketchSpec(depth=np.int64(5), width=1024, seed=np.uint64(3))},
        {"keyed": KeyedRandomness(SECRET, b"context")},
        {"counts": COUNTS.copy()},
    ):
        assert norms_of(**spelled) == keyed
    assert keyed != norms_of(keyed=None) != norms_of(keyed=None)


def test_a_keyed_norm_never_changes() -> None:
    """Where this fails, replays on workers of two package versions would differ: raise `NOISE_VERSION`."""
    assert norms_of()[:3] == GOLDEN


GOLDEN = [Fraction(16098977391, 8), Fraction(16098977391, 8), Fraction(32372786493, 16)]


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
    shares: Any = {"units": 0.1, "records": None, "weight": 0.15, "clipping": 0.2}
    privacy = PrivacySpec(rho=RHO, relation=relation, summary_counts=SummaryCounts(**shares))
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
        (ThresholdedItems(TextDomain(8)), "a counter"),
    ],
)
def test_of_a_tree_the_finest_level_decides_and_of_groups_one_count(spec: Any, answer: str) -> None:
    auto = AutoNorm(Fraction(1, 10), item_share=Fraction(1, 4))
    terms = terms_of(PrivacySpec(rho=RHO, relation=ADD_OR_REMOVE_ONE, summary_counts=None), auto)
    tables = raw_type(spec).tables(spec)
    cells, share, levels = tables[-1].cells_per_item, float(tables[-1].share), len(tables)
    medians = np.median(np.random.default_rng(0).normal(size=(1_000_000, cells)), axis=1).std()
    read = {"a node of each level": math.sqrt(levels) * medians, "a counter": 1.0}[answer]
    expected = 0.8 * 4 * read * math.sqrt(cells / (2 * 0.9 * float(RHO) * share))
    assert abs(float(norm_units(spec, terms) or 0) / expected - 1) < 0.02


def test_typical_items_and_means_have_smaller_norms() -> None:
    largest, *others = (norm_units(SPEC, terms_of(bounds=AutoNorm(optimize_for=each))) for each in ITEM_SHARES)
    assert largest is not None
    for found, ratio in zip(others, (Fraction(7, 2), Fraction(28)), strict=True):
        assert found is not None
        assert abs(found / largest / ratio - 1) < Fraction(1, 100)


def test_the_norm_is_in_the_bin_of_most_units_on_the_grid() -> None:
    """A million units are of the longest lengths, so no bin above them can look like one that holds units."""
    counts = np.zeros(32, dtype=np.int64)
    counts[-1] = 1_000_000
    for randomness in (KEYED, None):
        norm = chosen(counts, SPEC, terms_of(bounds=AutoNorm()), randomness)
        assert 2**15.5 <= norm <= 2**16
        assert (16 * norm).denominator == 1


def test_the_default_noise_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ({"terms": terms_of(bounds=NormBound(5))}, TypeError, "bounds must be an AutoNorm, got NormBound"),
        ({"terms": terms_of(bounds=RecordBounds(5))}, TypeError, "bounds must be an AutoNorm, got RecordBounds"),
        ({"terms": terms_of(window_count=2)}, ValueError, "window_count must be 1 if the norm is chosen from the data"),
        ({"terms": terms_of(PrivacySpec(rho=9999, summary_counts=None))}, ValueError, "rho must be at most"),
        ({"terms": terms_of(output_cells=None)}, ValueError, "bounds must be NormBound if the number of keys"),
        ({"histogram": np.full(61, MARK)}, ValueError, "histogram must be int64, with a count for each bin"),
        ({"histogram": np.full((1, 62), MARK)}, ValueError, "histogram must be int64, with a count for each bin"),
        ({"histogram": np.full(62, float(MARK))}, ValueError, "histogram must be int64, with a count for each bin"),
    ],
)
def test_what_cannot_be_meant_is_refused_without_a_count(changed: Any, error: Any, message: str) -> None:
    given = {"histogram": np.full(62, MARK), "spec": SPEC, "terms": terms_of(), "scaled_units": Fraction(9)} | changed
    with pytest.raises(error, match=message) as raised:
        choose_norm(**given)
    assert str(MARK) not in str(raised.value)
