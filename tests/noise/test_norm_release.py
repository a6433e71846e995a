"""Releases under a norm: which raw sketches are taken, what the counters count, and how they are combined."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    CountMin,
    CountSketch,
    IncompatibleSketchError,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.released import RELEASED_KINDS as KINDS_BY_NAME
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from tests.helpers import by_hand, norms
from tests.helpers.raw import of_kind
from tests.helpers.strategies import KINDS

SPECS = {
    "count_sketch": SketchSpec(depth=3, width=16),
    "count_min": SketchSpec(kind="count_min", depth=3, width=16),
    "quantiles": TreeSpec.for_memory(IntegerDomain(0, 1000), 4000, depth=2),
    "listed_items": ListedItems(["ab", "c", *range(1001)]),
}
SECRET = bytes(range(32))
SMALL, LARGE = PrivacySpec(rho=40), PrivacySpec(rho=Fraction(1, 1000))
every_spec = pytest.mark.parametrize("name", SPECS)


def terms(privacy: PrivacySpec = SMALL, bounds: Any = None, **changes: Any) -> ReleaseTerms:
    return ReleaseTerms(privacy, bounds or NormBound(20), **{"privacy_unit": PrivacyUnit.PRIVACY_ID, **changes})


def scaled(name: str, weight: int = 1) -> Any:
    """A raw sketch of a few items, each with this weight in units of 2**-16."""
    spec = SPECS[name]
    keys, _ = raw_type(spec).usable_keys(spec, np.array([7, 8]))
    raw = SketchInput(spec, NormBound(20)).raw_sketch()
    return raw.accumulate_keys(keys, np.full(2, weight, dtype=np.int64))


@every_spec
def test_a_raw_sketch_must_hold_weights_as_its_bounds_make_them(name: str) -> None:
    whole = raw_type(SPECS[name])(SPECS[name])
    for raw, bounds in ((whole, NormBound(20)), (scaled(name), RecordBounds(20))):
        with pytest.raises(ValueError, match=r"raw must have weights that match the bounds\. NormBound scales them"):
            release(raw, terms(bounds=bounds))
    release(scaled(name), terms())
    release(whole, terms(bounds=RecordBounds(20)))


@every_spec
def test_sketches_in_other_units_are_not_merged_and_are_not_equal(name: str) -> None:
    whole = raw_type(SPECS[name])(SPECS[name])
    assert whole != scaled(name, 0)
    for first, second in ((whole, scaled(name)), (scaled(name), whole)):
        with pytest.raises(
            IncompatibleSketchError, match="Only sketches with the same kind, spec and scale can be merged"
        ):
            first.merge(second)
    assert scaled(name).merge(scaled(name)) == scaled(name, 2)
    assert scaled(name).merge(scaled(name)).scale_bits == 16


@every_spec
@pytest.mark.parametrize("privacy", [SMALL, LARGE], ids=["little noise", "much noise"])
def test_counters_count_records(name: str, privacy: PrivacySpec) -> None:
    """Little noise leaves parts of a record, of at most a 64th of sigma; with much, they are whole."""
    answer = release(scaled(name, 5000 << 16), terms(privacy))
    exact = scaled(name, 5000).to_vector().reshape(answer.counters.shape)
    noise = answer.privacy.sigma_squared_per_level
    assert noise == calibrate(SPECS[name], terms(privacy).without_summary_counts())
    assert np.abs(answer.counters - exact).max() < 12 * float(max(noise)) ** 0.5  # false alarm below 1e-25
    fine = answer._scale_bits
    assert (privacy is SMALL) == (fine > 0)
    assert answer.counters.dtype == (np.float64 if fine else np.int64)
    step = Fraction(1, 1 << fine)
    assert step**2 <= min(noise) / 64**2 or fine == 16
    assert fine == 0 or (2 * step) ** 2 > min(noise) / 64**2
    np.testing.assert_array_equal(answer.counters * (1 << fine) % 1, 0)
    with pytest.raises(ValueError, match="read-only"):
        answer.counters[...] = 1
    again = ReleasedSketch.from_bytes(answer.to_bytes())
    assert again == answer
    assert again.counters.dtype == answer.counters.dtype
    np.testing.assert_array_equal(again.counters, answer.counters)


@pytest.mark.parametrize("relation", NeighboringRelation)
@every_spec
def test_the_noise_is_that_of_bounds_of_as_many_records(name: str, relation: NeighboringRelation) -> None:
    privacy = PrivacySpec(rho=Fraction(1, 3), relation=relation, summary_counts=None)
    of_norm = calibrate(SPECS[name], terms(privacy, NormBound(20)))
    assert of_norm == calibrate(SPECS[name], terms(privacy, RecordBounds(20)))
    with pytest.raises(ValueError, match=r"sigma would exceed 2\*\*34\. Use smaller bounds"):
        calibrate(SPECS[name], terms(PrivacySpec(rho=1e-9), NormBound(1 << 20)))


def norm_release(kind: Any, counters: Any, scale_bits: int, **changes: Any) -> ReleasedSketch:
    changes = {"bounds": NormBound(Fraction(5, 2), max_per_item=1), **changes}
    return by_hand.released(kind, SketchSpec(depth=1, width=3), counters, scale_bits=scale_bits, **changes)


OTHER = {"release_ids": (bytes(48),)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scales", [(0, 0), (0, 5), (5, 0), (16, 3), (4, 4)])
def test_releases_in_other_units_are_added_up_in_records(kind: Any, scales: tuple[int, int]) -> None:
    first = norm_release(kind, [[1, -3, 1 << 20]], scales[0])
    second = norm_release(kind, [[5, 1, -7]], scales[1], **OTHER, bounds=NormBound(20, signed=True))
    for both in (first.combine(second), second.combine(first)):
        assert both.counters.tolist() == (first.counters + second.counters).tolist()
        assert both.counters.dtype == (np.float64 if max(scales) else np.int64)
        assert both.privacy.bounds == NormBound(20, signed=True)
        assert (both.privacy.rho, both.privacy.sigma_squared) == (1, 18)
        assert ReleasedSketch.from_bytes(both.to_bytes()) == both


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_one_run_keep_its_rho(kind: Any) -> None:
    """One norm covers all keys, so that rho covers all of them together."""
    parts = [
        norm_release(kind, [[1, 2, 3]], scale, release_ids=(bytes([1] * 16 + [scale] * 16 + [0] * 16),))
        for scale in (0, 5)
    ]
    assert parts[0].combine(parts[1]).privacy.rho == Fraction(1, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units_disjoint", [False, True])
def test_a_norm_and_bounds_of_records_are_not_mixed(kind: Any, units_disjoint: bool) -> None:
    first = norm_release(kind, [[1, 2, 3]], 5)
    second = by_hand.released(kind, SketchSpec(depth=1, width=3), [[1, 2, 3]], **OTHER)
    for one, other in ((first, second), (second, first)):
        with pytest.raises(IncompatibleSketchError, match="Use the same type of bounds for both"):
            one.combine(other, units_disjoint=units_disjoint)


@pytest.mark.parametrize("scale_bits", [-1, 17])
def test_units_finer_than_a_scaled_weight_are_refused(scale_bits: int) -> None:
    with pytest.raises(ValueError, match="scale_bits must be between 0 and 16"):
        norm_release(CountMin, [[1, 2, 3]], scale_bits)


@pytest.mark.parametrize("name", SPECS)
def test_answers_do_not_depend_on_the_unit_of_the_counters(name: str) -> None:
    """Whole records, held in units of 2**-5, answer as they do in units of 1; intervals of listed items are finer."""
    spec, kind = SPECS[name], KINDS_BY_NAME[name]
    rng = np.random.default_rng(7)
    counters = rng.integers(-1000, 1000, spec.cells) + np.where(rng.random(spec.cells) < 0.1, 9000, 0)
    levels = len(raw_type(spec).tables(spec))
    privacy = by_hand.statement(bounds=NormBound(20), sigma_squared_per_level=(Fraction(9),) * levels)
    whole, fine = kind(spec, counters, privacy), kind(spec, counters << 5, privacy, 5)
    assert (whole.counters.dtype, fine.counters.dtype) == (np.int64, np.float64)
    items = ["ab", "c", "x"] if name == "top_k" else [0, 7, 1000]
    assert whole.estimate(items).tolist() == fine.estimate(items).tolist()
    assert [row.item for row in whole.top_k(2, items)] == [row.item for row in fine.top_k(2, items)]
    if name == "listed_items":
        assert (whole.interval(7).upper - fine.interval(7).upper) == pytest.approx(0.5, abs=1 / 32)
    else:
        assert whole.as_rows(items) == fine.as_rows(items)
    if name in ("quantiles", "top_k"):
        assert whole.top_k(5).to_rows() == fine.top_k(5).to_rows()
    if name == "quantiles":
        assert whole.quantile([0.1, 0.5, 0.9]) == fine.quantile([0.1, 0.5, 0.9])
        np.testing.assert_array_equal(*(each.with_total(5000, force=True).rank(items) for each in (whole, fine)))


def test_what_a_sketch_input_makes_is_in_the_units_of_its_bounds() -> None:
    spec = of_kind(CountSketch, SketchSpec(depth=1, width=3))
    assert SketchInput(spec, NormBound(5)).raw_sketch().scale_bits == 16
    assert SketchInput(spec, RecordBounds(5)).raw_sketch().scale_bits == 0
    assert 1 << terms().scale_bits == norms.UNIT
