"""Rows from windows: the dense matrix times the windows, exactly, or an error before anything wraps around."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from beam_dpsketch.privacy.factor.toeplitz import MAX_ROW
from beam_dpsketch.privacy.over_time import lengths as module
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from tests.helpers import rows

every_mechanism = pytest.mark.parametrize("made", rows.MECHANISMS)
CELLS = 3


def encoded(mechanism: RowMechanism, counters: np.ndarray, restart_before: int | None = None) -> list[list[int]]:
    """All rows, in order; perhaps from a second encoder from some window on."""
    encoder, found = RowEncoder(mechanism), []
    for window, each in enumerate(counters):
        if window == restart_before:
            encoder = RowEncoder.from_bytes(mechanism, encoder.to_bytes())
        for number, row in encoder.push(each):
            assert number == len(found)
            found.append(row.tolist())
    return found


@st.composite
def windows_of_counters(draw: st.DrawFn, made: str, largest: int) -> tuple[RowMechanism, np.ndarray]:
    windows = draw(st.integers(2, 40))
    ends = st.sampled_from([-largest, largest, largest - 1])
    values = draw(st.lists(st.integers(-largest, largest) | ends, min_size=windows * CELLS, max_size=windows * CELLS))
    return rows.MECHANISMS[made](windows), np.array(values, dtype=np.int64).reshape(windows, CELLS)


@every_mechanism
@given(data=st.data())
def test_rows_are_the_dense_matrix_times_the_windows(made: str, data: Any) -> None:
    mechanism, counters = data.draw(windows_of_counters(made, 1 << data.draw(st.integers(1, 30))))
    expected = (rows.matrix(mechanism) @ counters.astype(object)).tolist()
    assert encoded(mechanism, counters) == expected
    assert encoded(mechanism, counters, data.draw(st.integers(0, mechanism.windows - 1))) == expected


@every_mechanism
@given(data=st.data())
def test_a_row_that_could_reach_2_to_62_is_refused_and_all_others_are_right(made: str, data: Any) -> None:
    """By the largest number of each window, in any cell and with any sign: known in advance, cell by cell it is not."""
    mechanism, counters = data.draw(windows_of_counters(made, 1 << data.draw(st.integers(38, 62))))
    dense, encoder = rows.matrix(mechanism), RowEncoder(mechanism)
    most = dense @ np.abs(counters.astype(object)).max(axis=1)
    number = 0
    for window, each in enumerate(counters):
        within = [size < MAX_ROW for size in most[mechanism.first_row(window) : mechanism.first_row(window + 1)]]
        if not all(within):
            with pytest.raises(OverflowError, match="Declare fewer windows"):
                list(encoder.push(each))
            return
        for number, row in encoder.push(each):
            assert row.tolist() == (dense[number] @ counters.astype(object)).tolist()


@every_mechanism
def test_the_largest_weight_that_is_taken_is_exact(made: str) -> None:
    """In every window alone, with either sign; one more is refused."""
    mechanism = rows.MECHANISMS[made](5)
    dense = rows.matrix(mechanism)
    for window in range(5):
        most = (MAX_ROW - 1) // max(dense[:, window])
        for sign in (1, -1):
            counters = np.zeros((5, 1), dtype=np.int64)
            counters[window] = sign * most
            assert encoded(mechanism, counters) == (dense @ counters.astype(object)).tolist()
            counters[window] += sign
            with pytest.raises(OverflowError):
                encoded(mechanism, counters)


def test_sums_in_memory_are_few() -> None:
    """Next to what a row needs, there are only the halves of bins that are not yet old enough to join."""
    mechanism = rows.MECHANISMS["binned"](1024)
    encoder = RowEncoder(mechanism)
    most = 0
    for _ in range(mechanism.windows):
        for _ in encoder.push(np.ones(1, dtype=np.int64)):
            most = max(most, encoder.size)
    assert most <= 45


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["wraps around", "sums forgotten", "gains forgotten"])
def test_a_wrong_encoder_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = test_rows_are_the_dense_matrix_times_the_windows
    if fault == "wraps around":
        monkeypatch.setattr(module, "_check", lambda most: None)
        check = test_a_row_that_could_reach_2_to_62_is_refused_and_all_others_are_right
    elif fault == "sums forgotten":
        monkeypatch.setattr(RowEncoder, "to_bytes", without_sums(RowEncoder.to_bytes))
    else:
        monkeypatch.setattr(RowEncoder, "__init__", without_gains(RowEncoder.__init__))
    tried = settings(phases=[Phase.generate])(given(data=st.data())(check.hypothesis.inner_test))  # it is not shrunk
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        tried("binned")


def without_sums(exact: Any) -> Any:
    def to_bytes(self: RowEncoder) -> bytes:
        self._sums = {place: module._Sum(0 * each.counters, 0) for place, each in self._sums.items()}
        data: bytes = exact(self)
        return data

    return to_bytes


def without_gains(exact: Any) -> Any:
    def init(self: RowEncoder, mechanism: RowMechanism) -> None:
        exact(self, mechanism)
        self._gains = (1,) * mechanism.windows

    return init
