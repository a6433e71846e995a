"""Quantiles of wide universes beside those of PipelineDP: ``python -m benchmarks.accuracy.quantile_peers``.

PipelineDP (an extra: ``pip install 'beam-dpsketch[peers]'``) answers from Google's quantile tree, which has 16^4 leaves
whatever the universe. Both get the same 100,000 log-uniform records, one per privacy id, neighbouring relation
ADD_OR_REMOVE_ONE; PipelineDP runs on Beam with Gaussian noise, public partitions and the (epsilon, delta = 1e-6) that
rho implies. The error of an answer v for the share q is the distance of q N from [#(x < v), #(x <= v)], over N: 0 where
a tie covers it. Printed is its mean over q = 0.01, ..., 0.99, then over seeds. PipelineDP's answers are taken as
returned, and rounded down ("floor") because values are integers. At 16 bits most of its error is interpolation inside
a leaf, which a caller who knows the leaves can remove. From 20 bits on its leaves are too wide at any rho. A user whose
data span many powers of ten can take logarithms first. Takes about four minutes.
"""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np

from beam_dpsketch import DyadicCountSketch, IntegerDomain, PrivacySpec, ReleaseTerms, TreeSpec, release
from beam_dpsketch.privacy.contributions import NeighboringRelation
from benchmarks.command import Command
from benchmarks.sources import pipeline
from benchmarks.table import Bar, Table

ITEMS = 100_000
PERCENTS = range(1, 100)
SHARES = np.array(PERCENTS) / 100
DELTA = 1e-6
MEMORY = 490_000
# How many times smaller our error must be at 32 bits.
LEAST_RATIO = 100.0


def log_uniform(seed: int, bits: int) -> np.ndarray:
    """Records whose logarithm is uniform, in 1..2^bits - 1."""
    return np.floor(2.0 ** np.random.default_rng(seed).uniform(0, bits, ITEMS)).astype(np.uint64)


def rank_error(records: np.ndarray, answers: np.ndarray) -> float:
    """The mean distance of q N from the ranks that an answer covers, over N."""
    ordered = np.sort(records).astype(np.float64)
    below, at_most = (np.searchsorted(ordered, answers, side=side) for side in ("left", "right"))
    wanted = SHARES * len(records)
    return float(np.mean(np.maximum(0.0, np.maximum(below - wanted, wanted - at_most)))) / len(records)


def ours(records: np.ndarray, bits: int, privacy: PrivacySpec, seed: int) -> np.ndarray:
    """Quantiles of one release, by the default method."""
    spec = TreeSpec.for_memory(IntegerDomain(0, (1 << bits) - 1), MEMORY, seed=seed)
    released = release(DyadicCountSketch(spec).accumulate(records), ReleaseTerms(privacy))
    return np.array(released.quantile(SHARES).estimate, dtype=np.float64)


def peer() -> Any:
    """The module pipeline_dp, which only this benchmark needs."""
    try:
        return importlib.import_module("pipeline_dp")
    except ImportError as error:
        raise SystemExit("PipelineDP is not installed: pip install 'beam-dpsketch[peers]'") from error


def theirs(records: np.ndarray, largest: int, epsilon: float) -> np.ndarray:
    """Percentiles from PipelineDP on Beam, with the bounds 0 and `largest`."""
    parameters = {
        "metrics": [peer().Metrics.PERCENTILE(percent) for percent in PERCENTS],
        "min_value": 0,
        "max_value": largest,
    }
    ((_, found),) = aggregated(records, parameters, epsilon, partition=lambda row: "all", public_partitions=["all"])
    return np.array([found[f"percentile_{percent}"] for percent in PERCENTS])


def aggregated(
    records: np.ndarray, parameters: dict[str, Any], epsilon: float, *, partition: Callable[[Any], Any], **options: Any
) -> list[Any]:
    """PipelineDP on Beam: partitions and metrics of records that have a privacy id each, with Gaussian noise."""
    pipeline_dp = peer()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.BeamBackend())
    bounded = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        **parameters,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=partition, value_extractor=lambda row: row[1]
    )

    def build(graph: beam.Pipeline) -> beam.PCollection:
        rows = graph | beam.Create(list(enumerate(records.tolist())))
        answers = engine.aggregate(rows, bounded, extractors, **options)
        accountant.compute_budgets()
        return answers | beam.MapTuple(lambda key, metrics: (key, metrics._asdict()))

    return collected(build)


def collected(build: Callable[[beam.Pipeline], beam.PCollection]) -> list[Any]:
    """The elements, which must be JSON, of what `build` adds to a pipeline."""
    with tempfile.TemporaryDirectory() as folder:
        with pipeline() as graph:
            build(graph) | beam.Map(json.dumps) | beam.io.WriteToText(str(Path(folder, "answers")))
        lines = [line for file in Path(folder).iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def main() -> None:
    """Print one line per universe and rho."""
    command = Command(__file__, __doc__, "numpy", "apache-beam", "beam-dpsketch", "pipeline-dp", "python-dp")
    command.number("--bits", [16, 20, 24, 32], "log2 of the universes", type=int, nargs="+")
    command.number("--rhos", [0.1, 1.0, 10.0], "privacy of each release", type=float, nargs="+")
    command.number("--seeds", 2, "data sets")
    arguments = command.parse_args()
    peer()
    with command.writing(
        arguments,
        f"N = {ITEMS:,}, log-uniform, {arguments.seeds} seeds from 0, our memory {MEMORY:,} bytes.",
        "Mean rank error / N.",
    ):
        table = Table(None, ("bits", "rho", "epsilon", "PipelineDP", "floor", "ours", "ratio"), (-6, -6, -9, -12))
        for bits in arguments.bits:
            for rho in arguments.rhos:
                privacy = PrivacySpec(rho=rho, relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
                epsilon = privacy.epsilon(DELTA)
                rows = []
                for seed in range(arguments.seeds):
                    records = log_uniform(seed, bits)
                    answers = theirs(records, 1 << bits, epsilon)
                    each = (answers, np.floor(answers), ours(records, bits, privacy, seed))
                    rows.append([rank_error(records, values) for values in each])
                returned, floored, own = np.mean(rows, axis=0)
                ratio = min(returned, floored) / max(own, 1e-12)
                errors = (f"{returned:.6f}", f"{floored:.6f}", f"{own:.7f}", f"{ratio:.1f}")
                bars = [Bar(ratio, ">=", LEAST_RATIO)] if bits == 32 else ()
                table.row(f"{bits}", f"{rho:g}", f"{epsilon:.2f}", *errors, bars=bars)


if __name__ == "__main__":
    main()
