"""The keep-table: every pair is close at every order, for each class, and nearly nothing of rho is left unused.

Divergences are worked out again: with mpmath from the definition, and by a slow recursion that knows nothing of logits,
chords or interpolation. Nothing here is random but fixed seeds.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import mpmath
import numpy as np
import pytest

from beam_dpsketch.privacy import keep_table as module
from beam_dpsketch.privacy.keep_table import KeepTable, keep_table
from tests.helpers import laws

ONE = 1 << 128
HALF = Fraction(1, 2)
RHO_OF_EPSILON_1 = Fraction(229374, 10**7)  # with delta 5e-7, by the best known conversion
DELTA = Fraction(5, 10**7)
NUMBERS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 90, 128, 181, 256)


def classes_up_to(keys: int, grid: int) -> tuple[tuple[int, int], ...]:
    return tuple((j, math.isqrt(grid**2 // j)) for j in NUMBERS if j <= keys)


def pairs(table: KeepTable, weight: int) -> Iterator[tuple[Fraction, Fraction]]:
    """All probabilities that a unit of this weight moves, from 0 to the first that is certain."""
    for statistic in range(len(table.thresholds) + 1):
        yield table.probability(statistic), table.probability(statistic + weight)


def split(low: Fraction, high: Fraction, delta: Fraction) -> tuple[Fraction, Fraction]:
    """The nearest probabilities of which these two are mixtures with weight 1 - delta."""
    low_min, low_max = max(Fraction(0), (low - delta) / (1 - delta)), min(Fraction(1), low / (1 - delta))
    high_min = max(Fraction(0), (high - delta) / (1 - delta))
    near_low = min(max(low_min, high_min), low_max)
    return near_low, max(high_min, near_low)


def loss_over_rho(p: Fraction, q: Fraction, order: float, rho: Fraction) -> float:
    """The larger Renyi divergence of two Bernoulli releases, over rho times its order: at most 1 if they are close."""
    if p == q:
        return 0.0
    if min(p, q) == 0 or max(p, q) == 1:
        return math.inf
    x, y, a = (mpmath.mpf(number.numerator) / number.denominator for number in (p, q, Fraction(order)))
    one_way = x**a * y ** (1 - a) + (1 - x) ** a * (1 - y) ** (1 - a)
    other_way = y**a * x ** (1 - a) + (1 - y) ** a * (1 - x) ** (1 - a)
    bound = (a - 1) * a * rho.numerator / rho.denominator
    return float(mpmath.log(max(one_way, other_way)) / bound)


def worst_loss(
    table: KeepTable, classes: tuple[tuple[int, int], ...], grid: int, rho: Fraction, delta: Fraction, orders: int = 4
) -> float:
    """The largest part of rho that any pair of any class uses at random orders; infinite where delta is exceeded."""
    draw, worst = np.random.default_rng(5), 0.0
    if table.probability(0):
        return math.inf
    with mpmath.workdps(50):
        for j, weight in classes:
            rho_of_key, delta_of_key = rho * Fraction(weight, grid) ** 2, delta / j
            for low, high in pairs(table, weight):
                if low > high:
                    return math.inf
                p, q = split(low, high, delta_of_key)
                assert (1 - delta_of_key) * p <= low <= (1 - delta_of_key) * p + delta_of_key
                assert (1 - delta_of_key) * q <= high <= (1 - delta_of_key) * q + delta_of_key
                if p == q:
                    continue
                if p == 0 or q == 1:
                    return math.inf
                widest = math.log(max(q / p, (1 - p) / (1 - q))) / float(rho_of_key)
                for order in np.cosh(draw.random(orders) * math.acosh(max(widest, 1.1) ** 0.5)) ** 2:
                    worst = max(worst, loss_over_rho(p, q, max(float(order), 1.0001), rho_of_key))
    return worst


SMALL = [
    (classes_up_to(1, 1), 1, Fraction(1, 50), DELTA),
    (classes_up_to(4, 8), 8, Fraction(1, 10), DELTA),
    (classes_up_to(16, 12), 12, Fraction(1, 2), Fraction(1, 10**10)),
    (((2, 3), (5, 2), (7, 1)), 5, Fraction(2), Fraction(1, 1000)),
    (((3, 4),), 7, Fraction(5), Fraction(1, 4)),
]


@pytest.mark.one_fast_case
@pytest.mark.parametrize(("classes", "grid", "rho", "delta"), SMALL)
def test_every_pair_of_every_class_is_close_at_random_orders(classes, grid, rho, delta) -> None:
    table = keep_table(classes, grid, rho, delta)
    assert worst_loss(table, classes, grid, rho, delta) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "rho"), [(4, RHO_OF_EPSILON_1), (64, RHO_OF_EPSILON_1), (256, Fraction(1, 2))])
def test_every_pair_is_close_in_tables_of_full_size(keys: int, rho: Fraction) -> None:
    classes = classes_up_to(keys, 48)
    worst = worst_loss(keep_table(classes, 48, rho, DELTA), classes, 48, rho, DELTA, orders=3)
    assert 0.99 < worst <= 1


@pytest.mark.parametrize(("classes", "grid", "rho", "delta"), SMALL)
def test_the_table_climbs_from_zero_to_certainty(classes, grid, rho, delta) -> None:
    table = keep_table(classes, grid, rho, delta)
    assert table.thresholds[0] == 0
    assert table.thresholds[1] == math.floor(delta / classes[-1][0] * ONE)
    assert all(low <= high for low, high in itertools.pairwise(table.thresholds))
    assert table.thresholds[-1] < ONE
    assert table.probability(len(table.thresholds)) == 1


@pytest.mark.parametrize("statistics", [(0, 0, 0), (0, 9, 11), (12, 30, 45), (20, 20, 20), (60, 66, 70)])
def test_a_unit_of_three_keys_costs_delta_and_rho_over_all_of_them(statistics: tuple[int, ...]) -> None:
    """All eight outputs, exactly, against delta + exp(-(epsilon - rho)^2 / (4 rho)) (Bun and Steinke 2016)."""
    grid, rho, delta = 8, Fraction(1, 10), Fraction(1, 10**5)
    table = keep_table(classes_up_to(4, grid), grid, rho, delta)
    weight = math.isqrt(grid**2 // 3)

    def releases(moved: int) -> list[Fraction]:
        kept = [table.probability(statistic + moved) for statistic in statistics]
        return [
            math.prod(p if bit else 1 - p for p, bit in zip(kept, bits, strict=True))
            for bits in itertools.product((0, 1), repeat=3)
        ]

    for here, there in itertools.permutations([releases(0), releases(weight)]):
        for epsilon in (0.1, 0.5, 1, 2, 4):
            distance = sum(
                max(Fraction(0), a - Fraction(math.exp(epsilon)) * b) for a, b in zip(here, there, strict=True)
            )
            assert distance <= float(delta) + math.exp(-((epsilon - float(rho)) ** 2) / (4 * float(rho)))


def slow_table(rho: float, delta: float, length: int) -> list[float]:
    """One key for each unit, weight 1: the largest p(n + 1), by bisection, over a fine grid of orders."""
    orders = 1 + np.geomspace(1e-4, 60 / rho, 3000)

    def is_close(p: float, q: float) -> bool:
        logs = [math.log(p), math.log(q), math.log1p(-p), math.log1p(-q)]
        for x, y, cx, cy in (logs, [logs[1], logs[0], logs[3], logs[2]]):
            moments = np.logaddexp(orders * x + (1 - orders) * y, orders * cx + (1 - orders) * cy)
            if np.any(moments > rho * orders * (orders - 1) + 1e-14):
                return False
        return True

    found = [0.0]
    while len(found) < length:
        p = min(1.0, found[-1] / (1 - delta))
        low, high = p, 1.0
        for _ in range(45 if 0 < p < 1 else 0):
            middle = (low + high) / 2 if low > 0.01 else math.sqrt(low * high)
            low, high = (middle, high) if middle < 1 and is_close(p, middle) else (low, middle)
        found.append((1 - delta) * low + delta)
    return found


@pytest.mark.parametrize(("rho", "delta"), [(0.02, 5e-7), (0.5, 1e-8), (2.0, 1e-3)])
def test_one_class_is_the_slow_recursion_to_a_thousandth(rho: float, delta: float) -> None:
    """The table lies between the slow ones of 0.998 rho and of rho; each step of it is within 1e-3 of the largest."""
    table = keep_table(((1, 1),), 1, Fraction(rho), Fraction(delta))
    statistics = range(1, table.least(1 - Fraction(1, 10**6)))
    least, most = (slow_table(part * rho, delta, len(statistics) + 1) for part in (0.998, 1))
    for statistic in statistics:
        assert least[statistic] * (1 - 1e-9) <= table.probability(statistic) <= most[statistic] * (1 + 1e-9)
    assert least[-1] < most[-1]


@pytest.mark.parametrize(
    ("keys", "grid", "half", "gaussian"), [(4, 16, 21.1, 24.6), (16, 32, 21.5, 25.5), (64, 48, 22.1, 26.5)]
)
def test_half_way_points_are_those_of_the_study_and_beat_gaussian_noise(keys, grid, half, gaussian) -> None:
    """A Gaussian threshold is at max of w_j + t_j, where noise of grid^2 / (2 rho) exceeds t_j with delta / j."""
    classes = classes_up_to(keys, grid)
    sigma = grid / math.sqrt(2 * RHO_OF_EPSILON_1)
    threshold = max(w + sigma * NormalDist().inv_cdf(1 - float(DELTA) / j) for j, w in classes) / grid
    assert threshold == pytest.approx(gaussian, abs=0.15)
    found = keep_table(classes, grid, RHO_OF_EPSILON_1, DELTA).least(HALF) / grid
    assert half - 0.2 < found <= half
    finer = keep_table(classes_up_to(keys, 48), 48, RHO_OF_EPSILON_1, DELTA).least(HALF) / 48
    assert finer == pytest.approx(found, abs=0.1)


@pytest.mark.parametrize("rho", [2.0**-26, 1e-4, 0.02, 0.5, 2.0])
def test_each_step_is_certified_and_within_a_thousandth_of_the_largest(rho: float) -> None:
    """Not only the steps that some table takes: each of 2,000 logits, with 0.9998 of rho, and not with 0.999."""
    climb = module._Climb(module._Class(1, ONE >> 60, Fraction(rho)), 40.0)
    # In units of 2^-128 without a reserve, so that `above` is the step alone.
    climb._reserve, climb._span, climb._scale = 0, ONE, float(ONE)
    low = [math.floor(ONE / (1 + Fraction(math.exp(-z)))) for z in np.linspace(-38, 38, 2000)]
    high = [climb.above(threshold) for threshold in low]
    p, c, q, d = (
        np.array([x / ONE for x in xs]) for xs in (low, [ONE - x for x in low], high, [ONE - x for x in high])
    )
    gaps = [after - before for before, after in zip(low, high, strict=True)]
    u = -np.log1p([gap / before for gap, before in zip(gaps, low, strict=True)])
    v = np.log1p([gap / (ONE - after) for gap, after in zip(gaps, high, strict=True)])

    def is_close(part: float) -> bool:
        return module._is_close(p, c, u, v, part * rho) and module._is_close(q, d, -u, -v, part * rho)

    assert is_close(0.9998)
    assert not is_close(0.999)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("rho", [2.0**-26, 1e-4, 0.02, 2.0])
def test_the_loss_in_floating_point_is_within_its_margin(rho: float) -> None:
    """The error is below 2^-22 rho b (b + 1), for gaps of all sizes up to the largest, at orders up to the last."""
    draw = np.random.default_rng(7)
    with mpmath.workdps(60):
        for _ in range(150):
            logit = draw.uniform(-60, 60)
            (largest,) = module._largest_steps(np.array([logit]), rho)
            step = mpmath.mpf(largest * 10.0 ** -draw.uniform(0, 4))
            p, c, q, d = (1 / (1 + mpmath.exp(x)) for x in (-logit, logit, -logit - step, logit + step))
            u, v = mpmath.log(p / q), mpmath.log(c / d)
            for x, y, s, t in ((p, c, u, v), (q, d, -u, -v)):
                b = float(max(abs(u), abs(v)) / rho) * 10.0 ** -draw.uniform(0, 4)
                exact = mpmath.log(x * mpmath.exp(b * s) + y * mpmath.exp(b * t))
                (found,) = module._loss(*(np.array([float(number)]) for number in (x, y, s, t)), np.array([b]))
                assert abs(found - exact) <= 2.0**-22 * rho * b * (b + 1)


@pytest.mark.parametrize(
    ("logit", "step"),
    [(-20.0, 0.6), (-20.0, 2.0), (-3.0, 0.1), (-3.0, 0.6), (-0.1, 0.01), (-0.1, 2.0), (4.0, 0.2), (15.0, 1.0)],
)
def test_the_chords_certify_what_a_fine_grid_of_orders_accepts(logit: float, step: float) -> None:
    """Certified with 1.001 of the least rho that suits 20,000 orders, and refused with 0.9999 of it."""
    p, c, q, d = (1 / (1 + math.exp(x)) for x in (-logit, logit, -logit - step, logit + step))
    u, v = np.log1p([c * math.expm1(-step)]), np.log1p([p * math.expm1(step)])
    for x, y, s, t in ((p, c, u, v), (q, d, -u, -v)):
        b = np.geomspace(1e-6, 1e6, 20000)
        with np.errstate(over="ignore"):
            moments = np.maximum(math.log(x) + b * s, math.log(y) + b * t)
            moments += np.log(np.exp(math.log(x) + b * s - moments) + np.exp(math.log(y) + b * t - moments))
        # Below b = 1e-3, where the sum cancels, the divergence is at most the one at 1e-3.
        needed = float(np.max((moments / (b * (b + 1)))[b > 1e-3]))
        arrays = np.array([x]), np.array([y]), s, t
        assert module._is_close(*arrays, needed * 1.001)
        assert not module._is_close(*arrays, needed * 0.9999)


def test_deciding_compares_sixteen_little_endian_bytes_and_always_takes_them() -> None:
    table = keep_table(*SMALL[1])
    for statistic in (-1, 0, 1, 40, len(table.thresholds) - 1, len(table.thresholds), 10**9):
        threshold = int(table.probability(statistic) * ONE)
        for word in {0, threshold - 1, threshold, ONE - 1} - {-1, ONE}:
            taken: list[int] = []

            def source(count: int, word: int = word, taken: list[int] = taken) -> bytes:
                taken.append(count)
                return word.to_bytes(count, "little")

            assert table.keeps(statistic, source) == (word < threshold)
            assert taken == [16]
    assert not table.keeps(0, lambda count: bytes(count))
    with pytest.raises(ValueError, match="random_bytes must return 16 bytes"):
        table.keeps(40, lambda count: bytes(count - 1))


def test_the_least_statistic_has_the_probability_and_its_predecessor_has_not() -> None:
    table = keep_table(*SMALL[1])
    assert table.least(Fraction(0)) == 0
    for probability in (
        Fraction(1, 10**7),
        Fraction(1, 3),
        HALF,
        Fraction(99, 100),
        1 - Fraction(1, 10**9),
        Fraction(1),
    ):
        found = table.least(probability)
        assert table.probability(found - 1) < probability <= table.probability(found)
    with pytest.raises(ValueError, match="probability must be between 0 and 1"):
        table.least(Fraction(3, 2))


def test_tables_are_made_once_and_travel() -> None:
    table = keep_table(*SMALL[1])
    assert keep_table(*SMALL[1]) is table
    assert pickle.loads(pickle.dumps(table)) == table
    assert len(pickle.dumps(table)) < 25 * len(table.thresholds)
    assert len(repr(table)) < 100


@pytest.mark.one_fast_case
@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(2), Fraction(1000)])
@pytest.mark.parametrize("delta", [Fraction(1, 10**10), Fraction(1, 1000), Fraction(9, 10)])
@pytest.mark.parametrize("keys", [1, 64])
def test_tables_exist_for_usual_and_unusual_costs(keys: int, rho: Fraction, delta: Fraction) -> None:
    """`keep_table` raises if its check fails."""
    table = keep_table(classes_up_to(keys, 16), 16, rho, delta)
    assert len(table.thresholds) == table.least(Fraction(1))


def test_more_than_rho_2_adds_nothing() -> None:
    assert keep_table(((1, 1),), 1, Fraction(2), DELTA) == keep_table(((1, 1),), 1, Fraction(50), DELTA)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"classes": ()}, "classes must be"),
        ({"classes": ((2, 5), (1, 8))}, "ascending j"),
        ({"classes": ((0, 8),)}, "ascending j >= 1"),
        ({"classes": ((1, 8), (4, 5))}, "j w_j.2 <= grid.2 = 64"),
        ({"classes": ((1, 8), (100, 0))}, "w_j >= 1"),
        ({"grid": 0}, "grid must be between"),
        ({"rho": Fraction(0)}, "rho must be finite and greater than 0"),
        ({"delta": Fraction(0)}, "delta must be greater than 0 and less than 1"),
        ({"delta": Fraction(1)}, "delta must be greater than 0 and less than 1"),
        ({"rho": Fraction(1, 10**9)}, 'rho, or keys.share, is too small for the method "table"'),
        ({"delta": Fraction(1, 10**30)}, "delta must be at least"),
        (
            {"classes": ((1, 1000),), "grid": 1000, "rho": Fraction(1, 10**5)},
            "rho and delta are too small for the method",
        ),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(changed, message, monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_SIZE", 1 << 15)
    arguments = {"classes": classes_up_to(4, 8), "grid": 8, "rho": Fraction(1, 10), "delta": DELTA}
    with pytest.raises(ValueError, match=message):
        keep_table(**{**arguments, **changed})


PLANTED = (classes_up_to(4, 8), 8, Fraction(1, 10), Fraction(1, 10**6))
build, is_close = module._build, module._is_close


@pytest.fixture
def planting(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Plants faults, and keeps the tables with faults and without them apart."""
    keep_table.cache_clear()
    yield monkeypatch
    keep_table.cache_clear()


def worst_planted() -> float:
    return worst_loss(keep_table(*PLANTED), *PLANTED)


def shifted(classes: list[module._Class]) -> tuple[int, ...]:
    return 0, *build(classes)[2:]


def shifted_from_the_start(classes: list[module._Class]) -> tuple[int, ...]:
    return build(classes)[1:]


def rounded_up(classes: list[module._Class]) -> tuple[int, ...]:
    return 0, *(threshold + 1 for threshold in build(classes)[1:])


def of_more_rho(classes: list[module._Class]) -> tuple[int, ...]:
    return build([key._replace(rho=key.rho * Fraction(101, 100)) for key in classes])


def of_the_first_class(classes: list[module._Class]) -> tuple[int, ...]:
    return build(classes[:1])


def of_more_delta(classes: list[module._Class]) -> tuple[int, ...]:
    return build([key._replace(reserve=key.reserve + 1) for key in classes])


def with_a_rare_key_kept_too_often(classes: list[module._Class]) -> tuple[int, ...]:
    return raised_at(build(classes), 2**-10)


def with_a_usual_key_kept_too_often(classes: list[module._Class]) -> tuple[int, ...]:
    return raised_at(build(classes), 1 - 2**-10)


def raised_at(thresholds: tuple[int, ...], probability: float) -> tuple[int, ...]:
    """Raise the first probability from here on by half of the way to the next."""
    place = next(n for n, threshold in enumerate(thresholds) if threshold >= probability * ONE)
    raised = (thresholds[place] + thresholds[place + 1]) // 2
    return (*thresholds[:place], raised, *thresholds[place + 1 :])


def sagging(classes: list[module._Class]) -> tuple[int, ...]:
    thresholds = build(classes)
    middle = len(thresholds) // 2
    return (*thresholds[:middle], 0, *thresholds[middle + 1 :])


def ending_early(classes: list[module._Class]) -> tuple[int, ...]:
    thresholds = build(classes)
    return thresholds[: len(thresholds) * 9 // 10]


BUILDS = {
    each.__name__: laws.put(module, "_build", each)
    for each in (
        shifted,
        shifted_from_the_start,
        rounded_up,
        of_more_rho,
        of_the_first_class,
        of_more_delta,
        with_a_rare_key_kept_too_often,
        with_a_usual_key_kept_too_often,
        sagging,
        ending_early,
    )
}
PRICES = {
    "rho_not_scaled_by_the_weight": laws.put(module, "_class_rho", lambda rho, weight, grid: rho),
    "rho_scaled_by_the_weight_but_not_its_square": laws.put(
        module, "_class_rho", lambda rho, weight, grid: rho * weight / grid
    ),
    "delta_not_divided_by_keys": laws.put(module, "_reserve", lambda delta, keys: math.floor(delta * ONE)),
    "delta_rounded_up": laws.put(module, "_reserve", lambda delta, keys: math.ceil(delta / keys * ONE)),
}
UNCHECKED = laws.put(module, "_is_certified", lambda thresholds, key: True)


def check_worst() -> None:
    assert worst_planted() <= 1


def test_the_rule_itself_is_accepted() -> None:
    assert 0.98 < worst_planted() <= 1


def planted(check: Callable[[], object], table: dict[str, laws.Fault], **settings: Any) -> Any:
    return pytest.mark.usefixtures(planting.__name__)(laws.mutants(table, check, **settings))


# A wrong price deceives the check of the module too.
test_a_wrong_price_is_found_by_the_independent_check = pytest.mark.one_fast_case(planted(check_worst, PRICES))

test_a_wrong_table_is_never_returned = planted(
    lambda: keep_table(*PLANTED),
    {name: fault.found("failed its privacy check") for name, fault in BUILDS.items()},
    error=RuntimeError,
)

test_without_its_check_a_wrong_table_is_found_by_the_independent_one = pytest.mark.one_fast_case(
    planted(check_worst, {name: laws.together(fault, UNCHECKED) for name, fault in BUILDS.items()})
)


def test_a_check_of_one_direction_would_miss_a_fault(planting: pytest.MonkeyPatch) -> None:
    prices = module._price(*PLANTED)
    faults = with_a_rare_key_kept_too_often(prices), with_a_usual_key_kept_too_often(prices)

    def refused() -> list[bool]:
        return [not all(module._is_certified(thresholds, key) for key in prices) for thresholds in faults]

    assert refused() == [True, True]
    planting.setattr(module, "_is_close", lambda p, c, u, v, rho: bool(np.all(u > 0)) or is_close(p, c, u, v, rho))
    first_only = refused()
    planting.setattr(module, "_is_close", lambda p, c, u, v, rho: bool(np.all(u < 0)) or is_close(p, c, u, v, rho))
    assert sorted([first_only, refused()]) == [[False, True], [True, False]]
