"""How good private top-K lists without candidates are: ``python -m benchmarks.accuracy.top_k --trace FILE``.

F1 is the overlap of the items found with the K most frequent, 2 |both| / (|found| + K). Measured are IPv4 addresses of
slices of 100,000 consecutive rows (at equal steps, so they may overlap) of a Parquet or CSV file, with
`TreeSpec.for_memory(arity=16, leaf_share=1/2)`; next to F1@10 that in which items count as correct if their true
frequency is at most three standard deviations of an estimate below the tenth largest. Memory 490,000 bytes at 4 bytes a
counter; REPLACE_ONE, a unit is one record, all of rho in the tree. Takes a minute. `thresholded_counts` measures text.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from statistics import NormalDist

from beam_dpsketch import (
    REPLACE_ONE,
    DyadicCountSketch,
    Frequencies,
    IPv4Domain,
    PrivacySpec,
    ReleaseTerms,
    TreeSpec,
    release,
)
from benchmarks.command import Command
from benchmarks.ordered_data import trace_slices
from benchmarks.table import Bar, Table, mean

ITEMS = 100_000
RHOS = (0.1, 1.0, 10.0)
MEMORY = 490_000
CONFIDENCE = 0.95
# The least mean F1 at rho = 1.
TRACE_BAR, NEAR_BAR = 0.93, 0.98


def f1(found: Collection[str], correct: Collection[str]) -> float:
    """The overlap of two lists."""
    return 2 * len(set(found) & set(correct)) / (len(found) + len(correct))


def near_f1(answer: Frequencies, counts: Counter[str], k: int) -> float:
    """F1 in which items within three standard deviations of the k-th largest frequency are correct."""
    least = counts.most_common(k)[-1][1]
    correct = 0
    for frequency in answer:
        deviation = (frequency.upper - frequency.estimate) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
        correct += counts[frequency.item] >= least - 3 * deviation
    return 2 * correct / (len(answer) + k)


def trace(path: str, column: str, slices: int) -> None:
    """Frequent addresses, one data set per slice."""
    found: dict[tuple[float, str], list[float]] = {}
    for seed, positions in enumerate(trace_slices(path, column, ITEMS, slices)):
        spec = TreeSpec.for_memory(IPv4Domain(), MEMORY, arity=16, leaf_share=Fraction(1, 2), seed=seed)
        sketch = DyadicCountSketch(spec).accumulate(positions)
        counts = Counter(IPv4Domain().values(positions))
        for rho in RHOS:
            released = release(sketch, ReleaseTerms(PrivacySpec(rho=rho, relation=REPLACE_ONE)))
            for k in (10, 100):
                answer = released.top_k(k, confidence=CONFIDENCE)
                correct = [address for address, _ in counts.most_common(k)]
                values = found.setdefault((rho, f"F1@{k}"), [])
                values.append(f1(answer.item, correct))
                if k == 10:
                    found.setdefault((rho, "F1@10, near ones correct"), []).append(near_f1(answer, counts, k))
    limits = {"F1@10": TRACE_BAR, "F1@10, near ones correct": NEAR_BAR}
    table = Table(f"Trace: {slices} slices of {ITEMS:,} rows", ("", "mean (range)"), (38, 26))
    for (rho, name), values in found.items():
        bars = [Bar(statistics.fmean(values), ">=", limits[name])] if rho == 1 and name in limits else []
        table.row(f"  {name}, rho {rho:g}", mean(values, 3), bars=bars)


def main() -> None:
    """Print the table."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.trace()
    command.number("--slices", 12, "slices of the trace")
    arguments = command.parse_args()
    if not arguments.trace:
        command.error("--trace FILE is required")
    with command.writing(
        arguments,
        f"No candidate lists. {MEMORY:,} bytes, REPLACE_ONE, unit: a record.",
        "Hash seeds: the numbers of the slices, from 0. Noise from the operating system.",
    ):
        trace(arguments.trace, arguments.column, arguments.slices)


if __name__ == "__main__":
    main()
