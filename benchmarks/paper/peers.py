"""Other libraries on the same data, private ones at the same rho: quantiles by universe, and frequencies.

Neighbouring relation ADD_OR_REMOVE_ONE, one record per privacy id, N = 100,000. PipelineDP takes the (epsilon, 1e-6)
that rho implies. Quantiles are those at 0.01, ..., 0.99 of log-uniform records. "error" is the distance of q N from the
ranks that an answer covers, over N, 0 where a tie covers it; "point_error" is |rank(answer) - q N| / N, of which the
exact answer has some, because of ties ("exact" rows). Frequencies are those of the 100 most frequent Zipf items.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from beam_dpsketch import CountSketch, PrivacySpec, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.flat import ReleasedCountSketch
from beam_dpsketch.privacy.contributions import NeighboringRelation
from benchmarks import ordered_data
from benchmarks.accuracy import quantile_peers
from benchmarks.accuracy.quantile_peers import DELTA, ITEMS, SHARES
from benchmarks.paper.records import Row

BITS = (16, 24, 32)
RHOS = ("0.1", "1", "10")
TOP = 100
BINS = 1 << 16
ARITY = 16
COUNT_SKETCH, COUNT_MIN = (5, 7372), (6, 6144)
KLL_K = 200
Answers = Iterator[tuple[str, str, np.ndarray]]


def module(name: str) -> Any:
    """A library that only this comparison needs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SystemExit(f"{name} is not installed: pip install 'beam-dpsketch[peers]', or make peers") from error


def add_or_remove(rho: str) -> PrivacySpec:
    """What this package's release may spend."""
    return PrivacySpec(rho=float(rho), relation=NeighboringRelation.ADD_OR_REMOVE_ONE)


def point_error(records: np.ndarray, answers: np.ndarray) -> float:
    """The mean of |rank(answer) - q N| / N."""
    ranks = np.searchsorted(np.sort(records), np.floor(answers), side="right")
    return float(np.mean(np.abs(ranks / len(records) - SHARES)))


def without_privacy(records: np.ndarray) -> Answers:
    """Exact, Apache DataSketches KLL and Beam's ApproximateQuantiles."""
    yield "exact", "none", np.sort(records)[np.ceil(SHARES * len(records)).astype(int) - 1].astype(float)
    sketch = module("datasketches").kll_doubles_sketch(KLL_K)
    sketch.update(records.astype(np.float64))
    yield f"DataSketches KLL, k = {KLL_K} (not private)", "none", np.array(sketch.get_quantiles(SHARES.tolist()))
    yield "Beam ApproximateQuantiles (not private)", "none", beam_quantiles(records)


def beam_quantiles(records: np.ndarray) -> np.ndarray:
    """Percentiles by Beam's own transform."""
    quantiles = beam.transforms.stats.ApproximateQuantiles.Globally(len(SHARES) + 2)
    (found,) = quantile_peers.collected(lambda graph: graph | beam.Create(records.tolist()) | quantiles)
    return np.array(found[1:-1], dtype=np.float64)


def with_privacy(records: np.ndarray, bits: int, rho: str, seed: int) -> Answers:
    """Of beam_dpsketch, PipelineDP and OpenDP."""
    epsilon = add_or_remove(rho).epsilon(DELTA)
    yield "beam_dpsketch", rho, quantile_peers.ours(records, bits, add_or_remove(rho), seed)
    answers = quantile_peers.theirs(records, 1 << bits, epsilon)
    yield "PipelineDP, as returned", rho, answers
    if 1 << bits == BINS:  # each of its leaves is one item, for a caller who knows how it numbers them
        answers = quantile_peers.theirs(records, BINS - 1, epsilon) * BINS / (BINS - 1)
        yield "PipelineDP, mapped to its leaves", rho, np.floor(answers)
    yield "OpenDP, consistent tree of 2^16 leaves", rho, opendp_quantiles(records, bits, float(rho))


def opendp_quantiles(records: np.ndarray, bits: int, rho: float) -> np.ndarray:
    """OpenDP's 16-ary tree over 2^16 equal bins, discrete Gaussian noise, made consistent.

    Its own map bounds the L2 sensitivity of the tree by the number of levels; here it gets the noise for the square
    root of that, which is enough.
    """
    dp = module("opendp.prelude")
    dp.enable_features("contrib", "honest-but-curious")
    bins = (records >> np.uint64(bits - 16)).astype(int).tolist()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    counts = space >> dp.t.then_count_by_categories(list(range(BINS)), null_category=False, MO="L2Distance<i64>")
    tree = counts >> dp.t.then_b_ary_tree(leaf_count=BINS, branching_factor=ARITY)
    levels = 5
    noisy = (tree >> dp.m.then_gaussian(scale=(levels / (2 * rho)) ** 0.5))(bins)
    leaves = dp.t.make_consistent_b_ary_tree(branching_factor=ARITY)(noisy)
    below = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(leaves)]))
    edges = np.arange(BINS + 1) * float(1 << (bits - 16))
    return np.floor(np.interp(SHARES * below[-1], below, edges))


def _range(values: list[float]) -> Row:
    """Mean and range; there are few data sets."""
    return {"mean": float(np.mean(values)), "low": min(values), "high": max(values)}


def quantile_rows(bits: Iterable[int], rhos: Iterable[str], seeds: int) -> list[Row]:
    """One row for each universe, library and rho."""
    values: dict[tuple[int, str, str], list[tuple[float, float]]] = {}
    for size in bits:
        for seed in range(seeds):
            records = quantile_peers.log_uniform(seed, size)
            answers = [*without_privacy(records)]
            for rho in rhos:
                answers += with_privacy(records, size, rho, seed)
            for library, rho, found in answers:
                errors = quantile_peers.rank_error(records, found), point_error(records, found)
                values.setdefault((size, rho, library), []).append(errors)
    return [
        {"task": "quantiles", "bits": size, "rho": rho, "library": library}
        | _range([error for error, _ in each])
        | {"point_error": float(np.mean([error for _, error in each])), "released": ""}
        | {"epsilon": "" if rho == "none" else add_or_remove(rho).epsilon(DELTA)}
        for (size, rho, library), each in values.items()
    ]


def frequency_rows(rhos: Iterable[str], seeds: int) -> list[Row]:
    """Mean |estimate - f| over the 100 most frequent items, those that are released, and the share of them that is."""
    values: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        records = ordered_data.zipf(np.random.default_rng(seed), ITEMS)
        items, counts = np.unique(records, return_counts=True)
        top = np.argsort(-counts, kind="stable")[:TOP]
        truth = dict(zip(items[top].tolist(), counts[top].tolist(), strict=True))
        for library, rho, function in counters(records, rhos, seed):
            found = function(items[top])
            errors = [abs(found[item] - count) for item, count in truth.items() if item in found]
            values.setdefault((library, rho), []).append((float(np.mean(errors)), len(errors) / TOP))
    return [
        {"task": "frequencies", "bits": 16, "rho": rho, "library": library}
        | _range([error for error, _ in each])
        | {"point_error": "", "released": float(np.mean([share for _, share in each]))}
        | {"epsilon": "" if rho == "none" else add_or_remove(rho).epsilon(DELTA)}
        for (library, rho), each in values.items()
    ]


def counters(
    records: np.ndarray, rhos: Iterable[str], seed: int
) -> Iterator[tuple[str, str, Callable[[np.ndarray], dict[int, float]]]]:
    """Library, rho and a function from items to their estimates, without those that were not released."""
    rows, columns = COUNT_MIN
    sketch = module("datasketches").count_min_sketch(rows, columns)
    for record in records.tolist():
        sketch.update(record)
    yield (
        "DataSketches Count-Min (not private)",
        "none",
        lambda items: {i: sketch.get_estimate(i) for i in items.tolist()},
    )
    depth, width = COUNT_SKETCH
    raw = CountSketch(SketchSpec(depth=depth, width=width, seed=seed)).accumulate(records)
    for rho in rhos:
        released = release(raw, ReleaseTerms(add_or_remove(rho)))
        yield ("beam_dpsketch, CountSketch", rho, partial(_estimates, released))
        yield "PipelineDP, COUNT per item", rho, partial(pipeline_dp_counts, records, rho)


def _estimates(released: ReleasedCountSketch, items: np.ndarray) -> dict[int, float]:
    return dict(zip(items.tolist(), released.estimate(items).tolist(), strict=True))


def pipeline_dp_counts(records: np.ndarray, rho: str, items: np.ndarray) -> dict[int, float]:
    """The items that PipelineDP's private partition selection releases, with their counts, whichever are asked for."""
    parameters = {"metrics": [quantile_peers.peer().Metrics.COUNT]}
    epsilon = add_or_remove(rho).epsilon(DELTA)
    found = quantile_peers.aggregated(records, parameters, epsilon, partition=lambda row: row[1])
    return {item: metrics["count"] for item, metrics in found}


def measure(bits: Iterable[int] = BITS, rhos: Iterable[str] = RHOS, seeds: int = 2) -> list[Row]:
    """All rows; takes about six minutes."""
    for name in ("pipeline_dp", "opendp", "datasketches"):
        module(name)
    return quantile_rows(bits, rhos, seeds) + frequency_rows(rhos, seeds)
