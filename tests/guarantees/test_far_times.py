"""Times beyond what nanoseconds or four digits of a year can say are what they are, in every door."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_dpsketch import PrivacySpec, Record, TimestampDomain, release_frame, rows
from beam_dpsketch.config import read_release
from beam_dpsketch.frames.steps.files import open_files
from beam_dpsketch.transforms import PrivateQuantiles
from tests.helpers.pipelines import seen_by_sink

NEAR, FAR = datetime.datetime(2021, 6, 1), datetime.datetime(9999, 12, 31)
DOMAIN = {"type": "timestamp", "start": "2020-01-01", "end": "2025-01-01", "step": "1d"}
BASE: dict[str, Any] = {"privacy": {"rho": 50}, "privacy_unit": "record", "item": "t"}
QUARTILES = ["2021-06-01", "2025-01-01"]
"""Those of equally many near and far times; noise would have to be 30 deviations to change them."""


def int96(folder: Path, far: datetime.datetime) -> str:
    times = pa.array([NEAR] * 40 + [far] * 40, pa.timestamp("us"))
    pq.write_table(pa.table({"t": times}), folder / "t.parquet", use_deprecated_int96_timestamps=True)
    return str(folder / "t.parquet")


def quartiles(released: Any) -> list[str]:
    return [str(released.quantile(share).estimate)[:10] for share in (0.25, 0.75)]


def test_int96_of_a_file_does_not_wrap_around(tmp_path: Path) -> None:
    """As Spark, Hive and Impala write times: in nanoseconds, 2605-12-21 would be in the window of 2021-06-01."""
    declared = read_release({**BASE, "kind": "quantiles", "domain": DOMAIN})
    path = int96(tmp_path, FAR)
    assert (
        quartiles(release_frame(open_files([path], declared, lambda _: None, lambda _: None).table, declared))
        == QUARTILES
    )
    path = int96(tmp_path, datetime.datetime(2605, 12, 21, 12))
    windows = {"windows": {"start": "2021-06-01", "end": "2021-06-02"}, "time": {"field": "t", "every": "1d"}}
    declared = read_release({**BASE, **windows, "kind": "quantiles", "domain": DOMAIN})
    (released,) = release_frame(open_files([path], declared, lambda _: None, lambda _: None).table, declared).values()
    assert round(released.records().estimate / 10) == 4


@pytest.mark.pipeline
def test_int96_of_batches_does_not_wrap_around(tmp_path: Path) -> None:
    path = int96(tmp_path, FAR)
    domain = TimestampDomain(datetime.datetime(2020, 1, 1), datetime.datetime(2025, 1, 1), datetime.timedelta(1))
    private = PrivateQuantiles(domain, PrivacySpec(rho=50), privacy_unit=Record(), item="t")

    def build(pipeline: beam.Pipeline) -> Any:
        return pipeline | rows.ReadParquetBatches(path=path, columns=["t"]) | private

    (released,) = seen_by_sink(build)
    assert quartiles(released) == QUARTILES


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
@pytest.mark.parametrize("form", [lambda days: days, lambda days: days.dictionary_encode()], ids=["plain", "coded"])
def test_dates_of_five_digits_and_before_year_one_are_clamped(kind: pa.DataType, form: Any) -> None:
    size = 1 if kind == pa.date32() else 86_400_000
    for day, quarters in ((3_663_000, QUARTILES), (-800_000, ["2020-01-01", "2021-06-01"])):
        days = pa.array([18_779 * size] * 40 + [day * size] * 40, pa.int32() if size == 1 else pa.int64()).cast(kind)
        released = release_frame(pa.table({"t": form(days)}), {**BASE, "kind": "quantiles", "domain": DOMAIN})
        assert quartiles(released) == quarters
