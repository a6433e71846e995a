"""The benchmark of throughput runs on little data, judges by its bars, and says what it leaves out."""

from __future__ import annotations

import sys

import pyarrow.parquet as pq
import pytest

from benchmarks.throughput import __main__ as throughput
from benchmarks.throughput import pipelines
from benchmarks.throughput.table import Bar, Row, Table


def test_a_toy_run_prints_every_block_of_kernels_and_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["throughput", "--repetitions=1", "--scale=0.001", "--only", "kernels", "answers"]
    monkeypatch.setattr(sys, "argv", arguments)
    throughput.main()
    printed = capsys.readouterr().out
    for line in ("quantile tree, U = 2^32", "np.sort", "Text in memory", "2^64", "Discrete Gaussian", "Bytes between"):
        assert line in printed
    assert "Not met: " in printed


@pytest.mark.slow
def test_a_toy_run_of_parquet_batches_reads_the_trace_that_is_given(
    tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pipelines.records(500), tmp_path / "trace.parquet")
    table = Table(1, 1e-4)
    pipelines.parquet_batches(table, tmp_path, tmp_path / "trace.parquet", "address")
    printed = capsys.readouterr().out
    assert printed.count("Parquet batches, the trace") == printed.count("Parquet batches, uniform values") == 2
    assert printed.count("PrivateQuantiles") == 4
    pipelines.parquet_batches(Table(1, 1e-4), tmp_path, None, "address")
    assert "Skipped: the trace" in capsys.readouterr().out


def test_bars_are_judged_both_ways_and_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    def slow(size: int) -> None:
        sum(range(20_000))

    def fast(size: int) -> None:
        sum(range(200))

    table = Table(3, 1.0)
    rows = [
        Row("fast", fast, (0, 1)),
        Row("slow", slow, (0, 1), (Bar("fast", 2), Bar("fast", 1e6))),
        Row("quick", fast, (0, 1), (Bar("slow", 2, faster=True), Bar("slow", 1e6, faster=True))),
    ]
    table.block("Toy", rows)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[3:]] == ["-", "NO", "yes", "yes", "NO"]
    assert [missed.split()[0] for missed in table.missed] == ["slow", "quick"]


def test_sizes_are_scaled_multiples_and_never_equal() -> None:
    assert Table(1, 0.001).sizes(100_000, 500_000) == (100, 500)
    assert Table(1, 1e-9).sizes(100_000, 500_000, 50) == (0, 50)
