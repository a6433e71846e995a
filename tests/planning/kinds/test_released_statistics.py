"""Released statistics: numpy's figures where there is no noise, all that is possible where nothing can be told."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    FloatDomain,
    Horizon,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    SketchTimeline,
    release_frame,
)
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.by_hand import release
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.privacy.contributions import PrivacyUnit
from tests.helpers import by_hand, laws, timeline_rows
from tests.helpers.noise import without_noise

SURE = 1 - 1e-12
LEAST_NOISE, MANY = Fraction(1, 256), 100_000
DOMAINS = {
    "two values": IntegerDomain(3, 4),
    "integers": IntegerDomain(-20, 300),
    "many integers": IntegerDomain(0, 100_000),
    "integers, more than steps": IntegerDomain(-(1 << 40), 1 << 41),
    "fractions": FloatDomain(-1.5, 2.5, 0.25),
    "fine fractions": FloatDomain(0.0, 1.0, 1e-4),
    "fractions, more than steps": FloatDomain(-10.0, 5000.0, 1e-9),
    "a last step beyond the end": FloatDomain(0.0, 10.0, 0.6),
    "prices": FloatDomain(0.0, 59.99, 0.1),
    "two values, the second beyond the end": FloatDomain(0.0, 1.0, 1.9),
    "a last step before the end": FloatDomain(-3.0, 7.0, 0.75),
}
FAR = {
    "as wide as possible": FloatDomain(-1e100, 1e100, 1e90),
    "narrow": FloatDomain(0.0, 1e-99, 1e-102),
    "two values that are one float": IntegerDomain((1 << 64) - 2, (1 << 64) - 1),
}
every_domain = pytest.mark.parametrize("name", DOMAINS)


def sums_of(domain: Any, values: Any, weights: Any = None) -> NumberSums:
    return NumberSums(StatisticsSpec(domain, variance=True)).accumulate(values, weights)


def moved(domain: Any, values: np.ndarray) -> np.ndarray:
    """The values of the domain that numbers are moved to: within the value range, and to whole steps of it."""
    return np.array(domain.values(domain.index(values)[0]), dtype=np.float64)


def samples(domain: Any) -> Iterator[np.ndarray]:
    """Numbers that are spread out, skewed, equal, at both ends, and outside the value range."""
    low, high = (float(end) for end in domain.values(np.array([0, domain.size - 1], dtype=np.uint64)))
    rng, width = np.random.default_rng(5), high - low
    yield low + width * rng.random(1000)
    yield low + width * rng.random(700) ** 9
    yield np.full(50, low + 0.3 * width)
    yield np.array([low, high] * 20)
    yield np.full(3, high)
    yield low + width * (3 * rng.random(500) - 1)


def errors(spec: StatisticsSpec, deviation: float) -> tuple[float, float]:
    """How far a mean and a variance may be from those of numbers, by the rounding that `sums` states.

    Numbers are moved by 2^-18 of the width at most where there are more than 2^17 steps. Floors take less than 2^-18 of
    the squared width from squares that are no whole number of parts, and half of that from the sum.
    """
    width = spec.ends[1] - spec.ends[0]
    step = width * 2.0**-18 if spec.domain.size - 1 > 1 << 17 else 0.0
    floored = 2.0**-18 if (spec.domain.size - 1) ** 2 > 1 << 18 else 0.0
    floats, of_square = 1e-12 * max(map(abs, spec.ends)), width**2 * floored
    return step + width * floored / 2 + floats, of_square + step * (2 * deviation + step) + 1e-9 * (width / 2) ** 2


def check_exact(domain: Any) -> None:
    for values in samples(domain):
        values = np.rint(values).astype(np.int64) if isinstance(domain, IntegerDomain) else values
        clipped = moved(domain, values)
        raw = sums_of(domain, values, np.full(len(values), MANY))
        released = by_hand.numbers(raw, parameter=LEAST_NOISE)
        of_mean, of_variance = errors(raw.spec, float(clipped.std()))
        count, total, mean = released.count(), released.total(), released.mean()
        variance, std = released.variance(), released.std()
        assert count.estimate == pytest.approx(len(values) * MANY, rel=1e-12)
        assert mean.estimate is not None, "not told"
        assert variance.estimate is not None, "not told"
        assert std.estimate is not None, "not told"
        assert abs(mean.estimate - clipped.mean()) <= of_mean, "another mean"
        assert abs(total.estimate - math.fsum(clipped) * MANY) <= of_mean * len(values) * MANY, "another total"
        assert abs(variance.estimate - clipped.var()) <= of_variance, "another variance"
        assert std.estimate == pytest.approx(math.sqrt(variance.estimate), rel=1e-12), "another root"
        floats = 1e-12 * max(map(abs, raw.spec.ends))
        for told, true in ((total, math.fsum(clipped) * MANY), (mean, clipped.mean())):
            slack = floats * (len(values) * MANY if told is total else 1)
            assert told.lower - slack <= true <= told.upper + slack, "an interval forgets the rounding"
        for told, true in ((variance, clipped.var()), (std, clipped.std())):
            slack = 1e-9 * float(np.ptp(raw.spec.ends)) ** (2 if told is variance else 1)
            assert told.lower - slack <= true <= told.upper + slack, "a spread forgets the rounding"
        assert (mean.notes, variance.notes) == ((), ())


@every_domain
def test_without_noise_figures_are_those_of_numpy(name: str) -> None:
    check_exact(DOMAINS[name])


@pytest.mark.parametrize("bits", [0, 30, 53, 54, 56, 58, 60, 62])
@pytest.mark.parametrize("half", [10, 1000, 10**9])
def test_whole_numbers_far_from_0_have_the_spread_that_they_have_near_it(bits: int, half: int) -> None:
    """As times in nanoseconds; from 2^53 on, neighboring whole numbers are one float."""
    middle = (1 << bits) + half
    domain, values = IntegerDomain(middle - half, middle + half), [middle - half // 10, middle + half // 10] * 500
    raw = sums_of(domain, values, np.full(len(values), MANY))
    released = by_hand.numbers(raw, parameter=LEAST_NOISE)
    mean, spread, deviation = released.mean(SURE), released.variance(SURE), released.std(SURE)
    assert Fraction(mean.lower) <= middle <= Fraction(mean.upper)
    assert mean.estimate == pytest.approx(middle, rel=1e-15, abs=half / MANY)
    assert spread.lower <= (half // 10) ** 2 <= spread.upper
    assert deviation.estimate == pytest.approx(half // 10, rel=1e-3)
    low, high = released.spec.ends
    assert Fraction(low) <= domain.low < domain.high <= Fraction(high)


@pytest.mark.parametrize("outward", [True, False])
def test_a_spread_includes_that_all_numbers_were_moved_by_the_most(outward: bool) -> None:
    """8 values make a step, and these lie in the middle of two: all are moved away from the mean, or all towards it.

    The deviation is moved by half a step of 2^-17. A release with the least noise knows it to 10^-8.
    """
    domain = IntegerDomain(0, 1 << 20)
    low, high = (8 * 16_384 + 4, 8 * 98_303 + 4) if outward else (8 * 16_385 + 4, 8 * 98_304 + 4)
    values = np.array([low, high] * 500)
    raw = sums_of(domain, values, np.full(len(values), MANY))
    spec = raw.spec
    places = spec.places(np.array([low, high], dtype=np.uint64)).astype(np.float64) * 8
    assert np.abs(places - [low, high]).tolist() == [4, 4]
    assert (places[1] - places[0] > high - low) == outward
    released = by_hand.numbers(raw, parameter=LEAST_NOISE)
    spread, deviation = released.variance(SURE), released.std(SURE)
    assert spread.lower <= ((high - low) / 2) ** 2 <= spread.upper
    assert deviation.lower <= (high - low) / 2 <= deviation.upper
    assert deviation.upper - deviation.lower < 2 * 8 * 1.5  # twice half a step of 8, and what floors take of squares


@pytest.mark.parametrize("domain", [*DOMAINS.values(), IntegerDomain(1 << 62, (1 << 62) + 999)], ids=repr)
def test_what_is_true_of_numbers_is_told_exactly(domain: Any) -> None:
    """The column `exact` of a rehearsal, against fractions of the values of the domain."""
    spec, rng = StatisticsSpec(domain, variance=True), np.random.default_rng(2)
    positions = (rng.random(300) * min(domain.size, 1 << 17)).astype(np.uint64)
    weights = rng.integers(1, 9, 300)
    exact = [Fraction(value) for value in domain.values(positions)]
    count = int(weights.sum())
    mean = sum(value * int(weight) for value, weight in zip(exact, weights, strict=True)) / count
    spread = sum((value - mean) ** 2 * int(weight) for value, weight in zip(exact, weights, strict=True)) / count
    found = spec.exactly(spec.places(positions), weights)
    step = float(Fraction(domain.values(np.array([domain.size - 1], dtype=np.uint64))[0]) - exact[0]) * spec.moved
    assert found["count"] == count
    assert found["mean"] == pytest.approx(float(mean), rel=1e-12, abs=abs(step))
    assert found["total"] == pytest.approx(float(mean) * count, rel=1e-12, abs=abs(step) * count)
    assert found["std"] == pytest.approx(math.sqrt(spread), rel=1e-9, abs=abs(step))


# Weights, deletions, and runs that are put together.


@every_domain
@pytest.mark.parametrize("signed", [False, True])
def test_weights_count_a_number_as_often_as_they_say(name: str, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights below 0 too: what is deleted was never there."""
    without_noise(monkeypatch, to_the_last_bit=True)
    domain, rng = DOMAINS[name], np.random.default_rng(3)
    values, often = next(samples(domain))[:200], rng.integers(1, 9, 200)
    if isinstance(domain, IntegerDomain):
        values = np.rint(values).astype(np.int64)
    items, weights = values, often
    if signed:
        items, weights = np.concatenate([values, values, values[::-1]]), np.concatenate([often, often, -often[::-1]])
    terms = ReleaseTerms(PrivacySpec(rho=1), RecordBounds(1, max_weight=9, signed=signed))
    released = release(sums_of(domain, items, weights), terms)
    assert isinstance(released, ReleasedStatistics)
    repeated = by_hand.numbers(sums_of(domain, np.repeat(values, often)))
    assert released.count().estimate == pytest.approx(often.sum(), rel=1e-12)
    assert released.total().estimate == pytest.approx(repeated.total().estimate, rel=1e-12)
    assert released.mean().estimate == pytest.approx(repeated.mean().estimate, rel=1e-12)


@every_domain
def test_a_combination_is_about_both_inputs(name: str) -> None:
    domain = DOMAINS[name]
    first, *_, second = samples(domain)
    if isinstance(domain, IntegerDomain):
        first, second = np.rint(first).astype(np.int64), np.rint(second).astype(np.int64)
    one = by_hand.numbers(sums_of(domain, first))
    combined = one.combine(by_hand.numbers(sums_of(domain, second), release_ids=(bytes(48),)))
    whole = by_hand.numbers(sums_of(domain, np.concatenate([first, second])), parameter=Fraction(18))
    assert combined.counters.tolist() == whole.counters.tolist()
    told = [combined.mean(), combined.variance(), combined.std()]
    assert told == [whole.mean(), whole.variance(), whole.std()]
    assert combined.total().estimate == whole.total().estimate


@pytest.mark.parametrize("mechanism", timeline_rows.KINDS)
def test_answers_over_time_are_about_their_windows(mechanism: str) -> None:
    """Four intervals of 15 ranges of windows: one is wrong with 6e-11.

    An interval of a mean is about 17 wide. For 60, noise must take 200 of 400 records, 50 deviations: below 1e-100.
    """
    rng, horizon = np.random.default_rng(11), Horizon(0, 60, 6)
    values = [rng.integers(low, low + 100, 400) for low in range(-20, 205, 50)]
    leaves = [sums_of(DOMAINS["integers"], each) for each in values]
    timeline = SketchTimeline(timeline_rows.released_rows(leaves, horizon, mechanism, rho=0.5), horizon)
    for first, last in itertools.combinations_with_replacement(range(5), 2):
        released, true = timeline.between(first, last), np.concatenate(values[first : last + 1])
        assert isinstance(released, ReleasedStatistics)
        wanted = {"count": len(true), "total": true.sum(), "mean": true.mean(), "variance": true.var()}
        for name, number in wanted.items():
            told = getattr(released, name)(SURE)
            assert told.lower <= number <= told.upper, name
        mean = released.mean(SURE)
        assert mean.upper - mean.lower < 60, "nothing is known"


# Where nothing can be told.

SPEC = StatisticsSpec(FloatDomain(-5, 20, 0.5), variance=True)


def nothing_known(released: ReleasedStatistics) -> None:
    low, high = released.spec.ends
    half = released.spec.width / 2
    assert released.mean() == (None, low, high)
    assert [note.code for note in released.mean().notes] == ["too_few_records"]
    assert released.variance() == (None, 0.0, half**2)
    assert released.std() == (None, 0.0, half)


@pytest.mark.parametrize("noise", [Fraction(1, 256), Fraction(9), Fraction(1 << 40)])
@pytest.mark.parametrize("parts", [0, 1, -1, -1000])
def test_few_records_tell_nothing_and_all_that_is_possible_is_said(noise: Fraction, parts: int) -> None:
    """Counts within two deviations of their noise, and below 0."""
    number = int(parts * math.sqrt(noise) * 1.9)
    raw = NumberSums.from_vector(SPEC, np.array([number, 3 * number, 5, 0][: SPEC.cells], dtype=np.int64))
    nothing_known(by_hand.numbers(raw, parameter=noise))


@given(
    counters=st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-(1 << 20), 1 << 20)] * 4),
    noise=st.fractions(Fraction(1, 256), 1 << 90),
    squares=st.booleans(),
    scale_bits=st.integers(0, 16),
    has_norm=st.booleans(),
    over=st.sampled_from(sorted(DOMAINS | FAR)),
    confidence=st.sampled_from([1e-6, 0.5, 0.95, 1 - 1e-12]),
)
def test_no_counters_give_answers_that_are_not_finite_or_out_of_order(
    counters: Any, noise: Fraction, squares: bool, scale_bits: int, has_norm: bool, over: str, confidence: float
) -> None:
    spec = StatisticsSpec((DOMAINS | FAR)[over], squares)
    bounds: Any = NormBound(3) if has_norm else RecordBounds(3)
    statement = by_hand.statement(sigma_squared_per_level=(noise,), bounds=bounds)
    released = ReleasedStatistics(spec, np.array(counters[: spec.cells], dtype=np.int64), statement, scale_bits)
    low, high = spec.ends
    for told in (released.count(confidence), released.total(confidence)):
        assert all(map(math.isfinite, told))
        assert told.lower <= told.estimate <= told.upper
    half = spec.width / 2
    answers = [(released.mean(confidence), low, high)]
    if squares:
        answers += [(released.variance(confidence), 0, half**2), (released.std(confidence), 0, half)]
    for answer, least, most in answers:
        assert all(map(math.isfinite, answer[1:]))
        assert least <= answer.lower <= answer.upper <= most
        if answer.estimate is None:
            assert (answer.lower, answer.upper) == (least, most), "more is said than is known"
        else:
            assert answer.lower <= answer.estimate <= answer.upper
    assert str(released.mean(confidence))
    assert repr(released)


# More weight than counters hold.


def of_weight(domain: Any, value: float, records: int) -> ReleasedStatistics:
    """A release of equal numbers of the largest weight."""
    raw = sums_of(domain, np.full(records, value), np.full(records, HEAVY.max_weight))
    released = release(raw, ReleaseTerms(PrivacySpec(rho=1), HEAVY, privacy_unit=PrivacyUnit.PRIVACY_ID))
    assert isinstance(released, ReleasedStatistics)
    return released


HEAVY = RecordBounds(1, max_weight=1 << 29)
WIDE = DOMAINS["fractions, more than steps"]
TIMES = [1 << bits for bits in range(2, 20)] + [3 << bits for bits in range(2, 18)] + [33_333, 50_001]


def check_full() -> set[bool]:
    """Raise if a release of any weight is wrong; return whether it told a mean.

    A part wraps around from about 100,000 of these records on, the guard from 60 million. Of an interval at most 10 in
    10^12 are wrong: 4e-10 in all.
    """
    told = set()
    for records in TIMES:
        released = of_weight(WIDE, 4000.0, records)
        weight, count = records * float(HEAVY.max_weight), released.count(SURE)
        total, mean, spread = released.total(SURE), released.mean(SURE), released.std(SURE)
        assert count.lower <= weight <= count.upper, "a wrong count"
        assert total.lower <= 4000.0 * weight <= total.upper, "a wrong total"
        assert mean.lower <= 4000.0 <= mean.upper, "a wrong mean"
        assert spread.lower <= 0.05, "a wrong deviation"
        told |= {mean.estimate is not None}
        if mean.estimate is None:
            assert (mean.lower, mean.upper) == released.spec.ends, "more is said than is known"
    return told


def test_more_weight_than_counters_hold_is_never_a_wrong_number() -> None:
    assert check_full() == {True, False}


def test_a_noisier_release_does_not_hide_that_another_is_full() -> None:
    """Noise with a fine grid leaves less room, and a combination has the noise of both."""
    weight, bounds = 1 << 37, RecordBounds(1, max_weight=1 << 20)
    raw = sums_of(WIDE, [4000.0], [weight << 10])  # as the finest grid leaves them, after 4 bits of it are rounded off
    fine = by_hand.numbers(raw, parameter=Fraction(1, 256), bounds=bounds, scale_bits=10)
    noisier = by_hand.numbers(sums_of(WIDE, []), parameter=Fraction(1 << 40), bounds=bounds, release_ids=(bytes(48),))
    for released in (fine, fine.combine(noisier)):
        assert released.count(0.999999).lower <= weight <= released.count(0.999999).upper
        assert released.total(0.999999).lower <= 4000.0 * weight <= released.total(0.999999).upper
        nothing_known(released)


def test_a_norm_leaves_less_room() -> None:
    """Weights are in units of 2^-16 there. In 19 releases, 3 of 10^12 intervals are wrong: 1e-10 in all."""
    terms = ReleaseTerms(PrivacySpec(rho=1), NormBound(1 << 10, max_weight=2), privacy_unit=PrivacyUnit.PRIVACY_ID)
    for bits in range(20, 39):
        raw = sums_of(WIDE, [4000.0], [1 << bits + 16]).in_units_of(16)
        released = release(raw, terms)
        assert isinstance(released, ReleasedStatistics)
        count, total, mean = released.count(SURE), released.total(SURE), released.mean(SURE)
        assert count.lower <= 2**bits <= count.upper
        assert total.lower <= 4000.0 * 2**bits <= total.upper
        assert mean.lower <= 4000.0 <= mean.upper
        assert (mean.estimate is None) == (0.64 * 2.0 ** (bits + 16 + 18) >= 2.0**63)


FORGOTTEN = laws.put(ReleasedStatistics, "_is_full", False)
test_a_count_that_is_not_looked_at_is_found = laws.mutants(
    {"whether counters are full": FORGOTTEN}, check_full, words="wrong", intact=True
)


def test_heavy_tables_tell_no_wrong_number() -> None:
    """110,000 people of the largest weight are more than a part holds, in a table too: 4e-12."""
    people = np.arange(110_000)
    table = pa.table({"person": people, "n": np.full(len(people), HEAVY.max_weight), "x": np.full(len(people), 4000.0)})
    declared = ReleaseSpec(Statistics(WIDE, variance=True), PrivacySpec(rho=1), PrivacyId("person", HEAVY), "x", "n")
    released: Any = release_frame(table, declared)
    weight, total = len(people) * float(HEAVY.max_weight), released.total(SURE)
    assert released.count(SURE).lower <= weight <= released.count(SURE).upper
    assert total.lower <= 4000.0 * weight <= total.upper
    nothing_known(released)
