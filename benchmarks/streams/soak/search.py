"""The highest rate that holds: one stream whose rate grows step by step, until what it publishes falls behind."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from benchmarks.streams.soak.expected import published
from benchmarks.streams.soak.pipelines import COUNT, PRIVATE
from benchmarks.streams.soak.records import WINDOW, Plan
from benchmarks.streams.soak.run import PUBLISHED, run
from benchmarks.table import Table

STEP, STEPS, FACTOR, SLOWEST = 4, 16, 1.25, 250
"""Windows of a step; the most steps; by how much each is faster; the first, in records a second."""
BEHIND = 20.0
"""Seconds: a step falls behind if its last window is published later than this, and than that of the step before."""
RATES = tuple(round(SLOWEST * FACTOR**step) for step in range(STEPS) for _ in range(STEP))


def delays(plan: Plan, folder: Path, now: float) -> list[float]:
    """Of each step, how long its last window has taken until all pipelines had published it, or has by now."""
    there = published(folder / PUBLISHED)
    found = []
    for last in range(STEP - 1, len(plan.rates), STEP):
        end = plan.start + WINDOW * (last + 1)
        if end > now:
            break
        times = [there[name, last].seconds if (name, last) in there else now for name in (COUNT, *PRIVATE)]
        found.append(max(times) - end)
    return found


def holding(delays: list[float]) -> int:
    """How many steps hold, from the first, which may still wait for workers to start."""
    pairs = enumerate(itertools.pairwise(delays), 1)
    return next((step for step, (before, delay) in pairs if delay > max(before, BEHIND)), len(delays))


def highest_rate(jar: Path, folder: Path) -> int:
    """Return the rate of the last step that held, and print all."""

    def enough(plan: Plan) -> bool:
        found = delays(plan, folder, time.time())
        return holding(found) < len(found)

    plan = run(jar, RATES, folder, enough=enough)
    found = delays(plan, folder, time.time())
    held = holding(found)
    table = Table("Search for the highest rate", ("records a second", "delay, s", "holds"), (20, -12), bar=0)
    for step, delay in enumerate(found):
        table.row(f"{RATES[STEP * step]:,}", f"{delay:.1f}", "yes" if step < held else "no")
    return RATES[STEP * max(held - 1, 0)]
