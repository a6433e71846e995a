"""After the sums: noise beside OpenDP, answers of releases, and bytes of accumulators and releases."""

from __future__ import annotations

import importlib
import statistics
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from beam_dpsketch import (
    REPLACE_ONE,
    CountSketch,
    DyadicCountSketch,
    IPv4Domain,
    PrivacySpec,
    ReleaseTerms,
    TreeSpec,
    release,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sums.accumulator import SketchAccumulator
from beam_dpsketch.privacy.contributions import ONE_RECORD
from beam_dpsketch.privacy.noise import discrete_gaussian
from benchmarks.measuring import seconds
from benchmarks.speed.throughput.kernels import SHAPE, skewed
from benchmarks.speed.throughput.turns import Row, Turns
from benchmarks.table import Bar, Table, spread

_SIGMAS = (10, 1000)
TERMS = ReleaseTerms(PrivacySpec(rho=1.0, relation=REPLACE_ONE))


def measure(turns: Turns) -> None:
    """Prints the blocks of noise, answers and bytes."""
    _noise(turns)
    _answers(turns)
    _bytes(turns)


def _noise(turns: Turns) -> None:
    try:
        opendp = importlib.import_module("opendp.prelude")
    except ImportError:
        print("\nSkipped: OpenDP is not installed (pip install -e '.[peers]')")
        return
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="f64")
    many, few = turns.sizes(0, 1_000_000), turns.sizes(0, 20_000)
    for sigma in _SIGMAS:
        theirs = opendp.m.make_gaussian(*space, scale=float(sigma))
        rows = [
            Row("beam_dpsketch", partial(discrete_gaussian.sample, sigma_squared=Fraction(sigma) ** 2), many),
            Row("OpenDP", partial(_drawn, theirs), few),
        ]
        turns.block(f"Discrete Gaussian noise, sigma = {sigma}; a record is a sample", rows)


def _drawn(mechanism: Any, size: int) -> object:
    return mechanism(np.zeros(size, dtype=np.int64))


def _answers(turns: Turns) -> None:
    numbers = skewed(100_000)
    tree = release(DyadicCountSketch(TreeSpec.for_memory(IPv4Domain())).accumulate(numbers), TERMS)
    flat = release(CountSketch(SHAPE).accumulate(numbers), TERMS)
    items = np.arange(turns.sizes(0, 1_000_000)[1])
    points, shares = np.linspace(0, 2**32 - 1, 10_000).astype(np.int64), np.linspace(0.001, 0.999, 999)

    def read_tree(data: bytes) -> None:
        read: Any = ReleasedSketch.from_bytes(data)
        read.quantile(shares)
        read.cdf(points)
        read.top_k(100)

    title = "Answers of a release of 100,000 records, from its bytes; seconds of processor time"
    table = Table(title, ("", "seconds"), (66, 26))
    for name, run, limit in (
        ("999 quantiles, CDF at 10,000 points and top 100, 490 KB", partial(read_tree, tree.to_bytes()), 0.5),
        (f"estimates of {len(items):,} items, 5 x 4096", partial(flat.estimate, items), 1.0),
    ):
        times = [seconds(run) for _ in range(turns.repetitions)]
        table.row(f"  {name}", spread(times, 3), bars=[Bar(statistics.median(times), "<", limit)])


def _bytes(turns: Turns) -> None:
    counts = [turns.sizes(0, count)[1] for count in (10, 1_000, 1_000_000)]
    heads = ("", *(f"{count:,}" for count in counts), "release")
    table = Table("Bytes between workers, by records accumulated (Zipf), and of the release", heads, (32, -14), bar=0)
    numbers = skewed(counts[-1])
    for name, spec in (("CountSketch 5 x 4096", SHAPE), ("quantile tree, U = 2^32", TreeSpec.for_memory(IPv4Domain()))):
        sketch_input = SketchInput(spec, ONE_RECORD)
        sizes = []
        for count in counts:
            accumulator = SketchAccumulator(sketch_input)
            accumulator.add_contributions(sketch_input.contributions(numbers[:count].tolist(), None))
            sizes.append(len(accumulator.to_bytes()))
        sizes.append(len(release(accumulator.to_sketch(), TERMS).to_bytes()))
        table.row(f"  {name}", *(f"{size:,}" for size in sizes))
