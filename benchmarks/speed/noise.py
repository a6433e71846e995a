"""Nanoseconds per discrete Gaussian sample, this package against OpenDP: ``python -m benchmarks.speed.noise``.

Both draw from the operating system's randomness in one process and one run, on int64 vectors; tables are
built before the clock starts, and the time that takes is printed. Times are processor time.
The distribution is that of Canonne, Kamath, Steinke 2020 (arXiv:2004.00010).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import opendp.prelude as dp

from beam_dpsketch.privacy.noise import discrete_gaussian
from benchmarks.command import Command
from benchmarks.measuring import seconds
from benchmarks.table import Table, spread

SIGMAS = (1, 10, 100, 1000)
SAMPLES = 1_000_000
# OpenDP takes about 15 microseconds a sample.
OPENDP_SAMPLES = 20_000
REPETITIONS = 5


def nanoseconds(draw: Callable[[], object], samples: int) -> list[float]:
    """Processor time per sample of each repetition, after one warm-up."""
    draw()
    return [1e9 * seconds(draw) / samples for _ in range(REPETITIONS)]


def main() -> None:
    """Print one line per sigma."""
    command = Command(__file__, __doc__, "numpy", "opendp")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    zeros = np.zeros(OPENDP_SAMPLES, dtype=np.int64)
    with command.writing(
        command.parse_args(),
        "Seeds: none, both samplers use the operating system's randomness",
        f"Samples: {SAMPLES:,} (beam_dpsketch), {OPENDP_SAMPLES:,} (OpenDP); {REPETITIONS} repetitions",
        "Nanoseconds per sample: median (range); ratio of the medians",
    ):
        heads = ("sigma", "tables, ms", "beam_dpsketch", "OpenDP", "ratio")
        table = Table(None, heads, (-7, -12, -22, -30, -8), bar=0)
        for sigma in SIGMAS:
            variance = Fraction(sigma) ** 2
            tables = 1000 * seconds(partial(discrete_gaussian.sample, 0, variance))
            mechanism = dp.m.make_gaussian(*space, scale=float(sigma))
            ours = nanoseconds(partial(discrete_gaussian.sample, SAMPLES, variance), SAMPLES)
            theirs = nanoseconds(partial(mechanism, zeros), OPENDP_SAMPLES)
            ratio = statistics.median(theirs) / statistics.median(ours)
            table.row(f"{sigma}", f"{tables:.1f}", spread(ours), spread(theirs), f"{ratio:.0f}")


if __name__ == "__main__":
    main()
