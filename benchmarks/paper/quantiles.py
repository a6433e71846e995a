"""Figure 2: average rank error against the number of quantiles.

Curves: the authors' published values; their prototype re-run (3 rows, its sigma); the paper's dyadic CountSketch with
noise that is safe, with the prototype's 3 rows and, in 2.7 times the memory, with the paper's 8; this package's tree in
the prototype's memory, by least squares, by residual rounds and by the one that a release chooses. N = 100,000
records, REPLACE_ONE, total not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from beam_dpsketch import REPLACE_ONE, DyadicCountSketch, PrivacySpec, ReleaseTerms, TreeSpec, release
from beam_dpsketch.answers.tree import Method, ReleasedRanks
from beam_dpsketch.exact.domains import Domain
from benchmarks import ordered_data, readings
from benchmarks.ordered_data import Truth
from benchmarks.paper import prototype
from benchmarks.paper.records import RHOS, Row, as_rho, summary

GAMMA = 0.01
COUNTS = tuple(2**power for power in range(5, 11))
METHODS: dict[str, Method] = {
    "prototype re-run": "paper",
    "paper, 3 rows": "paper",
    "paper, 8 rows": "paper",
    "ours, least squares": "least_squares",
    "ours, residual": "residual",
    "ours, chosen": "chosen",
}
CURVES = ("published", *METHODS)


def layout(curve: str, domain: Domain, seed: int) -> TreeSpec:
    """The tree of a curve."""
    settings = prototype.tree(domain, GAMMA, None)
    if curve.startswith("ours"):
        return TreeSpec.for_memory(domain, settings.memory(domain), seed=seed)
    if curve == "paper, 8 rows":
        settings = settings._replace(depth=settings.paper_depth)
    return prototype.tree_spec(domain, settings, seed)


def measure(data: str, data_sets: Iterable[np.ndarray], domain: Domain, counts: Sequence[int] = COUNTS) -> list[Row]:
    """One row for each curve, rho and number of quantiles."""
    values: dict[tuple[str, str, int, int], list[float]] = {}
    for seed, positions in enumerate(data_sets):
        truths = [ordered_data.truth(positions, quantiles=count) for count in counts]
        specs = {curve: layout(curve, domain, seed) for curve in METHODS}
        sketches = {spec: DyadicCountSketch(spec).accumulate(positions) for spec in set(specs.values())}
        for rho in RHOS:
            releases = {
                spec: None
                if rho == "none"
                else release(raw, ReleaseTerms(PrivacySpec(rho=float(rho), relation=REPLACE_ONE)))
                for spec, raw in sketches.items()
            }
            for curve, spec in specs.items():
                for count, error in zip(
                    counts, _errors(curve, rho, sketches[spec], releases[spec], truths), strict=True
                ):
                    values.setdefault((curve, rho, count, spec.cells), []).append(error)
    names = ("curve", "rho", "x", "counters")
    return [
        {"data": data, "metric": "rank error", "sketch": "tree"}
        | dict(zip(names, key, strict=True))
        | summary(each)
        | {"data_sets": len(each)}
        for key, each in values.items()
    ]


def _errors(
    curve: str, rho: str, raw: DyadicCountSketch, released: ReleasedRanks | None, truths: list[Truth]
) -> list[float]:
    """The mean rank error at each number of quantiles; all are asked at once."""
    items = np.concatenate([truth.items for truth in truths])
    if curve == "prototype re-run":
        found = prototype.ranks(raw, items, prototype.tree(raw.spec.domain, GAMMA, as_rho(rho)))
    elif released is None:
        found = readings.ranks(raw.spec, readings.all_counters(raw), items, METHODS[curve])
    else:
        found = released.rank(items, method=METHODS[curve])
    ends = np.cumsum([len(truth.items) for truth in truths])[:-1]
    return [truth.mean_error(part) for truth, part in zip(truths, np.split(found, ends), strict=True)]
