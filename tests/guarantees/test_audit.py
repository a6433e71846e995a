"""The noise of the real path, seen from outside: released minus exact counters, of two keys of one run, by table.

The audit of correct noise raises a false alarm with probability at most 6e-12 a table (1e-12 for each of six
statistics). The exact counters come from raw sketches, or from definitions; sigma^2 from the documented formula, worked
out by hand; neither from the release. Planted faults in each place where the path could go wrong are found; a miss has
probability below 1e-9. That no unit changes the counters by more than this noise hides: `test_recorded_noise.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    DyadicCountSketch,
    FactorizationSpec,
    IntegerDomain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.noise import calibration, noising, tables
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles
from tests.helpers import faults, laws, noise, norms
from tests.helpers.laws import Fault
from tests.helpers.noise_audit import audit
from tests.helpers.norm_reference import UNIT, Counted, expected
from tests.helpers.pipelines import FN_API, run

KEYS = ["first", "second"]
BOTH = PublicKeys(KEYS, "key")
ALARMS = "the audit alarms"


class Noise(NamedTuple):
    """What is released of two keys beyond their exact counters, for each table, and the sigma^2 of each by hand."""

    residuals: list[tuple[np.ndarray, np.ndarray]]
    sigma_squared: list[Fraction]

    def alarms(self) -> list[set[str]]:
        return [audit(*pair, sigma) for pair, sigma in zip(self.residuals, self.sigma_squared, strict=True)]


def released_of(rows: Any, transform: Any) -> dict[str, Any]:
    return dict(run(rows, transform, runner=FN_API))


# One table: under REPLACE_ONE an item of a record moves to cells of the opposite sign, or to others.

WORDS = [f"word {number % 50}" for number in range(600)]
WIDE = {kind: SketchSpec(kind=kind, depth=4, width=32_768) for kind in FLAT_KINDS}


def of_words(sketch: str, privacy_unit: Any, privacy: Callable[..., PrivacySpec]) -> Noise:
    rows = [{"user": f"user {number}", "key": key, "item": word} for number, word in enumerate(WORDS) for key in KEYS]
    transform = PrivateFrequencies(
        WIDE[sketch], privacy(summary_counts=None), privacy_unit=privacy_unit, item="item", keys=BOTH
    )
    exact, released = raw_type(WIDE[sketch])(WIDE[sketch]).accumulate(WORDS).counters, released_of(rows, transform)
    return Noise([(released["first"].counters - exact, released["second"].counters - exact)], [Fraction(144)])


def of_records(sketch: str) -> Noise:
    """Delta^2 = 4 C^2 depth = 16 for CountSketch and 2 C^2 depth = 8 for Count-Min, under REPLACE_ONE."""
    rho = Fraction({"count_sketch": 16, "count_min": 8}[sketch], 2 * 144)
    return of_words(sketch, Record(), lambda **others: PrivacySpec(rho=rho, relation=REPLACE_ONE, **others))


def of_ids(sketch: str) -> Noise:
    """C = 3 * 2 = 6, so Delta^2 = C^2 depth max_keys = 36 * 4 * 2 = 288 under ADD_OR_REMOVE_ONE."""
    rho, privacy_unit = Fraction(288, 2 * 144), PrivacyId("user", RecordBounds(max_records=3, max_keys=2, max_weight=2))
    return of_words(sketch, privacy_unit, lambda **others: PrivacySpec(rho=rho, relation=ADD_OR_REMOVE_ONE, **others))


# A tree: Delta^2 / (2 rho_l), with Delta^2 = 2, 4 depth and 2 depth under REPLACE_ONE.

TREE = TreeSpec(
    domain=IntegerDomain(0, (1 << 18) - 1),
    levels=(
        Level(15, "exact", 1, 1 << 15, Fraction(1, 6)),
        Level(1, "count_sketch", 4, 1 << 14, Fraction(2, 6)),
        Level(2, "count_min", 2, 1 << 15, Fraction(3, 6)),
    ),
)
LEVEL_SIGMAS = [Fraction(300), Fraction(1200), Fraction(200)]
OF_TREE = PrivacySpec(rho=Fraction(1, 50), relation=REPLACE_ONE, summary_counts=None)
VALUES = [value * 911 % (1 << 18) for value in range(500)]


def of_levels() -> Noise:
    transform = PrivateQuantiles(TREE, OF_TREE, privacy_unit=Record(), item="item", keys=BOTH)
    released = released_of([{"key": key, "item": value} for value in VALUES for key in KEYS], transform)
    exact = DyadicCountSketch(TREE).accumulate(VALUES)
    ends = np.cumsum([level.counters.size for level in exact.levels])[:-1]
    levels = [np.split(released[key].counters - exact.to_vector(), ends) for key in KEYS]
    return Noise([*zip(*levels, strict=True)], LEVEL_SIGMAS)


# Rows of a square-root factor: W h, with W by its definition, and its longest column.

SIZE, SIGMA = 12_000, 2


def of_rows() -> Noise:
    spec, by_hand = FactorizationSpec(IntegerDomain(0, SIZE - 1)), norms.factor_by_hand(SIZE)
    privacy = PrivacySpec(rho=Fraction(4, 2 * SIGMA**2), relation=ADD_OR_REMOVE_ONE, summary_counts=None)
    values = [place * 911 % SIZE for place in range(300)]
    rows = [{"user": (key, place), "key": key, "item": value} for key in KEYS for place, value in enumerate(values)]
    privacy_unit = PrivacyId("user", RecordBounds(2, max_keys=1))
    released = released_of(rows, PrivateQuantiles(spec, privacy, privacy_unit=privacy_unit, item="item", keys=BOTH))
    exact, step = np.zeros(SIZE, dtype=np.int64), 2**spec.factor.dropped_bits
    for value in values:
        exact[value:] += by_hand.gains[value] * np.array(by_hand.column[: SIZE - value])
    first, second = (np.rint(released[key].counters - exact / step).astype(np.int64) for key in KEYS)
    return Noise([(first, second)], [Fraction(SIGMA**2 * by_hand.squared_length, step**2)])


# A norm, which scales one heavy person: Delta^2 = row b^2 depth, where row is 1 for a person added, 2 for one replaced
# in cells that grow, and 4 in others. Low bits that count at most sigma / 64 are rounded off: for sigma = 12 below an
# eighth, for 96 below one record.

VISITS = [Counted(f"user {number % 40}", key, f"word {number % 97}") for number in range(600) for key in KEYS] + [
    Counted("heavy", "first", f"word {number % 300}") for number in range(2000)
]
SIX = NormBound(6, max_per_item=4)


def of_visits(spec: SketchSpec, privacy: PrivacySpec, bounds: Any, squared: Callable[[Any], Fraction]) -> Noise:
    """Noise in the parts of a record in which counters are released; `squared` is sigma^2 under the released bounds."""
    rows = [{"user": each.person, "key": each.place, "item": each.item} for each in VISITS]
    released = released_of(
        rows, PrivateFrequencies(spec, privacy, item="item", privacy_unit=PrivacyId("user", bounds), keys=BOTH)
    )
    (found,) = {each.privacy.bounds for each in released.values()}
    parts, exact, residuals = (
        2.0 ** -math.floor(math.log2(squared(found) / 64**2) / 2),
        expected(spec, found, VISITS),
        [],
    )
    for key in KEYS:
        noisy = released[key].counters.ravel() * parts
        assert np.array_equal(noisy, np.rint(noisy))
        # What the rounding of a scaled weight takes away is in fewer than 1 of 100 counters.
        residuals.append(np.rint(noisy - exact[key].counters * parts / UNIT).astype(np.int64))
    return Noise([(residuals[0], residuals[1])], [squared(found) * Fraction(parts) ** 2])


def under_norm(sketch: str, relation: NeighboringRelation, row: int, sigma: int) -> Noise:
    privacy = PrivacySpec(rho=Fraction(row * 36 * 4, 2 * sigma**2), relation=relation, summary_counts=None)
    return of_visits(WIDE[sketch], privacy, SIX, lambda _: Fraction(sigma) ** 2)


def under_chosen_norm(relation: NeighboringRelation, row: int) -> Noise:
    """Of rho, 1/20 is for the choice, and 1/50 for units, weight and what was lost each."""
    rho = Fraction(1, 2)
    return of_visits(
        SketchSpec(depth=4, width=16_384),
        PrivacySpec(rho=rho, relation=relation),
        AutoNorm(),
        lambda bounds: row * 4 * Fraction(bounds.max_norm) ** 2 / (2 * rho * Fraction(89, 100)),
    )


CASES: dict[str, Callable[[], Noise]] = {
    "records": lambda: of_records("count_sketch"),
    "tree": of_levels,
    "rows": of_rows,
    "norm": lambda: under_norm("count_sketch", ADD_OR_REMOVE_ONE, 1, 12),
    "chosen norm": lambda: under_chosen_norm(REPLACE_ONE, 4),
}
MORE_CASES: dict[str, Callable[[], Noise]] = {
    "records, Count-Min": lambda: of_records("count_min"),
    "ids": lambda: of_ids("count_sketch"),
    "ids, Count-Min": lambda: of_ids("count_min"),
    "norm, in whole records": lambda: under_norm("count_sketch", REPLACE_ONE, 4, 96),
    "norm, Count-Min": lambda: under_norm("count_min", REPLACE_ONE, 2, 12),
    "chosen norm of who is added": lambda: under_chosen_norm(ADD_OR_REMOVE_ONE, 1),
}


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE_CASES)])
def test_released_noise_is_the_documented_discrete_gaussian(name: str) -> None:
    assert not any((CASES | MORE_CASES)[name]().alarms())


def test_levels_are_independent_of_each_other() -> None:
    """Of each key: no level's noise is another's, scaled; one cross-correlation per pair, at 1e-12."""
    for levels in zip(*of_levels().residuals, strict=True):
        standard = [np.rint(100 * level / np.sqrt(float(s))) for level, s in zip(levels, LEVEL_SIGMAS, strict=True)]
        for one in range(3):
            for other in range(one):
                size = min(len(standard[one]), len(standard[other]))
                found = audit(standard[one][:size].astype(int), standard[other][:size].astype(int), Fraction(10_000))
                assert "cross-correlation" not in found


def test_the_seed_changes_where_values_go_and_not_the_noise() -> None:
    other = dataclasses.replace(TREE, seed=1)
    first, second = (DyadicCountSketch(spec).accumulate(VALUES) for spec in (TREE, other))
    np.testing.assert_array_equal(first.levels[0].counters, second.levels[0].counters)
    assert not np.array_equal(first.levels[1].counters, second.levels[1].counters)
    for spec in (TREE, other):
        assert list(calibration.calibrate(spec, ReleaseTerms(OF_TREE))) == LEVEL_SIGMAS


# Faults


def check(case: str, alarm: str, table: int = 0) -> None:
    """Raise if the alarm of one table is given, and none of others."""
    found = CASES[case]().alarms()
    assert alarm not in found[table] or any(found[:table] + found[table + 1 :]), ALARMS


def other_noise(factor: Fraction) -> Fault:
    """Plant noise of another variance; to be found in its variance."""
    return laws.around(tables, "add_noise", noise.with_variance(lambda variance: variance * factor))


def share_of_the_neighbor(number: int) -> Fault:
    """Sigma of one level is off by 22 % or more, where the audit of 32,768 and more cells finds 3 %."""

    def wrong(exact: Any, spec: TreeSpec, terms: ReleaseTerms) -> Any:
        levels = list(exact(spec, terms))
        factor = spec.levels[number].share / spec.levels[(number - 1) % 3].share
        levels[number] = noise.with_parameter(levels[number], factor)
        return tuple(levels)

    return laws.around(calibration, "counter_tables", wrong, "", "tree", "variance", number)


def all_of_rho(exact: Any, spec: Any, terms: ReleaseTerms) -> Any:
    """Return the tables with the noise of all that may be spent."""
    return tuple(noise.with_parameter(table, terms.share_left) for table in exact(spec, terms))


TOO_SMALL = other_noise(Fraction(97, 100) ** 2)
FAULTS = {
    "no noise": laws.put(tables, "add_noise", noise.exact, "", "records", "variance"),
    "added twice": laws.around(tables, "add_noise", noise.twice, "", "records", "variance"),
    "sigma too small": TOO_SMALL.found("", "records", "variance"),
    "sigma too large": other_noise(Fraction(103, 100) ** 2).found("", "records", "variance"),
    "depth off by one": laws.around(
        tables,
        "sensitivity",
        lambda exact, *, cells_per_item, **names: exact(cells_per_item=cells_per_item - 1, **names),
        "",
        "records",
        "variance",
    ),
    "shared between keys": faults.noise_drawn_once(4 * 32_768).found("", "records", "cross-correlation"),
    "shared between rows": faults.noise_drawn_once(32_768, anew=True).found("", "records", "autocorrelation"),
    **{f"the share of the neighbor, {number}": share_of_the_neighbor(number) for number in range(3)},
    "rows: sigma too small": other_noise(Fraction(9, 10)).found("", "rows", "variance"),
    "rows: one noise for several": faults.noise_drawn_once(SIZE // 8, anew=True).found("", "rows", "autocorrelation"),
    "rows: shared between keys": faults.noise_drawn_once(SIZE).found("", "rows", "cross-correlation"),
    "rows: rounded off too much": laws.around(
        noising, "round_off", lambda exact, rows, bits: exact(rows, bits + 7), "", "rows", "variance"
    ),
    "norm: in units of counters": other_noise(Fraction(1, 4**15)).found("", "norm", "variance"),
    "norm: sigma too small": TOO_SMALL.found("", "norm", "variance"),
    "norm: too many bits rounded off": laws.around(
        tables, "drowned_bits", lambda exact, *terms: exact(*terms) + 3, "", "norm", "chi-square"
    ),
    "norm: rounded off twice": laws.around(  # the same for what is dropped, and not said
        noising, "round_off", lambda exact, counters, bits: exact(counters, bits + 1), "", "norm", "variance"
    ),
    "norm: shared between keys": faults.noise_drawn_once(4 * 32_768).found("", "norm", "cross-correlation"),
    "chosen norm: all of rho": laws.around(calibration, "counter_tables", all_of_rho, "", "chosen norm", "variance"),
}
test_a_planted_fault_is_found = pytest.mark.one_fast_case(laws.mutants(FAULTS, check, words=ALARMS))
