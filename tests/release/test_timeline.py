"""Timelines: ranges are sums of the right nodes, few of them, for one rho; errors are those of theory."""

from __future__ import annotations

import functools
import itertools
import math
import secrets
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    Horizon,
    IncompatibleSketchError,
    IntegerDomain,
    PrivacySpec,
    PrivacyUnit,
    RecordBounds,
    ReleasedSketch,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    TimelineNode,
    TreeSpec,
    release,
)
from beam_dpsketch.hashing import cells
from beam_dpsketch.release.noising import release_part
from beam_dpsketch.release.release_id import part_name
from beam_dpsketch.release.timeline import averaged_variance, covering
from tests.helpers.raw import raw_of

SPEC = SketchSpec(depth=3, width=8)
PRIVACY = PrivacySpec(rho=1.0, relation=REPLACE_ONE)
OVER_HORIZON = PrivacyUnit.RECORD_OVER_HORIZON
NO_SIDE = np.zeros(0, dtype=np.int64)


START, SIZE = 1000, 60


def released_nodes(leaves: list[Any], *, start: int = START, size: int = SIZE) -> Iterator[TimelineNode]:
    """Every node over these raw sketches, released on its own, in one run."""
    nodes, run = leaves, secrets.token_bytes(16)
    for level in itertools.count():
        for index, node in enumerate(nodes):
            ends = (1_000_000 * (start + size * (window << level)) for window in (index, index + 1))
            of_run = {"run": run, "part": part_name(("level", level), *ends)}
            yield TimelineNode(
                level,
                index,
                release_part(
                    node, NO_SIDE, ReleaseTerms(PRIVACY, unit=OVER_HORIZON, window_count=len(leaves)), **of_run
                ),
            )
        if len(nodes) == 1:
            return
        pairs = zip(nodes[::2], nodes[1::2], strict=True)
        nodes = [type(left)(left.spec).merge(left).merge(right) for left, right in pairs]


def empty_timeline(windows: int, spec: SketchSpec) -> SketchTimeline:
    """A timeline without data, so that its counters are its errors."""
    return timeline(list(released_nodes([CountSketch(spec) for _ in range(windows)])), windows)


def timeline(nodes: Any, windows: int) -> SketchTimeline:
    return SketchTimeline(nodes, Horizon(float(START), float(SIZE), windows))


@functools.cache
def eight() -> tuple[tuple[CountSketch, ...], tuple[TimelineNode, ...]]:
    """Eight windows, the third of them empty, and their nodes."""
    leaves = tuple(CountSketch(SPEC).accumulate([] if window == 2 else ["a"] * window + ["b"]) for window in range(8))
    return leaves, tuple(released_nodes(list(leaves)))


@pytest.mark.parametrize("windows", [2, 4, 8, 64])
def test_a_range_is_covered_once_by_few_nodes(windows: int) -> None:
    height = int(math.log2(windows))
    for first in range(windows):
        for last in range(first, windows):
            nodes = list(covering(first, last))
            covered = [window for level, index in nodes for window in range(index << level, (index + 1) << level)]
            assert covered == list(range(first, last + 1))
            assert len(nodes) <= (2 * height if first else height + 1)


def test_a_range_is_the_sum_of_its_nodes_bit_by_bit() -> None:
    _, nodes = eight()
    by_place = {(node.level, node.index): node.release for node in nodes}
    for first in range(8):
        for last in range(first, 8):
            answer = timeline(nodes, 8).between(first, last)
            parts = [by_place[place] for place in covering(first, last)]
            np.testing.assert_array_equal(answer.counters, sum(part.counters for part in parts))
            assert answer.privacy.sigma_squared == sum(part.privacy.sigma_squared for part in parts)
            assert answer.privacy.release_ids == tuple(part.privacy.release_ids[0] for part in parts)
            assert answer.privacy.rho == PRIVACY.rho


def test_noise_is_calibrated_to_all_levels() -> None:
    """Delta^2 = 4 depth in each of log2(8) + 1 nodes of a record."""
    _, nodes = eight()
    assert {node.release.privacy.sigma_squared for node in nodes} == {Fraction(4 * SPEC.depth * 4, 2)}
    assert [len(list(group)) for _, group in itertools.groupby(nodes, lambda node: node.level)] == [8, 4, 2, 1]
    assert len({node.release.privacy.release_ids for node in nodes}) == 15


def test_the_statement_says_what_the_horizon_protects() -> None:
    answer = timeline(eight()[1], 8).prefix(6)
    assert "one record, over the whole declared horizon" in str(answer.privacy)
    assert "1 record(s) per window, 1 of the 8 windows" in str(answer.privacy)
    assert "rho = 1 zCDP" in str(answer.privacy)
    assert ReleasedSketch.from_bytes(answer.to_bytes()) == answer


def test_prefixes_answer_as_releases_do() -> None:
    leaves = [CountSketch(SketchSpec(depth=5, width=64)).accumulate(["a"] * 3000 + ["b"] * 200) for _ in range(4)]
    answer = timeline(released_nodes(leaves), 4).prefix(2)
    assert abs(answer.estimate(["a"])[0] - 9000) < 300
    assert [item.item for item in answer.top_k(1, ["b", "a"])] == ["a"]
    certain = answer.interval("a", 1 - 1e-10)  # false alarm: 1e-10
    assert certain.lower < 9000 < certain.upper
    usual = answer.interval("a")
    assert 0 < usual.upper - usual.lower < 300


def test_quantiles_of_a_range() -> None:
    spec = TreeSpec.for_memory(IntegerDomain(0, 999), 1 << 14)
    leaves = [
        DyadicCountSketch(spec).accumulate(list(range(250 * window, 250 * window + 250)) * 20) for window in range(4)
    ]
    answer = timeline(released_nodes(leaves), 4).between(1, 2)
    assert abs(answer.quantile(0.5) - 500) <= 15
    certain = answer.rank_interval(499, 1 - 1e-10)  # false alarm: 1e-10
    assert certain.lower < 5000 < certain.upper
    assert 0 < certain.upper - certain.lower < 2000


WIDTHS = {64: 2048, 1024: 256}


def simulated_rms(windows: int, read: Callable[[SketchTimeline, int], np.ndarray]) -> float:
    """The root mean square error of all prefixes, in units of Delta / sqrt(2 rho)."""
    spec = SketchSpec(depth=1, width=WIDTHS[windows])
    errors = empty_timeline(windows, spec)
    squares = [np.square(read(errors, last).astype(float)).mean() for last in range(windows)]
    return math.sqrt(np.mean(squares) / float(Fraction(4 * spec.depth) / (2 * PRIVACY.rho)))


def plain_read(errors: SketchTimeline, last: int) -> np.ndarray:
    return errors.prefix(last).counters


def averaged_read(errors: SketchTimeline, last: int) -> np.ndarray:
    return errors.averaged_estimate(range(2000), 0, last)


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    ("windows", "read", "theory"),
    [(64, plain_read, 4.59), (1024, plain_read, 7.42), (64, averaged_read, 3.65), (1024, averaged_read, 5.65)],
)
def test_errors_of_prefixes_are_those_of_theory(
    windows: int, read: Callable[[SketchTimeline, int], np.ndarray], theory: float
) -> None:
    """Columns are repetitions: between runs the figure of the plain tree moves by 0.5 % at 64, by 0.9 % at 1,024.

    That is sqrt(2 sum of squared covariances of prefixes) / (2 sum of variances) / sqrt(columns).
    """
    assert simulated_rms(windows, read) == pytest.approx(theory, rel=0.1)


def test_ranges_are_unbiased() -> None:
    """The mean error of 1,000 ranges over 64 cells: within six standard deviations, found by the ranges' variances.

    Ranges share nodes, so the deviation of the mean is taken over cells, which do not share noise.
    """
    windows, spec = 256, SketchSpec(depth=1, width=64)
    errors = empty_timeline(windows, spec)
    ends = np.sort(np.random.default_rng(5).integers(0, windows, (1000, 2)), axis=1)
    of_cells = np.mean([errors.between(first, last).counters[0] for first, last in ends.tolist()], axis=0)
    weights: dict[tuple[int, int], int] = {}
    for first, last in ends.tolist():
        for place in covering(first, last):
            weights[place] = weights.get(place, 0) + 1
    sigma = math.sqrt(float(errors.prefix(0).privacy.sigma_squared))
    deviation = sigma * math.sqrt(sum(weight**2 for weight in weights.values())) / 1000
    assert abs(of_cells.mean()) <= 6 * deviation / math.sqrt(spec.width)
    assert 0.5 < of_cells.std() / deviation < 1.7


def test_averages_weigh_by_inverse_variance() -> None:
    assert [averaged_variance(level) for level in range(3)] == pytest.approx([1, 2 / 3, 4 / 7])
    _, nodes = eight()
    by_place = {(node.level, node.index): node.release.counters for node in nodes}
    children = by_place[0, 0] + by_place[0, 1]
    line = timeline(nodes, 8)
    assert [line.averaged_estimate("a", 0, 4)] == line.averaged_estimate(["a"], 0, 4).tolist()
    averaged = line._average((1, 0))
    np.testing.assert_allclose(averaged, 2 / 3 * by_place[1, 0] + 1 / 3 * children, atol=1e-9)


def test_averages_are_read_as_a_release_is() -> None:
    """The Huber mean of five rows, clipped at 1.5 sigma of the averages or at what most of them hold."""
    line = empty_timeline(8, SketchSpec(depth=5, width=64))
    counters = sum(line._average(place) for place in ((2, 0), (1, 2), (0, 6)))
    sigma = math.sqrt(float(line.prefix(0).privacy.sigma_squared) * (4 / 7 + 2 / 3 + 1))
    robust = min(np.quantile(np.abs(counters), (0.25, 0.5)) / stats.norm.ppf((0.625, 0.75)))
    rows = cells.read_rows(counters, np.arange(100, dtype=np.uint64), seed=0, has_signs=True)
    scale, middle = max(1.5 * sigma, robust), np.median(rows, axis=0)
    expected = middle + np.mean(np.clip(rows - middle, -scale, scale), axis=0)
    np.testing.assert_allclose(line.averaged_estimate(range(100), 0, 6), expected)


def test_nodes_come_as_windows_close() -> None:
    _, nodes = eight()
    for closed in range(9):
        line = timeline([node for node in nodes if node.windows[-1] < closed], 8)
        assert line.available == closed
        for first, last in itertools.combinations_with_replacement(range(closed), 2):
            line.between(first, last)
    line = timeline([node for node in nodes if node.windows[-1] < 5], 8)
    with pytest.raises(ValueError, match="windows 2 to 5 are not all released yet: windows 0 to 4 are available"):
        line.between(2, 5)
    with pytest.raises(ValueError, match="no window is available"):
        timeline([], 8).prefix(0)


def test_times_are_windows() -> None:
    line = timeline([], 8)
    assert [line.window_of(time) for time in (1000, 1059.9, 1060, 1479)] == [0, 0, 1, 7]
    for outside in (999.9, 1480):
        with pytest.raises(ValueError, match="must be between 0 and 7"):
            line.window_of(outside)


def test_what_is_no_range_is_refused() -> None:
    line = timeline(eight()[1], 8)
    with pytest.raises(ValueError, match="first must be at most last"):
        line.between(3, 2)
    with pytest.raises(ValueError, match="last must be between 0 and 7"):
        line.prefix(8)
    with pytest.raises(TypeError, match="first must be a whole number"):
        line.between(0.5, 2)  # type: ignore[arg-type]


def test_nodes_of_something_else_are_refused() -> None:
    _, nodes = eight()
    with pytest.raises(ValueError, match=r"node \(0, 0\) was given twice: the nodes are of more than one release"):
        timeline([*nodes, nodes[0]], 8)
    with pytest.raises(ValueError, match="was not released for a horizon of 4 windows"):
        timeline(nodes[:1], 4)
    with pytest.raises(ValueError, match=r"no node \(0, 7\) is in a tree over 4 windows"):
        timeline(nodes[7:8], 4)
    single = TimelineNode(0, 0, release(CountSketch(SPEC), ReleaseTerms(PRIVACY)))
    with pytest.raises(ValueError, match="was not released for a horizon"):
        timeline([single], 8)
    with pytest.raises(ValueError, match="windows must be a power of two, got 6"):
        timeline([], 6)


def test_nodes_of_another_run_are_refused() -> None:
    leaves, nodes = eight()
    again = list(released_nodes(list(leaves)))
    for mixed in ([*nodes[:3], *again[3:]], [nodes[0], again[1]]):
        with pytest.raises(ValueError, match=r"is of another run than node \(0, 0\): a timeline is made of .* one run"):
            timeline(mixed, 8)
    with pytest.raises(IncompatibleSketchError, match="one run of one transform; these are of different runs"):
        nodes[0].release.combine_within_horizon(again[1].release)
    twice = TimelineNode(0, 0, nodes[0].release.combine_within_horizon(nodes[1].release))
    with pytest.raises(ValueError, match=r"node \(0, 0\) was released for other windows"):
        timeline([twice], 8)


def test_nodes_of_another_start_size_or_place_are_refused() -> None:
    leaves, nodes = eight()
    moved = [list(released_nodes(list(leaves), **of)) for of in ({"start": START + SIZE}, {"size": 2 * SIZE})]
    renamed = [TimelineNode(0, 1, nodes[0].release), TimelineNode(1, 0, nodes[0].release)]
    for wrong in (moved[0], moved[1], moved[1][1:], renamed[:1], renamed[1:], moved[1][12:]):
        with pytest.raises(ValueError, match=r"was released for other windows: give the horizon"):
            timeline(wrong, 8)
    assert timeline(nodes, 8).available == 8


def test_two_draws_of_a_node_do_not_make_a_range() -> None:
    """As after a failure: their sum is no range, and both together cost twice."""
    raw = CountSketch(SPEC)
    terms = ReleaseTerms(PRIVACY, unit=OVER_HORIZON, window_count=8)
    first, second = (release_part(raw, NO_SIDE, terms, run=bytes(16), part=b"a node") for _ in range(2))
    with pytest.raises(IncompatibleSketchError, match="one of them was released twice"):
        first.combine_within_horizon(second)


def test_averages_of_other_sketches_are_refused() -> None:
    line = timeline(released_nodes([raw_of(CountMin, SPEC), raw_of(CountMin, SPEC)]), 2)
    with pytest.raises(TypeError, match="of CountSketches only, not of ReleasedCountMin"):
        line.averaged_estimate(["a"], 0, 1)


def test_only_nodes_of_equal_horizons_keep_their_rho() -> None:
    first, second, *_ = (node.release for node in eight()[1])
    single = release(CountSketch(SPEC), ReleaseTerms(PRIVACY))
    dearer = release(CountSketch(SPEC), ReleaseTerms(PrivacySpec(rho=2.0), unit=OVER_HORIZON, window_count=8))
    longer = release(CountSketch(SPEC), ReleaseTerms(PRIVACY, unit=OVER_HORIZON, window_count=16))
    for other in (dearer, longer):
        with pytest.raises(IncompatibleSketchError, match="nodes of one horizon have one rho"):
            first.combine_within_horizon(other)
    for one, other in ((single, release(CountSketch(SPEC), ReleaseTerms(PRIVACY))), (first, single)):
        with pytest.raises(IncompatibleSketchError):
            one.combine_within_horizon(other)
    with pytest.raises(IncompatibleSketchError, match="with itself"):
        first.combine_within_horizon(first)
    assert first.combine_within_horizon(second).privacy.rho == 1
    assert first.combine(second).privacy.rho == 2


def test_a_record_over_a_horizon_is_one_record() -> None:
    with pytest.raises(ValueError, match="max_contributions_per_partition and max_partitions at 1"):
        release(
            CountSketch(SPEC),
            ReleaseTerms(PRIVACY, RecordBounds(1, max_partitions=2), unit=OVER_HORIZON, window_count=8),
        )
    with pytest.raises(ValueError, match="power of two"):
        release(CountSketch(SPEC), ReleaseTerms(PRIVACY, unit=OVER_HORIZON, window_count=12))
