"""Combining releases: counters and variances add, losses add or are the maximum, and mix-ups are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    CountMin,
    CountSketch,
    IncompatibleSketchError,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from tests.helpers import by_hand, strategies
from tests.helpers.raw import raw_of

SPEC = SketchSpec(depth=2, width=3)
FIRST = [[1, 2, 3], [4, 5, 6]]
SECOND = [[10, -20, 30], [40, 50, -60]]
OTHER_ID = {"release_ids": (bytes(48),)}

pytestmark = pytest.mark.parametrize("kind", strategies.KINDS)


def test_counters_and_variances_and_losses_add(kind):
    first = by_hand.released(kind, SPEC, FIRST)
    second = by_hand.released(
        kind, SPEC, SECOND, **OTHER_ID, rho=Fraction(1, 3), sigma_squared_per_level=(Fraction(5, 7),)
    )
    both = first.combine(second)
    assert type(both) is type(first)
    np.testing.assert_array_equal(both.counters, np.array(FIRST) + SECOND)
    assert both.privacy.rho == Fraction(1, 2) + Fraction(1, 3)
    assert both.privacy.sigma_squared == 9 + Fraction(5, 7)
    assert both.privacy.release_ids == first.privacy.release_ids + second.privacy.release_ids
    np.testing.assert_array_equal(first.counters, FIRST)


def test_disjoint_units_lose_the_maximum(kind):
    first = by_hand.released(kind, SPEC, FIRST)
    second = by_hand.released(kind, SPEC, SECOND, **OTHER_ID, rho=Fraction(2, 3))
    for both in (first.combine(second, units_disjoint=True), second.combine(first, units_disjoint=True)):
        assert both.privacy.rho == Fraction(2, 3)
        assert both.privacy.sigma_squared == 18


def ids(run, part, draw=0):
    return (bytes([run] * 16 + [part] * 16 + [draw] * 16),)


def test_different_parts_of_one_run_keep_its_rho(kind):
    a, b, c = (by_hand.released(kind, SPEC, FIRST, release_ids=ids(1, part)) for part in range(3))
    for all_of_them in (a.combine(b).combine(c), c.combine(a.combine(b))):
        assert all_of_them.privacy.rho == a.privacy.rho
        assert all_of_them.privacy.sigma_squared == 3 * a.privacy.sigma_squared


@pytest.mark.parametrize(
    "changes",
    [
        {"release_ids": ids(2, 1)},
        {"release_ids": ids(1, 0, draw=1)},
        {"release_ids": ids(1, 1), "bounds": RecordBounds(1)},
        {"release_ids": ids(1, 1), "window_count": 2},
    ],
    ids=["another run", "another draw", "other bounds", "other windows"],
)
def test_what_is_not_another_part_of_the_run_adds(kind, changes):
    first = by_hand.released(kind, SPEC, FIRST, release_ids=ids(1, 0))
    for both in (
        first.combine(by_hand.released(kind, SPEC, SECOND, **changes)),
        by_hand.released(kind, SPEC, SECOND, **changes).combine(first),
    ):
        assert both.privacy.rho == 1


def test_parts_of_runs_that_were_combined_add(kind):
    """The rho of a sum of two runs is not that of one of them."""
    of = {run: [by_hand.released(kind, SPEC, FIRST, release_ids=ids(run, part)) for part in range(2)] for run in (1, 2)}
    assert of[1][0].combine(of[2][0]).combine(of[1][1].combine(of[2][1])).privacy.rho == 2
    assert of[1][0].combine(of[1][1]).combine(of[2][0].combine(of[2][1])).privacy.rho == 1


def test_answers_of_one_timeline_do_not_combine_and_those_of_two_do(kind):
    over_time = {"privacy_unit": PrivacyUnit.PRIVACY_ID_OVER_HORIZON, "window_count": 8}
    first, second, of_other_key, other = (
        by_hand.released(kind, SPEC, FIRST, release_ids=(name + bytes(48 - len(name)),), **over_time)
        for name in (
            b"run of 16 bytes!one key.",
            b"run of 16 bytes!one key.1",
            b"run of 16 bytes!another.",
            b"other run",
        )
    )
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be combined"):
        first.combine(second)
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be compared"):
        first.distance(second)
    both = first.combine(other)
    assert both.privacy.rho == 1
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be combined"):
        both.combine(second)
    assert first.combine(of_other_key).privacy.rho == first.privacy.rho
    assert first.combine(of_other_key).combine(other).privacy.rho == 1
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be combined"):
        first.combine(of_other_key).combine(second)
    assert first.privacy.over_time is both.privacy.over_time is None


def test_the_statement_covers_both_inputs(kind):
    first = by_hand.released(kind, SPEC, FIRST, window_count=4, disclosed=Disclosure.KEYS)
    second = by_hand.released(
        kind,
        SPEC,
        SECOND,
        **OTHER_ID,
        window_count=2,
        disclosed=Disclosure.WINDOWS,
        bounds=RecordBounds(1, max_keys=5, signed=True),
    )
    statement = first.combine(second).privacy
    assert statement.bounds == RecordBounds(max_records=3, max_keys=5, signed=True)
    assert statement.window_count == 4
    assert statement.disclosed == Disclosure.KEYS | Disclosure.WINDOWS


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"relation": ADD_OR_REMOVE_ONE}, "relation"),
        ({"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_WINDOW}, "privacy_unit"),
    ],
)
@pytest.mark.parametrize("units_disjoint", [False, True])
def test_other_relations_and_units_are_refused(kind, changes, name, units_disjoint):
    first = by_hand.released(kind, SPEC, FIRST)
    second = by_hand.released(kind, SPEC, SECOND, **OTHER_ID, **changes)
    with pytest.raises(IncompatibleSketchError, match=f"different {name} cannot be combined"):
        first.combine(second, units_disjoint=units_disjoint)


@pytest.mark.parametrize(
    "spec",
    [
        SketchSpec(depth=3, width=2),
        SketchSpec(depth=2, width=3, seed=1),
        SketchSpec(depth=2, width=3, item_hash="blake2b", item_key=bytes(16)),
    ],
    ids=str,
)
def test_other_specs_are_refused(kind, spec):
    second = by_hand.released(kind, spec, np.zeros((spec.depth, spec.width)), **OTHER_ID)
    with pytest.raises(IncompatibleSketchError, match="Only releases with the same kind and spec"):
        by_hand.released(kind, SPEC, FIRST).combine(second)


def test_other_kinds_are_refused(kind):
    other = CountMin if kind is CountSketch else CountSketch
    with pytest.raises(IncompatibleSketchError, match="Only releases with the same kind and spec"):
        by_hand.released(kind, SPEC, FIRST).combine(by_hand.released(other, SPEC, SECOND, **OTHER_ID))


def test_raw_sketches_are_refused(kind):
    with pytest.raises(IncompatibleSketchError, match="Only releases"):
        by_hand.released(kind, SPEC, FIRST).combine(raw_of(kind, SPEC))


def test_a_release_is_counted_once(kind):
    first = by_hand.released(kind, SPEC, FIRST)
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be combined"):
        first.combine(first)
    both = first.combine(by_hand.released(kind, SPEC, SECOND, **OTHER_ID))
    with pytest.raises(IncompatibleSketchError, match="Releases with common noise cannot be combined"):
        both.combine(first)


def test_combining_is_commutative_and_associative_in_what_it_says(kind):
    a, b, c = (
        by_hand.released(kind, SPEC, np.full((2, 3), 5**n), release_ids=(bytes([n] * 48),), rho=Fraction(1, n + 1))
        for n in range(3)
    )
    left, right = a.combine(b).combine(c), a.combine(b.combine(c))
    assert left == right
    swapped = c.combine(b).combine(a)
    np.testing.assert_array_equal(swapped.counters, left.counters)
    assert (swapped.privacy.rho, swapped.privacy.sigma_squared) == (left.privacy.rho, left.privacy.sigma_squared)


@pytest.mark.filterwarnings("error")
def test_counters_wrap_around(kind):
    top = np.full((2, 3), (1 << 63) - 1)
    both = by_hand.released(kind, SPEC, top).combine(by_hand.released(kind, SPEC, np.full((2, 3), 2), **OTHER_ID))
    assert (both.counters == -(1 << 63) + 1).all()


def test_estimates_of_the_union_are_those_of_the_sum(kind):
    """Without noise, the combined release answers as the sketch of all the data does."""
    spec = SketchSpec(depth=3, width=16)
    items = [f"item-{number}" for number in range(40)]
    parts = [raw_of(kind, spec).accumulate(items * 3), raw_of(kind, spec).accumulate(items[:7] * 100)]
    whole = by_hand.without_noise(
        raw_of(kind, spec).merge(parts[0]).merge(parts[1]), sigma_squared_per_level=(Fraction(18),)
    )
    both = by_hand.without_noise(parts[0]).combine(by_hand.without_noise(parts[1], **OTHER_ID))
    np.testing.assert_array_equal(both.estimate(items), whole.estimate(items))
    assert both.interval(items) == whole.interval(items)


def test_real_releases_combine(kind):
    spec = SketchSpec(depth=5, width=256)
    releases = [
        release(raw_of(kind, spec).accumulate(["a"] * 10_000), ReleaseTerms(PrivacySpec(rho=1.0))) for _ in range(3)
    ]
    both = releases[0].combine(releases[1]).combine(releases[2])
    assert both.privacy.rho == 3
    assert both.privacy.sigma_squared == 3 * releases[0].privacy.sigma_squared
    bounds = both.interval("a", confidence=1 - 1e-9)
    assert bounds.lower <= 30_000 <= bounds.upper


def test_too_many_to_write_are_refused_while_combining(kind):
    names = [number.to_bytes(48, "little") for number in range(1 << 16)]
    full = by_hand.released(kind, SPEC, FIRST, release_ids=tuple(names[:-1]))
    assert type(full).from_bytes(full.to_bytes()) == full
    with pytest.raises(ValueError, match="At most 65535 releases can be combined"):
        full.combine(by_hand.released(kind, SPEC, SECOND, release_ids=(names[-1],)))
