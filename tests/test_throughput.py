"""The benchmark of throughput runs on little data, judges by its bars, and says what it leaves out."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.speed.throughput import __main__ as throughput
from benchmarks.speed.throughput import pipelines
from benchmarks.speed.throughput.turns import Against, Row, Turns


def test_a_toy_run_writes_every_block_of_kernels_and_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["throughput", "--repetitions=1", "--scale=0.001", f"--output={tmp_path}", "kernels", "answers"]
    monkeypatch.setattr(sys, "argv", arguments)
    throughput.main()
    printed = capsys.readouterr().out
    files = [tmp_path / "kernels.txt", tmp_path / "answers.txt"]
    assert printed == "".join(f"{file.read_text(encoding='utf-8')}written: {file}\n" for file in files)
    for line in ("quantile tree, U = 2^32", "np.sort", "Text in memory", "2^64", "Discrete Gaussian", "Bytes between"):
        assert line in printed
    assert "Not met: " in printed


@pytest.mark.slow
def test_a_toy_run_of_parquet_batches_reads_the_trace_that_is_given(
    tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pipelines.records(500), tmp_path / "trace.parquet")
    turns = Turns(1, 1e-4)
    pipelines.parquet_batches(turns, tmp_path, tmp_path / "trace.parquet", "address")
    printed = capsys.readouterr().out
    assert printed.count("Parquet batches, the trace") == printed.count("Parquet batches, uniform values") == 2
    assert printed.count("PrivateQuantiles") == 4
    pipelines.parquet_batches(Turns(1, 1e-4), tmp_path, None, "address")
    assert "Skipped: the trace" in capsys.readouterr().out


def test_bars_are_judged_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    def slow(size: int) -> None:
        sum(range(20_000))

    def fast(size: int) -> None:
        sum(range(200))

    turns = Turns(3, 1.0)
    rows = [
        Row("fast", fast, (0, 1)),
        Row("slow", slow, (0, 1), (Against("fast", 2), Against("fast", 1e6))),
        Row("quick", fast, (0, 1), (Against("slow", 2, faster=True), Against("slow", 1e6, faster=True))),
    ]
    turns.block("Toy", rows)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[3:]] == ["-", "NO", "yes", "yes", "NO"]


def test_sizes_are_scaled_multiples_and_never_equal() -> None:
    assert Turns(1, 0.001).sizes(100_000, 500_000) == (100, 500)
    assert Turns(1, 1e-9).sizes(100_000, 500_000, 50) == (0, 50)
