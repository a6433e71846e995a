"""Kills processes that spend, at random times: ``python -m tests.ledger.kills 1000``; prints what was found."""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from beam_dpsketch import Ledger, LossLimit
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.privacy.loss.composition import Loss
from tests.helpers.ledgers import bill, pay, payments, with_account

ONE = Fraction(1, 1000)
REFUSED = bytes(16)
_MOST_TOLD, _LONGEST = 3, 0.01


def spend_until_killed(ledger: Ledger, told: int) -> None:
    """Pay for run after run, and say of each whether it is granted."""
    while True:
        run = os.urandom(16)
        try:
            bill(ledger, Loss(ONE)).pay(run)
        except BudgetExceededError:
            run = REFUSED
        os.write(told, run)


def killed_after(ledger: Ledger, told: int, seconds: float) -> list[bytes]:
    """Let a process spend, kill it some time after it has told of so many payments, and return all that it told."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            spend_until_killed(ledger, writes)
        finally:
            os._exit(1)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        found = pipe.read(16 * told)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found += pipe.read()
    return [found[start : start + 16] for start in range(0, len(found), 16)]


def check_kills(address: Any, kills: int, seed: int) -> dict[str, int]:
    """Kill again and again; no grant is lost, the limit is reached and never passed, and no lock stays."""
    draw, limit = random.Random(seed), kills
    ledger = with_account(address, LossLimit(rho=limit * ONE))
    told: list[bytes] = []
    for _ in range(kills):
        told += killed_after(ledger, draw.randrange(_MOST_TOLD + 1), draw.uniform(0, _LONGEST))
        ledger.balances()  # raises where a lock has stayed
    granted, held = [each.hex() for each in told if each != REFUSED], payments(ledger)
    with pytest.raises(BudgetExceededError):
        pay(ledger, Loss(ONE))
    assert len(set(held)) == len(held) == limit
    assert {*granted} <= {*held}, "a grant was lost"
    assert ledger.verify().balances[0].spent.rho == limit * ONE
    return {"kills": kills, "held": len(held), "told": len(granted), "refused": told.count(REFUSED)}


def main() -> None:
    """Kill as often as the argument says."""
    with tempfile.TemporaryDirectory() as folder:
        print(check_kills(Path(folder, "ledger.db"), int(sys.argv[1]), seed=1))


if __name__ == "__main__":
    main()
