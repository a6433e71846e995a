"""Pictures hold what releases answered, at its places, without pyplot or a display."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import Clipping, Frequencies
from beam_dpsketch.answers.notes import Basis
from beam_dpsketch.answers.rows import Intervals
from beam_dpsketch.plots import COLOURS, Look, plot_cdf, plot_histogram, plot_timeline, plot_top_k
from beam_dpsketch.plots.drawing import add_common_legend, panel_grid, share_limits, to_bytes
from beam_dpsketch.statement.tabular import Note

pytest.importorskip("matplotlib")

SHARES = Intervals(np.array([0.1, 0.5, 0.9]), np.array([0.05, 0.4, 0.85]), np.array([0.2, 0.6, 1.0]))
WEIGHTS = Intervals(np.array([10.0, -2.0, 30.0]), np.array([5.0, -9.0, 31.0]), np.array([15.0, 9.0, 40.0]))
DAY = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def frequencies(*items: Any) -> Frequencies:
    numbers = np.arange(len(items), 0, -1) * 100.0
    return Frequencies(items, numbers, numbers - 20, numbers + 30)


def lines(axes: Any) -> list[tuple[Any, Any]]:
    """What the vertical or horizontal lines of intervals join."""
    from matplotlib.collections import LineCollection

    found = [each for each in axes.collections if isinstance(each, LineCollection)]
    return [tuple(map(tuple, segment)) for each in found for segment in each.get_segments()]


def bars(axes: Any) -> list[tuple[float, ...]]:
    return [(bar.get_x(), bar.get_y(), bar.get_width(), bar.get_height()) for bar in axes.patches]


def test_a_cdf_has_steps_at_the_shares_inside_their_band() -> None:
    axes = plot_cdf(SHARES, [0, 10, 20], look=Look(value="delay, minutes", weight="flights", confidence=0.9))
    (curve,) = axes.lines
    assert curve.get_drawstyle() == "steps-post"
    assert curve.get_xdata().tolist() == [0, 10, 20]
    assert curve.get_ydata().tolist() == pytest.approx([10, 50, 90])
    (band,) = axes.collections
    extents = band.get_paths()[0].get_extents()
    assert (extents.x0, extents.x1, extents.y0, extents.y1) == pytest.approx((0, 20, 5, 100))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("delay, minutes", "flights at or below, %")
    assert axes.get_legend_handles_labels()[1] == ["90 % intervals", "private estimate"]


@pytest.mark.parametrize("upright", [False, True])
def test_items_have_bars_and_intervals_in_their_order(upright: bool) -> None:
    axes = plot_top_k(frequencies("a", "b"), look=Look(upright=upright))
    lengths = [bar[3] if upright else bar[2] for bar in bars(axes)]
    assert lengths == [200, 100]
    expected = [((0, 180), (0, 230)), ((1, 80), (1, 130))]
    turned = [tuple((y, x) for x, y in segment) for segment in expected]
    assert lines(axes) == (expected if upright else turned)
    labels = axes.get_xticklabels() if upright else axes.get_yticklabels()
    assert [label.get_text() for label in labels] == ["a", "b"]
    if not upright:  # the first item is on top
        assert axes.yaxis_inverted()


def test_bins_of_one_width_lie_on_their_scale_and_others_side_by_side() -> None:
    axes = plot_histogram(WEIGHTS, [0, 10, 20, 29])
    assert [(bar[0], bar[2]) for bar in bars(axes)] == [(0, 10), (10, 10), (20, 9)]
    assert lines(axes)[0] == ((5, 5), (5, 15))
    axes = plot_histogram(WEIGHTS, [-100, 0, 1, 1000], look=Look(upright=True))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["-100 to\n0", "0 to\n1", "1 to\n1,000 incl."]
    assert {round(bar[2], 6) for bar in bars(axes)} == {0.7}


def test_an_estimate_outside_its_interval_is_drawn_where_it_is() -> None:
    axes = plot_histogram(WEIGHTS, [0, 1, 2, 3])
    assert lines(axes)[2] == ((2.5, 31), (2.5, 40))
    assert bars(axes)[2][3] == 30


def test_bounds_that_are_infinite_are_left_out() -> None:
    top = Frequencies(["a", "b"], np.array([5.0, 4.0]), np.array([-np.inf, 3.0]), np.array([5.0, 6.0]))
    assert lines(plot_top_k(top, look=Look(upright=True))) == [((1, 3), (1, 6))]


def test_few_windows_have_intervals_and_many_a_band_and_values_may_be_times() -> None:
    times = [DAY + datetime.timedelta(hours=hour) for hour in range(3)]
    axes = plot_timeline(WEIGHTS, times)
    assert len(lines(axes)) == 3
    many = np.arange(40.0)
    axes = plot_timeline(Intervals(many, many - 1, many + 1), many)
    assert lines(axes) == []
    assert len(axes.collections) == 1
    quantiles = Intervals(times, times, [each + datetime.timedelta(hours=1) for each in times])
    plot_timeline(Intervals([None, *times[1:]], times, times), [0, 1, 2])  # an unknown estimate is not drawn
    axes = plot_timeline(quantiles, [0, 1, 2])
    axes.figure.draw_without_rendering()
    assert "00:00" in axes.get_yticklabels()[0].get_text() or "May" in axes.get_yticklabels()[0].get_text()


def test_series_on_the_same_axes_differ_in_colour_dashes_and_marker() -> None:
    axes = None
    for series in range(len(COLOURS)):
        axes = plot_timeline(WEIGHTS, [0, 1, 2], axes=axes, look=Look(series=series, name=f"{series}"))
    assert axes is not None
    named = [line for line in axes.lines if line.get_label().isdecimal()]
    assert len({line.get_color() for line in named}) == len(COLOURS)
    assert len({line.get_marker() for line in named}) == len(COLOURS)
    assert len({str(line._unscaled_dash_pattern) for line in named}) == len(COLOURS)


def test_addresses_are_marked_as_addresses() -> None:
    axes = plot_cdf(SHARES, ["10.0.0.0", ipaddress.IPv4Address("10.0.1.0"), "10.0.2.0"])
    axes.figure.draw_without_rendering()
    assert any(label.get_text().startswith("10.0.1.") for label in axes.get_xticklabels())


@pytest.mark.one_fast_case
@pytest.mark.parametrize("item", ["$x$ $", "\x1b[31m\n", "\ud800", "日本" * 40, b"\x00\xff", ("a", 1), -3])
def test_any_item_can_be_drawn(item: Any) -> None:
    for upright in (False, True):
        axes = plot_top_k(frequencies(item, "b"), look=Look(upright=upright))
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
            assert to_bytes(axes.figure, kind).startswith(start)


def test_equal_answers_give_equal_bytes() -> None:
    for kind in ("png", "svg", "pdf"):
        first, second = (to_bytes(plot_cdf(SHARES, [0, 10, 20]).figure, kind) for _ in range(2))
        assert first == second
        assert first != to_bytes(plot_cdf(SHARES, [0, 10, 21]).figure, kind)


def test_panels_share_one_legend() -> None:
    figure, grid = panel_grid(3, 2, (4, 3))
    assert len(grid) == 3
    for axes in grid:
        plot_cdf(SHARES, [0, 10, 20], axes=axes)
    add_common_legend(figure, grid, [])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["95 % intervals", "private estimate"]
    assert len(figure.axes) == 4
    assert not figure.axes[3].get_visible()


def test_panels_of_one_label_and_scale_have_the_same_limits() -> None:
    _, grid = panel_grid(4, 2, (4, 3))
    looks = [Look(weight="visits"), Look(weight="visits"), Look(weight="minutes")]
    for axes, size, look in zip(grid, (1, 3, 50), looks, strict=False):
        plot_top_k(frequencies(*range(size)), axes=axes, look=look)
    plot_cdf(SHARES, [1, 10, 20], axes=grid[3], look=Look(value="visits", logarithmic=True))
    own = [axes.get_xlim() for axes in grid]
    assert own[0] != own[1]
    share_limits(grid, "x")
    assert [axes.get_xlim() for axes in grid] == [own[1], *own[1:]]


def test_panels_of_other_values_keep_their_limits() -> None:
    _, grid = panel_grid(2, 2, (4, 3))
    for axes, values in zip(grid, ([1, 10, 20], [1, 10, 2000]), strict=True):
        plot_cdf(SHARES, values, axes=axes)
    own = [axes.get_xlim() for axes in grid]
    share_limits(grid, "x", ["ages", "incomes"])
    assert [axes.get_xlim() for axes in grid] == own
    share_limits(grid, "x", ["ages", "ages"])
    assert [axes.get_xlim() for axes in grid] == [own[1]] * 2


def test_intervals_have_the_name_that_answers_give_and_notes_stand_below() -> None:
    told = Basis(0.9, Clipping(), notes=(Note("at_range_end", "is the unit right?"),) * 2)
    shares, top = (dataclasses.replace(each, basis=told) for each in (SHARES, frequencies("a")))
    for axes in (plot_cdf(shares, [0, 10, 20]), plot_timeline(shares, [0, 1, 2]), plot_top_k(top)):
        (legend,) = axes.figure.legends
        assert "90 % intervals for the clipped data" in [text.get_text() for text in legend.get_texts()]
        assert legend.get_title().get_text() == f"{Clipping()}\nNote: is the unit right?"
    named = plot_cdf(shares, [0, 10, 20], look=Look(interval_name="band")).get_legend_handles_labels()[1]
    assert named == ["band", "private estimate"]


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_cdf(SHARES, [0, 1]),
        lambda: plot_cdf(Intervals(*[np.zeros(0)] * 3), []),
        lambda: plot_histogram(WEIGHTS, [0, 1, 2]),
        lambda: plot_timeline(WEIGHTS, [0, 1]),
        lambda: plot_top_k(frequencies()),
        lambda: Look(confidence=1.0),
        lambda: Look(series=-1),
    ],
)
def test_what_does_not_fit_together_is_refused(draw: Any) -> None:
    with pytest.raises(ValueError, match=r"must (be|have|contain) "):
        draw()


def test_values_without_an_order_are_refused_and_not_shown() -> None:
    with pytest.raises(TypeError, match="values must be numbers, times or IPv4 addresses") as caught:
        plot_cdf(SHARES, ["sesame", "b", "c"])
    assert "sesame" not in str(caught.value)


def test_matplotlib_is_imported_when_a_picture_is_drawn_and_pyplot_never() -> None:
    code = """
import sys, numpy as np
from beam_dpsketch.answers.rows import Intervals
from beam_dpsketch.plots import plot_cdf
assert "matplotlib" not in sys.modules
answers = Intervals(*np.array([[0.1], [0.0], [0.2]]))
plot_cdf(answers, [1]).figure.savefig("/dev/null", format="png")
assert "matplotlib.pyplot" not in sys.modules
for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
    del sys.modules[name]
sys.modules["matplotlib"] = None
try:
    plot_cdf(answers, [1])
except ImportError as error:
    print(error)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "plots require matplotlib: pip install 'beam-dpsketch[plot]'\n"
