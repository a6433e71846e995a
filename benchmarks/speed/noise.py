"""Nanoseconds per discrete Gaussian sample, this package against OpenDP: ``python -m benchmarks.speed.noise``.

The parameters are those that releases draw, in steps of their noise grid: sigma 1,044 or 2,044 for `Record` and
`RecordBounds`, 0.5 to 5.4 million for `NormBound`. The sizes are a sketch of 5 x 4,096 counters and 10,000,000
counters. Both draw from the operating system's randomness in one process and one run, on int64 vectors. The first draw
builds the tables. Times are processor time.
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

SIGMAS = (1_044, 2_044, 1_000_000)
# A sketch is drawn many times, because a single draw is too short for the clock.
DRAWS = {5 * 4096: 50, 10_000_000: 1}
# OpenDP takes about 15 microseconds a sample.
OPENDP_SAMPLES = 20_000
REPETITIONS = 5


def nanoseconds(draw: Callable[[], object], samples: int, draws: int = 1) -> list[float]:
    """Processor time per sample of each repetition."""

    def repeatedly() -> None:
        for _ in range(draws):
            draw()

    return [1e9 * seconds(repeatedly) / samples / draws for _ in range(REPETITIONS)]


def main() -> None:
    """Print one line per sigma and number of samples."""
    command = Command(__file__, __doc__, "numpy", "opendp")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    zeros = np.zeros(OPENDP_SAMPLES, dtype=np.int64)
    with command.writing(
        command.parse_args(),
        "Seeds: none, both samplers use the operating system's randomness",
        f"OpenDP: {OPENDP_SAMPLES:,} samples; {REPETITIONS} repetitions",
        "Nanoseconds per sample: median (range); ratio of the medians",
    ):
        heads = ("sigma", "samples", "first draw, ms", "beam_dpsketch", "OpenDP", "ratio")
        table = Table(None, heads, (-11, -12, -16, -18, -28, -7), bar=0)
        for sigma in SIGMAS:
            mechanism = partial(dp.m.make_gaussian(*space, scale=float(sigma)), zeros)
            mechanism()
            theirs = nanoseconds(mechanism, OPENDP_SAMPLES)
            for samples, draws in DRAWS.items():
                draw = partial(discrete_gaussian.sample, samples, Fraction(sigma) ** 2)
                first = 1000 * seconds(draw)
                ours = nanoseconds(draw, samples, draws)
                ratio = statistics.median(theirs) / statistics.median(ours)
                table.row(f"{sigma:,}", f"{samples:,}", f"{first:.1f}", spread(ours), spread(theirs), f"{ratio:.0f}")


if __name__ == "__main__":
    main()
