"""Timelines: each answer is the one best estimate from the rows so far, with the variance of its own noise."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import secrets
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    CountMin,
    CountSketch,
    DyadicCountSketch,
    Horizon,
    IncompatibleSketchError,
    IntegerDomain,
    ListedItems,
    SketchSpec,
    SketchTimeline,
    TreeSpec,
)
from beam_dpsketch.answers.estimators.over_time import RootDecoder
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.over_time.mechanism import matrix_rows
from tests.helpers.raw import raw_of
from tests.helpers.timeline_rows import KINDS, released_rows

SPEC = SketchSpec(depth=3, width=8)
HORIZON = Horizon(1000.0, 60.0, 8)
FINE = 2.0
"""About the largest rho that a release takes: answers have a sigma of 4 or less."""
NEAR = 30
"""No answer is farther off, but for one in 10^12."""


def leaf(window: int, spec: SketchSpec = SPEC) -> CountSketch:
    return CountSketch(spec).accumulate([] if window == 2 else ["a"] * 100 * window + ["b"] * 50)


@functools.cache
def eight(kind: str, rho: float = 1.0) -> tuple[tuple[CountSketch, ...], tuple[TimelineRow, ...]]:
    """Eight windows, the third of them empty, and their rows."""
    leaves = tuple(leaf(window) for window in range(8))
    return leaves, tuple(released_rows(leaves, HORIZON, kind, rho=rho, records=[10 * window for window in range(8)]))


def ranges(windows: int) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(windows), 2))


def ones(first: int, last: int, windows: int) -> np.ndarray:
    return ((np.arange(windows) >= first) & (np.arange(windows) <= last)).astype(float)


def check_answer(
    answer: ReleasedSketch, coefficients: np.ndarray, rows: list[TimelineRow], aside: np.ndarray | None = None
) -> None:
    """Compare counters, summary counts and noise with dense least squares over the rows; `aside` if these differ."""
    closed, mechanism = len(coefficients), rows[0].mechanism
    dense = np.array(list(matrix_rows(mechanism)), dtype=float)[: len(rows), :closed]
    weights = coefficients @ np.linalg.pinv(dense)
    weights_aside = (coefficients if aside is None else aside) @ np.linalg.pinv(dense)
    grid = 1 / (1 << answer._scale_bits)
    expected = weights @ np.array([row.counters for row in rows])
    np.testing.assert_allclose(np.ravel(answer.counters), expected, atol=0.51 * grid)
    side = weights_aside @ np.array([row.side for row in rows])
    np.testing.assert_allclose([note.estimate for note in answer.privacy.side], side, atol=1e-4)
    for used, after, before in (
        (weights, answer.privacy.sigma_squared, rows[0].privacy.sigma_squared),
        (weights_aside, answer.privacy.side[0].sigma_squared, rows[0].privacy.side[0].sigma_squared),
    ):
        variance = float(used @ used) * mechanism.squared_length
        assert float(after) == pytest.approx(variance * float(before), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_range_is_the_best_estimate_from_the_rows(kind: str) -> None:
    _, rows = eight(kind)
    line = SketchTimeline(rows, HORIZON)
    for first, last in ranges(8):
        check_answer(line.between(first, last), ones(first, last, 8), list(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_is_one_estimate_with_the_noise_that_it_has(kind: str) -> None:
    """Ranges share rows, so its variance is neither the sum nor a bound of both."""
    _, rows = eight(kind)
    line = SketchTimeline(rows, HORIZON)
    for later, earlier in [((4, 7), (0, 3)), ((1, 5), (3, 6)), ((0, 7), (0, 6)), (5, 2), (7, (0, 3))]:
        ends = [each if isinstance(each, tuple) else (each, each) for each in (later, earlier)]
        difference, sides = line.minus(later, earlier), [ones(*each, 8) for each in ends]
        check_answer(difference._signed, sides[0] - sides[1], list(rows), sides[0] + sides[1])
    assert line.minus((0, 7), (0, 6)).privacy.sigma_squared == line.between(7, 7).privacy.sigma_squared
    apart = [line.between(*ends).privacy.sigma_squared for ends in ((0, 7), (0, 6))]
    assert line.minus((0, 7), (0, 6)).privacy.sigma_squared < sum(apart) / 1.5


def test_noise_that_is_added_up_as_if_independent_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _, rows = eight("root")
    variance = RootDecoder.variance

    def of_both(decoder: RootDecoder, coefficients: np.ndarray) -> float:
        return sum(variance(decoder, (coefficients == sign).astype(float)) for sign in (1, -1))

    monkeypatch.setattr(RootDecoder, "variance", of_both)
    difference = SketchTimeline(rows, HORIZON).minus((4, 7), (0, 3))
    with pytest.raises(AssertionError):
        check_answer(difference._signed, ones(4, 7, 8) - ones(0, 3, 8), list(rows), ones(0, 7, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_the_windows(kind: str) -> None:
    leaves, rows = eight(kind, FINE)
    line = SketchTimeline(rows, HORIZON)
    for first, last in ranges(8):
        exact = sum(leaves[window].counters for window in range(first, last + 1))
        np.testing.assert_allclose(line.between(first, last).counters, exact, atol=NEAR)
    assert line.prefix(7).estimate("a") == pytest.approx(2600, abs=NEAR)
    lower, upper = line.between(3, 5).records(1 - 1e-10)[1:]
    assert lower < 120 < upper < lower + 300  # false alarm below 1e-9, with those above


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_releases_of_the_horizon(kind: str) -> None:
    line = SketchTimeline(eight(kind)[1], HORIZON)
    answer = line.between(2, 5)
    assert answer.privacy.rho == 1
    assert ReleasedSketch.from_bytes(answer.to_bytes()) == answer == line.between(2, 5)
    ids = {line.between(first, last).privacy.release_ids for first, last in ranges(8)}
    assert len(ids) == len(ranges(8))
    assert line.minus((0, 5), (0, 1)).privacy.release_ids == answer.privacy.release_ids  # the same sum of windows
    with pytest.raises(IncompatibleSketchError):
        line.between(0, 1).distance(answer)


@pytest.mark.parametrize("kind", KINDS)
def test_distances_and_movers_read_the_difference(kind: str) -> None:
    leaves = [CountSketch(SketchSpec(depth=5, width=256)).accumulate(["a"] * 300 + ["b"] * 50 * w) for w in range(8)]
    line = SketchTimeline(released_rows(leaves, HORIZON, kind, rho=FINE), HORIZON)
    distance = line.distance((4, 7), (0, 3), 1 - 1e-10)
    assert distance.lower <= 800 <= distance.upper < 900
    assert distance.estimate == pytest.approx(800, abs=NEAR)
    found = line.movers((4, 7), (1, 3), k=2, candidates=["a", "b", "c"])
    assert [row.item for row in found] == ["b", "a"]
    assert found.change == pytest.approx([1100 - 300, 300], abs=NEAR)
    assert found.before == pytest.approx([300, 900], abs=NEAR)
    assert found.after == pytest.approx([1100, 1200], abs=NEAR)
    certain = line.movers((4, 7), (1, 3), k=2, candidates=["a", "b", "c"], confidence=1 - 1e-10)
    assert [row.lower < truth < row.upper for row, truth in zip(certain, (800, 300), strict=True)] == [True, True]
    with pytest.raises(ValueError, match="candidates is required"):
        line.movers(1, 0)


def test_lists_and_trees_find_what_changed_themselves() -> None:
    listed = ListedItems(["Oslo", "Rome", "Bern"])
    histograms = [ListedHistogram(listed).accumulate(["Oslo"] * 100 * w + ["Rome"] * 70) for w in range(8)]
    cities = SketchTimeline(released_rows(histograms, HORIZON, rho=FINE), HORIZON)
    assert [row.item for row in cities.movers(7, 0, k=1)] == ["Oslo"]
    tree = TreeSpec.for_memory(IntegerDomain(0, 999), 1 << 14)
    leaves = [DyadicCountSketch(tree).accumulate([100 * w] * 5000 + [999] * 20) for w in range(8)]
    line = SketchTimeline(released_rows(leaves, HORIZON, rho=FINE), HORIZON)
    assert sorted(row.item for row in line.movers((4, 5), (3, 4), k=2)) == [300, 500]
    assert line.between(1, 3).quantile(0.5).estimate == pytest.approx(200, abs=15)


@pytest.mark.parametrize("kind", KINDS)
def test_windows_close_one_after_the_other(kind: str) -> None:
    _, rows = eight(kind)
    line = SketchTimeline([], HORIZON)
    assert line.available == 0
    for closed in range(8):
        with pytest.raises(ValueError, match="not all released yet"):
            line.prefix(closed)
        line.add(row for row in rows if row.window == closed)
        assert line.available == closed + 1
        so_far = [row for row in rows if row.window <= closed]
        check_answer(line.prefix(closed), np.ones(closed + 1), so_far)
        assert line.prefix(closed) == SketchTimeline(so_far, HORIZON).prefix(closed)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_after_a_gap_wait(kind: str) -> None:
    _, rows = eight(kind)
    line = SketchTimeline([row for row in reversed(rows) if row.window != 3], HORIZON)
    assert line.available == 3
    with pytest.raises(
        ValueError,
        match=r"Windows 2 to 5 are not all released yet\. Windows 0 to 2 .*; rows? [34](, [0-9])* (is|are) missing, ",
    ):
        line.between(2, 5)
    assert line.missing == tuple(row.number for row in rows if row.window == 3)
    assert repr(line) == f"<SketchTimeline of 8 windows, 3 available; {line.gap}>"
    line.add(row for row in rows if row.window == 3)
    assert (line.available, line.missing, line.gap) == (8, (), "")
    assert line.between(2, 5) == SketchTimeline(rows, HORIZON).between(2, 5)
    with pytest.raises(ValueError, match="No window is available; row 0 is missing, and later rows wait for it"):
        SketchTimeline(rows[1:], HORIZON).prefix(0)
    with pytest.raises(ValueError, match="rows 0, 2 are missing, and later rows wait for them"):
        SketchTimeline([rows[1], *rows[3:]], HORIZON).prefix(0)
    with pytest.raises(ValueError, match=r"Windows 0 to 7 are .*; row 0 is missing .dpsketch"):
        SketchTimeline([], HORIZON).prefix(7)
    assert SketchTimeline(rows[-1:], HORIZON).gap.startswith("rows 0, 1, 2, 3, 4, ... are missing")


def test_a_window_of_the_tree_lacks_none_of_its_nodes() -> None:
    _, rows = eight("tree")
    assert SketchTimeline(rows[:2], HORIZON).available == 1
    assert SketchTimeline(rows[:3], HORIZON).available == 2


def test_times_are_windows() -> None:
    line = SketchTimeline([], HORIZON)
    assert [line.window_of(time) for time in (1000, 1059.9, 1060, 1479)] == [0, 0, 1, 7]
    for outside in (999.9, 1480):
        with pytest.raises(ValueError, match="must be between 0 and 7"):
            line.window_of(outside)


def test_what_is_no_range_is_refused() -> None:
    line = SketchTimeline(eight("root")[1], HORIZON)
    with pytest.raises(ValueError, match="first must be at most last, got 3 and 2"):
        line.between(3, 2)
    with pytest.raises(ValueError, match="last must be between 0 and 7"):
        line.prefix(8)
    with pytest.raises(TypeError, match="first must be a whole number"):
        line.between(0.5, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="later and earlier must be different windows"):
        line.minus(3, (3, 3))
    with pytest.raises(ValueError, match="earlier must be a window number, or a pair"):
        line.distance(3, (3,))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k must be between"):
        line.movers(3, 2, k=0)


def test_rows_of_something_else_are_refused() -> None:
    leaves, rows = eight("root")
    with pytest.raises(TypeError, match="row must be a TimelineRow, got int"):
        SketchTimeline([3], HORIZON)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="horizon must be a Horizon"):
        SketchTimeline(rows, 8)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Row 0 is given twice\. Pass each row from the same run once"):
        SketchTimeline([*rows, rows[0]], HORIZON)
    with pytest.raises(ValueError, match="Row 0 does not belong to a horizon with 4 windows"):
        SketchTimeline(rows, dataclasses.replace(HORIZON, windows=4))
    for other in (Horizon(1060.0, 60.0, 8), Horizon(1000.0, 61.0, 8)):
        with pytest.raises(ValueError, match=r"Row 1 was released for another window\. Pass its own horizon"):
            SketchTimeline(rows[1:], other)
    again = released_rows(leaves, HORIZON)
    with pytest.raises(
        ValueError, match=r"Rows 0 and 1 are from different runs or keys\. .* a single key from a single run"
    ):
        SketchTimeline([rows[0], again[1]], HORIZON)


def test_rows_that_differ_in_more_than_their_numbers_are_refused() -> None:
    run = secrets.token_bytes(16)
    plain = released_rows([leaf(0), leaf(1)], HORIZON, run=run)
    others: dict[str, list[Any]] = {
        "kind, spec, promise": released_rows([raw_of(CountMin, SPEC)] * 2, HORIZON, run=run),
        "spec": released_rows([leaf(0, SketchSpec(depth=3, width=8, seed=1))] * 2, HORIZON, run=run),
        "mechanism, promise": released_rows([leaf(0)] * 2, HORIZON, "tree", run=run),
    }
    for differing, other in others.items():
        with pytest.raises(
            IncompatibleSketchError, match=rf"Rows 0 and 1 differ in {differing}\. .* \[dpsketch-E705\]$"
        ):
            SketchTimeline([plain[0], other[1]], HORIZON)


def forged(row: TimelineRow, counter: int | None = None, **privacy: Any) -> TimelineRow:
    """A row with the release id of another one, and something else in it."""
    counters = row._counters if counter is None else np.full_like(row._counters, counter)
    return TimelineRow(row.spec, counters, dataclasses.replace(row.privacy, **privacy), row._scale_bits)


def test_rows_that_promise_something_else_are_refused() -> None:
    """An answer has the statement and the noise of its first row, so those of all rows must be equal."""
    _, rows = eight("root")
    privacy = rows[1].privacy
    for other in ({"side": ()}, {"rho": 9 * privacy.rho}, {"sigma_squared_per_level": (9 * privacy.sigma_squared,)}):
        with pytest.raises(IncompatibleSketchError, match="Rows 0 and 1 differ in promise"):
            SketchTimeline([rows[0], forged(rows[1], **other)], HORIZON)


def test_answers_hold_large_counts() -> None:
    """A total of 2^51 with fractions of 2^-16 has no place in 64 bits; under this noise it needs no fractions."""
    total = 1 << 51
    rows = released_rows([leaf(0)] * 2, HORIZON, "tree", rho=1e-6, records=[total // 2] * 2)
    found = SketchTimeline(rows, HORIZON).prefix(1).records(1 - 1e-9)
    assert found.lower < total < found.upper
    assert found.upper - found.lower < 1 << 20


def test_statements_say_how_often_a_unit_counts() -> None:
    _, rows = eight("root")
    privacy = SketchTimeline(rows, HORIZON).prefix(3).privacy
    again = "; a privacy id counts once in each window"
    assert again not in str(privacy)
    assert again in str(dataclasses.replace(privacy, privacy_unit=PrivacyUnit.PRIVACY_ID_OVER_HORIZON))


@pytest.mark.filterwarnings("error")
def test_numbers_that_no_release_holds_become_the_largest() -> None:
    _, rows = eight("root")
    most = (1 << 63) - 1
    note = dataclasses.replace(rows[0].privacy.over_time, dropped_bits=62)  # type: ignore[type-var]
    side = tuple(dataclasses.replace(each, value=most) for each in rows[0].privacy.side)
    line = SketchTimeline([forged(rows[0], most, over_time=note), *rows[1:]], HORIZON)
    assert (line.prefix(0).counters > 2.0**50).all()
    assert SketchTimeline([forged(rows[0], side=side), *rows[1:]], HORIZON).prefix(0).records().estimate > 2.0**40


def test_keys_have_timelines_of_their_own() -> None:
    pairs = [(key, row) for key in ("x", "y") for row in released_rows([leaf(0), leaf(1)], HORIZON)]
    lines = SketchTimeline.by_key(pairs[::-1], HORIZON)
    assert {key: line.available for key, line in lines.items()} == {"x": 2, "y": 2}
    assert lines["x"].prefix(1) == SketchTimeline([row for key, row in pairs if key == "x"], HORIZON).prefix(1)
    with pytest.raises(ValueError, match=r"a single key from a single run\. SketchTimeline\.by_key separates keys"):
        SketchTimeline([pairs[0][1], pairs[3][1]], HORIZON)
    assert repr(lines["x"]) == "<SketchTimeline of 8 windows, 2 available>"
