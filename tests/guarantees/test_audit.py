"""The noise of the real path, seen from outside: released minus exact counters, of two keys of one run.

The audit of correct noise raises a false alarm with probability at most 6e-12 a run (1e-12 for each statistic). The
exact counters come from raw sketches, and sigma^2 from the documented formula, worked out by hand; neither from the
release. Planted faults in each place where the path could go wrong are found; a miss has probability below 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
)
from beam_dpsketch.engine import calibration, tables
from beam_dpsketch.sketches import raw_type
from beam_dpsketch.sketches.spec import KINDS
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers import faults, laws, noise
from tests.helpers.laws import Fault
from tests.helpers.noise_audit import audit
from tests.helpers.pipelines import FN_API, run

SIGMA_SQUARED = Fraction(144)
PAIRS = [(key, (f"user {i}", f"word {i % 50}")) for i in range(600) for key in ("first", "second")]
BOUNDS = RecordBounds(max_per_key=3, max_keys=2, max_weight=2)
SPECS = {kind: SketchSpec(kind=kind, depth=4, width=32_768) for kind in KINDS}


def record_path(sketch: str) -> PrivateFrequencies:
    """Delta^2 = 4 C^2 depth = 16 for CountSketch and 2 C^2 depth = 8 for Count-Min, under REPLACE_ONE."""
    squared_sensitivity = {"count_sketch": 16, "count_min": 8}[sketch]
    return PrivateFrequencies(
        SPECS[sketch],
        PrivacySpec(rho=Fraction(squared_sensitivity, 2 * 144), relation=REPLACE_ONE, side_counters=None),
        item=second_of,
        unit=Record(),
        keys=PublicKeys(["first", "second"]),
    )


def privacy_id_path(sketch: str) -> PrivateFrequencies:
    """C = 3 * 2 = 6, so Delta^2 = C^2 depth max_keys = 36 * 4 * 2 = 288 under ADD_OR_REMOVE_ONE."""
    return PrivateFrequencies(
        SPECS[sketch],
        PrivacySpec(rho=Fraction(288, 2 * 144), relation=ADD_OR_REMOVE_ONE, side_counters=None),
        item=second_of,
        unit=PrivacyId(first_of, BOUNDS),
        keys=PublicKeys(["first", "second"]),
    )


def first_of(value: tuple[str, str]) -> str:
    return value[0]


def second_of(value: tuple[str, str]) -> str:
    return value[1]


def alarms(transform: PrivateFrequencies, sketch: str) -> set[str]:
    """The alarms of one run."""
    words = [word for key, (_, word) in PAIRS if key == "first"]
    exact = raw_type(SPECS[sketch])(SPECS[sketch]).accumulate(words).counters
    released = dict(run(PAIRS, transform, runner=FN_API))
    return audit(released["first"].counters - exact, released["second"].counters - exact, SIGMA_SQUARED)


@pytest.mark.one_fast_case
@pytest.mark.parametrize("sketch", SPECS)
@pytest.mark.parametrize("path", [record_path, privacy_id_path])
def test_released_noise_is_the_documented_discrete_gaussian(path: Callable[[str], Any], sketch: str) -> None:
    assert alarms(path(sketch), sketch) == set()


def check(alarm: str) -> None:
    assert alarm not in alarms(record_path("count_sketch"), "count_sketch"), "the audit alarms"


def scaled_sigma(factor: Fraction) -> Fault:
    return laws.around(
        calibration,
        "counter_tables",
        lambda exact, *terms: tuple(noise.with_parameter(table, factor**2) for table in exact(*terms)),
        "",
        "variance",
    )


FAULTS = {
    "no_noise": laws.put(tables, "add_noise", noise.exact, "", "variance"),
    "added_twice": laws.around(tables, "add_noise", noise.twice, "", "variance"),
    "sigma_too_small": scaled_sigma(Fraction(97, 100)),
    "sigma_too_large": scaled_sigma(Fraction(103, 100)),
    "depth_off_by_one": laws.around(
        tables,
        "sensitivity",
        lambda exact, *, cells_per_item, **names: exact(cells_per_item=cells_per_item - 1, **names),
        "",
        "variance",
    ),
    "shared_between_keys": faults.noise_drawn_once(4 * 32_768).found("", "cross-correlation"),
    "shared_between_rows": faults.noise_drawn_once(32_768, anew=True).found("", "autocorrelation"),
}
test_a_fault_planted_in_the_real_path_is_found = pytest.mark.one_fast_case(
    laws.mutants(FAULTS, check, words="the audit alarms")
)
