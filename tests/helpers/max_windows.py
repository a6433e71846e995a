"""One id with too many records everywhere, and what `max_windows` and the bounds leave of it."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_dpsketch import AssumePublicKeys, PrivacyId, PrivacySpec, RecordBounds, SketchSpec
from beam_dpsketch.transforms import PrivateFrequencies
from tests.helpers.streams import Timed

ONE_COUNTER = SketchSpec(kind="count_min", depth=1, width=1)
PRIVACY = PrivacySpec(rho=0.1)
FIXED = FixedWindows(60)
BOUNDS = RecordBounds(max_records=3, max_keys=2, max_weight=5)
Totals = dict[tuple[float, Any], int]


def per_key(
    bounds: RecordBounds = BOUNDS, *, max_windows: int | None = 2, period: Any = None, **arguments: Any
) -> PrivateFrequencies:
    """A transform with one counter in each release, which adds up weights."""
    privacy_unit = PrivacyId("user", bounds, max_windows=max_windows, period=period)
    arguments = {"keys": AssumePublicKeys("key"), "item": "item", "privacy_unit": privacy_unit} | arguments
    return PrivateFrequencies(ONE_COUNTER, PRIVACY, **arguments)


def row(user: Any, key: str = "k", weight: int = 1) -> dict[str, Any]:
    return {"user": user, "key": key, "item": "x", "weight": weight}


def stamp(timed: Timed) -> TimestampedValue:
    return TimestampedValue(*timed)


def stream(bundles: Iterable[list[Timed]], watermarks: Iterable[float]) -> Stream:
    """Each bundle, and the watermark after it; 0 leaves it where it is."""
    stream = Stream().advance_watermark_to(0)
    for bundle, watermark in zip(bundles, watermarks, strict=True):
        stream = stream.add_elements([stamp(timed) for timed in bundle])
        stream = stream.advance_watermark_to(watermark) if watermark else stream
    return stream.advance_watermark_to_infinity()


def assert_within(found: Totals, windows: Any, bounds: RecordBounds, max_windows: int, period: float) -> None:
    """What one id contributed: the windows by the period in which they end, the keys of each, and their totals."""
    size = float(windows.size)
    by_period: dict[float, set[float]] = defaultdict(set)
    for start, _ in found:
        by_period[(start + size - 0.001) // period].add(start)
    assert max(map(len, by_period.values())) == max_windows
    assert set(Counter(start for start, _ in found).values()) == {bounds.kept_keys}
    assert max(found.values()) == bounds.max_weight_per_key


GREEDY = [
    (row("attacker", f"key {key}", 1 << 70), 60 * minute + second)
    for minute, key, second in itertools.product(range(10), range(4), (0, 13, 59.9, 59.9))
]
"""One id in every window and every key, more often and with more weight than allowed."""
