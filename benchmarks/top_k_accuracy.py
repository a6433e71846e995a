"""How good private top-K lists without candidates are: ``python -m benchmarks.top_k_accuracy [--trace FILE]``.

F1 is the overlap of the items found with the K most frequent, 2 |both| / (|found| + K). Two things are measured:
  text   the 20 most frequent words of the manual in Python's `pydoc_data.topics`, with `TextDomain(16)`
  trace  (with --trace FILE --column NAME) IPv4 addresses of slices of 100,000 consecutive rows (at equal steps, so they
         may overlap) of a Parquet or CSV file, with `TreeSpec.for_memory(arity=16, leaf_share=1/2)`; beside F1@10
         that in which items count as correct if their true frequency is at most three standard deviations of an
         estimate below the tenth largest
Memory 490,000 bytes at 4 bytes a counter, REPLACE_ONE, a unit is one record (one word). Takes about 20 seconds.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections import Counter
from collections.abc import Collection
from fractions import Fraction
from pydoc_data.topics import topics
from statistics import NormalDist

from beam_dpsketch import (
    REPLACE_ONE,
    DyadicCountSketch,
    Frequencies,
    IPv4Domain,
    PrefixSpec,
    PrefixTree,
    PrivacySpec,
    ReleaseTerms,
    TextDomain,
    TreeSpec,
    release,
)
from benchmarks.measuring import environment
from benchmarks.ordered_data import trace_slices

ITEMS = 100_000
RHOS = (0.1, 1.0, 10.0)
MEMORY = 490_000
WORDS = 20
CONFIDENCE = 0.95
# The least mean F1 at rho = 1.
TEXT_BAR, TRACE_BAR, NEAR_BAR = 0.9, 0.93, 0.98


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


def line(name: str, values: list[float], bar: float | None) -> None:
    """Print mean, range and bar."""
    mean = statistics.fmean(values)
    shown = f"{mean:.3f} ({min(values):.2f} to {max(values):.2f})"
    met = "-" if bar is None else "yes" if mean >= bar else "NO"
    print(f"  {name:<36}{shown:<24}{'-' if bar is None else f'>= {bar}':<9}{met}")


def text(seeds: int) -> None:
    """Frequent words, one release per seed."""
    words = re.findall("[a-z]+", " ".join(topics.values()).lower())
    counts = Counter(words)
    correct = [word for word, _ in counts.most_common(WORDS)]
    last, next_one = (counts.most_common(WORDS + 1)[place][1] for place in (WORDS - 1, WORDS))
    print(f"\nText: {len(words):,} words, {len(counts):,} different; the {WORDS}th occurs {last} times, the next")
    print(f"{next_one}; {seeds} releases")
    spec = PrefixSpec.for_memory(TextDomain(16), MEMORY)
    tree = PrefixTree(spec).accumulate(words)
    for rho in RHOS:
        values = []
        for _ in range(seeds):
            released = release(tree, ReleaseTerms(PrivacySpec(rho=rho, relation=REPLACE_ONE)))
            values.append(f1(released.top_k(WORDS).item, correct))
        line(f"F1@{WORDS}, rho {rho:g}", values, TEXT_BAR if rho == 1 else None)


def trace(path: str, column: str, slices: int) -> None:
    """Frequent addresses, one data set per slice."""
    print(f"\nTrace: {slices} slices of {ITEMS:,} rows")
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
    bars = {"F1@10": TRACE_BAR, "F1@10, near ones correct": NEAR_BAR}
    for (rho, name), values in found.items():
        line(f"{name}, rho {rho:g}", values, bars.get(name) if rho == 1 else None)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12, help="releases of the text (default: %(default)s)")
    parser.add_argument("--trace", help="Parquet or CSV file with IPv4 addresses, dotted or integers")
    parser.add_argument("--column", default="source_ip", help="column of the addresses (default: %(default)s)")
    parser.add_argument("--slices", type=int, default=12, help="slices of the trace (default: %(default)s)")
    arguments = parser.parse_args()
    print(environment("numpy", "beam-dpsketch"))
    print(f"No candidate lists. {MEMORY:,} bytes, REPLACE_ONE, unit: a record. Mean F1 (range), bar, met.")
    print("Hash seed of the text: 0; of the slices: their number, from 0. Noise from the operating system.")
    text(arguments.seeds)
    if arguments.trace:
        trace(arguments.trace, arguments.column, arguments.slices)


if __name__ == "__main__":
    main()
