"""The bytes of a release: read back exactly, refused with `FormatError` and nothing else, golden for ever."""

from __future__ import annotations

import ast
import copy
import dataclasses
import io
import math
import pathlib
import pickle
import random
import time
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_dpsketch
from beam_dpsketch import (
    CountMin,
    CountSketch,
    FactorizationSpec,
    FloatDomain,
    FormatError,
    IntegerDomain,
    ListedItems,
    NormBound,
    Released,
    SketchSpec,
)
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.over_time.binned import BinaryTree
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement.notes import AnswerNote
from tests.helpers import by_hand, golden, golden_trees, metric_specs, strategies, trees
from tests.helpers.raw import of_kind

counters = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-130, 130),
    st.sampled_from([s * (1 << b) + d for s in (1, -1) for b in (7, 15, 31) for d in (-1, 0, 1)]),
)


@st.composite
def flat(draw):
    spec = draw(strategies.specs(max_depth=3, max_width=5))
    values = draw(st.lists(counters, min_size=spec.cells, max_size=spec.cells))
    kind = by_hand.RELEASED[draw(st.sampled_from(strategies.KINDS))]
    array = np.array(values, dtype=np.int64).reshape(spec.depth, spec.width)
    statement = draw(strategies.statements())
    scale_bits = draw(st.sampled_from([0, 1, 16])) if isinstance(statement.bounds, NormBound) else 0
    return kind(of_kind(kind.raw_type, spec), array, statement, scale_bits)


@st.composite
def listed(draw):
    spec = ListedItems(draw(strategies.item_lists.filter(bool)))
    values = draw(st.lists(counters, min_size=spec.cells, max_size=spec.cells))
    return ReleasedListedItems(spec, np.array(values, dtype=np.int64), draw(strategies.statements()))


releases = st.one_of(flat(), listed(), trees.releases())
RELEASES = {**golden.good(), **golden_trees.good()}


def _is_refused_or_written_again(data):
    """The one law of the reader: refuse with `FormatError`, or have read the only bytes of this release."""
    try:
        it = Released.from_bytes(data)
    except FormatError:
        return True
    return it.to_bytes() == data


@given(it=releases)
def test_a_release_is_read_back_exactly(it):
    data = it.to_bytes()
    again = Released.from_bytes(data)
    assert type(again) is type(it)
    assert (again.spec, again.privacy) == (it.spec, it.privacy)
    assert again.counters.dtype == it.counters.dtype
    np.testing.assert_array_equal(again.counters, it.counters)
    assert again.to_bytes() == data
    assert Released.from_bytes(bytearray(data)) == Released.from_bytes(memoryview(data)) == it
    assert getattr(again.spec, "items", None) == getattr(it.spec, "items", None)
    for copied in (pickle.loads(pickle.dumps(it)), copy.deepcopy(it), copy.copy(it)):
        assert copied == it
        assert hash(copied) == hash(it)


def test_counters_take_the_narrowest_integers_that_hold_them():
    spec = SketchSpec(depth=1, width=100)
    sizes = [
        len(by_hand.released(CountMin, spec, np.full((1, 100), value)).to_bytes())
        for value in (127, -128, 128, -32_768, 32_768, -(1 << 31), 1 << 31, -(1 << 63))
    ]
    assert [size - sizes[0] for size in sizes] == [
        0,
        0,
        100,
        100,
        301,
        301,
        701,
        701,
    ]  # a length above 255 takes 2 bytes


def _small():
    return golden.good()["count_min"].to_bytes()


@pytest.mark.parametrize("name", ["count_min", "count_sketch_side_notes", "count_min_one_note", "dyadic"])
def test_every_truncation_is_refused(name):
    data = RELEASES[name].to_bytes()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            Released.from_bytes(data[:size])
        assert _is_refused_or_written_again(golden.sealed(data[:size]))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", ["count_min", "count_sketch_side_notes", "dyadic"])
def test_every_change_of_one_byte_is_refused(name):
    data = RELEASES[name].to_bytes()
    for position in range(len(data)):
        for flip in (1, 2, 4, 8, 16, 32, 64, 128, 255):
            with pytest.raises(FormatError):
                Released.from_bytes(data[:position] + bytes([data[position] ^ flip]) + data[position + 1 :])


@pytest.mark.parametrize("more", [b"\x00", b"\xff", bytes(16), _small()])
def test_bytes_at_the_end_are_refused(more):
    with pytest.raises(FormatError):
        Released.from_bytes(_small() + more)
    with pytest.raises(FormatError):
        Released.from_bytes(golden.sealed(_small()[: -golden.DIGEST_BYTES] + more))


@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda tail: b"DPSK\x01\x00" + tail)))
def test_junk_is_refused(data):
    for attempt in (data, golden.sealed(data)):
        with pytest.raises(FormatError):
            Released.from_bytes(attempt)


def _mutated(data, draw_integer):
    """The body with a few bytes replaced, removed, inserted or copied, under a right digest."""
    body = bytearray(data[: -golden.DIGEST_BYTES])
    for _ in range(draw_integer(1, 4)):
        start = draw_integer(0, len(body))
        size = draw_integer(0, 8)
        kind = draw_integer(0, 4)
        special = (b"\x00", b"\xff", b"\x01", b"\x80")[draw_integer(0, 3)]
        if kind == 0:
            body[start : start + size] = special * size
        elif kind == 1:
            body[start : start + size] = b""
        elif kind == 2:
            body[start:start] = special * size
        elif kind == 3:
            other = draw_integer(0, len(body))
            body[start : start + size] = body[other : other + size]
        elif start < len(body):
            body[start] = draw_integer(0, 255)
    return golden.sealed(bytes(body))


@pytest.mark.slow
@given(it=releases, data=st.data())
@settings(max_examples=2000, deadline=None)
def test_mutants_under_a_right_digest_are_refused_or_written_again(it, data):
    mutant = _mutated(it.to_bytes(), lambda low, high: data.draw(st.integers(low, high)))
    assert _is_refused_or_written_again(mutant)


@pytest.mark.slow
def test_many_mutants_and_noise():
    source = random.Random(20_260_101)
    corpus = [it.to_bytes() for it in golden.good().values()] + list(golden.bad().values())
    end = time.monotonic() + 20
    tried = 0
    while time.monotonic() < end:
        for _ in range(200):
            chosen = source.choice(corpus) or b"DPSK"
            mutant = _mutated(chosen, source.randint)
            assert _is_refused_or_written_again(mutant), mutant.hex()
            assert _is_refused_or_written_again(source.randbytes(source.randint(0, 200)))
            tried += 1
            if source.random() < 0.01 and len(mutant) < 2000:
                corpus[source.randrange(len(corpus))] = mutant
    assert tried > 1000


@pytest.mark.parametrize("value", [None, "DPSK", 5, [1, 2], io.BytesIO(b"DPSK"), np.zeros(3)])
def test_what_is_not_bytes_is_refused(value):
    with pytest.raises(FormatError, match="expected bytes"):
        Released.from_bytes(value)


@pytest.mark.parametrize("name", RELEASES)
def test_golden_releases_are_read_and_written_for_ever(name):
    data = golden.path(name).read_bytes()
    it = Released.from_bytes(data)
    assert it.to_bytes() == data
    assert it == RELEASES[name]


def test_golden_releases_have_their_known_answers():
    it = {name: Released.from_bytes(golden.path(name).read_bytes()) for name in golden.good()}
    offset = 3 * math.sqrt(2 * math.log(4 * 24 / 0.01))
    assert it["count_min"].spec == SketchSpec(kind="count_min", depth=3, width=8, seed=7)
    np.testing.assert_allclose(it["count_min"].minimum(["a", "b", "empty"]) - offset, [5, 2, 0], atol=1e-9)
    keyed = it["count_sketch_blake2b_int64"]
    assert keyed.estimate(["a", "b", ("a", 1)]).tolist() == [1_099_511_627_776, -34_359_738_366.5, -17_179_869_181]
    assert keyed.spec.item_key == bytes(range(16))
    wide = it["count_sketch_int16"]
    assert wide.counters.tolist() == [[300, -300, 0, 32_767]]
    assert wide.privacy.rho == Fraction(22, 7)
    assert wide.privacy.sigma_squared == Fraction(10**40 + 1, 3**50)
    assert wide.privacy.disclosed == Disclosure.KEYS | Disclosure.WINDOWS
    assert (wide.privacy.window_count, wide.privacy.bounds.max_weight, wide.privacy.bounds.signed) == (12, 100, True)
    assert it["count_min_int32"].counters.tolist() == [[1 << 20, -1], [0, 70_000]]
    assert it["count_min_int32"].privacy.privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW
    assert it["count_min_combined"].counters.tolist() == [[11, 22, 33]]
    assert it["count_min_combined"].privacy.rho == Fraction(5, 6)
    assert it["count_min_combined"].privacy.sigma_squared == 18
    over_time = it["count_min_over_time"]
    assert over_time.counters.tolist() == [[2.0, 0.25]]
    assert over_time.privacy.privacy_unit is PrivacyUnit.PRIVACY_ID_OVER_HORIZON
    assert (over_time.privacy.rho, over_time.privacy.window_count) == (Fraction(1, 2), 7)
    assert over_time.privacy.over_time == AnswerNote(BinaryTree(64), 33)
    in_period = it["count_min_in_period"].privacy
    assert (in_period.privacy_unit, in_period.window_count) == (PrivacyUnit.PRIVACY_ID_IN_PERIOD, 3)
    assert (in_period.period_micros, in_period.randomness) == (86_400_000_000, Randomness.SYSTEM)
    assert (in_period.reported_delta, it["count_min_keyed"].privacy.reported_delta) == (1e-9, 1e-6)
    assert it["count_min_keyed"].privacy.randomness is Randomness.KEYED
    parts, whole = it["count_sketch_norm_parts"], it["count_min_norm_whole"]
    assert parts.privacy.bounds == NormBound(Fraction(5, 2), max_per_item=1)
    assert (parts.counters.dtype, parts.counters.tolist()) == (np.float64, [[1.03125, -0.03125], [32_768, 0]])
    assert whole.privacy.bounds == NormBound(20, max_weight=7, signed=True, max_distinct_items=1000)
    assert (whole.counters.dtype, whole.counters.tolist()) == (np.int64, [[300, -2], [298, 0]])
    people, records = it["count_sketch_side_notes"].privacy, it["count_min_one_note"].privacy
    assert (people.norm_share, people.sketch_share) == (Fraction(1, 20), Fraction(257, 300))
    assert [note.names for note in people.side] == [("units",), ("records",), ("weight",), ("clipped",), ("scaled",)]
    assert [note.estimate for note in people.side] == [1200, 5000 + 2**-16, -4900, 300, -7 / (1 << 16)]
    assert people.side[1].sigma_squared == Fraction(10**30 + 1, 3**50)
    assert people.side[3].squared_limit == Fraction(25, 4)
    assert {note.scale_bits for note in people.side} == {16}
    numbers, squares = it["statistics"], it["statistics_variance"]
    assert numbers.spec == StatisticsSpec(IntegerDomain(-5, 10))
    assert numbers.counters.tolist() == [5 + 8 + 8 + 15, 10 + 7 + 7 + 0]
    assert (numbers.count().estimate, numbers.total().estimate) == (4, 0 + 3 + 3 + 10)
    assert squares.spec == StatisticsSpec(FloatDomain(-1.0, 2.75, 1e-6), variance=True)
    assert squares.count().estimate == 3 / 32
    assert squares.total().estimate * 32 == pytest.approx(-1 + 0 + 2, abs=1e-4)
    several, in_bytes = it["metrics"], it["metrics_bytes"]
    assert several.spec == metric_specs.SPECS["one number, unequal shares"]
    assert several.shares == {"a": Fraction(1, 2), "b": Fraction(1, 3), "c": Fraction(1, 6)}
    assert several["c"].counters.tolist() == [0] * 4  # of 2.5, which is not listed
    assert several["b"].count().estimate == pytest.approx(9)
    assert in_bytes["b"].count().estimate == pytest.approx(1 / 32)
    assert in_bytes["c"].counters.tolist() == [1 / 32, 0, 0, 0]
    whole, fine = it["factor"], it["factor_norm_parts"]
    assert whole.spec == FactorizationSpec(IntegerDomain(-5, 10))
    assert whole.counters.tolist()[:8] == [0] * 5 + [1056, 528, 396]  # 2^-7 of 132 * 1024, of half and 3/8 of it
    np.testing.assert_allclose(whole.weights, [0] * 5 + [1, 0, 0, 2] + [0] * 6 + [1], atol=2e-3)
    assert (whole.counters.dtype, fine.counters.dtype) == (np.int64, np.float64)
    np.testing.assert_allclose(fine.weights, [3, 0, 0, 0, -2] + [0] * 7 + [7, 0, 0, 0], atol=2e-4)
    both = it["factor_combined"]
    np.testing.assert_allclose(both.weights, whole.weights + np.array([2] + [0] * 15), atol=2e-3)
    assert both.privacy.sigma_squared == 18
    below = it["dyadic_below_factor"]
    assert below.counters.tolist()[:3] == [0, 0, 1048]  # 2^-7 of 131 * 1024: a record in the third of 8 nodes
    np.testing.assert_allclose(below.rank([-5, 0, 2, 4, 10]), [0, 1, 1, 3, 4], atol=2)
    assert it["metrics_factor"]["b"].counters.tolist() == [1, 1]
    np.testing.assert_allclose(it["metrics_factor"]["a"].rank([2, 3, 10]), [0, 1, 2], atol=2e-3)
    assert (records.norm_share, records.sketch_share) == (None, Fraction(49, 50))
    assert records.side == (
        by_hand.note(("units", "records", "weight"), Fraction(1, 50), Fraction(1), Fraction(50), -42),
    )


@pytest.mark.parametrize("name", golden.rows())
def test_golden_rows_are_read_as_they_were_written(name):
    it, expected = TimelineRow.from_bytes(golden.path(name).read_bytes()), golden.rows()[name]
    assert (it.kind, it.spec, it.privacy, it.number) == (
        expected.kind,
        expected.spec,
        expected.privacy,
        expected.number,
    )
    assert it.counters.tolist() == [7 * 8, -300 * 8, 0]
    with pytest.raises(FormatError, match="timeline row"):
        Released.from_bytes(expected.to_bytes())


@pytest.mark.parametrize("name", [name for name in golden.good() if name.startswith("dyadic")])
def test_golden_trees_have_the_spec_and_the_counters_they_were_written_with(name):
    it, expected = Released.from_bytes(golden.path(name).read_bytes()), golden.good()[name]
    assert type(it) is type(expected)
    assert (it.spec, it.privacy) == (expected.spec, expected.privacy)
    assert it.counters.tolist() == expected.counters.tolist()
    assert name == "dyadic_below_factor" or it.counters.tolist() == list(range(expected.spec.cells))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", RELEASES)
def test_every_changed_byte_of_any_kind_of_release_is_refused_or_another_release(name):
    """Under a right digest, so the fields must defend themselves."""
    body = RELEASES[name].to_bytes()[: -golden.DIGEST_BYTES]
    for position in range(len(body)):
        for value in (0, 1, 2, 3, 64, 127, 128, 255):
            assert _is_refused_or_written_again(golden.sealed(body[:position] + bytes([value]) + body[position + 1 :]))


def test_bad_files_are_refused_for_ever():
    files = sorted(golden.FOLDER.glob("bad_*.dpsketch"))
    assert {path.stem for path in files} >= set(golden.bad())
    for path in files:
        with pytest.raises(FormatError):
            Released.from_bytes(path.read_bytes())


def test_a_header_that_claims_a_huge_sketch_allocates_nothing():
    data = golden.bad()["bad_huge_shape"]
    tracemalloc.start()
    with pytest.raises(FormatError, match="length"):
        Released.from_bytes(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


MANY = 1 << 20
CROWDED = {
    "empty lists": b"\xdd" + MANY.to_bytes(4, "big") + b"\x90" * MANY,
    "short texts": b"\xdd" + MANY.to_bytes(4, "big") + b"\xa2no" * MANY,
    "lists in lists": (b"\xdd" + MANY.to_bytes(4, "big")) * 500 + b"\xc0" * MANY,
    "a map": b"\xdf" + MANY.to_bytes(4, "big") + b"\xc0" * MANY,
    "an extension": b"\xc9" + MANY.to_bytes(4, "big") + b"\1" * (MANY + 1),
}


@pytest.mark.parametrize("name", CROWDED)
def test_more_values_than_a_release_has_are_refused_before_they_are_made(name: str) -> None:
    """An empty list takes one byte in the file and some 60 in memory; a list says first how long it is."""
    data = golden.sealed(release_format.RELEASE_START + CROWDED[name])
    tracemalloc.start()
    for read in (Released.from_bytes, lambda _: release_format.unpack_statement(CROWDED[name])):
        with pytest.raises(FormatError, match=r"more than|wrong type"):
            read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(data) + (1 << 16)


def test_releases_of_as_many_runs_as_may_be_are_read() -> None:
    ids = tuple(number.to_bytes(48, "big") for number in range((1 << 16) - 1))
    spec, counters, privacy, bits = release_format.unpack(golden.good()["count_min"].to_bytes())
    it = Released.from_bytes(release_format.pack(spec, counters, dataclasses.replace(privacy, release_ids=ids), bits))
    assert it.privacy.release_ids == ids


def test_the_size_does_not_depend_on_the_data_but_through_the_width_of_integers():
    spec = SketchSpec(depth=2, width=50)
    sizes = {
        len(by_hand.without_noise(CountSketch(spec).accumulate(items)).to_bytes())
        for items in ([], ["a"], range(100), [f"text {number}" for number in range(30)])
    }
    assert len(sizes) == 1


@pytest.mark.parametrize("room", ["statement", "answers", "noise"])
def test_nothing_that_reads_releases_can_unpickle_or_evaluate(room):
    files = [*(pathlib.Path(beam_dpsketch.__file__).parent / room).rglob("*.py")]
    assert files
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
                assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(names), path.name
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("eval", "exec", "np.load", "compile", "__import__"), path.name


def test_a_pickle_of_a_release_holds_nothing_but_its_bytes():
    it = golden.good()["count_min"]
    function, arguments = it.__reduce__()
    assert (function, arguments) == (Released.from_bytes, (it.to_bytes(),))
    assert pickle.loads(pickle.dumps(it)) == it


def test_answers_do_not_change_the_bytes_or_the_pickle() -> None:
    release = RELEASES["dyadic"]
    before = release.to_bytes()
    release.quantile([0.5])
    release.with_total(7.0, force=True).quantile([0.5], method="residual")
    release.top_k(3)
    assert release.to_bytes() == before
    assert len(pickle.dumps(release)) < len(before) + 200


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
            Released.from_bytes(release.to_bytes())


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
    with pytest.raises(FormatError, match="levels must contain 1 to 65 levels, got 20002"):
        Released.from_bytes(release.to_bytes())
    assert time.process_time() - start < 60


def test_golden_trees_have_their_known_answers() -> None:
    mixed = Released.from_bytes(golden.path("dyadic").read_bytes())
    assert isinstance(mixed, ReleasedDyadicCountSketch)
    assert mixed.rank([-20, -5, 0, 7, 1000], method="paper").tolist() == [4, 193, 293, 343, 344]
    fitted = mixed.rank([-5, 0, 7], method="least_squares")
    assert fitted == pytest.approx([191.157132, 288.197571, 304.985648], rel=1e-6)
    assert mixed.chosen_method == "residual"
    assert mixed.rank([-5, 0, 7]) == pytest.approx([199.294159, 298.350725, 343.533210], rel=1e-6)
    search = Released.from_bytes(golden.path("dyadic_search").read_bytes())
    assert search.rank(["10.0.0.1", "11.0.0.0", "255.255.255.255"]) == pytest.approx([7000, 11_000, 16_000])
    assert [frequency.item for frequency in search.top_k(4)] == ["10.0.0.1", "99.1.2.3", "10.0.0.9"]
    assert search.quantile([0.3, 0.6, 0.9]).estimate == ("10.0.0.1", "10.0.0.9", "99.1.2.3")
    assert search.privacy.rho == Fraction(22, 7)


@pytest.mark.parametrize("levels", [1, 3])
def test_a_release_has_one_sigma_for_each_level(levels: int) -> None:
    with pytest.raises(ValueError, match="sigma_squared_per_level must have a value for each level"):
        trees.released(trees.exact_tree(5), range(7), sigma_squared_per_level=(Fraction(9),) * levels)
    with pytest.raises(ValueError, match="counters must have 7 values of type int64"):
        trees.released(trees.exact_tree(5), range(8))
