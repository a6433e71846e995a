"""The bytes of released trees: read back exactly, refused with `FormatError` and nothing else, golden for ever."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    DyadicCountSketch,
    FormatError,
    IncompatibleSketchError,
    IntegerDomain,
    PrivacyUnit,
    ReleasedDyadicCountSketch,
    ReleasedSketch,
    TreeSpec,
)
from beam_dpsketch.statement.release_format import DIGEST_BYTES
from tests.helpers import golden_trees, trees
from tests.helpers.golden import FOLDER
from tests.helpers.stored import sealed

SMALL = {"dyadic": trees.released(trees.exact_tree(5), range(7)), "mixed": golden_trees.good()["dyadic"]}


def refused_or_written_again(data: bytes) -> bool:
    """The one law of the reader: refuse with `FormatError`, or have read the only bytes of this release."""
    try:
        release = ReleasedSketch.from_bytes(data)
    except FormatError:
        return True
    return release.to_bytes() == data


@given(release=trees.releases())
def test_a_tree_is_read_back_exactly(release: ReleasedSketch) -> None:
    data = release.to_bytes()
    again = ReleasedSketch.from_bytes(data)
    assert type(again) is type(release)
    assert (again.spec, again.privacy) == (release.spec, release.privacy)
    np.testing.assert_array_equal(again.counters, release.counters)
    assert again.counters.dtype == np.int64
    assert again.to_bytes() == data
    assert again == release


@given(release=trees.releases())
def test_pickles_and_copies_are_the_same_release(release: ReleasedSketch) -> None:
    for again in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release), copy.copy(release)):
        assert again == release
        assert hash(again) == hash(release)


def test_answers_do_not_change_the_bytes_or_the_pickle() -> None:
    release = SMALL["mixed"]
    before = release.to_bytes()
    release.quantile([0.5])
    release.with_total(7.0, force=True).quantile([0.5], method="residual")
    release.top_k(3)
    assert release.to_bytes() == before
    assert len(pickle.dumps(release)) < len(before) + 200


@pytest.mark.parametrize("name", SMALL)
def test_every_truncation_is_refused(name: str) -> None:
    data = SMALL[name].to_bytes()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            ReleasedSketch.from_bytes(data[:size])
        assert refused_or_written_again(sealed(data[:size]))
    with pytest.raises(FormatError):
        ReleasedSketch.from_bytes(data + b"\0")


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", SMALL)
def test_every_change_of_one_byte_is_refused(name: str) -> None:
    data = SMALL[name].to_bytes()
    for place in range(len(data)):
        for flip in (1, 16, 128, 255):
            with pytest.raises(FormatError):
                ReleasedSketch.from_bytes(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", SMALL)
def test_every_change_of_one_byte_under_a_right_digest_is_refused_or_another_release(name: str) -> None:
    body = SMALL[name].to_bytes()[:-DIGEST_BYTES]
    for place in range(len(body)):
        for value in (0, 1, 255, body[place] ^ 1, body[place] ^ 128):
            assert refused_or_written_again(sealed(body[:place] + bytes([value]) + body[place + 1 :]))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(release=trees.releases(), data=st.data())
def test_mutants_under_a_right_digest_are_refused_or_another_release(release: Any, data: st.DataObject) -> None:
    body = bytearray(release.to_bytes()[:-DIGEST_BYTES])
    for _ in range(data.draw(st.integers(1, 4))):
        place, size = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 8))
        body[place : place + size] = data.draw(st.binary(max_size=8))
    assert refused_or_written_again(sealed(bytes(body)))


def test_a_spec_that_no_constructor_allows_is_refused() -> None:
    """Written with the checks avoided: bits that miss the domain, shares above 1, a level without counters."""
    right = trees.exact_tree(5)
    first, last = right.levels
    for levels in (
        (first, dataclasses.replace(last, share=Fraction(3, 4))),
        (first, dataclasses.replace(last, bits=3)),
        (first, dataclasses.replace(last, width=6)),
        (first, dataclasses.replace(last, sketch="count_min", depth=65)),
    ):
        release = trees.released(right, range(7))
        wrong = copy.copy(right)
        object.__setattr__(wrong, "levels", levels)
        release._spec = wrong
        with pytest.raises(FormatError):
            ReleasedSketch.from_bytes(release.to_bytes())


@pytest.mark.slow
def test_thousands_of_levels_are_refused_before_their_shares_are_added() -> None:
    """Their common denominator would have millions of digits."""
    right = trees.exact_tree(5)
    release, wrong = trees.released(right, range(7)), copy.copy(right)
    shares = (Fraction(1, (1 << 8000) - number) for number in range(20_000))
    more = (dataclasses.replace(right.levels[0], bits=0, share=share) for share in shares)
    object.__setattr__(wrong, "levels", (*right.levels, *more))
    release._spec = wrong
    start = time.process_time()
    with pytest.raises(FormatError, match="levels must be 1 to 65, got 20002"):
        ReleasedSketch.from_bytes(release.to_bytes())
    assert time.process_time() - start < 60


GOLDEN = golden_trees.good()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_trees_are_read_and_written_for_ever(name: str) -> None:
    data = (FOLDER / f"{name}.dpsketch").read_bytes()
    release = ReleasedSketch.from_bytes(data)
    assert release == GOLDEN[name]
    assert release.to_bytes() == data


def golden(name: str) -> Any:
    return ReleasedSketch.from_bytes((FOLDER / f"{name}.dpsketch").read_bytes())


def test_golden_trees_have_their_known_answers() -> None:
    mixed = golden("dyadic")
    assert isinstance(mixed, ReleasedDyadicCountSketch)
    assert mixed.rank([-20, -5, 0, 7, 1000], method="paper").tolist() == [4, 193, 293, 343, 344]
    fitted = mixed.rank([-5, 0, 7], method="least_squares")
    assert fitted == pytest.approx([191.157132, 288.197571, 304.985648], rel=1e-6)
    assert mixed.chosen_method == "residual"
    assert mixed.rank([-5, 0, 7]) == pytest.approx([199.294159, 298.350725, 343.533210], rel=1e-6)
    search = golden("dyadic_search")
    assert search.rank(["10.0.0.1", "11.0.0.0", "255.255.255.255"]) == pytest.approx([7000, 11_000, 16_000])
    assert [frequency.item for frequency in search.top_k(4)] == ["10.0.0.1", "99.1.2.3", "10.0.0.9"]
    assert search.quantile([0.3, 0.6, 0.9]) == ["10.0.0.1", "10.0.0.9", "99.1.2.3"]
    assert search.privacy.rho == Fraction(22, 7)


def two_trees() -> tuple[Any, Any]:
    spec = TreeSpec.for_memory(IntegerDomain(0, 999))
    first = DyadicCountSketch(spec).accumulate([5] * 700 + [80] * 300)
    second = DyadicCountSketch(spec).accumulate([80] * 500 + [999] * 100)
    changes = {"release_ids": (bytes(48),), "rho": Fraction(1, 3)}
    return trees.without_noise(first), trees.without_noise(second, **changes)


def test_the_answers_of_a_combination_are_the_sums_of_both() -> None:
    first, second = two_trees()
    both = first.combine(second)
    np.testing.assert_array_equal(both.counters, first.counters + second.counters)
    values = [0, 5, 79, 80, 998, 999]
    for method in ("least_squares", "residual", "paper"):
        summed = first.rank(values, method=method) + second.rank(values, method=method)
        assert both.rank(values, method=method) == pytest.approx(summed, abs=1e-6)
    assert both.total_weight().estimate == pytest.approx(1600)
    assert both.quantile([0.4, 0.6, 0.99]) == [5, 80, 999]
    assert both.privacy.rho == Fraction(5, 6)
    assert both.privacy.sigma_squared_per_level == (Fraction(18),) * len(both.spec.levels)
    assert first.combine(second, units_disjoint=True).privacy.rho == Fraction(1, 2)
    assert ReleasedSketch.from_bytes(both.to_bytes()) == both
    last = [tree._chosen.ranks.variances.rank_variance(np.array([999], np.uint64))[0] for tree in (first, both)]
    assert 1.8 * last[0] < last[1] <= 2 * last[0]  # weights double, and noise does not: more nodes are expanded


def test_what_cannot_be_combined_is_refused() -> None:
    first, second = two_trees()
    with pytest.raises(IncompatibleSketchError, match="what shares noise cannot be combined"):
        first.combine(first)
    other = TreeSpec.for_memory(IntegerDomain(0, 998))
    stranger = trees.without_noise(DyadicCountSketch(other), release_ids=(bytes(48),))
    with pytest.raises(IncompatibleSketchError, match="only releases of one kind and spec can be combined"):
        first.combine(stranger)
    for change in ({"relation": ADD_OR_REMOVE_ONE}, {"unit": PrivacyUnit.PRIVACY_ID_IN_WINDOW}):
        differing = ReleasedDyadicCountSketch(
            second.spec, second.counters, dataclasses.replace(second.privacy, **change)
        )
        with pytest.raises(IncompatibleSketchError, match="cannot be combined"):
            first.combine(differing)


@pytest.mark.parametrize("levels", [1, 3])
def test_a_release_has_one_sigma_for_each_level(levels: int) -> None:
    with pytest.raises(ValueError, match="sigma_squared_per_level must have one value for each level"):
        trees.released(trees.exact_tree(5), range(7), sigma_squared_per_level=(Fraction(9),) * levels)
    with pytest.raises(ValueError, match="counters must be 7 of type int64"):
        trees.released(trees.exact_tree(5), range(8))
