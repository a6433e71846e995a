"""What one unit does to all rows over time of the real path: at most rho by the noise that the rows state, and nearly.

Two inputs that differ by a unit are released without noise. The squared difference of a table over 2 sigma^2, where
sigma^2 is what the statement says times the longest column of the matrix, is the zero-concentrated privacy loss
(Bun and Steinke 2016). Summed over rows, keys and side counters it must be at most rho. These tests fail for no draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    REPLACE_ONE,
    CountSketch,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
)
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from tests.helpers.continual import (
    SIZE,
    START,
    VISITS,
    WINDOWS,
    Build,
    Visit,
    bounded,
    exact,
    frequencies,
    matrix,
    per_key,
    place_of,
    streamed,
)
from tests.helpers.pipelines import BUNDLE_BASED
from tests.helpers.streams import stepped

RHO = Fraction(1, 10)
OTHERS = [visit for visit in VISITS if visit.who != "ann"]  # who exceed no bound, so nothing of them is drawn
PLACES = (0, WINDOWS // 2, WINDOWS - 1)
COUNT, ROUNDING = 3, 1e-9


def rows(monkeypatch: pytest.MonkeyPatch, build: Build, *options: str, **runner: str) -> dict[Any, Any]:
    """All rows without noise, by place."""
    found = exact(monkeypatch, build, *options, **runner)
    return {place_of(each): each[1] if isinstance(each, tuple) else each for each in found}


def losses(first: dict[Any, Any], second: dict[Any, Any], which: Mechanism) -> tuple[float, float]:
    """The loss of the sketch as a part of the rho that it has, and that of everything."""
    assert first.keys() == second.keys()
    length = int(np.square(matrix(which)).sum(axis=0).max())
    sketch = side = 0.0
    for place, row in first.items():
        assert row.privacy.rho == RHO
        (variance,) = row.privacy.sigma_squared_per_level
        sketch += float(np.square(row.counters - second[place].counters).sum() / (2 * float(variance) * length))
        for note, change in zip(row.privacy.side, row.side - second[place].side, strict=True):
            side += float(change**2 / (2 * float(note.sigma_squared) * length))
    share = 1 - sum(float(note.share) for note in next(iter(first.values())).privacy.side)
    return sketch / (float(RHO) * share), (sketch + side) / float(RHO)


def at(window: int, who: str = "unit", item: str = "x", count: int = 1) -> list[Visit]:
    """Equal records in a window."""
    return [Visit(who, item, START + SIZE * window + 0.5)] * count


def over(windows: Iterable[int], **given: Any) -> list[Visit]:
    return [visit for window in windows for visit in at(window, **given)]


UNITS: dict[str, tuple[Any, Sequence[list[Visit]]]] = {
    "record": (Record(), [at(place) for place in PLACES]),
    "records of an id": (
        PrivacyId("who", RecordBounds(COUNT), max_windows=4),
        [over(range(start, start + 4), count=COUNT + 2) for start in (0, 4, WINDOWS - 4)],
    ),
    "norm": (
        PrivacyId("who", NormBound(COUNT)),
        [
            *(at(place, count=COUNT) for place in PLACES),
            at(3, count=50),
            over(range(WINDOWS), count=2),
            over(range(4), count=5) + over([6, 9], item="y", count=7),
        ],
    ),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize("name", UNITS)
def test_a_unit_costs_at_most_rho_and_nearly_so(name: str, which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several units, the worst costs nine tenths of what the sketch may spend; none costs more than all of it."""
    unit, changes = UNITS[name]
    transform = frequencies(unit=unit, privacy=PrivacySpec(rho=RHO), mechanism=which)
    without = rows(monkeypatch, bounded(transform, OTHERS))
    found = [losses(rows(monkeypatch, bounded(transform, [*OTHERS, *each])), without, which) for each in changes]
    print(name, which, found)
    assert max(sketch for sketch, _ in found) <= 1 + ROUNDING
    assert max(sketch for sketch, _ in found) >= 0.9
    assert max(everything for _, everything in found) <= 1 + ROUNDING


@pytest.mark.slow
def test_every_window_of_a_record_costs_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains make all columns about equally long."""
    transform = frequencies(privacy=PrivacySpec(rho=RHO))
    without = rows(monkeypatch, bounded(transform, OTHERS))
    for window in range(WINDOWS):
        sketch, _ = losses(rows(monkeypatch, bounded(transform, [*OTHERS, *at(window)])), without, "binned")
        assert 0.98 <= sketch <= 1 + ROUNDING


@pytest.mark.slow
def test_a_mistaken_length_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if noise were for the first row of a window, and not for all rows that hold it."""
    monkeypatch.setattr(BinnedRoot, "squared_length", property(lambda self: (self.gains[0] << self.weight_bits) ** 2))
    transform = frequencies(privacy=PrivacySpec(rho=RHO))
    without = rows(monkeypatch, bounded(transform, OTHERS))
    (row, *_) = without.values()
    change = rows(monkeypatch, bounded(transform, [*OTHERS, *at(0)]))
    squared = sum(float(np.square(each.counters - without[place].counters).sum()) for place, each in change.items())
    assert squared / (2 * float(row.privacy.sigma_squared) * row.mechanism.squared_length) > 1.1 * RHO


@pytest.mark.slow
@pytest.mark.parametrize("which", MECHANISMS)
def test_a_replaced_record_costs_at_most_rho(which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two items that share all cells with other signs, in one window: the worst that a replacement can do."""
    spec = SketchSpec(depth=2, width=2)
    vectors = {f"item {i}": CountSketch(spec).accumulate([f"item {i}"]).to_vector().tolist() for i in range(200)}
    other = next(item for item, each in vectors.items() if each == [-value for value in vectors["item 0"]])
    transform = frequencies(spec, PrivacySpec(rho=RHO, relation=REPLACE_ONE), mechanism=which)
    first, second, moved = (
        rows(monkeypatch, bounded(transform, [*OTHERS, *at(window, item=item)]))
        for window, item in ((0, "item 0"), (0, other), (WINDOWS - 1, other))
    )
    sketch, everything = losses(first, second, which)
    assert 0.98 <= sketch <= 1 + ROUNDING
    assert everything <= 1 + ROUNDING
    assert max(losses(first, moved, which)) <= 1 + ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize(
    ("unit", "count"),
    [
        (PrivacyId("who", RecordBounds(COUNT, max_keys=2), max_windows=2), COUNT),
        (PrivacyId("who", NormBound(COUNT)), 20),
    ],
    ids=["records", "norm"],
)
def test_a_unit_of_two_keys_costs_at_most_rho_over_both(
    unit: PrivacyId, count: int, which: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same windows in both keys."""
    transform = per_key(
        PublicKeys(["x", "y"], "item"), unit=unit, privacy=PrivacySpec(rho=RHO), mechanism=which, item="who"
    )
    without = rows(monkeypatch, bounded(transform, OTHERS))
    change = [visit for key in "xy" for visit in over((0, 1), item=key, count=count)]
    sketch, everything = losses(rows(monkeypatch, bounded(transform, [*OTHERS, *change])), without, which)
    assert 0.9 <= sketch <= 1 + ROUNDING
    assert everything <= 1 + ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize(
    "unit",
    [PrivacyId("who", RecordBounds(COUNT), max_windows=4), PrivacyId("who", NormBound(COUNT), max_windows=4)],
    ids=["records", "norm"],
)
def test_a_unit_of_a_stream_costs_at_most_rho(
    unit: PrivacyId, which: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its first four windows, each filled to its bound; what comes later is dropped."""
    transform = frequencies(unit=unit, privacy=PrivacySpec(rho=RHO), mechanism=which)

    def released(change: list[Visit]) -> dict[Any, Any]:
        visits = [(visit, visit.time) for visit in [*VISITS[4:], *change]]
        stream = stepped(visits, SIZE, START + SIZE * WINDOWS)
        return rows(monkeypatch, streamed(transform, stream), "--streaming", runner=BUNDLE_BASED)

    without, units = released([]), (over(range(start, WINDOWS), count=COUNT + 2) for start in (0, 5))
    found = [losses(released(each), without, which) for each in units]
    assert 0.9 <= max(sketch for sketch, _ in found) <= 1 + ROUNDING
    assert max(everything for _, everything in found) <= 1 + ROUNDING
