"""Contribution bounds and what they may not say about a unit."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given

from beam_dpsketch import RecordBounds
from beam_dpsketch.privacy.contributions import MAX_CONTRIBUTION, PrivacyUnit, check_unit
from tests.helpers import strategies

_NUMBERS = ["max_records", "max_keys", "max_weight"]


@pytest.mark.parametrize("name", _NUMBERS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ValueError),
        (-1, ValueError),
        (MAX_CONTRIBUTION + 1, ValueError),
        (1.0, TypeError),
        (True, TypeError),
        (None, TypeError),
        ("1", TypeError),
    ],
)
def test_bounds_are_positive_whole_numbers(name, value, error):
    if (name, value) == ("max_keys", None):
        assert RecordBounds(1, max_keys=None).kept_keys == 1
        return
    with pytest.raises(error, match=name):
        RecordBounds(**{"max_records": 1, name: value})


@pytest.mark.parametrize("name", _NUMBERS)
def test_numpy_integers_become_python_integers(name):
    assert type(getattr(RecordBounds(**{"max_records": 1, name: np.int32(70_000)}), name)) is int
    with pytest.raises(ValueError, match="The bounds allow a privacy unit"):
        RecordBounds(
            **{"max_records": 1, name: np.int32(1 << 30), "max_weight" if name != "max_weight" else "max_keys": 3}
        )


def test_signed_is_a_bool():
    with pytest.raises(TypeError, match="signed must be a bool, got int"):
        RecordBounds(1, signed=1)


def test_the_bounds_together_have_a_limit():
    RecordBounds(max_records=1 << 10, max_keys=1 << 10, max_weight=1 << 11)
    with pytest.raises(ValueError, match="allow a privacy unit to contribute more than"):
        RecordBounds(max_records=1 << 10, max_keys=1 << 11, max_weight=1 << 11)


def test_weights_are_clamped_to_zero_or_symmetrically():
    assert RecordBounds(1, max_weight=5).min_weight == 0
    assert RecordBounds(1, max_weight=5, signed=True).min_weight == -5
    assert RecordBounds(max_weight=5, max_records=3).max_weight_per_key == 15


@given(first=strategies.bounds(single=True), second=strategies.bounds(single=True))
def test_a_union_allows_all_that_either_allows_and_no_more(first, second):
    union = first.union(second)
    assert union == second.union(first)
    assert union.union(first) == union
    for name, value in dataclasses.asdict(union).items():
        limits = (getattr(first, name), getattr(second, name))
        assert value == max((each for each in limits if each is not None), default=None)


@pytest.mark.parametrize("privacy_unit", [PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_THIS_RELEASE])
@pytest.mark.parametrize("name", ["max_records", "max_keys"])
def test_one_record_is_one_contribution(privacy_unit, name):
    check_unit(privacy_unit, RecordBounds(1, max_weight=9, signed=True), 0)
    with pytest.raises(ValueError, match="use PrivacyId"):
        check_unit(privacy_unit, RecordBounds(**{"max_records": 1, name: 2}), 0)


@pytest.mark.parametrize("privacy_unit", [PrivacyUnit.PRIVACY_ID, PrivacyUnit.PRIVACY_ID_IN_WINDOW])
def test_a_privacy_id_may_have_many(privacy_unit):
    check_unit(privacy_unit, RecordBounds(max_records=7, max_keys=7), 0)


def test_a_largest_weight_that_was_given_is_told_from_the_default() -> None:
    given, default = RecordBounds(1, max_weight=1), RecordBounds(1)
    assert given == default
    assert repr(given) == repr(default)
    for bounds in (given, default):
        assert pickle.loads(pickle.dumps(bounds)).says_max_weight is bounds.says_max_weight is (bounds is given)
        assert dataclasses.replace(bounds, max_keys=2).says_max_weight is bounds.says_max_weight
        assert isinstance(bounds.max_weight, int)
