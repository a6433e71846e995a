"""Means need a far smaller norm than totals, and few keys of statistics are a short list."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import AutoNorm, NormBound
from beam_dpsketch.config import read_release
from beam_dpsketch.frames.releasing import release_table
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness

KEYS, PEOPLE, HEAVY, LONG = ["a", "b"], 3000, 300, 200
MANY = [f"k{number}" for number in range(17)]


def settings(norm: Any, keys: list[str] = KEYS, **privacy: Any) -> dict[str, Any]:
    return {
        "kind": "statistics",
        "item": "ms",
        "domain": {"type": "integer", "low": 0, "high": 100},
        "keys": {"public": keys, "field": "key"},
        "privacy_unit": {"privacy_id": "person", "norm": norm},
        "privacy": privacy or {"epsilon": 1, "delta": 1e-6},
    }


def bounds_of(norm: Any, **more: Any) -> Any:
    return read_release(settings(norm, **more)).privacy_unit.bounds


def visits() -> pa.Table:
    """A tenth of the people have 200 records each, with the same numbers as all others."""
    generator = np.random.default_rng(4)
    person = np.repeat(np.arange(PEOPLE), np.where(np.arange(PEOPLE) < HEAVY, LONG, 5))
    ms = np.clip(np.rint(generator.normal(30, 15, len(person))), 0, 100).astype(np.int64)
    return pa.table({"person": person, "key": np.array(KEYS)[person % 2], "ms": ms})


def errors(norm: Any, number: int) -> tuple[float, float, float]:
    """Mean absolute error of the means of both keys, and of their counts, and the chosen norm."""
    table = visits()
    declared = read_release(settings(norm))
    found, _ = release_table(table, declared, KeyedRandomness(bytes(range(32)), b"means %d" % number))
    grouped = table.group_by("key").aggregate([("ms", "mean"), ("ms", "count")]).to_pylist()
    truth = {each["key"]: (each["ms_mean"], each["ms_count"]) for each in grouped}
    answers = {key: (each.mean().estimate, each.count().estimate) for key, each in found.items()}
    means, counts = np.abs(np.array([np.subtract(answers[key], truth[key]) for key in KEYS])).mean(axis=0)
    bounds = found["a"].privacy.bounds
    assert isinstance(bounds, NormBound)
    return means, counts, float(bounds.max_norm)


def test_a_norm_for_means_halves_their_errors_where_some_people_are_heavy() -> None:
    """The noise is keyed, so the same each time."""
    totals, means = (
        np.mean([errors(norm, number) for number in range(10)], axis=0)
        for norm in ("auto", {"auto": {"optimize_for": "means"}})
    )
    assert means[0] < totals[0] / 2
    assert means[2] < totals[2] / 10
    assert means[1] > 5 * totals[1], "the counts are clipped"


@pytest.mark.parametrize(
    ("keys", "share"), [(["a"], Fraction(1)), (KEYS, Fraction(1, 2)), (MANY[:16], Fraction(7, 100))]
)
def test_few_keys_are_a_short_list(keys: list[str], share: Fraction) -> None:
    assert bounds_of("auto", keys=keys) == AutoNorm(Fraction(1, 5), norm="l1", item_share=share)


def test_means_of_few_keys_have_an_l1_norm_and_keep_their_shares() -> None:
    assert bounds_of({"auto": {"optimize_for": "means"}}) == AutoNorm(norm="l1", optimize_for="means")


def test_many_keys_and_gaussian_noise_have_an_l2_norm() -> None:
    assert bounds_of("auto", keys=MANY) == AutoNorm()
    assert bounds_of("auto", rho=0.1) == AutoNorm()
    assert bounds_of("auto", epsilon=1, delta=1e-6, noise="gaussian") == AutoNorm()


@pytest.mark.parametrize(("norm", "shown"), [("auto", True), ({"auto": {"optimize_for": "means"}}, False)])
def test_a_plan_names_the_norm_for_means(norm: Any, shown: bool) -> None:
    plan = str(read_release(settings(norm)).plan())
    assert ('optimize_for "means"' in plan) is shown
    assert 'optimize_for "means"' not in str(read_release(settings({"max_norm": 5})).plan())
