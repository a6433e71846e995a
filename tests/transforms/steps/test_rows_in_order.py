"""Rows from windows in any order: `RowsInOrder` with a state that is saved and read back between windows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from apache_beam.transforms.window import FixedWindows
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import Horizon, Record, SketchSpec
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.transforms.steps.rows_over_time import RowSettings, RowsInOrder
from tests.helpers.continual import matrix
from tests.helpers.state_cells import Cell

SPEC = SketchSpec(depth=2, width=8)
INPUT = SketchInput(SPEC, Record().bounds)
SIZE = 60


def items_of(window: int) -> list[str]:
    """A few items of each window, other ones in each."""
    return [f"item {window}"] * (window % 3 + 1)


def sum_of(window: int) -> bytes:
    accumulator = SketchAccumulator(INPUT)
    for item in items_of(window):
        accumulator.add(item)
    return accumulator.to_bytes()


class Driven:
    """The step with the state of one key; a new step for each element, as after a restart.

    Args:
      horizon: the windows.
    """

    def __init__(self, horizon: Horizon) -> None:
        self._settings = RowSettings(horizon, horizon.rows, INPUT)
        self.encoder = Cell(RowsInOrder.ENCODER.coder, single=True)
        self.early = Cell(RowsInOrder.EARLY.coder)
        self.place = Cell(RowsInOrder.NEXT.coder, single=True)
        self.run = Cell(RowsInOrder.RUN.coder, single=True)
        self.end = Cell()
        micros = horizon.size_micros * (horizon.windows + 1)
        self._window = FixedWindows(micros / 1e6).assign(FixedWindows.AssignContext(horizon.start_micros / 1e6))[0]

    def arrive(self, window: int, accumulator: bytes | None = None) -> list[tuple[int, np.ndarray]]:
        """The numbers and counters of the rows that a window brings; fails where their time is not right."""
        step = RowsInOrder(self._settings)
        element = b"", (window, sum_of(window) if accumulator is None else accumulator)
        found = list(step.process(element, self._window, self.encoder, self.early, self.place, self.run, self.end))
        for each in found:
            run, row = each.value
            assert run == self.run.read()
            of_row = self._settings.mechanism.window_of(row.row)
            assert each.timestamp == SIZE * (of_row + 1) - 0.001
            assert of_row >= window
        return [(row.row, row.counters[0]) for _, row in (each.value for each in found)]

    def at_end(self) -> None:
        RowsInOrder(self._settings).at_end(self.place)


def rows_of(order: Iterable[int], horizon: Horizon) -> list[tuple[int, list[int]]]:
    """All rows in the order in which they come; fails where state is left over."""
    driven = Driven(horizon)
    rows = [(number, row.tolist()) for window in order for number, row in driven.arrive(window)]
    driven.at_end()
    assert driven.early.size == driven.encoder.size == 0
    return rows


def wanted(horizon: Horizon) -> list[tuple[int, list[int]]]:
    """The rows from the matrix."""
    windows = []
    for window in range(horizon.windows):
        accumulator = SketchAccumulator(INPUT)
        accumulator.items = items_of(window)
        windows.append(accumulator.to_sketch().to_vector())
    return [(number, row.tolist()) for number, row in enumerate(matrix(horizon.mechanism, horizon) @ np.array(windows))]


@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize("windows", [2, 3, 4, 5])
def test_rows_come_in_order_whatever_the_order_of_windows(windows: int, which: Mechanism) -> None:
    """Every permutation."""
    horizon = Horizon(0, SIZE, windows, which)
    right = wanted(horizon)
    for order in itertools.permutations(range(windows)):
        assert rows_of(order, horizon) == right


@given(st.permutations(range(23)), st.sampled_from(MECHANISMS))
def test_rows_come_in_order_for_more_windows(order: list[int], which: Mechanism) -> None:
    horizon = Horizon(0, SIZE, len(order), which)
    assert rows_of(order, horizon) == wanted(horizon)


def test_a_row_comes_with_the_last_window_that_it_needs() -> None:
    driven = Driven(Horizon(0, SIZE, 5))
    numbers = [[number for number, _ in driven.arrive(window)] for window in (1, 0, 3, 4, 2)]
    assert numbers == [[], [0, 1], [], [], [2, 3, 4]]


@pytest.mark.parametrize(("order", "again"), [((0,), 0), ((1, 1), 0), ((1, 0), 1), ((0, 1, 2, 3, 4), 2)])
def test_a_window_that_comes_twice_raises(order: tuple[int, ...], again: int) -> None:
    """Before it is in a row, in the row, and after the last row."""
    driven = Driven(Horizon(0, SIZE, 5))
    for window in order:
        driven.arrive(window)
    with pytest.raises(RuntimeError, match="A window of the horizon arrived twice"):
        driven.arrive(again)


@pytest.mark.parametrize("missing", range(5))
def test_a_window_that_never_comes_raises_at_the_end(missing: int) -> None:
    driven = Driven(Horizon(0, SIZE, 5))
    rows = [row for window in range(5) if window != missing for row in driven.arrive(window)]
    assert [number for number, _ in rows] == [*range(missing)]
    assert driven.end.time == 6 * SIZE - 0.000001
    with pytest.raises(RuntimeError, match=f"Window {missing} of the horizon never arrived"):
        driven.at_end()


def test_errors_and_states_without_a_window_show_no_data() -> None:
    with pytest.raises(RuntimeError, match="Window 0 of the horizon never arrived") as caught:
        Driven(Horizon(0, SIZE, 5)).at_end()
    assert "item" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("which", MECHANISMS)
def test_the_state_of_a_day_of_minutes_is_flat(which: Mechanism) -> None:
    """1,440 windows of random counters, which do not compress: at most 45 sketches, and no window waits."""
    spec = SketchSpec(depth=5, width=512)
    sketch_input = SketchInput(spec, Record().bounds)
    horizon = Horizon(0, SIZE, 1440, which)
    step = RowsInOrder(RowSettings(horizon, horizon.rows, sketch_input))
    driven, random, sizes = Driven(horizon), np.random.default_rng(18), []
    for window in range(1440):
        counters = random.integers(-1000, 1000, spec.cells)
        exact = KeyedSums.of_row(sketch_input, NO_KEY, 0, counters)
        element = b"", (window, exact.to_bytes())
        state = driven.encoder, driven.early, driven.place, driven.run, driven.end
        rows = [each.value[1].row for each in step.process(element, driven._window, *state)]
        assert rows == [*range(horizon.rows.first_row(window), horizon.rows.first_row(window + 1))]
        assert driven.early.size == 0
        sizes.append(driven.encoder.size)
    step.at_end(driven.place)
    assert sizes[-1] == 0
    assert max(sizes) <= 45 * 8 * spec.cells
    assert max(sizes[720:]) <= 1.5 * max(sizes[:720])
