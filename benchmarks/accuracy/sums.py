"""Compare one-sided sums with sums of their own noise each: ``python -m benchmarks.accuracy.sums``.

A release of statistics has one noise for all of its sums. The peer has a part of what is spent for each: a count and a
sum of distances from the middle, with 2/5 and 3/5; with squares of the distances these share 9/10. It is simulated in
numpy, with continuous noise. Both sides protect single records, of numbers from 0 to 1 in steps of 1/200 with 4 shapes
and 4 sizes: these are 16 cases, each the same numbers in all releases. A figure is the root of the mean squared error.
Where there is no more than one record by the noisy count, the middle stands for a mean, and 1/12 for a variance.
  laplace   epsilon 1, by Laplace noise.
  gaussian  epsilon 1 at delta 1e-6, by Gaussian noise.
It takes about 2 minutes.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from beam_dpsketch import FloatDomain, PrivacySpec, RecordBounds, ReleaseTerms
from beam_dpsketch.answers import batch
from beam_dpsketch.exact.sketches.statistics import NumberSums, StatisticsSpec
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.noising import Part, release_parts
from beam_dpsketch.privacy.contributions import PrivacyUnit
from benchmarks.accuracy.noise_peers.promises import gaussian_scale
from benchmarks.command import Command
from benchmarks.table import Bar, Table

EPSILON, DELTA, STEPS, SUM_SHARE, SQUARES_SHARE = 1.0, 1e-6, 200, 3 / 5, 1 / 10
SIZES = (5, 30, 300, 3000)
SHAPES = ("spread out", "near an end", "at both ends", "at one end")
ANSWERS = ("count", "mean", "total", "variance")
PROMISES: dict[str, dict[str, Any]] = {
    "laplace": {"epsilon": EPSILON, "noise": "laplace"},
    "gaussian": {"epsilon": EPSILON, "delta": DELTA, "noise": "gaussian"},
}
MEANS = {"laplace": dict(zip(ANSWERS, (0.6, 0.8, 0.7, 0.7), strict=True)), "gaussian": dict.fromkeys(ANSWERS, 1.12)}
WORST = {"laplace": dict(zip(ANSWERS, (0.65, 1.0, 0.8, 0.9), strict=True)), "gaussian": dict.fromkeys(ANSWERS, 1.12)}


def numbers_of(shape: str, size: int) -> np.ndarray:
    """Return numbers between 0 and 1, in steps."""
    generator = np.random.default_rng(size)
    drawn = {
        "spread out": generator.beta(2, 2, size),
        "near an end": generator.beta(1, 30, size),
        "at both ends": generator.integers(0, 2, size).astype(float),
        "at one end": np.ones(size),
    }[shape]
    return np.round(drawn * STEPS) / STEPS


def answers_of(count: np.ndarray, first: np.ndarray, squares: np.ndarray, lost: np.ndarray) -> dict[str, np.ndarray]:
    """Return the answers of noisy sums, arrays over releases.

    Args:
      count: the numbers of records.
      first: the sums of the numbers.
      squares: the sums of their squares.
      lost: the mean of n times the squared error of a mean, over n.
    """
    known, number = count > 1, np.maximum(count, 1)
    mean = np.clip(first / number, 0, 1)
    variance = (squares - 2 * mean * first + mean**2 * count + lost / number) / number
    return {
        "count": count,
        "total": first,
        "mean": np.where(known, mean, 0.5),
        "variance": np.where(known, np.clip(variance, 0, 0.25), 1 / 12),
    }


def ours(name: str, numbers: np.ndarray, variance: bool, releases: int) -> dict[str, np.ndarray]:
    """Return the answers of releases, by what they publish: counts, totals and counters."""
    spec = StatisticsSpec(FloatDomain(0, 1, 1 / STEPS), variance)
    privacy = PrivacySpec(**PROMISES[name], summary_counts=None)
    terms = ReleaseTerms(privacy, RecordBounds(1), privacy_unit=PrivacyUnit.PRIVACY_ID)
    part = Part(NumberSums(spec).accumulate(numbers), np.zeros(0, dtype=np.int64))
    made = [*batch.answers_of(release_parts([part] * releases, Calibration.of(spec, terms)))]
    count, first = (np.array([getattr(each, name)().estimate for each in made]) for name in ("count", "total"))
    squares = np.array([float(each.counters[0]) for each in made]) / spec.whole
    mean = np.clip(first / np.maximum(count, 1), 0, 1)
    parameter = float(made[0].privacy.sigma_squared_per_level[0])
    lost = parameter * sum((place - mean) ** 2 for place in (1.0, 0.5, 0.0))
    return answers_of(count, first, squares, lost)


def peer(name: str, numbers: np.ndarray, variance: bool, releases: int, seed: int) -> dict[str, np.ndarray]:
    """Return the answers of sums with noises of their own."""
    generator, rest = np.random.default_rng(seed), 1 - SQUARES_SHARE * variance
    distances = 2 * numbers - 1
    exact = len(numbers), distances.sum(), (2 * distances**2 - 1).sum()
    shares, sums, parameters = (rest * (1 - SUM_SHARE), rest * SUM_SHARE, SQUARES_SHARE), [], []
    for value, share in zip(exact, shares, strict=True):
        scale = 1 / (EPSILON * share) if name == "laplace" else gaussian_scale(EPSILON, DELTA) / math.sqrt(share)
        draw = generator.laplace if name == "laplace" else generator.normal
        sums.append(value + draw(0, scale, releases))
        parameters.append(scale**2 * (2 if name == "laplace" else 1))
    count, first, twice = sums
    total, squares = (first + count) / 2, ((twice + count) / 2 + 2 * first + count) / 4
    mean = np.clip(first / np.maximum(count, 1), -1, 1)
    return answers_of(count, total, squares, (parameters[1] + mean**2 * parameters[0]) / 4)


def compare(name: str, releases: int) -> None:
    """Print the errors of all cases, and ours over those of the peer."""
    table = Table(
        f"{name}: root mean squared errors of {releases:,} releases, ours and the peer's, and their ratio",
        ("", *ANSWERS),
        (26, 26),
        bar=40,
    )
    ratios: dict[str, list[float]] = {answer: [] for answer in ANSWERS}
    for case, (size, shape) in enumerate(itertools.product(SIZES, SHAPES)):
        numbers = numbers_of(shape, size)
        exact = dict(zip(ANSWERS, (size, numbers.mean(), numbers.sum(), numbers.var()), strict=True))
        cells = []
        for answer in ANSWERS:
            squares = answer == "variance"
            if squares or answer == "count":
                found = ours(name, numbers, squares, releases), peer(name, numbers, squares, releases, case)
            own, other = (math.sqrt(np.mean((each[answer] - exact[answer]) ** 2)) for each in found)
            ratios[answer].append(own / other)
            cells.append(f"{own:.3g}  {other:.3g}  {own / other:.2f}")
        table.row(f"{size:,} {shape}", *cells)
    for words, of, limits in (("geometric mean", _geometric, MEANS[name]), ("worst", max, WORST[name])):
        figures = {answer: of(each) for answer, each in ratios.items()}
        bars = [Bar(figures[answer], "<=", limits[answer]) for answer in ANSWERS]
        table.row(words, *(f"{figures[answer]:.2f}" for answer in ANSWERS), bars=bars)


def _geometric(values: list[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def main() -> None:
    command = Command(__file__, __doc__, parts=[*PROMISES])
    command.number("--releases", 2000, "releases of each case")
    arguments = command.parse_args()
    for part in arguments.parts or PROMISES:
        with command.writing(arguments, "numbers: fixed seeds; noise: operating system, the peer's fixed", part=part):
            compare(part, arguments.releases)


if __name__ == "__main__":
    main()
