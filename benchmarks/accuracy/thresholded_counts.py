"""Accuracy of thresholded counts of text: ``python -m benchmarks.accuracy.thresholded_counts``.

Two things are measured, with no candidate lists, ADD_OR_REMOVE_ONE, a unit is one record:
  text      the single words, and the pairs and triples of words that follow each other, of Python's manual
            (`pydoc_data.topics`) and of the docstrings of its library: F1@20 and F1@100 (the overlap of the items found
            with the K most frequent), how many items were found, how many of them never occur, and the mean error of
            the counts of the 100 largest, of `Thresholding(delta=1e-8)`; next to it the mean of |noise| of a count that
            all of rho pays for, over 100,000 draws: no method can have less
  coverage  of 95 % intervals of thresholded counts and the mean of estimate - truth in sigmas, of items whose true
            count is below T + sigma, and of all released items, on counts like 1/rank and on equally many of each count
Takes about a minute.
"""

from __future__ import annotations

import itertools
import math
import os
import pathlib
import re
import statistics
from collections import Counter
from fractions import Fraction
from pydoc_data.topics import topics

import numpy as np

from beam_dpsketch import Frequencies, PrivacySpec, Record, TextDomain, Thresholding
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from benchmarks.accuracy.top_k import f1
from benchmarks.command import Command
from benchmarks.table import Bar, Table, mean

RHOS = (0.1, 1.0)
DELTA = Fraction(1, 10**8)
# The least F1@100 of groups for pairs of words at rho = 1, and how much worse than the noise alone counts may be.
F1_BAR, ERROR_BAR = 0.98, 1.1


def counting(domain: TextDomain, privacy: PrivacySpec) -> Counting:
    """How `PrivateTopK` with `method=Thresholding(DELTA)` releases single records."""
    declared = ReleaseSpec(ThresholdedCounts(domain, 1, Thresholding(DELTA)), privacy, Record())
    return Counting.of(declared.spec, declared.terms)


def noisy_counts(how: Counting, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Noisy counts in records, and which of them are released."""
    noisy, released = how.add_noise(counts)
    return noisy / (1 << how.note.scale_bits), released


def grouped(domain: TextDomain, privacy: PrivacySpec, counts: Counter[str]) -> Frequencies:
    """All rows of one release of thresholded counts."""
    how = counting(domain, privacy)
    noisy, released = noisy_counts(how, np.fromiter(counts.values(), dtype=np.int64))
    rows = [(item, value) for item, value, shown in zip(counts, noisy.tolist(), released, strict=True) if shown]
    return Frequencies(
        [item for item, _ in rows], *np.array([[value] * 3 for _, value in rows], dtype=float).T
    ).largest(len(rows))


def python_words() -> list[str]:
    """The words of the manual and the docstrings of the standard library that this Python comes with."""
    sources = [path.read_text(errors="ignore") for path in sorted(pathlib.Path(os.__file__).parent.glob("*.py"))]
    docstrings = [text for source in sources for text in re.findall(r'"""(.*?)"""', source, re.DOTALL)]
    return re.findall("[a-z]+", " ".join([*topics.values(), *docstrings]).lower())


def print_line(
    table: Table, name: str, answers: list[Frequencies], counts: Counter[str], alone: float | None = None
) -> None:
    """Print what searches find, as means and ranges over releases; there are bars if the noise alone is given."""
    top = [item for item, _ in counts.most_common(100)]
    scores = {k: [f1(answer.item[:k], top[:k]) for answer in answers] for k in (20, 100)}
    errors = [
        statistics.fmean(abs(row.estimate - counts[row.item]) for row in answer[:100]) if len(answer) else math.nan
        for answer in answers
    ]
    found = statistics.fmean(map(len, answers))
    false = statistics.fmean(sum(item not in counts for item in answer.item) for answer in answers)
    bars = []
    if alone is not None:
        bars = [Bar(statistics.fmean(scores[100]), ">=", F1_BAR)]
        bars.append(Bar(statistics.fmean(errors) / alone, "<=", ERROR_BAR, " alone"))
    shown = (mean(each, 3) for each in scores.values())
    table.row(f"  {name}", *shown, f"{found:,.0f}", f"{false:.1f}", mean(errors, 2), bars=bars)


def text(seeds: int) -> None:
    """Frequent phrases."""
    words = python_words()
    for size, max_bytes in ((1, 16), (2, 24), (3, 32)):
        phrases = [" ".join(each) for each in zip(*(words[start:] for start in range(size)), strict=False)]
        domain = TextDomain(max_bytes)
        phrases = [phrase.encode()[:max_bytes].decode() for phrase in phrases]  # what counts
        counts = Counter(phrases)
        last = counts.most_common(100)[-1][1]
        print(f"\n{size}-grams: {len(phrases):,}, {len(counts):,} different; the 100th occurs {last} times;")
        print(f"TextDomain({max_bytes}), {seeds} releases. Mean (range).")
        for rho in RHOS:
            privacy = PrivacySpec(rho=rho, summary_counts=None)
            alone = float(np.abs(noisy_counts(counting(domain, privacy), np.zeros(100_000, dtype=np.int64))[0]).mean())
            heads = ("", "F1@20", "F1@100", "found", "never", "error of the 100 largest")
            table = Table(f"rho {rho:g}; noise alone: {alone:.2f}", heads, (12, 25, 25, 9, 8, 27), bar=22)
            groups = [grouped(domain, privacy, counts) for _ in range(seeds)]
            print_line(table, "groups", groups, counts, alone if (size, rho) == (2, 1.0) else None)


def like_ranks(sigma: float, threshold: int) -> np.ndarray:
    """Counts in proportion to 1/rank, the largest 60 times the threshold."""
    return (60 * threshold / np.arange(1, 200 * threshold)).astype(np.int64)


def equally_many(sigma: float, threshold: int) -> np.ndarray:
    """Twenty items of each count up to 9 sigma above the threshold."""
    return np.repeat(np.arange(1, threshold + round(9 * sigma)), 20)


def coverage(draws: int) -> None:
    """How often intervals of released rows hold, near the threshold and everywhere."""
    heads = ("", "T", "near T: high by (sigmas)", "covered", "all rows: high by", "covered")
    table = Table(f"95 % intervals of released rows; {draws} releases a line.", heads, (18, 7, 26, 11, 19, 9), bar=0)
    for rho in (0.001, 0.01, 0.1):
        how = counting(TextDomain(8), PrivacySpec(rho=rho))
        parameter, threshold = how.items.parameter, math.ceil(how.note.least_count)
        sigma, margin = math.sqrt(parameter), how.terms.noise.margin(parameter, 0.95, how.note.scale_bits)
        for name, law in (("1/rank", like_ranks), ("equal", equally_many)):
            truth = np.tile(law(sigma, threshold), draws)
            truth = truth[truth > 0]
            noisy, released = noisy_counts(how, truth)
            error, near = (noisy - truth)[released], (truth < threshold + sigma)[released]
            pairs = (
                (f"{each.mean() / sigma:+.2f}", f"{(np.abs(each) <= margin).mean():.3f}")
                for each in (error[near], error)
            )
            table.row(f"rho {rho:g}, {name}", str(threshold), *itertools.chain(*pairs))


def main() -> None:
    """Print both tables."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--seeds", 8, "releases of the text")
    command.number("--draws", 40, "releases for coverage")
    arguments = command.parse_args()
    with command.writing(
        arguments, f"delta = {float(DELTA):g}, ADD_OR_REMOVE_ONE, unit: a record.", "Noise from the operating system."
    ):
        text(arguments.seeds)
        coverage(arguments.draws)


if __name__ == "__main__":
    main()
