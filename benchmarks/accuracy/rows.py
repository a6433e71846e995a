"""How the rows of a flat sketch are best read: ``python -m benchmarks.accuracy.rows``.

Data: 100,000 items, of Zipf laws (rank r in 1..65,535 with probability proportional to r^-a), uniform, or one item as
heavy as all the others. Asked are the items that occur and as many that do not, at most 20,000 of each. It prints:
  median         root mean square error of the median over the rows of a released CountSketch
  Huber / med.   that of its `estimate`, the Huber mean, as a share of the median's; the bar is 1.02
  coverage       share of items whose true frequency is in the 95 % interval, and half the interval's mean width
  centred / CS   the error of `estimate(items)` of a Count-Min, as a share of the CountSketch's
Takes half a minute.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountMin,
    CountSketch,
    PrivacySpec,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.privacy.contributions import NeighboringRelation
from benchmarks.command import Command
from benchmarks.table import Bar, Table

ITEMS, UNIVERSE, MOST_ASKED = 100_000, (1 << 16) - 1, 20_000
RHOS = (0.1, 1.0, 10.0)
BAR = 1.02
Data = Callable[[np.random.Generator], np.ndarray]


class Errors(NamedTuple):
    """Mean square errors of three readings of one release of each sketch, and what intervals of the second did."""

    median: float
    huber: float
    centred: float
    coverage: float
    half_width: float


def zipf(exponent: float) -> Data:
    """Items of a bounded Zipf law."""
    shares = np.arange(1, UNIVERSE + 1, dtype=np.float64) ** -exponent
    return lambda generator: generator.choice(UNIVERSE, ITEMS, p=shares / shares.sum())


def uniform(generator: np.random.Generator) -> np.ndarray:
    """Items that are all equally likely."""
    return generator.integers(0, UNIVERSE, ITEMS)


def one_heavy(generator: np.random.Generator) -> np.ndarray:
    """Items that are half of one kind and otherwise uniform."""
    return np.where(generator.random(ITEMS) < 0.5, 0, uniform(generator))


DATA: dict[str, Data] = {
    "Zipf 0.5": zipf(0.5),
    "Zipf 1": zipf(1.0),
    "Zipf 1.5": zipf(1.5),
    "uniform": uniform,
    "one heavy": one_heavy,
}


def asked(values: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Items that occur and others that do not, with how often."""
    items, counts = np.unique(values, return_counts=True)
    chosen = generator.permutation(len(items))[:MOST_ASKED]
    absent = np.arange(UNIVERSE, UNIVERSE + len(chosen))
    return np.append(items[chosen], absent), np.append(counts[chosen], np.zeros(len(absent), dtype=np.int64))


def measurements(
    data: Data, relation: NeighboringRelation, shape: SketchSpec, seeds: int
) -> Iterator[dict[float, Errors]]:
    """Errors by rho, for each seed."""
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        values = data(generator)
        items, counts = asked(values, generator)
        spec = dataclasses.replace(shape, seed=seed)
        signed = CountSketch(spec).accumulate(values)
        unsigned = CountMin(dataclasses.replace(spec, kind="count_min")).accumulate(values)
        yield {rho: errors(signed, unsigned, relation, rho, items, counts) for rho in RHOS}


def errors(
    signed: CountSketch,
    unsigned: CountMin,
    relation: NeighboringRelation,
    rho: float,
    items: np.ndarray,
    counts: np.ndarray,
) -> Errors:
    """Errors of one release of each sketch."""
    terms = ReleaseTerms(PrivacySpec(rho=rho, relation=relation))
    released = release(signed, terms)
    keys = signed.keys(signed.spec, items)
    rows = cells.read_rows(released.counters, keys, seed=signed.spec.seed, has_signs=True)
    found = released.interval(items)
    centred = release(unsigned, terms).estimate(items)
    median, huber, unbiased = (
        float(np.mean((each - counts) ** 2)) for each in (np.median(rows, axis=0), found.estimate, centred)
    )
    covered = float(np.mean((found.lower <= counts) & (counts <= found.upper)))
    return Errors(median, huber, unbiased, covered, float(np.mean(found.upper - found.lower)) / 2)


def main() -> None:
    """Print one line per distribution, relation and rho."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--depth", 5, "rows")
    command.number("--width", 2048, "columns")
    command.number("--seeds", 10, "how many data sets")
    arguments = command.parse_args()
    with command.writing(
        arguments,
        f"N = {ITEMS:,}, {arguments.depth} x {arguments.width} counters, unit: a record",
        f"Seeds: 0 to {arguments.seeds - 1} for data and hash; noise from the operating system. Means over seeds.",
    ):
        table = Table(None, ("", "median", "Huber / med.", "coverage", "half width", "centred / CS"), (39, -14))
        shape = SketchSpec(depth=arguments.depth, width=arguments.width)
        for name, data in DATA.items():
            for relation in (ADD_OR_REMOVE_ONE, REPLACE_ONE):
                by_seed = list(measurements(data, relation, shape, arguments.seeds))
                for rho in RHOS:
                    found = Errors._make(np.mean([run[rho] for run in by_seed], axis=0))
                    median, huber, centred = np.sqrt([found.median, found.huber, found.centred])
                    figures = (f"{median:.2f}", f"{huber / median:.3f}", f"{found.coverage:.3f}")
                    more = (f"{found.half_width:.1f}", f"{centred / huber:.2f}")
                    bars = (Bar(huber / median, "<=", BAR),)
                    table.row(f"{name}, {relation.name}, rho {rho:g}", *figures, *more, bars=bars)


if __name__ == "__main__":
    main()
