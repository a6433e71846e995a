"""Figure 1: relative error of frequencies and F1 of the ten largest, against space.

Curves: the authors' published values; their configuration re-run with this package's sketches; the algorithm as the
paper writes it in the space that the axis says, with noise that is safe. N = 100,000 records, REPLACE_ONE.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

import numpy as np

from beam_dpsketch import (
    REPLACE_ONE,
    CountMin,
    CountSketch,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.answers.flat import ReleasedCountMin
from beam_dpsketch.exact.sketches import LinearSketch
from benchmarks import readings
from benchmarks.paper import prototype
from benchmarks.paper.records import RHOS, Row, as_rho, summary

BETA = 0.01
GAMMAS = tuple(2.0**-power for power in range(9, 14))
KINDS: tuple[type[LinearSketch], ...] = (CountMin, CountSketch)
METRICS = {"ARE": readings.mean_relative_error, "F1": readings.top_ten_f1}
CURVES = ("published", "re-run", "as written")


def kilobytes(gamma: float) -> float:
    """Space as the notebook puts it on the axis: ln(1 / beta) / gamma counters of 4 bytes."""
    return round(math.log(1 / BETA) / gamma * prototype.BYTES_PER_COUNTER / 1024, 4)


def as_written(gamma: float, seed: int) -> SketchSpec:
    """The paper's depth, and as many columns as the space on the axis has."""
    depth = SketchSpec.paper_dimensions(relative_error=gamma, failure_probability=BETA).depth
    return SketchSpec(depth=depth, width=int(math.log(1 / BETA) / gamma) // depth, seed=seed)


def estimates(
    kind: type[LinearSketch], gamma: float, items: np.ndarray, counts: np.ndarray, seed: int
) -> Iterator[tuple[str, str, int, np.ndarray]]:
    """Curve, rho, counters and estimates of the items of one data set."""
    rerun_spec = prototype.spec(prototype.figure_1(gamma, BETA, None), seed)
    sketches = {
        curve: kind(dataclasses.replace(spec, kind=kind.name)).accumulate(items, counts)
        for curve, spec in (("re-run", rerun_spec), ("as written", as_written(gamma, seed)))
    }
    for rho in RHOS:
        settings = prototype.figure_1(gamma, BETA, as_rho(rho))
        raw = sketches["re-run"]
        yield "re-run", rho, raw.spec.cells, prototype.frequencies(raw, items, settings)
        raw = sketches["as written"]
        if rho == "none":
            found = readings.frequencies(raw, items)
        else:  # one record has the weight 1, though records of an item were added together
            released = release(
                raw, ReleaseTerms(PrivacySpec(rho=float(rho), relation=REPLACE_ONE), RecordBounds(1, max_weight=1))
            )
            if isinstance(released, ReleasedCountMin):
                found = released.minimum(items)
            else:
                found = readings.frequencies(raw, items, released.counters - raw.counters)
        yield "as written", rho, raw.spec.cells, found


def measure(data: str, data_sets: Iterable[np.ndarray], gammas: Iterable[float] = GAMMAS) -> list[Row]:
    """One row for each metric, sketch, curve, rho and space."""
    values: dict[tuple[str, str, str, str, float, int], list[float]] = {}
    for seed, positions in enumerate(data_sets):
        items, counts = np.unique(positions, return_counts=True)
        for kind in KINDS:
            for gamma in gammas:
                for curve, rho, cells, found in estimates(kind, gamma, items, counts, seed):
                    for metric, function in METRICS.items():
                        key = (metric, kind.name, curve, rho, kilobytes(gamma), cells)
                        values.setdefault(key, []).append(function(found, counts))
    names = ("metric", "sketch", "curve", "rho", "x", "counters")
    return [
        {"data": data} | dict(zip(names, key, strict=True)) | summary(each) | {"data_sets": len(each)}
        for key, each in values.items()
    ]
