"""`PrivateStatistics` as its users see it: every kind of element, keys, windows, a horizon, files and refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ArgumentError,
    AssumePublicKeys,
    FloatDomain,
    Horizon,
    IntegerDomain,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleasedStatistics,
    SketchTimeline,
    TextDomain,
    TimeRange,
)
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.transforms import Ask, PrivateStatistics, QueryReleases, ReadReleases, WriteReleases
from tests.helpers.noise import without_noise
from tests.helpers.pipelines import FN_API, run, seen_by_sink
from tests.helpers.tree_pipelines import exact_vectors

PRIVACY, DELAYS = PrivacySpec(rho=1.0, side_counters=None), IntegerDomain(-60, 195)
CARRIERS = ["AA", "AA", "BB", "BB", "AA", "CC", "AA", "BB"]
MINUTES = [-60, 0, 7, 5000, -5000, 1, 0, None]
ROWS = [
    {"carrier": carrier, "delay": delay, "tail": f"N{number % 5}"}
    for number, (carrier, delay) in enumerate(zip(CARRIERS, MINUTES, strict=True))
]
TABLE = pa.Table.from_pylist(ROWS)
ELEMENTS: dict[str, list[Any]] = {
    "dicts": ROWS,
    "beam rows": [beam.Row(**row) for row in ROWS],
    "tables": [TABLE.slice(0, 3), TABLE.slice(3)],
    "record batches": TABLE.to_batches(max_chunksize=3),
    "pandas": [pd.DataFrame(ROWS).iloc[:4], pd.DataFrame(ROWS).iloc[4:]],
}
UNITS = {"record": Record(), "privacy id": PrivacyId("tail", RecordBounds(50, max_keys=3))}


def of(keys: Any = None, unit: Any = UNITS["record"], **more: Any) -> PrivateStatistics[Any]:
    return PrivateStatistics(DELAYS, PRIVACY, unit=unit, item="delay", variance=True, keys=keys, **more)


def sums(carrier: str) -> list[int]:
    """The exact counters of a carrier."""
    numbers = [row["delay"] for row in ROWS if row["carrier"] == carrier and row["delay"] is not None]
    return NumberSums(StatisticsSpec(DELAYS, variance=True)).accumulate(numbers).counters.tolist()


@pytest.mark.one_fast_case
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("elements", ELEMENTS)
def test_every_kind_of_element_gives_the_same_exact_sums(elements: str, unit: str) -> None:
    """Numbers outside are clipped and nulls dropped; listed keys without data get zeros, others nothing."""
    keys = PublicKeys(["AA", "BB", "absent"], "carrier")
    found = exact_vectors(ELEMENTS[elements], of(keys, UNITS[unit]))
    listed = {key: each.tolist() for key, each in found.items()}
    assert listed == {"AA": sums("AA"), "BB": sums("BB"), "absent": [0, 0, 0, 0]}


def test_a_weight_counts_a_number_more_often() -> None:
    spec = StatisticsSpec(IntegerDomain(0, 10))
    weighed = PrivateStatistics(spec.domain, PRIVACY, unit=Record(max_weight=9), item="n", weight="times")
    elements = [{"n": 3, "times": 4}, {"n": 10, "times": 20}, {"n": 5, "times": 0}]
    expected = NumberSums(spec).accumulate([3] * 4 + [10] * 9).counters
    np.testing.assert_array_equal(exact_vectors(elements, weighed), expected)


def told(released: ReleasedStatistics) -> tuple[float, ...]:
    return released.count().estimate, released.total().estimate, released.mean().estimate or 0.0


@pytest.mark.parametrize(
    "keys", [PublicKeys(["AA", "BB"], "carrier"), AssumePublicKeys("carrier"), KeySelection(1e-8, "carrier")]
)
def test_each_key_has_its_answers(keys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two keys has 40 units, more than selection needs: it is left out with a probability below 1e-9."""
    without_noise(monkeypatch)
    spent = PrivacySpec(rho=50, side_counters=None)
    rows = [{"carrier": ["AA", "BB"][n % 2], "delay": n % 50, "tail": f"N{n}"} for n in range(400)]
    unit = PrivacyId("tail", RecordBounds(1, max_keys=1))
    found = dict(run(rows, PrivateStatistics(DELAYS, spent, unit=unit, item="delay", keys=keys)))
    assert {key: told(each) for key, each in found.items()} == {
        "AA": pytest.approx((200, 4800, 24)),
        "BB": pytest.approx((200, 5000, 25)),
    }


def in_time(pipeline: beam.Pipeline) -> beam.PCollection:
    """One number a minute over three hours, which is that of its hour."""
    return (
        pipeline
        | beam.Create([(60 * n, {"hour": n // 60, "who": f"p{n % 7}"}) for n in range(180)])
        | beam.MapTuple(lambda time, row: beam.window.TimestampedValue(row, time))
    )


def test_windows_of_a_range_have_a_release_with_data_or_without(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    hours = TimeRange(0, 4 * 3600)
    private = PrivateStatistics(IntegerDomain(0, 4), PRIVACY, unit=Record(), item="hour", windows=hours)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        hourly = in_time(pipeline) | beam.WindowInto(beam.window.FixedWindows(3600))
        return hourly | private | beam.Map(lambda each, at=beam.DoFn.WindowParam: (int(at.start), told(each)))

    found = dict(seen_by_sink(build))
    assert found == {0: (60, 0, 0), 3600: (60, 60, 1), 7200: (60, 120, 2), 10_800: (0, 0, 0)}


@pytest.mark.parametrize("unit", [Record(), PrivacyId("who", NormBound(30))], ids=["record", "norm"])
def test_a_timeline_answers_about_ranges_of_windows(unit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch, to_the_last_bit=True)
    horizon = Horizon(0, 3600, 4)
    private = PrivateStatistics(IntegerDomain(0, 4), PrivacySpec(rho=9), unit=unit, item="hour", windows=horizon)
    timeline = SketchTimeline(seen_by_sink(lambda pipeline: in_time(pipeline) | private), horizon)
    for first, last, mean in ((0, 0, 0), (0, 2, 1), (1, 2, 1.5), (2, 2, 2)):
        answer = timeline.between(first, last)
        assert isinstance(answer, ReleasedStatistics)
        assert answer.mean().estimate == pytest.approx(mean, abs=0.05)
        assert answer.count().estimate == pytest.approx(60 * (last - first + 1), abs=1)
    assert timeline.between(3, 3).mean().estimate is None


def test_questions_in_a_pipeline_are_those_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    without_noise(monkeypatch)
    kinds: list[Any] = ["count", "total", "mean", "variance", "std"]
    numbers = [{"delay": n} for n in range(100)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        released = pipeline | beam.Create(numbers) | of()
        asked = [
            released | kind >> QueryReleases(Ask(kind)) | f"Name {kind}" >> beam.Map(lambda row, kind=kind: (kind, row))
            for kind in kinds
        ]
        return asked | beam.Flatten()

    found = {kind: row["estimate"] for kind, row in seen_by_sink(build)}
    exact = np.arange(100)
    spread = {"variance": exact.var(), "std": exact.std()}
    assert found == pytest.approx({"count": 100, "total": exact.sum(), "mean": exact.mean(), **spread}, rel=5e-3)


def test_files_bring_releases_back(tmp_path: Path) -> None:
    with beam.Pipeline(runner=FN_API) as pipeline:
        pipeline | beam.Create(ROWS) | of(PublicKeys(["AA"], "carrier")) | WriteReleases(str(tmp_path / "x"))
    ((key, again),) = seen_by_sink(lambda pipeline: pipeline | ReadReleases(str(tmp_path / "x*")))
    assert (key, type(again)) == ("AA", ReleasedStatistics)
    assert again.mean() == ReleasedStatistics.from_bytes(again.to_bytes()).mean()


def test_what_is_said_before_the_data_are_read() -> None:
    words = of().explain(1000)
    assert re.search(
        r"^statistics: count, sum and squares of whole numbers -60 to 195; nothing collides\.$", words, re.M
    )
    assert re.search(r"^Means of 1,000 records: 95 % intervals of about \+- [\d.]+, and \+- [\d.]+ near", words, re.M)
    shown = {"counters": 4, "domain": "whole numbers -60 to 195", "variance": True}
    assert shown.items() <= of().display_data().items()
    with pytest.raises(ArgumentError, match=r"item='delay' is 'late' \(str\).* \[dpsketch-E612\]"):
        of().check([{"delay": "late"}])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrivateStatistics(TextDomain(3), PRIVACY, unit=Record()), "domain must be of integers, or of floats"),  # type: ignore[call-overload]
        (lambda: PrivateStatistics(IntegerDomain(3, 3), PRIVACY, unit=Record()), "domain must have two values"),
        (
            lambda: PrivateStatistics(DELAYS, PRIVACY, unit=Record(), variance=0.1),  # type: ignore[call-overload]
            "variance must be True or False: .* Give variance=True",
        ),
        (
            lambda: PrivateStatistics(
                FloatDomain(0, 1, 1e-5),
                PRIVACY,
                unit=PrivacyId("who", NormBound(99)),
                item="x",
                variance=True,
                windows=Horizon(0, 60, 4),
            ),
            "domain has too many steps for this much noise",
        ),
        (
            lambda: PrivateStatistics(
                FloatDomain(0, 1, 0.1), PRIVACY, unit=PrivacyId("who", NormBound(9, max_per_item=1)), item="x"
            ),
            "max_per_item must be left out for statistics",
        ),
    ],
)
def test_what_does_not_suit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        make()


def test_a_variance_that_was_not_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (released,) = run(ROWS, PrivateStatistics(DELAYS, PRIVACY, unit=Record(), item="delay"))
    for ask in (released.variance, released.std):
        with pytest.raises(ArgumentError, match=r"variance was not asked for in this release: .* \[dpsketch-E722\]"):
            ask()
