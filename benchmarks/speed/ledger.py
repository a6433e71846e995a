"""Milliseconds that a ledger in SQLite takes to pay for a release: ``python -m benchmarks.speed.ledger``.

Each payment opens the file, adds up, compares with a limit of epsilon and delta, and waits until the disk has it. The
bar is milliseconds on the clock, of a ledger with few entries and of one with many. Takes a minute.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from beam_dpsketch import Account, Ledger, LossLimit, PrivacySpec
from beam_dpsketch.privacy.terms import ReleaseTerms
from benchmarks.command import Command
from benchmarks.table import Bar, Table, spread

BAR, SIZES = 20.0, (0, 5_000)
_FAST = "/dev/shm"
_ACCOUNT = "visits"


class Milliseconds(NamedTuple):
    """How long a payment took, and how long of this the processor worked."""

    waited: float
    worked: float


def pay(ledger: Ledger) -> Milliseconds:
    """Pay for one release."""
    bill = ReleaseTerms(ledger.spend(_ACCOUNT, PrivacySpec(epsilon=0.01, delta=1e-6, noise="gaussian"))).bill({})
    assert bill is not None
    start, worked = time.perf_counter(), time.process_time()
    bill.pay(os.urandom(16))
    return Milliseconds(1000 * (time.perf_counter() - start), 1000 * (time.process_time() - worked))


def filled(file: Path, entries: int) -> Ledger:
    """A ledger that has paid so often."""
    ledger = Ledger(file)
    ledger.create(Account(name=_ACCOUNT, limit=LossLimit(epsilon=100, delta=1e-6), unit="record"))
    for _ in range(entries):
        pay(ledger)
    return ledger


def main() -> None:
    command = Command(__file__, __doc__, "beam-dpsketch")
    command.number("--runs", 51, "of each")
    arguments = command.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir=_memory()) as memory:
        found = {}
        for size in SIZES:
            made, file = Path(memory, f"{size}.db"), Path(folder, f"{size}.db")
            filled(made, size)  # in memory, which is faster
            file.write_bytes(made.read_bytes())
            found[size] = [pay(Ledger(file)) for _ in range(arguments.runs)]
    with command.writing(arguments, f"Milliseconds a payment: median (range) of {arguments.runs}"):
        table = Table(None, ("payments before", "milliseconds", "of the processor"), (18, 28))
        for size, times in found.items():
            waited, worked = zip(*times, strict=True)
            bar = Bar(statistics.median(waited), "<=", BAR)
            table.row(f"{size:,}", spread(waited, 1), spread(worked, 1), bars=[bar])


def _memory() -> str | None:
    return _FAST if os.path.isdir(_FAST) else None


if __name__ == "__main__":
    main()
