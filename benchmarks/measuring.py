"""What benchmarks of time and memory share: turns, slopes of two sizes, new processes, peak memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

Run = Callable[[int], object]
Clock = Callable[[], float]
Measured = TypeVar("Measured")


def seconds(run: Callable[[], object], clock: Clock = time.process_time) -> float:
    """How long it takes; by default processor time of this process, all threads, which others disturb less."""
    start = clock()
    run()
    return clock() - start


def seconds_of_children() -> float:
    """Processor time of all processes that this one has started and waited for."""
    times = os.times()
    return times.children_user + times.children_system


def in_turns(runs: Mapping[str, Callable[[], Measured]], repetitions: int) -> dict[str, list[Measured]]:
    """What each of them gives, once in each repetition: values at the same place met the same load of the machine."""
    found: dict[str, list[Measured]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            found[name].append(run())
    return found


def slopes(
    variants: Mapping[str, Run], sizes: tuple[int, int], repetitions: int, clock: Clock = time.process_time
) -> dict[str, list[float]]:
    """Nanoseconds per element of each variant, one value per repetition: the slope between two sizes.

    What a pipeline costs whatever its size cancels. The first run of each is a warm-up.
    """
    few, many = sizes
    for run in variants.values():
        run(few)

    def slope(run: Run) -> float:
        longer, shorter = (seconds(partial(run, size), clock) for size in (many, few))
        return 1e9 * (longer - shorter) / (many - few)

    return in_turns({name: partial(slope, run) for name, run in variants.items()}, repetitions)


def ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio in each repetition."""
    return [ours / theirs for ours, theirs in zip(times, base, strict=True)]


def in_new_process(module: str, *arguments: object) -> Any:
    """The JSON that a module prints in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{module}", *map(str, arguments)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def peak_megabytes() -> float:
    """Peak memory of this process so far; of Linux without what ru_maxrss inherits from the parent."""
    kilobytes = status("VmHWM")
    if kilobytes is None:
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return kilobytes * 1024 / 1e6


def status(name: str) -> float | None:
    """Kilobytes of this process, from Linux."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), None)
