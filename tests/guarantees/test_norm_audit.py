"""A `NormBound` on the real path: what one heavy person can change, and the noise that hides it.

Neighbouring inputs differ by one person. How far apart their counters before the noise are is known exactly, so that
audit raises no false alarm at all. The one of the noise does with probability at most 6e-12 a run (1e-12 for each
statistic). sigma^2 and the norm are worked out by hand. A fault in each place where a shortcut looks tempting is
found: for certain in the counters, and in the noise missed with probability below 1e-9.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.engine import noising, tables
from beam_dpsketch.privacy.norm import scaling
from beam_dpsketch.records.bounding import bounded
from beam_dpsketch.records.bounding.bounded import Bounded
from beam_dpsketch.records.bounding.norm_rule import NormRule
from beam_dpsketch.records.bounding.unit_lengths import PartRecords
from beam_dpsketch.records.codec import concat_tables, from_bytes
from beam_dpsketch.sketches.levels import Level
from beam_dpsketch.sketches.spec import KINDS
from beam_dpsketch.sketches.trees import DyadicCountSketch
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from beam_dpsketch.transforms.steps import bounding
from tests.helpers import faults, laws, noise
from tests.helpers.laws import Fault
from tests.helpers.noise_audit import audit
from tests.helpers.norm_reference import UNIT, Counted, assert_same, expected, squared_length
from tests.helpers.pipelines import FN_API, run
from tests.helpers.side_releases import any_norm
from tests.helpers.tree_pipelines import exact_vectors

pytestmark = pytest.mark.usefixtures(any_norm.__name__)
KEYS = ["first", "second"]
ALARMS = "the audit alarms"

# What one person can change.

PRIVACY = PrivacySpec(rho=Fraction(1, 10), relation=REPLACE_ONE, side_counters=None)
SKETCH_ONLY = functools.partial(PrivacySpec, side_counters=None)
SPEC = SketchSpec(depth=3, width=4)
COUNT_MIN = SketchSpec(kind="count_min", depth=3, width=4)
ONE_CELL = SketchSpec(kind="count_min", depth=1, width=1)
TREE = TreeSpec(
    domain=IntegerDomain(0, 63),
    levels=(Level(1, "exact", 1, 2, Fraction(1, 4)), Level(5, "count_min", 2, 3, Fraction(3, 4))),
)
NORM = NormBound(5, max_weight=9, max_per_item=6, signed=True)
OTHERS = [Counted(f"user {number}", KEYS[number % 2], number * 7 % 64) for number in range(20)]
SPECS: dict[str, Any] = {"growth": COUNT_MIN, "churn": SPEC, "tree": TREE, "cancellation": ONE_CELL}


def heavy(case: str) -> list[Counted]:
    """Much more than allowed: inserts and deletes of items that meet in cells, or inserts alone, in both keys."""
    if case == "cancellation":  # 60 inserts and 39 deletes in one cell
        return [Counted("heavy", "first", item, 6 if item < 10 else -1) for item in range(49)]
    random = np.random.default_rng(3)  # at this seed each fault shows
    low, high = (-9, 10) if case == "churn" else (1, 4)
    return [Counted("heavy", KEYS[item % 2], item, int(random.integers(low, high))) for item in [*range(40)] * 3]


def counters(case: str, records: list[Counted]) -> dict[Any, np.ndarray]:
    """The exact counters of each key, out of a pipeline."""
    arguments: dict[str, Any] = {"unit": PrivacyId("user", NORM), "keys": PublicKeys(KEYS, "key")}
    rows = [{"user": each.person, "key": each.place, "item": each.item, "n": each.weight} for each in records]
    make: Any = PrivateQuantiles if case == "tree" else PrivateFrequencies
    return exact_vectors(rows, make(SPECS[case], PRIVACY, item="item", weight="n", **arguments))


def alarms(case: str) -> set[str]:
    """What is wrong when a heavy person is added: they change more than allowed, or not what the reference says."""
    before, after = counters(case, OTHERS), counters(case, OTHERS + heavy(case))
    change = {key: after[key] - before[key] for key in KEYS}
    found = {"norm"} if squared_length(SPECS[case], change) > (NORM.max_norm * UNIT) ** 2 else set()
    try:
        assert_same(after, expected(SPECS[case], NORM, OTHERS + heavy(case)))
    except AssertionError:
        found.add("counters")
    return found


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes and merges few records at a time, as many bundles would."""
    for name, size in {"_READ_ELEMENTS": 5, "BUFFERED_RECORDS": 9}.items():
        monkeypatch.setattr(bounding, name, size)
    monkeypatch.setattr("beam_dpsketch.records.bounding.parts.BLOCK", 30)


@pytest.mark.one_fast_case
@pytest.mark.usefixtures(many_parts.__name__)
@pytest.mark.parametrize("case", SPECS)
def test_a_heavy_person_changes_the_counters_by_the_norm_at_most(case: str) -> None:
    assert alarms(case) == set()


@pytest.mark.slow
def test_two_heavy_people_are_twice_the_norm_apart_at_most() -> None:
    """As far as one who inserts an item and one who deletes it, which attains what the noise is for."""
    insert, delete = ([Counted("heavy", "first", 1, sign * 9)] * 9 for sign in (1, -1))
    one, other = (counters("churn", OTHERS + records) for records in (insert, delete))
    distance = squared_length(SPEC, {key: one[key] - other[key] for key in KEYS})
    limit = (2 * NORM.max_norm * UNIT) ** 2
    assert limit * Fraction(9999, 10_000) < distance <= limit


def signed_lengths(self: NormRule, parts: Sequence[PartRecords]) -> np.ndarray:
    """Take the length of the counters themselves, where signs cancel."""
    ((_, netted, sizes),), given = parts, self._sketch_input
    units, limit = netted.codes["unit"], Fraction(self.bounds.max_norm) ** 2
    keys = given.column_keys(pa.chunked_array([netted.values["item"].take(pa.array(netted.codes["item"]))]))
    factors = np.full((1, len(netted.values["unit"])), 1 << 32)
    for unit in set(units.tolist()):
        change = {}
        for key in set(netted.codes["key"].tolist()):
            at = (units == unit) & (netted.codes["key"] == key)
            signed = np.sign(netted.weights[at]) * sizes[at]
            change[key] = given.kind(given.spec).accumulate_keys(keys[at], signed).to_vector()
        squared = squared_length(given.spec, change)
        if squared > limit:
            factors[0, unit] = math.isqrt(int(limit / squared * 4**32))
    return factors


def bounded_in_each_bundle(self: Any, element: Any, pane: Any = beam.DoFn.PaneInfoParam) -> Any:
    yield Bounded(concat_tables([self._rule.select(from_bytes(payload)) for payload in element[1]]))


def capped_in_each_bundle(self: NormRule, records: pa.Table) -> pa.Table:
    netted = self._net(records)
    cap = self.bounds.max_per_item
    return netted._replace(weights=np.clip(netted.weights, -cap, cap)).to_table()


def each_key_alone(exact: Any, groups: np.ndarray, units: np.ndarray, *others: Any) -> np.ndarray:
    largest = np.zeros(units.max(initial=-1) + 1)
    np.maximum.at(largest, units, exact(groups, np.arange(len(units)), *others))
    return largest


def one_row_for_all(exact: Any, groups: np.ndarray, units: np.ndarray, rows: Any) -> np.ndarray:
    rows = list(rows)
    return exact(groups, units, [rows[0] for _ in rows])


def nodes_in_place_of_cells(spec: TreeSpec, keys: np.ndarray) -> Any:
    """Different nodes of a sketched level collide."""
    for number, level in enumerate(spec.levels):
        for _ in range(level.depth):
            yield number, (keys >> np.uint64(spec.shift(number))).astype(np.int64)


def check_alarm(case: str, alarm: str) -> None:
    assert alarm not in alarms(case), ALARMS


FAULTS = {
    "signed_sums": laws.put(NormRule, "_factors", signed_lengths, "", "cancellation", "norm"),
    "rounded_to_nearest": laws.put(
        scaling,
        "scaled",
        lambda weights, factors, _: weights * factors + (1 << 15) >> np.int64(16),
        "",
        "growth",
        "norm",
    ),
    "clamped_again": laws.put(
        bounded,
        "total_weights",
        lambda kept, bounds: np.clip(kept["weight"].to_numpy(), bounds.min_weight, bounds.max_weight),
        "",
        "growth",
        "counters",
    ),
    "bounded_in_each_bundle": laws.put(bounding.BoundShard, "process", bounded_in_each_bundle, "", "growth", "norm"),
    "capped_in_each_bundle": laws.put(NormRule, "prune", capped_in_each_bundle, "", "churn", "counters"),
    "each_key_alone": laws.around(scaling, "squared_norms", each_key_alone, "", "growth", "norm"),
    "one_row_for_all": laws.around(scaling, "squared_norms", one_row_for_all, "", "growth", "norm"),
    "nodes_in_place_of_cells": laws.put(DyadicCountSketch, "cells_of", nodes_in_place_of_cells, "", "tree", "norm"),
}
test_a_fault_planted_in_the_bounding_is_found = pytest.mark.one_fast_case(
    pytest.mark.usefixtures(many_parts.__name__)(laws.mutants(FAULTS, check_alarm, words=ALARMS))
)


# The noise that hides it.

WIDE = {kind: SketchSpec(kind=kind, depth=4, width=32_768) for kind in KINDS}
SIX = NormBound(6, max_per_item=4)
VISITS = [Counted(f"user {number % 40}", key, f"word {number % 97}") for number in range(600) for key in KEYS] + [
    Counted("heavy", "first", f"word {number % 300}") for number in range(2000)
]


class Path(NamedTuple):
    """The privacy that gives a sigma, by hand; and in what parts of a record counters are then released.

    Low bits that count at most sigma / 64 are rounded off: for sigma = 12 below an eighth, for 96 below one record.
    """

    sketch: str
    privacy: PrivacySpec
    sigma: int
    parts: int


PATHS = {
    "eighths of records": Path(
        "count_sketch", SKETCH_ONLY(rho=Fraction(36 * 4, 2 * 12**2), relation=ADD_OR_REMOVE_ONE), 12, 8
    ),
    "whole records": Path(
        "count_sketch", SKETCH_ONLY(rho=Fraction(4 * 36 * 4, 2 * 96**2), relation=REPLACE_ONE), 96, 1
    ),
    "eighths, Count-Min": Path(
        "count_min", SKETCH_ONLY(rho=Fraction(2 * 36 * 4, 2 * 12**2), relation=REPLACE_ONE), 12, 8
    ),
}
"""Delta^2 = row b^2 depth: row is 1 for a person added, 2 for one replaced in cells that grow, and 4 in others."""


def noise_alarms(path: Path) -> set[str]:
    """The alarms of one run, whose noise is looked at in parts of a record."""
    spec = WIDE[path.sketch]
    transform = PrivateFrequencies(
        spec, path.privacy, item="item", unit=PrivacyId("user", SIX), keys=PublicKeys(KEYS, "key")
    )
    rows = [{"user": each.person, "key": each.place, "item": each.item} for each in VISITS]
    released = dict(run(rows, transform, runner=FN_API))
    exact = expected(spec, SIX, VISITS)
    residuals = []
    for key in KEYS:
        noisy = released[key].counters.ravel() * path.parts
        assert np.array_equal(noisy, np.rint(noisy))
        assert released[key].privacy.sigma_squared == path.sigma**2
        # An eighth that the rounding of a scaled weight takes away is in fewer than 1 of 100 counters.
        residuals.append(np.rint(noisy - exact[key].counters * path.parts / UNIT).astype(np.int64))
    return audit(*residuals, Fraction(path.sigma * path.parts) ** 2)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", PATHS)
def test_released_noise_is_the_documented_one_in_records(name: str) -> None:
    assert noise_alarms(PATHS[name]) == set()


def check_noise(alarm: str) -> None:
    assert alarm not in noise_alarms(PATHS["eighths of records"]), ALARMS


def other_noise(factor: Fraction) -> Fault:
    return laws.around(tables, "add_noise", noise.with_variance(lambda variance: variance * factor), "", "variance")


NOISE_FAULTS = {
    "noise_in_units_of_counters": other_noise(Fraction(1, 4**15)),
    "sigma_too_small": other_noise(Fraction(97, 100) ** 2),
    "too_many_bits_rounded_off": laws.around(
        tables, "drowned_bits", lambda exact, variances, unit, grid: exact(variances, unit, grid) + 3, "", "chi-square"
    ),
    "rounded_off_twice": laws.around(  # the same for what is dropped, and not said
        noising, "round_off", lambda exact, counters, bits: exact(counters, bits + 1), "", "variance"
    ),
    "shared_between_keys": faults.noise_drawn_once(WIDE["count_sketch"].cells).found("", "cross-correlation"),
}
test_a_fault_planted_in_the_noise_is_found = pytest.mark.slow(laws.mutants(NOISE_FAULTS, check_noise, words=ALARMS))
