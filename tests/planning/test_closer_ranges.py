"""From which range on a timeline is closer than releases of its windows: what plans say, against matrices by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    Horizon,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    SketchSpec,
    TimeRange,
    TreeSpec,
)
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.privacy.over_time.mechanism import matrix_rows

DAY = 86_400
LISTED, SKETCH = ItemFrequencies(ListedItems(["a", "b"])), ItemFrequencies(SketchSpec(width=64))
EPSILON, RHO = PrivacySpec(epsilon=1, delta=1e-6), PrivacySpec(rho=0.5)
FEW, MANY = PrivacyId("p", RecordBounds(1), max_windows=3), PrivacyId("p", RecordBounds(2), max_windows=20)
SETTINGS: dict[str, tuple[Any, PrivacySpec, Any]] = {
    "listed items, Laplace": (LISTED, EPSILON, Record()),
    "listed items, rho": (LISTED, RHO, Record()),
    "a sketch, Laplace": (SKETCH, EPSILON, Record()),
    "a sketch, rho": (SKETCH, RHO, Record()),
    "quantiles": (Quantiles(TreeSpec.for_memory(IntegerDomain(0, 100))), EPSILON, Record()),
    "statistics": (Statistics(IntegerDomain(0, 100)), EPSILON, Record()),
    "people in few windows": (SKETCH, EPSILON, FEW),
    "people in many windows": (LISTED, EPSILON, MANY),
    "a norm of a stream": (SKETCH, RHO, PrivacyId("p", NormBound(4), max_windows=3)),
}
SAID = re.compile(r"a separate release per window: sigma = (\S+)(?: to (\S+))? per counter; (.*) is more accurate (.*)")


def said(spec: ReleaseSpec) -> tuple[float, str, int | None]:
    """The sigma of a release of a window, about whom the rest is, and the length; `None` for no range."""
    planned = spec.plan()
    (line,) = [line.words for line in planned.lines if line.label == "Alternative"]
    assert " ".join(str(planned).split()).endswith(f" Alternative {line}")
    match = SAID.fullmatch(line)
    assert match, line
    length = re.fullmatch(r"for ranges of at least (\d+) windows", match[4])
    assert length or match[4] == "for no range of windows"
    return float(match[1]), match[3], int(length[1]) if length else None


def sigmas(spec: ReleaseSpec) -> np.ndarray:
    return np.sqrt(np.array([float(each) for each in spec.resolved.calibrated.per_table]))


def matrix(horizon: Horizon) -> np.ndarray:
    return np.array([*matrix_rows(horizon.rows)], dtype=np.float64)


def of_range(rows: np.ndarray, length: int) -> float:
    """The sigma of a range in the middle, over that of rows: of the least squares solution for all rows."""
    windows = rows.shape[1]
    wanted = np.zeros(windows)
    first = (windows - length) // 2
    wanted[first : first + length] = 1.0
    return float(np.linalg.norm(rows @ np.linalg.solve(rows.T @ rows, wanted))) * math.sqrt(np.max(np.sum(rows**2, 0)))


def first_closer(rows: np.ndarray, alone: float) -> int | None:
    """The length from which on all ranges are closer."""
    lengths = range(1, rows.shape[1] + 1)
    farther = [length for length in lengths if of_range(rows, length) >= alone * math.sqrt(length)]
    found = max(farther, default=0) + 1
    return found if found in lengths else None


@pytest.mark.parametrize("windows", [12, 48])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_range_is_that_of_matrices(name: str, windows: int) -> None:
    """The release of a window is that of a `TimeRange` over the same time, with the same bounds."""
    count, privacy, privacy_unit = SETTINGS[name]
    if isinstance(privacy_unit, PrivacyId) and privacy_unit.max_windows > windows:  # type: ignore[operator]
        privacy_unit = PrivacyId("p", privacy_unit.bounds, max_windows=windows)
    horizon = Horizon(start=0, window_size=DAY, windows=windows)
    over_time = ReleaseSpec(count, privacy, privacy_unit, item="a", windows=horizon)
    alone = sigmas(ReleaseSpec(over_time.count, privacy, privacy_unit, item="a", windows=TimeRange(0, DAY * windows)))
    sigma, who, length = said(over_time)
    assert sigma == pytest.approx(alone.min(), rel=1e-3)
    assert who == "the timeline"
    rows = matrix(horizon)
    assert length == first_closer(rows, np.linalg.norm(alone) / np.linalg.norm(sigmas(over_time)))


def people(windows: int, kept: int) -> Iterator[np.ndarray]:
    """People with a record in each of some windows: in a row, evenly spread, and at random."""
    draws, places = np.random.default_rng(0), np.arange(windows)
    chosen = [places[start : start + kept] for start in range(windows - kept + 1)]
    chosen += [np.linspace(0, windows - 1, kept).astype(int)]
    chosen += [draws.permutation(windows)[:kept] for _ in range(300)]
    return (np.isin(places, each).astype(float) for each in chosen)


@pytest.mark.parametrize(("norm", "kept"), [(1, 1), (2.5, 6), (4, 16), (9, 40)])
def test_a_norm_is_told_for_people_that_it_keeps(norm: float, kept: int) -> None:
    """In as many windows as the norm keeps in windows alone, wherever; the timeline needs a longer norm for them."""
    horizon = Horizon(start=0, window_size=DAY, windows=40)
    rows, privacy_unit = matrix(horizon), PrivacyId("p", NormBound(norm))
    over_time = ReleaseSpec(SKETCH, RHO, privacy_unit, item="a", windows=horizon)
    sigma, who, length = said(over_time)
    alone = sigmas(ReleaseSpec(SKETCH, RHO, privacy_unit, item="a", windows=TimeRange(0, DAY * 40)))
    assert sigma == pytest.approx(alone.min(), rel=1e-3)
    longest = max(np.linalg.norm(rows @ person) for person in people(40, kept)) / math.sqrt(np.max(np.sum(rows**2, 0)))
    assert longest <= math.sqrt(float(horizon.rows.squared_reach(kept))) <= 1.1 * longest
    growth = math.sqrt(kept / horizon.rows.squared_reach(kept))
    assert length == first_closer(rows, growth * np.linalg.norm(alone) / np.linalg.norm(sigmas(over_time)))
    assert who == (f"with a norm that never clips one record in each of {kept} windows, the timeline"
                   if kept > 1 else "the timeline")  # fmt: skip


def test_keys_trees_and_long_horizons() -> None:
    """Keys share the noise; of a tree no length splits all ranges, and of a long horizon it would take long."""
    horizon = Horizon(start=0, window_size=DAY, windows=48)
    plain = ReleaseSpec(LISTED, EPSILON, Record(), item="a", windows=horizon)
    keyed = ReleaseSpec(LISTED, EPSILON, Record(), item="a", keys=AssumePublicKeys("k"), windows=horizon)
    assert said(keyed) == said(plain)
    tree, long = Horizon(0, DAY, 48, mechanism="tree"), Horizon(start=0, window_size=DAY, windows=2049)
    for windows in (tree, long, TimeRange(0, DAY), None):
        assert "Alternative" not in str(ReleaseSpec(LISTED, EPSILON, Record(), windows=windows).plan())
