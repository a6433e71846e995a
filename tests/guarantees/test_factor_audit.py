"""Rows of a square-root factor on the real path, seen from outside: their noise, and what tells two inputs apart.

The audit of the noise raises a false alarm with probability at most 6e-12 (1e-12 for each of six statistics). Released
rows are compared with W h, W by its definition in whole numbers, and sigma^2 is worked out by hand.

The other audit guesses which of two neighbouring inputs was released, 4,000 times each, by the likelihood ratio. Under
rho-zCDP with Gaussian noise, a guess of the second input is more often right than wrong by at most 2 Phi(sqrt(rho / 2))
- 1 of all releases. What is found is off by 0.075 in one direction with a probability of at most exp(-4000 * 0.075^2),
below 2e-10, by Hoeffding's inequality. Faults are above the limit by 0.16 or more: they are missed less often.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    FactorSpec,
    IntegerDomain,
    NeighboringRelation,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    RecordBounds,
    ReleaseSpec,
    release_frame,
)
from beam_dpsketch.engine import noising, tables
from beam_dpsketch.kinds.ranks.histogram import FactorHistogram
from beam_dpsketch.privacy import mechanism
from beam_dpsketch.privacy.factor.toeplitz import ToeplitzRoot
from beam_dpsketch.transforms import PrivateQuantiles
from tests.helpers import faults, laws, norms
from tests.helpers.keyed_units import in_keys
from tests.helpers.noise_audit import audit
from tests.helpers.pipelines import FN_API, run

ALARMS = "the audit alarms"

# Their noise.

SIZE, SIGMA = 12_000, 2
KEYS = ["first", "second"]
VALUES = [place * 911 % SIZE for place in range(300)]


def noise_alarms() -> set[str]:
    """The alarms of one run: released rows minus exact ones of two keys, in whole steps of what is released."""
    spec, by_hand = FactorSpec(IntegerDomain(0, SIZE - 1)), norms.factor_by_hand(SIZE)
    privacy = PrivacySpec(rho=Fraction(4, 2 * SIGMA**2), relation=ADD_OR_REMOVE_ONE, side_counters=None)
    unit = PrivacyId("user", RecordBounds(2, max_keys=1))
    rows = [{"user": (key, place), "key": key, "item": value} for key in KEYS for place, value in enumerate(VALUES)]
    transform = PrivateQuantiles(spec, privacy, unit=unit, item="item", keys=PublicKeys(KEYS, "key"))
    released = dict(run(rows, transform, runner=FN_API))
    exact = np.zeros(SIZE, dtype=np.int64)
    for value in VALUES:
        exact[value:] += by_hand.gains[value] * np.array(by_hand.column[: SIZE - value])
    step = 2**spec.factor.dropped_bits
    residuals = [np.rint(released[key].counters - exact / step).astype(np.int64) for key in KEYS]
    return audit(*residuals, Fraction(SIGMA**2 * by_hand.squared_length, step**2))


def test_rows_have_the_documented_noise() -> None:
    assert noise_alarms() == set()


def check_noise(alarm: str) -> None:
    assert alarm not in noise_alarms(), ALARMS


NOISE_FAULTS = {
    "noise 5 % too small": laws.around(
        tables,
        "add_noise",
        lambda exact, rows, variance, *terms, **names: exact(rows, variance * Fraction(9, 10), *terms, **names),
        "",
        "variance",
    ),
    "rows with one noise": faults.noise_drawn_once(SIZE // 8, anew=True).found("", "autocorrelation"),
    "keys with one noise": faults.noise_drawn_once(SIZE).found("", "cross-correlation"),
    "rounded off too much": laws.around(
        noising, "round_off", lambda exact, rows, bits: exact(rows, bits + 7), "", "variance"
    ),
}
test_a_fault_planted_in_the_noise_is_found = pytest.mark.slow(laws.mutants(NOISE_FAULTS, check_noise, words=ALARMS))


# What tells two inputs apart.

FEW, RELEASES, OFF = 64, 4000, 0.075
Unit = list[tuple[int, int]]
"""The value and the weight of each record of a person."""
OTHERS: Unit = [(5, 1), (30, 1), (63, 1)]


class Pair(NamedTuple):
    """Two inputs that differ by one person, and by how much their histograms do where bounds are kept.

    The first person is within the bounds, the second one has too much. No two inputs are further apart.
    """

    bounds: Any
    relation: NeighboringRelation
    first: Unit
    second: Unit
    change: list[tuple[int, float]]


def rows_of(histogram: list[tuple[int, float]]) -> np.ndarray:
    """Return W h."""
    columns = norms.columns_of_factor(FEW)
    return np.sum([weight * np.pad(columns[value], (value, 0)) for value, weight in histogram], axis=0)


PAIRS: dict[str, Callable[[], Pair]] = {
    "the longest column": lambda: Pair(RecordBounds(2), ADD_OR_REMOVE_ONE, [], [(0, 1)] * 9, [(0, 2)]),
    "signs": lambda: Pair(RecordBounds(1, max_weight=3, signed=True), REPLACE_ONE, [(0, -3)], [(0, 9)], [(0, 6)]),
    "a norm": lambda: Pair(NormBound(2, order=1), ADD_OR_REMOVE_ONE, [], [(0, 1)] * 9, [(0, 2)]),
}


def advantage(pair: Pair, rho: Fraction) -> float:
    """How much more often the second input is guessed where it is released than where the first one is."""
    records = [
        (f"{name} {key}", key, value, weight)
        for key in range(2 * RELEASES)
        for name, own in (
            *zip("abc", ([each] for each in OTHERS), strict=True),
            ("one", (pair.first, pair.second)[key % 2]),
        )
        for value, weight in own
    ]
    table = pa.table([pa.array(column) for column in zip(*records, strict=True)], ["person", "key", "item", "n"])
    spec, weight = FactorSpec(IntegerDomain(0, FEW - 1)), "n" if pair.bounds.says_max_weight else None
    privacy = PrivacySpec(rho=rho, relation=pair.relation, side_counters=None)
    keys = PublicKeys(range(2 * RELEASES), "key")
    unit = in_keys(PrivacyId("person", pair.bounds), keys)
    released = release_frame(table, ReleaseSpec(Quantiles(spec), privacy, unit, "item", weight, keys))
    rows = np.stack([released[key].counters for key in range(2 * RELEASES)]) * 2**spec.factor.dropped_bits
    change = rows_of(pair.change)
    is_second = (rows - rows_of([*OTHERS, *pair.first])) @ change > change @ change / 2
    return float(np.mean(is_second[1::2])) - float(np.mean(is_second[::2]))


def guess_alarms(name: str) -> set[str]:
    """Whether the inputs of a pair are further apart than is said, or closer."""
    rho = Fraction(1)
    found, most = advantage(PAIRS[name](), rho), 2 * NormalDist().cdf((rho / 2) ** 0.5) - 1
    return {"too far apart"} if found > most + OFF else {"too close"} if found < most - OFF else set()


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", PAIRS)
def test_neighbouring_inputs_are_as_far_apart_as_said(name: str) -> None:
    assert guess_alarms(name) == set()


def check_guesses(name: str) -> None:
    assert "too far apart" not in guess_alarms(name), ALARMS


GUESS_FAULTS = {
    "length without gains": laws.put(
        ToeplitzRoot,
        "squared_length",
        property(lambda factor: int(np.sum(factor.coefficients**2))),
        "",
        "the longest column",
    ),
    "noise as for a histogram": laws.around(
        FactorHistogram,
        "tables",
        lambda exact, spec: tuple(table._replace(squared_amount=1) for table in exact(spec)),
        "",
        "the longest column",
    ),
    "signs counted twice": laws.around(
        mechanism, "change_factor", lambda exact, relation, *, has_signs=False: exact(relation), "", "signs"
    ),
}
test_a_fault_planted_in_the_length_is_found = pytest.mark.one_fast_case(
    laws.mutants(GUESS_FAULTS, check_guesses, words=ALARMS)
)
