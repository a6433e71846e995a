"""The five metrics of PipelineDP beside ours, in one release: ``python -m benchmarks.accuracy.migration``.

Both get 100,000 records of 12,000 people in 400 cities, whose sizes follow Zipf's law, with values from 0 to 50. Each
keeps 4 cities of a person and 2 records in each, at epsilon 1 and delta 1e-6, for adding or removing a person, and both
choose the cities from the data. PipelineDP (``pip install 'beam-dpsketch[peers]'``) runs on its local backend with
Gaussian noise. A deviation is that of an answer over runs, with the root of its mean square over the 12 largest cities.
A ratio is ours over PipelineDP's; its standard error is from 200 bootstrap samples of the runs of each. Times are of
the processor, for one run. It takes about 6 minutes.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from beam_dpsketch import release_frame
from benchmarks.command import Command
from benchmarks.table import Bar, Table

CITIES, SHOWN, EPSILON, DELTA = 400, 12, 1, 1e-6
MS = {"item": "ms", "domain": {"type": "integer", "low": 0, "high": 50}}
SHARES = {"visits": "3/20", "people": "3/20", "stats": "1/4", "values": "9/20"}
KINDS: dict[str, dict[str, Any]] = {
    "visits": {"kind": "count"},
    "people": {"kind": "privacy_ids"},
    "stats": {"kind": "statistics", **MS},
    "values": {"kind": "quantiles", **MS},
}
SETTINGS = {
    "kind": "metrics",
    "metrics": [{"name": name, **kind, "share": SHARES[name]} for name, kind in KINDS.items()],
    "keys": {"select": {"delta": 1e-7}, "field": "city"},
    "privacy_unit": {"privacy_id": "user", "records": {"max_records": 2, "max_keys": 4}},
    "privacy": {"epsilon": EPSILON, "delta": DELTA},
}
METRICS = ("COUNT", "PRIVACY_ID_COUNT", "SUM", "MEAN", "PERCENTILE(90)")
Answers = dict[str, tuple[float, ...]]


def visits(seed: int) -> pd.DataFrame:
    """Records of people with different numbers of visits."""
    generator, size, people = np.random.default_rng(seed), 100_000, 12_000
    weights, ranks = generator.lognormal(0, 0.6, people), 1 / np.arange(1, CITIES + 1) ** 1.2
    user = generator.choice(people, size, p=weights / weights.sum())
    city = generator.choice(CITIES, size, p=ranks / ranks.sum())
    ms = np.minimum(50, np.round(generator.gamma(2, 8, size) + city % 7)).astype(int)
    return pd.DataFrame({"user": user, "city": [f"c{each:03d}" for each in city], "ms": ms})


def theirs(table: pd.DataFrame) -> Answers:
    """Answers of PipelineDP by city."""
    dp: Any = importlib.import_module("pipeline_dp")
    accountant = dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    of = dp.Metrics
    parameters = dp.AggregateParams(
        noise_kind=dp.NoiseKind.GAUSSIAN,
        metrics=[of.COUNT, of.PRIVACY_ID_COUNT, of.SUM, of.MEAN, of.PERCENTILE(90)],
        max_partitions_contributed=4,
        max_contributions_per_partition=2,
        min_value=0,
        max_value=50,
    )
    columns = (lambda place: lambda row: row[place])(0), lambda row: row[1], lambda row: row[2]
    names = ("privacy_id_extractor", "partition_extractor", "value_extractor")
    extractors = dp.DataExtractors(**dict(zip(names, columns, strict=True)))
    rows = list(table.itertuples(index=False, name=None))
    found = dp.DPEngine(accountant, dp.LocalBackend()).aggregate(rows, parameters, extractors)
    accountant.compute_budgets()
    return {city: (m.count, m.privacy_id_count, m.sum, m.mean, m.percentile_90) for city, m in found}


def ours(table: pd.DataFrame) -> Answers:
    """Answers of one release by city."""
    found: dict[str, Any] = release_frame(table, SETTINGS)

    def of(each: Any) -> tuple[float, ...]:
        stats, counts = each["stats"], (each[name].count().estimate for name in ("visits", "people"))
        unknown = [stats.mean().estimate, each["values"].quantile(0.9).estimate]  # in small cities
        return *counts, stats.total().estimate, *(25.0 if found is None else float(found) for found in unknown)

    return {city: of(each) for city, each in found.items()}


def measured(of: Callable[[pd.DataFrame], Answers], table: pd.DataFrame, runs: int) -> tuple[list[Answers], float]:
    """Answers of all runs, and the processor seconds of one."""
    start = time.process_time()
    return [of(table) for _ in range(runs)], (time.process_time() - start) / runs


def deviations(found: list[Answers], runs: np.ndarray) -> np.ndarray:
    """Deviation of each metric over these runs, in which every large city is released."""
    large = [f"c{place:03d}" for place in range(SHOWN)]
    values = np.array([[found[run].get(city, (np.nan,) * len(METRICS)) for city in large] for run in runs])
    return np.sqrt(np.nanmean(np.nanvar(values, axis=0, ddof=1), axis=0))


def main() -> None:
    logging.disable(logging.WARNING)
    command = Command(__file__, __doc__, "pipeline-dp")
    command.number("--runs", 40, "runs of each")
    command.number("--seed", 11, "seed of the data")
    arguments = command.parse_args()
    with command.writing(arguments, f"seed {arguments.seed} of the data, {arguments.runs} runs of each"):
        table, runs = visits(arguments.seed), arguments.runs
        (peers, peer_time), (own, own_time) = (measured(of, table, runs) for of in (theirs, ours))
        whole, generator = np.arange(runs), np.random.default_rng(1)
        samples = [[generator.integers(0, runs, runs) for _ in range(200)] for _ in range(2)]
        both = [deviations(found, whole) for found in (peers, own)]
        ratios = [deviations(own, b) / deviations(peers, a) for a, b in zip(*samples, strict=True)]
        errors = np.std(ratios, axis=0, ddof=1)
        heads = ("", "PipelineDP", "ours", "ratio", "standard error")
        printed = Table("Standard deviations of released answers", heads, (20, -12, -12, -8, -16))
        for place, name in enumerate(METRICS):
            ratio = both[1][place] / both[0][place]
            bar = Bar(float(ratio + 2 * errors[place]), "<=", 1.0, " with 2 errors")
            cells = (f"{both[0][place]:,.2f}", f"{both[1][place]:,.2f}", f"{ratio:.3f}", f"{errors[place]:.3f}")
            printed.row(name, *cells, bars=[bar])
        keys = [float(np.mean([len(each) for each in found])) for found in (peers, own)]
        printed.row("keys released", *(f"{each:.1f}" for each in keys), f"{keys[1] / keys[0]:.3f}", "")
        printed.row("seconds a run", f"{peer_time:.2f}", f"{own_time:.2f}", f"{own_time / peer_time:.3f}", "")


if __name__ == "__main__":
    main()
