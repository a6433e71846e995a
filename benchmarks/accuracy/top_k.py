"""How good private top-K lists without candidates are: ``python -m benchmarks.accuracy.top_k [--trace FILE]``.

F1 is the overlap of the items found with the K most frequent, 2 |both| / (|found| + K). Two things are measured:
  text   the words of Python's manual (`pydoc_data.topics`) and of the docstrings of its library, with `TextDomain(16)`:
         F1@20 and F1@100, how many words were found, how many of them never occur, and the mean error of the found
         words' counts; beside it the same search that subtracts nothing ("as read"), and the mean error of the 200 most
         frequent words if nothing but noise were in the counters
  trace  (with --trace FILE --column NAME) IPv4 addresses of slices of 100,000 consecutive rows (at equal steps, so they
         may overlap) of a Parquet or CSV file, with `TreeSpec.for_memory(arity=16, leaf_share=1/2)`; beside F1@10
         that in which items count as correct if their true frequency is at most three standard deviations of an
         estimate below the tenth largest
Memory 490,000 bytes at 4 bytes a counter, of the text also 100,000; REPLACE_ONE, a unit is one record (one word), all
of rho in the tree. Takes about three minutes.
"""

from __future__ import annotations

import copy
import math
import os
import pathlib
import re
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction
from pydoc_data.topics import topics
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from beam_dpsketch import (
    REPLACE_ONE,
    DyadicCountSketch,
    Frequencies,
    IPv4Domain,
    PrefixSpec,
    PrefixTree,
    PrivacySpec,
    ReleasedPrefixTree,
    ReleaseTerms,
    TextDomain,
    TreeSpec,
    release,
)
from beam_dpsketch.estimators.tree import prefix_search
from beam_dpsketch.estimators.tree.levels import median_variance
from benchmarks.command import Command
from benchmarks.ordered_data import trace_slices
from benchmarks.table import Bar, Table, mean

ITEMS = 100_000
RHOS = (0.1, 1.0, 10.0)
MEMORY, NARROW_MEMORY = 490_000, 100_000
WORDS = 20
CONFIDENCE = 0.95
# The least mean F1 at rho = 1.
TEXT_BAR, TRACE_BAR, NEAR_BAR = 0.9, 0.93, 0.98
# Of a search that subtracts: its mean error over that of one that does not, and found words that never occur.
ERROR_BAR, FALSE_BAR = 0.5, 0.0


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


def python_words() -> list[str]:
    """The words of the manual and the docstrings of the standard library that this Python comes with."""
    sources = [path.read_text(errors="ignore") for path in sorted(pathlib.Path(os.__file__).parent.glob("*.py"))]
    docstrings = [text for source in sources for text in re.findall(r'"""(.*?)"""', source, re.DOTALL)]
    return re.findall("[a-z]+", " ".join([*topics.values(), *docstrings]).lower())


class Found(NamedTuple):
    """What one search finds."""

    f1_20: float
    f1_100: float
    found: int
    false: int
    error: float
    covered: float


def searched(released: ReleasedPrefixTree, counts: Counter[str], *, subtracts: bool) -> Found:
    """What a search finds that subtracts what it found, or not."""
    if not subtracts:
        released = copy.copy(released)
        released._found = prefix_search.search(released.spec, released._levels, rounds=0)
    answer = released.heavy_hitters(0.0, CONFIDENCE)
    words = [frequency for frequency in answer if frequency.item not in answer.truncated]
    top = [word for word, _ in counts.most_common(100)]
    items = [frequency.item for frequency in words]
    return Found(
        f1(items[:WORDS], top[:WORDS]),
        f1(items[:100], top),
        len(words),
        sum(item not in counts for item in items),
        statistics.fmean(abs(frequency.estimate - counts[frequency.item]) for frequency in words),
        statistics.fmean(frequency.lower <= counts[frequency.item] <= frequency.upper for frequency in words),
    )


def noise_floor(released: ReleasedPrefixTree, words: list[str]) -> float:
    """The mean error of counts if no collision disturbed them: noise, averaged over the levels after the end."""
    spec = released.spec
    variance = median_variance(spec.depth) * float(released.privacy.sigma_squared_per_level[0])
    levels = [max(1, spec.domain.max_bytes - len(word)) for word in words]
    return statistics.fmean(math.sqrt(2 / math.pi * variance / count) for count in levels)


def text(seeds: int) -> None:
    """Frequent words, one release per seed."""
    words = python_words()
    counts = Counter(words)
    last, next_one = (counts.most_common(WORDS + 1)[place][1] for place in (WORDS - 1, WORDS))
    print(f"\nText: {len(words):,} words, {len(counts):,} different; the {WORDS}th occurs {last} times, the next")
    print(f"{next_one}; {seeds} releases. Mean (range); coverage is that of 95 % intervals of found words.")
    common = [word for word, _ in counts.most_common(200)]
    for memory in (MEMORY, NARROW_MEMORY):
        tree = PrefixTree(PrefixSpec.for_memory(TextDomain(16), memory)).accumulate(words)
        for rho in RHOS:
            privacy = PrivacySpec(rho=rho, relation=REPLACE_ONE, side_counters=None)
            releases = [release(tree, ReleaseTerms(privacy)) for _ in range(seeds)]
            title = f"{memory:,} bytes, rho {rho:g}; noise alone: {noise_floor(releases[0], common):.1f}"
            heads = ("", "F1@20", "F1@100", "found", "never occur", "error", "coverage")
            table = Table(title, heads, (15, 8, 8, 8, 22, 26, 11), bar=58)
            before, after = ([searched(each, counts, subtracts=how) for each in releases] for how in (False, True))
            print_search(table, "as read", before)
            print_search(table, "subtracting", after, demanded(before, after, memory) if rho == 1 else [])


def demanded(before: list[Found], after: list[Found], memory: int) -> list[Bar]:
    """What a search that subtracts must show."""
    read, subtracted = (Found(*np.mean(rows, axis=0)) for rows in (before, after))
    bars = [Bar(subtracted.f1_20, ">=", TEXT_BAR)]
    if memory == MEMORY:
        bars.append(Bar(subtracted.error / read.error, "<=", ERROR_BAR, " of that as read"))
        bars.append(Bar(subtracted.false * 200 / subtracted.found, "<=", FALSE_BAR, " of 200 never occur"))
    return bars


def print_search(table: Table, name: str, rows: list[Found], bars: Sequence[Bar] = ()) -> None:
    """Print the means."""
    f1_20, f1_100, found, false, errors, covered = zip(*rows, strict=True)
    shares = (f"{statistics.fmean(each):.3f}" for each in (f1_20, f1_100))
    counted = (f"{statistics.fmean(found):.0f}", mean(false, 2), mean(errors, 2))
    table.row(f"  {name}", *shares, *counted, f"{statistics.fmean(covered):.3f}", bars=bars)


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
    """Print both tables."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--seeds", 12, "releases of the text")
    command.trace()
    command.number("--slices", 12, "slices of the trace")
    arguments = command.parse_args()
    with command.writing(
        arguments,
        f"No candidate lists. {MEMORY:,} bytes, REPLACE_ONE, unit: a record.",
        "Hash seed of the text: 0; of the slices: their number, from 0. Noise from the operating system.",
    ):
        text(arguments.seeds)
        if arguments.trace:
            trace(arguments.trace, arguments.column, arguments.slices)


if __name__ == "__main__":
    main()
