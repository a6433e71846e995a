"""What is killed, and when, as a share of the whole time: workers, and a task manager, which is started again."""

from __future__ import annotations

import os
import random
import signal
from typing import NamedTuple

from benchmarks.streams.soak.monitors import WORKER, processes
from tests.engines.flink import FlinkCluster

A_WORKER, A_TASK_MANAGER = "a worker", "a task manager"


class Kill(NamedTuple):
    """Of one process, at a share of the time."""

    share: float
    what: str


KILLS = (Kill(0.1, A_WORKER), Kill(0.25, A_TASK_MANAGER), Kill(0.875, A_WORKER), Kill(0.95, A_TASK_MANAGER))
UNDISTURBED = (0.3, 0.875)
"""The share of the time in which memory and state have to be flat: long, and without a process that begins anew."""


def kill(what: str, cluster: FlinkCluster) -> None:
    """Kill one of these."""
    if what == A_TASK_MANAGER:
        cluster.kill_task_manager()
    else:
        os.kill(random.choice([number for number, kind in processes() if kind == WORKER]), signal.SIGKILL)
