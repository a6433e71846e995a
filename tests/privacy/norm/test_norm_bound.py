"""A norm bound as a value: what it may be, what is refused and how, and what two of them allow together."""

from __future__ import annotations

import dataclasses
import json
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from beam_dpsketch import ADD_OR_REMOVE_ONE, IncompatibleSketchError, NormBound, PrivacyId, RecordBounds
from beam_dpsketch.privacy.contributions import (
    MAX_CONTRIBUTION,
    Bounds,
    NeighboringRelation,
    PrivacyUnit,
    check_bounds,
    check_unit,
)
from beam_dpsketch.privacy.mechanism import squared_l2_sensitivity
from tests.helpers import strategies

_LIMITS = ["max_weight", "max_per_item", "max_distinct_items"]


@pytest.mark.parametrize(
    ("max_norm", "error", "message"),
    [
        (0, ValueError, "max_norm must be finite and greater than 0, got 0"),
        (-1, ValueError, "max_norm must be finite and greater than 0, got -1"),
        (float("nan"), ValueError, "max_norm must be finite and greater than 0"),
        (float("inf"), ValueError, "max_norm must be finite and greater than 0"),
        (Fraction(-1, 2), ValueError, "max_norm must be finite and greater than 0"),
        (True, TypeError, "max_norm must be a number, got bool"),
        ("20", TypeError, r"max_norm must be a number, got str\. To choose the norm from the data, use AutoNorm\(\)"),
        (None, TypeError, "max_norm must be a number, got NoneType"),
        ([20], TypeError, "max_norm must be a number, got list"),
        ((1 << 31) + 1, ValueError, r"max_norm must be at most 2\*\*31, with a denominator of at most 2"),
        (MAX_CONTRIBUTION + Fraction(1, 2), ValueError, r"max_norm must be at most 2\*\*31"),
        (1 << 2000, ValueError, "max_norm must be finite and greater than 0"),
        (Fraction(1, (1 << 16) + 1), ValueError, r"with a denominator of at most 2\*\*16"),
        (0.1234567, ValueError, r"with a denominator of at most 2\*\*16"),
    ],
)
def test_a_norm_is_a_positive_number_of_few_digits(max_norm: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NormBound(max_norm)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (1, 1),
        (MAX_CONTRIBUTION, MAX_CONTRIBUTION),
        (np.int32(70_000), 70_000),
        (20.0, 20),
        (2.5, Fraction(5, 2)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.25), Fraction(1, 4)),
        (Fraction(40, 2), 20),
        (Fraction(1, 1 << 16), Fraction(1, 1 << 16)),
    ],
)
def test_a_norm_is_kept_exactly(given: Any, kept: Any) -> None:
    bounds = NormBound(given)
    assert bounds.max_norm == kept
    assert type(bounds.max_norm) is type(kept)
    assert bounds == NormBound(kept)
    assert hash(bounds) == hash(NormBound(kept))
    assert bounds.squared_length == Fraction(kept) ** 2


@pytest.mark.parametrize("name", _LIMITS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (MAX_CONTRIBUTION + 1, ValueError),
        (1.0, TypeError),
        (True, TypeError),
        ("1", TypeError),
    ],
)
def test_limits_are_positive_whole_numbers(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{name} must be"):
        NormBound(5, **{name: value})
    assert getattr(NormBound(5, **{name: np.int32(7)}), name) == 7


def test_only_the_norm_has_no_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        NormBound(5, 7)  # type: ignore[misc]
    with pytest.raises(TypeError, match="max_norm"):
        NormBound()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="signed must be a bool, got int"):
        NormBound(5, signed=1)  # type: ignore[arg-type]


def test_defaults_say_that_nothing_was_said() -> None:
    bounds = NormBound(5)
    assert (bounds.max_weight, bounds.max_per_item, bounds.signed, bounds.max_distinct_items) == (1, None, False, None)
    assert not bounds.says_max_weight
    assert NormBound(5, max_weight=1).says_max_weight
    assert NormBound(5, max_weight=1) == bounds
    assert [NormBound(5, **changes).has_weights for changes in ({}, {"max_weight": 2}, {"signed": True})] == [
        False,
        True,
        True,
    ]
    assert (NormBound(5, max_weight=3).min_weight, NormBound(5, max_weight=3, signed=True).min_weight) == (0, -3)


@given(bounds=strategies.norm_bounds)
def test_copies_and_fields_are_the_same(bounds: NormBound) -> None:
    again = pickle.loads(pickle.dumps(bounds))
    assert again == bounds
    assert again.says_max_weight == bounds.says_max_weight
    assert NormBound(**bounds.as_dict()) == bounds == dataclasses.replace(bounds)
    assert " ".join(bounds.as_dict()) == "max_norm max_weight max_per_item signed max_distinct_items max_keys norm"
    assert json.loads(json.dumps(bounds.as_dict(), default=float))["max_norm"] == float(bounds.max_norm)
    with pytest.raises(dataclasses.FrozenInstanceError):
        bounds.max_norm = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("max_norm", "shown"),
    [(20, "20"), (1_234_567_890, "1234567890"), (Fraction(5, 2), "2.5"), (Fraction(1, 3), "0.333333")],
)
def test_a_norm_is_shown_in_digits(max_norm: Any, shown: str) -> None:
    assert NormBound(max_norm).shown_norm == shown


@given(first=strategies.norm_bounds, second=strategies.norm_bounds)
def test_a_union_allows_all_that_either_allows_and_no_more(first: NormBound, second: NormBound) -> None:
    union: Any = first.union(second)
    assert union == second.union(first) == union.union(first)
    assert first.union(first) == first
    assert union.max_norm == max(first.max_norm, second.max_norm)
    assert union.max_weight == max(first.max_weight, second.max_weight)
    assert union.signed == (first.signed or second.signed)
    for name in ("max_per_item", "max_distinct_items"):
        limits = [getattr(bounds, name) for bounds in (first, second)]
        assert getattr(union, name) == (None if None in limits else max(limits))


def test_a_norm_and_bounds_of_records_have_no_union() -> None:
    for first, second in ((NormBound(5), RecordBounds(5)), (RecordBounds(5), NormBound(5))):
        with pytest.raises(IncompatibleSketchError, match=r"with RecordBounds and with NormBound cannot be combined\."):
            first.union(second)


@pytest.mark.parametrize("value", [None, 5, "NormBound(5)", {"max_norm": 5}, Bounds()])
def test_what_says_no_bounds_is_refused(value: Any) -> None:
    name = type(value).__name__
    with pytest.raises(
        TypeError, match=rf"bounds must be NormBound\(...\), AutoNorm\(\) or RecordBounds\(...\), got {name} \["
    ):
        check_bounds(value)
    for bounds in (NormBound(5), RecordBounds(5)):
        check_bounds(bounds)


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_a_norm_is_of_an_id_over_all_it_contributes(unit: PrivacyUnit) -> None:
    period = 7 if unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD else 0
    if unit.is_one_record:
        with pytest.raises(ValueError, match=r"bounds must be RecordBounds if the privacy unit is a record"):
            check_unit(unit, NormBound(1), period)
    else:
        check_unit(unit, NormBound(1), period)


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize("has_signs", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_the_noise_is_that_of_as_many_records_of_one_item(
    relation: NeighboringRelation, has_signs: bool, signed: bool
) -> None:
    """This holds for all weights of records."""
    table = {"cells_per_item": 5, "has_signs": has_signs, "relation": relation, "reach": 3}
    of_records = squared_l2_sensitivity(**table, bounds=RecordBounds(20, signed=signed))
    for bounds in (
        NormBound(20, signed=signed),
        NormBound(20, signed=signed, max_weight=1000, max_per_item=3, max_distinct_items=9),
    ):
        assert squared_l2_sensitivity(**table, bounds=bounds) == of_records
    row = 1 if relation is ADD_OR_REMOVE_ONE else 4 if has_signs or signed else 2
    half = squared_l2_sensitivity(**table, bounds=NormBound(Fraction(5, 2), signed=signed))
    assert half == Fraction(25, 4) * row * 5 * 3


def test_an_id_may_have_a_norm_with_a_period_alone() -> None:
    assert PrivacyId("user", NormBound(5)).has_norm
    assert PrivacyId("user", NormBound(5), period=60).period_micros == 60_000_000
    assert PrivacyId("user", NormBound(5), max_windows=3).max_windows == 3
    assert not PrivacyId("user", RecordBounds(5)).has_norm
    with pytest.raises(ValueError, match="period requires max_windows"):
        PrivacyId("user", RecordBounds(5), period=60)
    with pytest.raises(ValueError, match="period must be greater than 0"):
        PrivacyId("user", NormBound(5), period=0)
