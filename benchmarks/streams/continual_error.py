"""Error of answers over time, against theory and the least possible: ``python -m benchmarks.streams.continual_error``.

Every window is empty, so that answers are errors: in a linear sketch they do not depend on the data. Errors are root
mean squares in units of Delta / sqrt(2 rho), Delta the sensitivity of one sketch. They are over all prefixes (of 8,760
windows each ninth), about 100 single windows and 100 ranges. "When its window closes" asks each question as soon as it
can be asked, "at the end" with all rows. "Independent noise" releases each window for the whole rho. "5 windows" are
prefixes where a privacy id reaches five windows instead of one. No unbiased linear mechanism has prefixes below the
lower bound: the nuclear norm of the matrix that adds up prefixes, over the number of windows. Takes a minute.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from beam_dpsketch.answers.estimators.over_time import RootDecoder, decoder_of
from beam_dpsketch.privacy.noise.drawing import add_noise
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.lengths import RowEncoder
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from benchmarks.command import Command
from benchmarks.measuring import seconds
from benchmarks.table import Table

HORIZONS = (64, 365, 1024, 8760)
MAX_BOUNDED = 1024
"""Up to here the lower bound is computed: it takes the singular values of a dense matrix."""
PREFIXES, WINDOWS, RANGES = 1024, 100, 100
SCALE = 1 << 20
"""Sigma^2 of a release of one window for the whole rho: the unit of errors, squared."""
CELLS, TIMED_NOISE = 5 * 2048, 20

Questions = dict[str, list[tuple[int, int]]]
Read = Callable[[int, int], tuple[np.ndarray, float]]


def evenly(windows: int, count: int) -> range:
    """About this many windows; an odd step meets all places in a tree equally often."""
    return range(0, windows, math.ceil(windows / count) | 1)


def questions(windows: int) -> Questions:
    """The first and the last window of what is asked, by kind."""
    ends = np.sort(np.random.default_rng(windows).integers(0, windows, (RANGES, 2)), axis=1)
    return {
        "prefixes": [(0, last) for last in evenly(windows, PREFIXES)],
        "one window": [(window, window) for window in evenly(windows, WINDOWS)],
        "ranges": [(first, last) for first, last in ends.tolist()],
    }


def rows_of(mechanism: RowMechanism, columns: int) -> list[np.ndarray]:
    """All noisy rows of empty windows."""
    empty, noise = np.zeros(columns, dtype=np.int64), Fraction(SCALE * mechanism.squared_length)
    return [add_noise(empty, noise).astype(np.float64) for _ in range(mechanism.row_count)]


def reader(mechanism: RowMechanism, rows: Sequence[np.ndarray], *, at_end: bool) -> Read:
    """Return what reads the error of a range, one for each column, and its variance in theory."""
    decoder = decoder_of(mechanism, rows.__getitem__)

    def read(first: int, last: int) -> tuple[np.ndarray, float]:
        coefficients = np.zeros(mechanism.windows if at_end else last + 1)
        coefficients[first : last + 1] = 1.0
        return decoder.estimate(coefficients), decoder.variance(coefficients)

    return read


def independent(windows: int, columns: int) -> Read:
    """Return the same for independent noise."""
    noise = add_noise(np.zeros((windows, columns), dtype=np.int64), Fraction(SCALE))
    sums = np.concatenate([np.zeros((1, columns)), np.cumsum(noise, axis=0, dtype=np.float64)])
    return lambda first, last: (sums[last + 1] - sums[first], last + 1.0 - first)


def methods(windows: int, columns: int) -> Iterator[tuple[str, Read, float]]:
    """Name, reader, and how much more noise five windows take, of each method."""
    binned, tree = BinnedRoot.over(windows), BinaryTree(windows)
    yield (
        "binned square root",
        reader(binned, rows_of(binned, columns), at_end=True),
        math.sqrt(binned.squared_reach(5)),
    )
    rows, reach = rows_of(tree, columns), math.sqrt(tree.squared_reach(5))
    yield "binary tree, at the end", reader(tree, rows, at_end=True), reach
    yield "binary tree, when its window closes", reader(tree, rows, at_end=False), reach
    yield "independent noise", independent(windows, columns), math.sqrt(5)


def errors(read: Read, asked: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The root mean square error, measured and in theory."""
    found = [read(*ends) for ends in asked]
    measured = np.mean([np.square(error).mean() for error, _ in found]) / SCALE
    return math.sqrt(measured), math.sqrt(np.mean([variance for _, variance in found]))


def lower_bound(windows: int) -> float:
    """The least root mean square error of prefixes, by the singular values of the matrix that adds them up."""
    return float(np.linalg.svd(np.tril(np.ones((windows, windows))), compute_uv=False).sum()) / windows


def print_errors(table: Table, windows: int, columns: int) -> None:
    """One line for each method."""
    asked = questions(windows)
    bound = lower_bound(windows) if windows <= MAX_BOUNDED else None
    for name, read, reach in methods(windows, columns):
        found = {kind: errors(read, ends) for kind, ends in asked.items()}
        (measured, theory) = found["prefixes"]
        shown = (f"{one:>8.2f}{other:>8.2f}" for one, other in found.values())
        over = "-" if bound is None else f"{theory / bound:.3f}"
        table.row(f"{windows}", f"  {name}", *shown, f"{measured / theory:.3f}", f"{theory * reach:.2f}", over)
    if bound is not None:
        table.row(f"{windows}", "  lower bound", f"{bound:.2f}")


def cost(windows: int) -> tuple[str, ...]:
    """How many sums are in memory, and milliseconds a window."""
    mechanism, generator = BinnedRoot.over(windows), np.random.default_rng(0)
    exact, noisy = generator.integers(0, 1000, (8, CELLS)), generator.normal(0, 1e9, (8, CELLS))
    encoder, noise, sums = RowEncoder(mechanism), Fraction(10 * mechanism.squared_length), [0, 0]
    decoder = RootDecoder(mechanism, lambda number: noisy[number % 8])

    def encode() -> None:
        for window in range(windows):
            for _ in encoder.push(exact[window % 8]):
                sums[0] = max(sums[0], len(encoder._sums))

    def draw() -> None:
        for number in range(TIMED_NOISE):
            add_noise(exact[number % 8], noise)

    def decode() -> None:
        for window in range(windows):
            decoder.estimate(np.append(np.zeros(window), 1.0))
            sums[1] = max(sums[1], len(decoder._sums))

    times = [
        seconds(run, time.perf_counter) / count
        for run, count in ((encode, windows), (draw, TIMED_NOISE), (decode, windows))
    ]
    return (*map(str, sums), f"{8e-6 * CELLS * max(sums):.1f}", *(f"{1e3 * each:.2f}" for each in times))


def main() -> None:
    """Print one line for each method and horizon, then what rows cost."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--columns", 2000, "independent repetitions; a quarter of them at 8,760")
    arguments = command.parse_args()
    columns = arguments.columns
    with command.writing(
        arguments,
        f"Noise from the operating system; {columns:,} columns, each a repetition; {columns // 4:,} at 8,760 windows",
        "Errors in units of Delta / sqrt(2 rho), measured and in theory; unit of privacy: one record",
    ):
        heads = ("windows", "  method", "prefixes", "one window", "ranges", "prefixes, ratio", "5 windows", "/ bound")
        table = Table(None, heads, (-9, 40, -18, -18, -18, -17, -12, -9), bar=0)
        for windows in HORIZONS:
            print_errors(table, windows, columns if windows <= MAX_BOUNDED else columns // 4)
        title = "Rows of the binned square root for a sketch of 5 x 2,048: sums in memory, and milliseconds a window"
        table = Table(title, ("windows", "encoder", "decoder", "MB", "encode", "noise", "decode"), (-9,), bar=0)
        for windows in HORIZONS[2:]:
            table.row(f"{windows}", *cost(windows))


if __name__ == "__main__":
    main()
