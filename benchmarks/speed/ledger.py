"""Milliseconds that a ledger in SQLite takes to pay for a release: ``python -m benchmarks.speed.ledger``.

Each payment opens the file, adds up, compares with a limit of epsilon and delta, and waits until the disk has it. The
account has months as periods. All earlier payments named the month before, which is the slowest case for a payment in
the month of the clock. The bar is milliseconds on the clock, for a ledger with few entries and for one with many, and
that processor time does not grow. Takes two minutes.
"""

from __future__ import annotations

import datetime
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from beam_dpsketch import Account, Ledger, LossLimit, PrivacySpec
from beam_dpsketch.ledger.entries import NAMED, SPEND, LedgerEntry
from beam_dpsketch.ledger.paying import occasion_of
from beam_dpsketch.ledger.places import open_store
from beam_dpsketch.ledger.store import Book
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.privacy.terms import ReleaseTerms
from benchmarks.command import Command
from benchmarks.table import Bar, Table, spread

BAR, GROWTH, SIZES = 20.0, 1.5, (0, 5_000, 100_000)
_FAST = "/dev/shm"
_ACCOUNT = "visits"


class Milliseconds(NamedTuple):
    """How long a payment took, and how long of this the processor worked."""

    waited: float
    worked: float


def pay(ledger: Ledger) -> Milliseconds:
    """Pay for one release."""
    bill = _bill(ledger)
    start, worked = time.perf_counter(), time.process_time()
    bill.pay(os.urandom(16))
    return Milliseconds(1000 * (time.perf_counter() - start), 1000 * (time.process_time() - worked))


def _bill(ledger: Ledger, period: str | None = None) -> Any:
    spec = ledger.spend(_ACCOUNT, PrivacySpec(epsilon=0.01, delta=1e-6, noise="gaussian"), period=period)
    return ReleaseTerms(spec).bill({})


def filled(file: Path, payments: int) -> Ledger:
    """Return a ledger with this number of payments in the month before, added in one transaction."""
    ledger = Ledger(file)
    ledger.create(
        Account(name=_ACCOUNT, limit=LossLimit(epsilon=100, delta=1e-6), privacy_unit="record", period="month")
    )
    now = datetime.datetime.now(datetime.UTC)
    month = (now.replace(day=1) - datetime.timedelta(days=1)).strftime("%Y-%m")
    loss, total, what = _bill(ledger, month).loss, Loss(), {"kind": "made up", NAMED: True}
    place = {"kind": SPEND, "account": _ACCOUNT, "period": month}
    with open_store(ledger.address).writing() as execute:
        book = Book(execute)
        for _ in range(payments):
            total, payment = total.plus(loss), os.urandom(16).hex()
            entry = LedgerEntry(
                number=0, time=now, who="benchmark", payment=payment, loss=loss, total=total, what=what, **place
            )
            book.add(entry, occasion_of(payment, []))
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
        table = Table(None, ("payments before", "milliseconds", "of the processor"), (18, 28), 22)
        first = statistics.median(each.worked for each in found[0])
        for size, times in found.items():
            waited, worked = zip(*times, strict=True)
            growth = Bar(statistics.median(worked) / first, "<=", GROWTH, " times")
            bars = [Bar(statistics.median(waited), "<=", BAR), growth]
            table.row(f"{size:,}", spread(waited, 1), spread(worked, 1), bars=bars)


def _memory() -> str | None:
    return _FAST if os.path.isdir(_FAST) else None


if __name__ == "__main__":
    main()
