"""The table of one key a unit: within (epsilon, delta) exactly, and the largest that is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import apache_beam as beam
import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import REPLACE_ONE, KeySelection, PrivacyBudget, PrivacyId, PrivacySpec, RecordBounds, ReleaseTerms
from beam_dpsketch.noise import keys as choosing
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.noise import geometric_table as room
from beam_dpsketch.privacy.noise.geometric_table import geometric_table
from beam_dpsketch.privacy.selection import METHODS, SelectionRule
from beam_dpsketch.transforms import SelectKeys
from tests.helpers import laws
from tests.helpers.pipelines import run

EPSILONS, DELTAS = st.fractions(Fraction(1, 20), 9, max_denominator=1000), st.sampled_from([1e-3, 1e-6, 1e-12, 1e-20])


def probabilities(grid: int, epsilon: Fraction, delta: Fraction) -> list[mpmath.mpf]:
    """The table by its number of units, with one entry beyond its end."""
    table = geometric_table(grid, epsilon, delta)
    units = len(table.thresholds) // grid + 1
    return [as_float(table.probability(grid * number)) for number in range(units)]


def as_float(exact: Fraction) -> mpmath.mpf:
    return mpmath.mpf(exact.numerator) / exact.denominator


def excess(values: Sequence[mpmath.mpf], epsilon: Fraction, delta: Fraction) -> mpmath.mpf:
    """By how much neighbours are further apart than (epsilon, delta), over all four events."""
    factor = mpmath.exp(as_float(epsilon))
    most = mpmath.mpf(-1)
    for p, q in itertools.pairwise(values):
        for one, other in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
            most = max(most, one - factor * other - as_float(delta))
    return most


@given(epsilon=EPSILONS, delta=DELTAS, grid=st.sampled_from([1, 48]))
def test_neighbours_are_within_epsilon_and_delta_and_no_table_is_larger(
    epsilon: Fraction, delta: float, grid: int
) -> None:
    exact = Fraction(repr(delta))
    with mpmath.workdps(60):
        values = probabilities(grid, epsilon, exact)
        assert (values[0], values[-1]) == (0, 1)
        assert excess(values, epsilon, exact) <= 0
        e, d, best = mpmath.exp(as_float(epsilon)), as_float(exact), mpmath.mpf(0)
        for value in values[1:]:
            best = min(e * best + d, 1 - (1 - best - d) / e, 1)
            assert best * (1 - mpmath.mpf(10) ** -15) - mpmath.mpf(2) ** -100 <= value <= best + mpmath.mpf(10) ** -18


def test_each_vote_counts_as_much_as_the_grid() -> None:
    alone, by_48 = (geometric_table(grid, Fraction(1), Fraction(1, 10**6)) for grid in (1, 48))
    for votes in range(0, 48 * 40):
        assert by_48.probability(votes) == alone.probability(votes // 48)


def test_deciding_compares_sixteen_little_endian_bytes_and_always_takes_them() -> None:
    table, one = geometric_table(1, Fraction(1), Fraction(1, 10**6)), 1 << 128
    for statistic in (-1, 0, 1, 10, len(table.thresholds) - 1, len(table.thresholds), 10**9):
        threshold = int(table.probability(statistic) * one)
        for word in {0, threshold - 1, threshold, one - 1} - {-1, one}:
            taken: list[int] = []

            def source(count: int, word: int = word, taken: list[int] = taken) -> bytes:
                taken.append(count)
                return word.to_bytes(count, "little")

            assert table.keeps(statistic, source) == (word < threshold)
            assert taken == [16]
    assert not table.keeps(0, lambda count: bytes(count))
    with pytest.raises(ValueError, match="random_bytes must return 16 bytes"):
        table.keeps(10, lambda count: bytes(count - 1))


def test_the_least_statistic_has_the_probability_and_its_predecessor_has_not() -> None:
    table = geometric_table(48, Fraction(1), Fraction(1, 10**6))
    assert table.least(Fraction(0)) == 0
    for probability in (Fraction(1, 10**5), Fraction(1, 3), Fraction(1, 2), Fraction(99, 100), Fraction(1)):
        found = table.least(probability)
        assert table.probability(found - 1) < probability <= table.probability(found)
    with pytest.raises(ValueError, match="probability must be between 0 and 1"):
        table.least(Fraction(3, 2))


def check() -> None:
    with mpmath.workdps(60):
        for epsilon in (Fraction(1, 2), Fraction(3)):
            room.geometric_table.cache_clear()
            assert excess(probabilities(1, epsilon, Fraction(1, 10**6)), epsilon, Fraction(1, 10**6)) <= 0, (
                "too far apart"
            )
    room.geometric_table.cache_clear()


def rounded_down(exact: Any, numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    lower, upper = exact(numerator, denominator, bits)
    return lower, upper - (upper >> 40)


test_a_planted_fault_is_found = laws.mutants(
    {
        "e to the minus epsilon, too small": laws.around(room, "exponential_bounds", rounded_down, "too far apart"),
        "an epsilon of twice": laws.around(
            room, "exponential_bounds", lambda exact, top, *rest: exact(2 * top, *rest), "too far apart"
        ),
    },
    check,
    intact=True,
)


# Lists of keys


def listed(privacy: PrivacySpec, max_keys: int, **keys: Any) -> SelectKeys:
    privacy_unit = PrivacyId("user", RecordBounds(1, max_keys=max_keys))
    return SelectKeys(privacy, privacy_unit=privacy_unit, keys=KeySelection(5e-7, "page", **keys))


def check_windows() -> None:
    """A unit alone in each of three windows loses epsilon and delta over all of them, in another key of each window."""
    windows, delta = 3, Fraction(1, 10**6)
    terms = ReleaseTerms(
        PrivacySpec(epsilon=1, delta=1e-5),
        RecordBounds(1, max_keys=1),
        privacy_unit=PrivacyUnit.PRIVACY_ID,
        window_count=windows,
        output_cells=None,
        selection=SelectionRule(delta=delta, max_keys=1, method="geometric"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "_calibrated", choosing._calibrated.__wrapped__)  # a fault must not stay in the cache
        choice = choosing.choose_keys_alone(choosing.with_best_method(terms))
    assert choice.table is not None
    grid = choice.rule.grid
    with mpmath.workdps(60):
        values = [as_float(choice.table.probability(grid * number)) for number in range(200)]
        assert values[-1] == 1
        assert windows * values[1] <= as_float(delta), "a unit alone is released too often"
        assert excess(values, Fraction(1, windows), delta / windows) <= 0, "too far apart"


test_a_window_forgotten_is_found = laws.mutants(
    {
        "delta for each window": laws.around(
            choosing,
            "geometric_table",
            lambda exact, grid, epsilon, delta: exact(grid, epsilon, 3 * delta),
            "a unit alone is released too often",
        ),
        "epsilon for each window": laws.around(
            choosing,
            "geometric_table",
            lambda exact, grid, epsilon, delta: exact(grid, 3 * epsilon, delta),
            "too far apart",
        ),
    },
    check_windows,
    intact=True,
)


def note(privacy: PrivacySpec, max_keys: int = 1, **keys: Any) -> Any:
    return listed(privacy, max_keys, **keys).choice.note


@pytest.mark.parametrize("max_keys", [1, 2, 16])
@pytest.mark.parametrize("min_units", [1, 3])
@pytest.mark.parametrize(
    "privacy",
    [
        PrivacySpec(epsilon=1, delta=1e-6),
        PrivacySpec(rho=0.03),
        PrivacySpec(epsilon=2, delta=1e-6, relation=REPLACE_ONE),
    ],
)
def test_two_rounds_are_taken_or_the_method_that_needs_the_fewest_units(
    privacy: PrivacySpec, min_units: int, max_keys: int
) -> None:
    def needed(found: Any) -> float:
        return found.half * (1 + found.grid / math.isqrt(found.grid**2 // max_keys))

    methods = {}
    if max_keys > 1 and min_units == 1:
        assert note(privacy, max_keys).method == "two_rounds"
        return
    for method in METHODS:
        try:
            methods[method] = note(privacy, max_keys, min_units=min_units, method=method)
        except ValueError:
            continue
    assert needed(note(privacy, max_keys, min_units=min_units)) == min(map(needed, methods.values()))
    wanted = privacy.pure is not None and privacy.relation is not REPLACE_ONE and max_keys == 1
    assert ("geometric" in methods) == wanted == (note(privacy, max_keys, min_units=min_units).method == "geometric")


def test_one_key_a_person_needs_a_fourth_fewer() -> None:
    privacy = PrivacySpec(epsilon=2, delta=1e-6)
    geometric, gaussian = (note(privacy, method=method).half for method in ("geometric", "gaussian"))
    assert geometric < 0.78 * gaussian


@pytest.mark.parametrize(
    ("privacy", "max_keys", "message"),
    [
        (PrivacySpec(rho=1), 1, 'method must not be "geometric" with max_keys above 1 or without epsilon'),
        (PrivacySpec(epsilon=1, delta=1e-6), 2, 'method must not be "geometric" with max_keys above 1'),
        (PrivacyBudget(epsilon=1, delta=1e-6).spend(share=1), 1, "or without epsilon"),
        (PrivacySpec(epsilon=1, delta=1e-6, relation=REPLACE_ONE), 1, 'method "geometric" .* requires the relation'),
    ],
)
def test_where_it_cannot_choose_it_is_refused(privacy: PrivacySpec, max_keys: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        note(privacy, max_keys, method="geometric")


GIVEN: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}


@pytest.mark.parametrize("is_part", [False, True])
@pytest.mark.parametrize(
    ("noise", "max_keys", "methods"),
    [
        ("laplace", 1, {None, "geometric"}),
        ("laplace", 4, set()),
        ("gaussian", 1, {None, "gaussian"}),
        ("gaussian", 4, {None, "gaussian", "two_rounds"}),
    ],
)
def test_a_noise_that_was_given_is_kept_or_refused_and_no_list_loses_more(
    noise: str, max_keys: int, methods: set[str | None], is_part: bool
) -> None:
    """The rho of Laplace noise does not pay for a Gaussian: at epsilon 1 that would lose an epsilon of 5."""
    budget = PrivacyBudget(**GIVEN, noise=noise, keys_delta=5e-7).spend(share=1)
    privacy = budget.without_budget() if is_part else PrivacySpec(**GIVEN, noise=noise)
    found = set()
    for method in (None, *METHODS):
        try:
            keys = listed(privacy, max_keys, method=method)
        except ValueError:
            continue
        found.add(method)
        assert float(keys.explain().split("epsilon = ")[1].split()[0].rstrip(",")) <= 1
        assert (keys.choice.note.method == "geometric") == (noise == "laplace")
    assert found == methods


@pytest.mark.pipeline
def test_a_pipeline_lists_the_keys_of_many_and_not_that_of_one() -> None:
    """Of 60 people a key comes out for certain, and of one with a probability of 1e-12."""
    rows = [beam.Row(user=f"u{number}", page="ab"[number % 2]) for number in range(120)] + [
        beam.Row(user="v", page="c")
    ]
    keys = SelectKeys(
        PrivacySpec(epsilon=2, delta=1e-6),
        privacy_unit=PrivacyId("user", RecordBounds(1, max_keys=1)),
        keys=KeySelection(1e-12, "page"),
    )
    assert "epsilon = 2, delta = 1e-12 (" in keys.explain()
    assert sorted(run(rows, keys)) == ["a", "b"]
