"""Pictures of releases and timelines hold what these answer, by each of the names that a user would guess.

Noise has a deviation of about 2 and less, and the weights of items and windows are 1,000 apart: the order of items and
windows, which is the only thing here that noise could change, fails with a probability far below 1e-9.
"""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    CountSketch,
    DyadicCountSketch,
    FloatDomain,
    Horizon,
    IntegerDomain,
    IPv4Domain,
    LogDomain,
    PrivacySpec,
    Record,
    ReleaseSpec,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    TextDomain,
    ThresholdedCounts,
    TimestampDomain,
    TreeSpec,
    release,
    release_frame,
)
from beam_dpsketch.answers.questions.kinds import even_edges
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.plots import Look, plot_cdf, plot_histogram, plot_timeline, plot_top_k
from tests.helpers.timeline_rows import released_rows

pytest.importorskip("matplotlib")

TERMS = ReleaseTerms(PrivacySpec(rho=1))
CITIES = ["Oslo"] * 9000 + ["Rome"] * 4000 + ["Bern"] * 1000
TREE = release(DyadicCountSketch(TreeSpec.for_memory(IntegerDomain(0, 99))).accumulate([*range(100)] * 100), TERMS)
FLAT = release(CountSketch(SketchSpec(width=64)).accumulate(CITIES), TERMS)
TEXT = release_frame(
    pa.table({"city": CITIES}),
    ReleaseSpec(ThresholdedCounts(TextDomain(8), 3), PrivacySpec(epsilon=2, delta=1e-6), Record(), "city"),
)
LATENCIES = release(
    DyadicCountSketch(TreeSpec.for_memory(LogDomain(1e-8, 1e4))).accumulate([1e-7, 1e-3, 1, 100] * 2500), TERMS
)
HOURS = Horizon(start=0, window_size=3600, windows=4)
COUNTED = [CountSketch(SketchSpec(width=64)).accumulate(["Oslo"] * count) for count in (1000, 2000, 3000)]
TIMELINE = SketchTimeline(released_rows(COUNTED, HOURS, rho=1.0, records=[1000, 2000, 3000]), HOURS)


def names(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def ends(axes: Any) -> list[float]:
    """The estimates that a timeline, or a curve, ends with."""
    return [line.get_ydata()[-1] for line in axes.lines if len(line.get_ydata()) > 1 and line.get_linestyle() != "None"]


@pytest.mark.parametrize(
    ("draw", "answers"),
    [
        (lambda: plot_top_k(FLAT, 2, candidates=CITIES), FLAT.top_k(2, CITIES)),
        (lambda: FLAT.plot("top_k", 2, candidates=CITIES), FLAT.top_k(2, CITIES)),
        (lambda: FLAT.plot("items", ["Oslo", "Rome"]), FLAT.top_k(2, CITIES)),
        (lambda: plot_top_k(TEXT, 2), TEXT.top_k(2)),
        (lambda: TEXT.plot("top_k", 2), TEXT.top_k(2)),
        (lambda: plot_top_k(TEXT.top_k(3), 2), TEXT.top_k(2)),
    ],
)
def test_a_release_draws_its_items(draw: Any, answers: Any) -> None:
    axes = draw()
    assert names(axes) == ["Oslo", "Rome"]
    assert [bar.get_width() for bar in axes.patches] == answers.estimate.tolist()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("records", "item")


def test_what_a_release_usually_draws_suits_its_kind() -> None:
    assert names(TEXT.plot()) == ["Oslo", "Rome", "Bern"]
    assert TREE.plot().get_ylabel() == "records at or below, %"
    assert names(TREE.plot("items", 3)) == ["3"]


@pytest.mark.parametrize("values", [None, 100, range(100)])
def test_a_tree_draws_its_cdf(values: Any) -> None:
    for axes in (plot_cdf(TREE, values), TREE.plot("cdf", values)):
        (curve,) = axes.lines
        assert curve.get_xdata().tolist() == [*range(100)]
        assert curve.get_ydata() == pytest.approx(100 * TREE.cdf([*range(100)]))


@pytest.mark.parametrize("edges", [range(0, 101, 10), [*range(0, 91, 10), 99], 10])
def test_a_tree_draws_its_histogram(edges: Any) -> None:
    for axes in (plot_histogram(TREE, edges), TREE.plot("histogram", edges)):
        counts = TREE.range_count([*range(0, 100, 10)], [*range(9, 100, 10)])
        assert [bar.get_height() for bar in axes.patches] == pytest.approx(counts)
        assert [bar.get_x() for bar in axes.patches] == pytest.approx(range(0, 100, 10))


def test_a_timeline_draws_lines() -> None:
    last, oslo, rome = TIMELINE.between(2, 2), "Oslo", "Rome"
    for axes in (plot_timeline(TIMELINE), TIMELINE.plot()):
        assert ends(axes) == [last.total_weight().estimate]
    for axes in (plot_timeline(TIMELINE, "items", [oslo, rome]), TIMELINE.plot("items", [oslo, rome])):
        assert ends(axes) == last.estimate([oslo, rome]).tolist()
        assert axes.get_legend_handles_labels()[1] == ["95 % intervals", oslo, "95 % intervals", rome]
    assert ends(TIMELINE.plot("items", oslo, so_far=True)) == [TIMELINE.prefix(2).estimate(oslo)]
    assert ends(TIMELINE.plot("items", oslo, windows=(0, 1))) == [TIMELINE.between(1, 1).estimate(oslo)]


def test_a_mean_that_is_not_known_has_an_interval_without_a_point() -> None:
    """The mean of 3,000 numbers is told: the noise of their count is below 10."""
    some, nothing = (NumberSums(StatisticsSpec(IntegerDomain(0, 9))).accumulate(each) for each in ([4] * 3000, []))
    rows = released_rows([some, nothing], HOURS, rho=1.0, records=[3000, 0])
    timeline = SketchTimeline(rows, HOURS)
    told = [each.mean() for _, each in timeline.each_window()]
    axes = timeline.plot("mean", look=Look(confidence=0.95))
    (line,) = [each for each in axes.lines if each.get_linestyle() != "None"]
    estimates = [math.nan if each.estimate is None else each.estimate for each in told]
    np.testing.assert_array_equal(line.get_ydata(), estimates)
    assert estimates[0] == pytest.approx(4, abs=1)
    assert axes.get_ylabel() == "value"


def test_each_window_has_its_time() -> None:
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    hours = [start + datetime.timedelta(hours=hour) for hour in range(4)]
    assert [time for time, _ in TIMELINE.each_window()] == hours[:3]
    assert [time for time, _ in TIMELINE.each_window(1, 2, so_far=True)] == hours[2:]


def test_a_look_names_what_a_release_does_not_know() -> None:
    axes = TREE.plot("histogram", 10, look=Look(value="delay, minutes", weight="flights", confidence=0.9))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("delay, minutes", "flights")
    assert axes.get_legend_handles_labels()[1] == ["90 % intervals", "private estimate"]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda: plot_top_k(FLAT, 3), "candidates is required, because this release does not store items"),
        (lambda: plot_cdf(TEXT), "A release of kind frequencies does not answer cdf"),
        (lambda: plot_cdf([1, 2], TREE), "answers must be a release or its Intervals, got list"),
        (lambda: plot_top_k(TIMELINE, 3), r"From a SketchTimeline, pass timeline.between"),
        (lambda: plot_timeline(TREE), "answers must be a SketchTimeline or Intervals, got Released"),
        (lambda: TIMELINE.plot("cdf"), "cdf cannot be drawn over time"),
        (lambda: TIMELINE.plot("items", list("abcdefgh")), "what must give at most 7 lines, got 8"),
        (lambda: TIMELINE.plot("items"), "what must list the items to draw"),
        (lambda: TREE.plot("quantiles", [0.5]), "kind must be one of cdf, histogram, top_k, items"),
        (lambda: TREE.plot("cdf", candidates=["a"]), "candidates are supported for top_k only"),
        (lambda: plot_cdf(TREE.cdf_interval([1, 2])), "must have the same length"),
    ],
)
def test_what_is_not_drawn_is_refused_in_words(draw: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        draw()


DAYS = TimestampDomain(datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 31), step=datetime.timedelta(days=1))


@pytest.mark.parametrize(
    ("domain", "bins", "sizes"),
    [
        (IntegerDomain(0, 1500), 20, [75] * 19 + [76]),
        (FloatDomain(0.0, 9.9, step=0.1), 20, [5] * 20),
        (IPv4Domain(), 4, [1 << 30] * 4),
        (DAYS, 20, [2] * 15 + [1]),
        (DAYS, 31, [1] * 31),
        (DAYS, 1000, [1] * 31),
    ],
)
def test_bins_of_a_domain_are_of_one_size_but_the_last(domain: Any, bins: int, sizes: list[int]) -> None:
    edges = even_edges(domain, bins)
    positions = [int(each) for each in domain.index(edges)[0]]
    positions[-1] = domain.size
    assert np.diff(positions).tolist() == sizes


def test_values_of_a_log_domain_lie_by_their_logarithms() -> None:
    """On an even axis all but the largest of twelve decades are one line."""
    axes = plot_cdf(LATENCIES)
    assert axes.get_xscale() == "log"
    low, high = axes.get_xlim()
    assert 1e-8 <= low <= 1e-7 < 100 <= high <= 1e4
    say = axes.xaxis.get_major_formatter()
    assert [say(place, None) for place in (1e-8, 0.001, 10_000)] == ["1e-08", "0.001", "10,000"]
    assert plot_cdf(LATENCIES, look=Look(logarithmic=False)).get_xscale() == "linear"
    assert plot_cdf(TREE).get_xscale() == "linear"
    assert plot_cdf(LATENCIES, [1, 10, 100]).xaxis.get_major_formatter()(10, None) == "10"
