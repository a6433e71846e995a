"""What is killed, and when: workers, and task managers, which are started again.

A kill waits for a moment that hurts: something was published since the last checkpoint began, and is made again.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import NamedTuple

from benchmarks.streams.soak.monitors import WORKER, processes
from tests.engines.flink import FlinkCluster

A_WORKER, A_TASK_MANAGER = "a worker", "a task manager"


class Kill(NamedTuple):
    """Of one process, from a share of the time on."""

    share: float
    what: str


KILLS = (
    Kill(0.1, A_WORKER),
    Kill(0.25, A_TASK_MANAGER),
    Kill(0.875, A_WORKER),
    Kill(0.91, A_WORKER),
    Kill(0.95, A_TASK_MANAGER),
)
UNDISTURBED = (0.3, 0.875)
"""The share of the time in which memory and state have to be flat: long, and without a process that begins anew."""


def hurts(cluster: FlinkCluster, published: Path) -> bool:
    """Return whether something was published since the last complete checkpoint was begun."""
    last = (cluster.checkpoints().get("latest") or {}).get("completed") or {"trigger_timestamp": 0}
    return any(1e3 * path.stat().st_mtime > last["trigger_timestamp"] for path in published.iterdir())


def kill(what: str, cluster: FlinkCluster) -> None:
    """Kill one of these."""
    if what == A_TASK_MANAGER:
        cluster.kill_task_manager()
    else:
        os.kill(random.choice([number for number, kind in processes() if kind == WORKER]), signal.SIGKILL)
