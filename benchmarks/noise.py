"""Nanoseconds per discrete Gaussian sample, this package against OpenDP: ``python -m benchmarks.noise``.

Both draw from the operating system's randomness in one process and one run, on int64 vectors; tables are
built before the clock starts, and the time that takes is printed.
The distribution is that of Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from importlib import metadata

import numpy as np
import opendp.prelude as dp

from beam_dpsketch.privacy import discrete_gaussian

SIGMAS = (1, 10, 100, 1000)
SAMPLES = 1_000_000
# OpenDP takes about 15 microseconds a sample.
OPENDP_SAMPLES = 20_000
REPETITIONS = 5


def nanoseconds(draw: Callable[[], object], samples: int) -> list[float]:
    """Time per sample of each repetition, after one warm-up."""
    draw()
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        draw()
        times.append((time.perf_counter_ns() - start) / samples)
    return times


def summary(times: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(times):,.0f} ({min(times):,.0f} to {max(times):,.0f})"


def main() -> None:
    """Print one line per sigma."""
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    zeros = np.zeros(OPENDP_SAMPLES, dtype=np.int64)
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in ("numpy", "opendp"))
    print(f"Python {platform.python_version()}, {versions}, {platform.system()} {platform.machine()}")
    print("Seeds: none, both samplers use the operating system's randomness")
    print(f"Samples: {SAMPLES:,} (beam_dpsketch), {OPENDP_SAMPLES:,} (OpenDP); {REPETITIONS} repetitions")
    print("Nanoseconds per sample: median (range); ratio of the medians")
    print(f"{'sigma':>6} {'tables, ms':>11} {'beam_dpsketch':>20} {'OpenDP':>28} {'ratio':>7}")
    for sigma in SIGMAS:
        sigma_squared = Fraction(sigma) ** 2
        start = time.perf_counter()
        discrete_gaussian.sample(0, sigma_squared)
        table_milliseconds = 1000 * (time.perf_counter() - start)
        mechanism = dp.m.make_gaussian(*space, scale=float(sigma))
        ours = nanoseconds(partial(discrete_gaussian.sample, SAMPLES, sigma_squared), SAMPLES)
        theirs = nanoseconds(partial(mechanism, zeros), OPENDP_SAMPLES)
        ratio = statistics.median(theirs) / statistics.median(ours)
        print(f"{sigma:>6} {table_milliseconds:>11.1f} {summary(ours):>20} {summary(theirs):>28} {ratio:>7.0f}")


if __name__ == "__main__":
    main()
