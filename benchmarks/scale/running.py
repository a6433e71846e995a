"""Runs the steps of a job on workers: each slot takes the next task as soon as it is free."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable

import numpy as np

from benchmarks.scale.jobs import Stage
from benchmarks.scale.scenarios import Machines

_MOST_TASKS = 1 << 18


@dataclasses.dataclass(frozen=True)
class Ran:
    """A step that ran.

    Attributes:
      stage: the step.
      slots: how many of its tasks could run at once.
      crowded: whether memory holds fewer of them than there are cores.
      shared: seconds that it takes if its tasks share all cores evenly.
      longest: seconds of its longest task.
      processing: seconds until all its tasks are done.
      network: seconds in which what it receives comes, at the worker to which most comes.
      memory: of the largest task, over that of a worker.
    """

    stage: Stage
    slots: int
    crowded: bool
    shared: float
    longest: float
    processing: float
    network: float
    memory: float

    @property
    def seconds(self) -> float:
        """How long it takes by the clock: receiving and processing overlap."""
        return max(self.processing, self.network)

    @property
    def limit(self) -> str:
        """What it waits for most."""
        if self.memory > 1:
            return "does not fit"
        bounds = {
            "cores": self.shared,
            "memory": self.stage.work / self.slots if self.crowded else 0.0,
            "one task": self.longest,
            "network": self.network,
        }
        return max(bounds, key=lambda name: bounds[name])


def run(stages: Iterable[Stage], machines: Machines) -> list[Ran]:
    """Run all steps, one after the other."""
    return [_run(stage, machines) for stage in stages]


def _run(stage: Stage, machines: Machines) -> Ran:
    fitting = min(machines.cores, int(machines.memory // stage.memory)) if stage.memory else machines.cores
    slots = machines.workers * max(1, fitting)
    network = 0.0
    if stage.received is not None:
        of_worker = stage.received.sum() / machines.workers
        network = max(float(of_worker), float(stage.received.max())) / machines.network
    return Ran(
        stage,
        slots,
        fitting < machines.cores,
        stage.work / machines.slots,
        float(stage.seconds.max()),
        makespan(stage.seconds, slots),
        network,
        stage.memory / machines.memory,
    )


def makespan(seconds: np.ndarray, slots: int) -> float:
    """Return when the last of some tasks is done, taken in their order; of very many, several as one."""
    if len(seconds) <= slots:
        return float(seconds.max())
    size = -(-len(seconds) // _MOST_TASKS)
    grouped = np.add.reduceat(seconds, np.arange(0, len(seconds), size))
    free = [0.0] * slots
    for task in grouped.tolist():
        heapq.heapreplace(free, free[0] + task)
    return max(free)
