"""What the benchmarks share: where they ran, medians with ranges, and slopes of interleaved runs."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

Run = Callable[[int], None]


def environment(*packages: str) -> str:
    """Python, the packages and the platform, in one line."""
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in packages)
    return f"Python {platform.python_version()}, {versions}, {platform.system()} {platform.machine()}"


def spread(values: Sequence[float], decimals: int = 0) -> str:
    """Median and range."""
    middle, low, high = statistics.median(values), min(values), max(values)
    return f"{middle:,.{decimals}f} ({low:,.{decimals}f} to {high:,.{decimals}f})"


def slopes(
    variants: Mapping[str, Run],
    sizes: tuple[int, int],
    repetitions: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Nanoseconds per element of each variant, one value per repetition: the slope between two sizes.

    Processor time of this process, all threads, which the load of other processes disturbs less than another clock.
    What a pipeline costs whatever its size cancels. In a repetition every variant runs once at both sizes, one
    after the other, so that values at the same place in the lists met the same load of the machine. The first run
    of each is a warm-up.
    """
    few, many = sizes
    times: dict[str, list[float]] = {name: [] for name in variants}
    for run in variants.values():
        run(few)
    for _ in range(repetitions):
        for name, run in variants.items():
            difference = _seconds(run, many, clock) - _seconds(run, few, clock)
            times[name].append(1e9 * difference / (many - few))
    return times


def ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio in each repetition."""
    return [ours / theirs for ours, theirs in zip(times, base, strict=True)]


def print_rates(title: str, times: Mapping[str, Sequence[float]]) -> None:
    """One line per variant, of nanoseconds per record; ratios are to the first."""
    base = next(iter(times.values()))
    print(title)
    for name, values in times.items():
        rates = [1e3 / value for value in values]
        print(f"  {name:<36}{spread(rates, 2):<32}{spread(values, 1):<30}{spread(ratios(values, base), 2)}", flush=True)


def _seconds(run: Run, size: int, clock: Callable[[], float]) -> float:
    start = clock()
    run(size)
    return clock() - start
