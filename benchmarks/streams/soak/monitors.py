"""What is measured while the stream runs: memory of each process, checkpoints, load. Needs Linux (`/proc`)."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.streams.soak.source import SOURCE
from tests.engines.flink import FlinkCluster

PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
JOB_MANAGER, JOB_SERVER, TASK_MANAGER, WORKER = "job manager", "job server", "task managers", "workers"
_MAINS = {
    "StandaloneSessionClusterEntrypoint": JOB_MANAGER,
    "FlinkJobServerDriver": JOB_SERVER,
    "TaskManagerRunner": TASK_MANAGER,
    "tests.engines.worker": WORKER,
}
EVERY = 5.0


def processes() -> Iterator[tuple[int, str]]:
    """The processes of the cluster, with what each of them is: those that this one, or one of its own, has started."""
    group = os.getpgrp()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it may end meanwhile
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            found = next((kind for main, kind in _MAINS.items() if any(each.endswith(main) for each in words)), None)
            if found is not None and os.getpgid(int(folder.name)) == group:
                yield int(folder.name), found


class Monitors:
    """Writes a line of JSON every few seconds.

    A line has `time`; `memory`, the resident bytes of each process by what it is and its number; `heap`, the bytes in
    use on the heaps of the task managers; `cores` of this cluster and `others`, how many cores each kept busy since the
    line before; `checkpoints`, those that were completed since; `counts` of all; and `disk`, the bytes of their files.
    """

    def __init__(self, cluster: FlinkCluster, path: Path) -> None:
        self._cluster, self._path = cluster, path
        self._seen: set[int] = set()
        self._ours: dict[int, float]
        self._last, self._ours, self._all = time.monotonic(), {}, _machine_seconds()
        self.next = time.monotonic()

    def sample(self) -> None:
        """Write a line if it is time for one."""
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY
        alive = dict(processes())
        memory: dict[str, dict[int, int]] = {}
        for number, kind in alive.items():
            with contextlib.suppress(OSError):
                resident = int(Path(f"/proc/{number}/statm").read_text().split()[1]) * PAGE
                memory.setdefault(kind, {})[number] = resident
        line = {"time": time.time(), "memory": memory, **self._cores(alive), **self._of_flink()}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _cores(self, alive: Iterable[int]) -> dict[str, float]:
        """Return what the processes of the cluster, and all others, took since the last time."""
        now, ours, everything = time.monotonic(), _seconds_of(alive), _machine_seconds()
        mine = sum(taken - self._ours.get(number, 0.0) for number, taken in ours.items())
        others, passed = everything - self._all - mine, now - self._last
        self._last, self._ours, self._all = now, ours, everything
        return {"cores": mine / passed, "others": max(others, 0.0) / passed}

    def _of_flink(self) -> dict[str, Any]:
        answer = self._cluster.checkpoints()
        new = [
            {
                "time": each["trigger_timestamp"] / 1e3,
                "bytes": each["state_size"],
                "seconds": each["end_to_end_duration"] / 1e3,
                **self._parts(each["id"]),
            }
            for each in answer.get("history", ())
            if each["status"] == "COMPLETED" and each["id"] not in self._seen
        ]
        self._seen |= {each["id"] for each in answer.get("history", ()) if each["status"] == "COMPLETED"}
        return {
            "checkpoints": new,
            "counts": answer.get("counts", {}),
            "heap": self._heap(),
            "disk": _size(self._cluster.folder / "checkpoints"),
        }

    def _parts(self, number: int) -> dict[str, int]:
        """Bytes of a checkpoint that are of the source, and of all other steps; nothing if Flink does not answer."""
        with contextlib.suppress(OSError, KeyError, IndexError):
            (job,) = (each["jid"] for each in self._cluster.get("jobs/overview")["jobs"] if each["end-time"] < 0)
            steps = {each["id"]: each["name"] for each in self._cluster.get(f"jobs/{job}")["vertices"]}
            tasks = self._cluster.get(f"jobs/{job}/checkpoints/details/{number}")["tasks"]
            total = sum(each["state_size"] for each in tasks.values())
            source = sum(each["state_size"] for step, each in tasks.items() if SOURCE in steps[step])
            return {"source": source, "others": total - source}
        return {}

    def _heap(self) -> int | None:
        """Bytes in use on the heaps of all task managers; nothing if one does not answer."""
        with contextlib.suppress(OSError, KeyError, IndexError):
            managers = self._cluster.get("taskmanagers")["taskmanagers"]
            name = "Status.JVM.Memory.Heap.Used"
            return sum(
                int(self._cluster.get(f"taskmanagers/{each['id']}/metrics?get={name}")[0]["value"]) for each in managers
            )
        return None


def _seconds_of(alive: Iterable[int]) -> dict[int, float]:
    """Processor seconds of each process."""
    found = {}
    for number in alive:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
            found[number] = (int(fields[11]) + int(fields[12])) / TICKS
    return found


def _machine_seconds() -> float:
    """Processor seconds of the whole machine: of users, at low priority, and of the system."""
    return sum(map(int, Path("/proc/stat").read_text().split()[1:4])) / TICKS


def _size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total
