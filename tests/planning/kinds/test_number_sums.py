"""Raw sums of numbers: linear, parts that sum to the amount, and the rounding that is stated and no more."""

from __future__ import annotations

import datetime
import decimal
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import FloatDomain, IntegerDomain
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from tests.helpers import laws, norms, strategies

SMALL = [IntegerDomain(low, low + steps) for low in (-7, 0, 40) for steps in (1, 2, 3, 10, 600)]
SMALL += [FloatDomain(-1, 1, 0.25), FloatDomain(0, 0.3, 0.1), FloatDomain(0, 1, 0.55), FloatDomain(0, 1, 0.001)]
LARGE = [
    IntegerDomain(0, (1 << 17) - 1),
    IntegerDomain(0, 1 << 17),
    IntegerDomain(-3, (1 << 17) - 2),
    IntegerDomain(-(1 << 63), (1 << 63) - 1),
    FloatDomain(-5, 1000, 1e-6),
]


def of(domain: Any, variance: bool = True) -> StatisticsSpec:
    return StatisticsSpec(domain, variance)


def some_positions(domain: Any) -> np.ndarray:
    """All positions of a small domain; of others, those next to the ends and the middle, and some between."""
    last = domain.size - 1
    if last <= 1000:
        return np.arange(last + 1, dtype=np.uint64)
    near = [place + step for place in (0, last // 2, last) for step in range(-3, 4)]
    between = [last * part // 997 for part in range(997)]
    return np.array(sorted({place for place in [*near, *between] if 0 <= place <= last}), dtype=np.uint64)


def changes(spec: StatisticsSpec, positions: np.ndarray) -> np.ndarray:
    """What a record at each position changes, of shape (positions, counters)."""
    places = spec.places(positions)
    return np.array([NumberSums(spec).accumulate_keys(places[n : n + 1], None).counters for n in range(len(places))])


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("domain", [*SMALL, *LARGE], ids=repr)
def test_the_parts_of_each_record_sum_to_the_amount_and_none_is_negative(domain: Any, variance: bool) -> None:
    spec = of(domain, variance)
    found = changes(spec, some_positions(domain))
    ((rows, has_signs, share, square, _),) = NumberSums.tables(spec)
    assert [math.isqrt(square)] == norms.amounts_of(spec)
    assert math.isqrt(square) ** 2 == square
    assert found.min() >= 0
    assert {*found.sum(axis=1).tolist()} == {math.isqrt(square)}
    assert (rows, has_signs, share) == (1, False, 1)
    guard = [math.ceil(spec.whole / 1024)] * (spec.whole >= 128)
    assert found[0].tolist() == [*[0] * (spec.parts - 1), spec.whole, *guard]
    assert found[-1].tolist() == [spec.whole, *[0] * (spec.parts - 1), *guard]


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.parametrize("domain", [*SMALL, *LARGE], ids=repr)
def test_norms_count_what_a_record_adds_rounded_up(domain: Any, variance: bool) -> None:
    spec, unit = of(domain, variance), 1 << NumberSums.amount_bits
    positions, (amount,) = some_positions(domain), norms.amounts_of(spec)
    added = changes(spec, positions).tolist()
    found = NumberSums.amounts_of(spec, spec.places(positions)).T.tolist()
    assert found == [[math.ceil(Fraction(each * unit, amount)) for each in parts] for parts in added]
    assert max(sum(each**2 for each in parts) for parts in found) <= (unit + 4) ** 2  # N <= W (1 + 2^-10)


@pytest.mark.parametrize("domain", [*SMALL, *LARGE], ids=repr)
def test_a_record_is_counted_by_its_place_up_to_what_is_stated(domain: Any) -> None:
    """A place is moved by 2^-18 of the width at most, and floors take less than 2^-18 from its squares."""
    spec, last = of(domain), domain.size - 1
    positions = some_positions(domain)
    sums, squares = changes(of(domain, False), positions).tolist(), changes(spec, positions).tolist()
    for position, (above, below, *_), (first, _, third, *_) in zip(positions.tolist(), sums, squares, strict=True):
        x, counted = Fraction(position, last), Fraction(above, above + below)
        assert abs(counted - x) <= (Fraction(1, 1 << 18) * (1 + Fraction(1, 10**6)) if last > 1 << 17 else 0)
        most = Fraction(1, 1 << 18) if last > 512 else 0
        for part, square in ((first, counted**2), (third, (1 - counted) ** 2)):
            taken = square - Fraction(part, spec.whole)
            assert taken == 0 if most == 0 else 0 <= taken < most
    assert spec.moved == (1 / (1 << 18) if last > 1 << 17 else 0)
    assert spec.floored == (1 / (1 << 18) if last > 512 else 0)


numbers = st.sampled_from([of(SMALL[0]), of(SMALL[3], False), of(SMALL[-1]), of(LARGE[0], False), of(LARGE[-1])])
records = st.lists(st.tuples(st.integers(-9, 1009), strategies.weights), max_size=12)


def sums_of(spec: StatisticsSpec) -> laws.SketchOf:
    def of_records(some: laws.Records) -> NumberSums:
        sums = NumberSums(spec)
        return sums.accumulate(*zip(*some, strict=True)) if some else sums

    return of_records


@given(spec=numbers, parts=st.tuples(*[records] * 3))
def test_sums_are_a_commutative_monoid(spec: StatisticsSpec, parts: Any) -> None:
    laws.check_commutative_monoid(sums_of(spec), *parts)


@given(spec=numbers, some=records)
def test_deletion_is_the_inverse_of_insertion(spec: StatisticsSpec, some: Any) -> None:
    laws.check_deletion_is_inverse(sums_of(spec), some)


@given(spec=numbers, first=records, second=records)
def test_merge_changes_only_the_left(spec: StatisticsSpec, first: Any, second: Any) -> None:
    laws.check_merge_changes_only_the_left(sums_of(spec), first, second)


@given(spec=numbers, some=records)
def test_sums_are_those_of_big_integers_that_wrap_around(spec: StatisticsSpec, some: Any) -> None:
    positions, usable = spec.domain.index([value for value, _ in some])
    assert usable.all()
    added = changes(spec, positions).tolist()
    exact = [
        sum(row[cell] * weight for row, (_, weight) in zip(added, some, strict=True)) for cell in range(spec.cells)
    ]
    assert sums_of(spec)(some).counters.tolist() == [(each + (1 << 63)) % (1 << 64) - (1 << 63) for each in exact]


def test_sums_wrap_around_in_silence_also_over_several_calls() -> None:
    """A warning would tell that there is much weight."""
    sums = NumberSums(of(SMALL[3]))
    for _ in range(3):
        sums.accumulate([10], [(1 << 62) // 100 + 1])
    assert sums.counters.tolist() == [300 * ((1 << 62) // 100 + 1) - (1 << 64), 0, 0]


UNUSABLE: list[Any] = [None, float("nan"), "5", b"5", True, (5,), 5j, datetime.date(2020, 5, 5), decimal.Decimal("NaN")]


@pytest.mark.parametrize("domain", [IntegerDomain(0, 10), FloatDomain(0, 10, 0.5)], ids=repr)
def test_what_is_no_number_is_dropped_and_what_is_outside_is_moved_to_the_ends(domain: Any) -> None:
    spec = of(domain)
    wanted = NumberSums(spec).accumulate([0, 10, 3]).counters.tolist()
    values = [-(1 << 70), 1 << 70, decimal.Decimal(3), *UNUSABLE]
    assert NumberSums(spec).accumulate(values).counters.tolist() == wanted
    if isinstance(domain, FloatDomain):
        inside = [float("-inf"), float("inf"), 2.9, *UNUSABLE]
        assert NumberSums(spec).accumulate(inside).counters.tolist() == wanted
    columns = [
        pa.array([-5, 11, 3, None]),
        pa.array([-5, 11, 3, None], pa.decimal128(9, 4)),
        pa.chunked_array([[0, None], [10, 3]]),
        pa.array([3, 10, 0, None]).dictionary_encode(),
    ]
    for column in columns:
        assert NumberSums(spec).accumulate(column).counters.tolist() == wanted


@pytest.mark.parametrize("ends", [(0.0, 1.1e100), (-1e200, 0.0), (1e308, 1.7e308), (0.0, 1e-300), (-1e-101, 1e-101)])
def test_numbers_whose_squares_do_not_fit_into_floats_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="domain must be within 1e100 of 0"):
        of(FloatDomain(*ends, (ends[1] - ends[0]) / 1000))


@pytest.mark.parametrize("variance", [None, 0.1, 1, Fraction(1, 10), "true"])
def test_a_share_for_squares_is_refused_with_what_to_give(variance: Any) -> None:
    with pytest.raises(TypeError, match=r"variance must be True or False, got .* Set variance=True"):
        of(SMALL[0], variance)
