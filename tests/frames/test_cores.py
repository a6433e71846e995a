"""Threads bound a large table: its bytes are those of one core, and an interrupt or an error leaves nothing behind."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import LossLimit
from beam_dpsketch.exact.bounding import parts
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.frames.steps import cores, tables
from tests.cli.consoles import ROOT, run
from tests.helpers.frame_cases import TABLE, bytes_of_frame
from tests.helpers.ledgers import with_account

NAMES = ["norm", "chosen norm", "records, weights, listed keys", "records, chosen keys", "groups", "days and countries"]
LINE = ["run", "visits.parquet", "--kind", "frequencies", "--item", "city", "--privacy-id", "person", "--max-norm", "2"]
LINE += ["--epsilon", "1", "--delta", "1e-6", "--output", "out.dpsketch"]
LINE += ["--ledger", "spent.db", "--account", "visits"]


def on_cores(patch: pytest.MonkeyPatch, count: int, block: int = 200) -> None:
    """Make a table of `block` rows large, on a machine with some cores."""
    patch.setattr(os, "sched_getaffinity", lambda _: range(count), raising=False)
    patch.setattr(cores, "_MOST", 8)
    patch.setattr(parts, "BLOCK", block)
    patch.setattr(tables, "ROWS", 100)


@given(st.sampled_from(NAMES), st.integers(2, 4), st.integers(1, 700), st.permutations(range(15)))
def test_bytes_are_those_of_one_core(name: str, count: int, block: int, order: list[int]) -> None:
    table = pa.concat_tables(TABLE.slice(each * 100, 100) for each in order)
    with pytest.MonkeyPatch.context() as patch:
        on_cores(patch, 1, block)
        patch.setattr(ThreadPoolExecutor, "submit", None)
        expected = bytes_of_frame(name, table)
    with pytest.MonkeyPatch.context() as patch:
        on_cores(patch, count, block)
        assert bytes_of_frame(name, table) == expected


def test_a_part_that_a_thread_loses_changes_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    on_cores(monkeypatch, 2)
    expected, exact = bytes_of_frame("norm", TABLE), cores.Cores.in_order
    monkeypatch.setattr(cores.Cores, "in_order", lambda *given: [*exact(*given)][1:])
    assert bytes_of_frame("norm", TABLE) != expected


@pytest.mark.parametrize("is_large", [False, True])
def test_threads_bound_large_tables_alone(is_large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, found = NormRule.bound, set()

    def bound(rule: NormRule, records: pa.Table) -> Any:
        found.add(threading.current_thread() is threading.main_thread())
        return exact(rule, records)

    on_cores(monkeypatch, 2, 200 if is_large else len(TABLE))
    monkeypatch.setattr(NormRule, "bound", bound)
    bytes_of_frame("norm", TABLE)
    assert found == {not is_large}


def test_an_interrupt_while_threads_bound_leaves_no_release_and_no_payment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, interrupts = NormRule.bound, iter([_thread.interrupt_main])

    def bound(rule: NormRule, records: pa.Table) -> Any:
        for interrupt in interrupts:
            interrupt()
        time.sleep(0.01)
        return exact(rule, records)

    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "visits.parquet", row_group_size=100)
    ledger = with_account("spent.db", LossLimit(epsilon=3, delta=1e-5))
    on_cores(monkeypatch, 2)
    monkeypatch.setattr(NormRule, "bound", bound)
    code, printed = run(*LINE)
    assert (code, len(ledger.paid("visits"))) == (1, 0)
    assert printed.splitlines()[-1].startswith("dpsketch: interrupted: out.dpsketch was not written, so nothing was")
    assert not os.path.exists("out.dpsketch")
    for each in threading.enumerate():
        if each.name.startswith("exact-sums"):  # an interrupt while it starts: the pool does not wait for it
            each.join(60)
            assert not each.is_alive()
    code, printed = run(*LINE)
    assert (code, len(ledger.paid("visits"))) == (0, 1)


AFTER_MAIN = """
import threading
import pytest
from tests.frames.test_cores import bytes_of_frame, on_cores, TABLE
def release():
    threading.main_thread().join()
    on_cores(pytest.MonkeyPatch(), 2)
    print(len(bytes_of_frame("norm", TABLE)))
threading.Thread(target=release).start()
"""


def test_a_thread_releases_a_large_table_after_the_main_thread_ended() -> None:
    """Python starts no thread then, and a release may be paid for already."""
    line = [sys.executable, "-W", "ignore", "-c", AFTER_MAIN]
    assert subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize("at", ["bound", "split"])
def test_an_error_in_a_thread_is_raised_by_the_call(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError(threading.current_thread().name)

    on_cores(monkeypatch, 2)
    monkeypatch.setattr(*((NormRule, "bound") if at == "bound" else (parts, "shard_hash")), fail)
    with pytest.raises(MemoryError, match="exact-sums"):
        bytes_of_frame("norm", TABLE)
