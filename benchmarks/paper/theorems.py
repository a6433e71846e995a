"""The paper's theorems as measurements: how far noise moves answers, and how often collisions do.

Noise is calibrated for REPLACE_ONE by this package, so for CountSketch it is sqrt(2) times the paper's.
"""

from __future__ import annotations

import numpy as np

from beam_dpsketch import REPLACE_ONE, CountMin, CountSketch, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec
from beam_dpsketch.answers.flat import noise_offset
from beam_dpsketch.exact.hashing import cells
from beam_dpsketch.exact.sketches import LinearSketch
from beam_dpsketch.noise.calibration import calibrate
from benchmarks import ordered_data, readings
from benchmarks.paper.records import Row, summary

BETA = 0.01
GAMMA = 0.01
KINDS: tuple[type[LinearSketch], ...] = (CountMin, CountSketch)
UNIVERSE = np.arange(1, 1 << 16, dtype=np.uint64)
SHAPE = (6, 2048)
DEPTHS = (1, 3, 5, 7, 9, 11, 13, 15)
SIZES = (10**4, 10**5, 10**6, 10**7)
HEAVY = 1_000_000
POOL = 1 << 16


class Noise:
    """What a release adds to the counters of a sketch."""

    def __init__(self, raw: LinearSketch, rho: float) -> None:
        self._raw = raw
        privacy = PrivacySpec(rho=rho, relation=REPLACE_ONE, summary_counts=None)
        (self.sigma_squared,) = calibrate(raw.spec, ReleaseTerms(privacy, RecordBounds(1, max_weight=1)))

    def added_error(self, items: np.ndarray) -> np.ndarray:
        """Answers with new noise less those without, for Count-Min before its offset E."""
        raw = self._raw
        noise = readings.with_noise(np.zeros_like(raw.counters), self.sigma_squared)
        return readings.frequencies(raw, items, noise) - readings.frequencies(raw, items)

    def bound(self, beta: float = BETA) -> float:
        """E, which holds for all items at once with probability 1 - beta / 2."""
        return noise_offset(self._raw.spec, self.sigma_squared, failure_probability=beta)


def uniform_bound(sketches: int, rho: float = 1.0) -> list[Row]:
    """The distribution over sketches of the largest |added error| of all 65,535 items, in units of E at beta = 1 %.

    While it is at most 1, CountSketch is within E of the exact sketch and Count-Min, with its offset, within [0, 2 E].
    Every sketch has its own hash functions and noise; the data are the same 100,000 Zipf records.
    """
    items, counts = zipf(0, 100_000)
    rows = []
    for kind in KINDS:
        largest = np.empty(sketches)
        for seed in range(sketches):
            noise = Noise(
                kind(SketchSpec(kind=kind.name, depth=SHAPE[0], width=SHAPE[1], seed=seed)).accumulate(items, counts),
                rho,
            )
            largest[seed] = np.max(np.abs(noise.added_error(UNIVERSE))) / noise.bound()
        about = {"sketch": kind.name, "rho": f"{rho:g}", "sketches": sketches, "above": int(np.sum(largest > 1))}
        for share in np.linspace(0, 1, 51):
            rows.append(about | {"share": float(share), "largest_over_E": float(np.quantile(largest, share))})
    return rows


def lower_bound(releases: int, rho: float = 1.0) -> list[Row]:
    """Root mean square of the error that noise adds to an answer, in adversarial data and in none, by depth."""
    rows = []
    for kind in KINDS:
        for depth in DEPTHS:
            spec = SketchSpec(kind=kind.name, depth=depth, width=256, seed=depth)
            items, weights = adversarial(spec, kind)
            for data, raw, asked, times in (
                ("adversarial", kind(spec).accumulate(items, weights), items[:1], releases),
                ("empty", kind(spec), UNIVERSE[:200], -(-releases // 50)),
            ):
                noise = Noise(raw, rho)
                errors = np.concatenate([noise.added_error(asked) for _ in range(times)])
                found = {"rms": float(np.sqrt(np.mean(errors**2))), "sigma": float(noise.sigma_squared) ** 0.5}
                rows.append({"sketch": kind.name, "rho": f"{rho:g}", "depth": depth, "data": data} | found)
    return rows


def adversarial(spec: SketchSpec, kind: type[LinearSketch]) -> tuple[np.ndarray, np.ndarray]:
    """Items and weights for which row 0 alone decides the answer for the first item, so that no noise averages out.

    Each other row is moved far away by a heavy item that meets the first item in that row only: for CountSketch half
    of the rows above the truth and half below, for Count-Min all of them above.
    """
    pool = np.arange(1, POOL, dtype=np.uint64)
    found = [cells.columns_and_signs(pool, seed=spec.seed, row=row, width=spec.width) for row in range(spec.depth)]
    meets = np.array([columns == columns[0] for columns, _ in found])
    items = [pool[0]]
    for row in range(1, spec.depth):
        signs = found[row][1] * found[row][1][0]
        fits = meets[row] & (meets.sum(axis=0) == 1) & ((kind is CountMin) | (signs == (1 if row % 2 else -1)))
        items.append(pool[np.flatnonzero(fits)[0]])
    return np.array(items), np.array([1] + [HEAVY] * (spec.depth - 1))


def size_independence(sizes: tuple[int, ...], seeds: int) -> list[Row]:
    """The mean |added error| over the items that occur, for data sets of several sizes N."""
    values: dict[tuple[str, str, int], list[float]] = {}
    for size in sizes:
        for seed in range(seeds):
            items, counts = zipf(seed, size)
            for kind in KINDS:
                raw = kind(SketchSpec(kind=kind.name, depth=SHAPE[0], width=SHAPE[1], seed=seed)).accumulate(
                    items, counts
                )
                for rho in ("0.1", "1", "10"):
                    error = float(np.mean(np.abs(Noise(raw, float(rho)).added_error(items))))
                    values.setdefault((kind.name, rho, size), []).append(error)
    names = ("sketch", "rho", "N")
    return [dict(zip(names, key, strict=True)) | summary(each) for key, each in values.items()]


def accuracy_guarantee(seeds: int, relative_error: float = GAMMA) -> list[Row]:
    """How often collisions alone put an answer off by more than gamma N; the proofs allot beta / 2 to that.

    N is 1 / gamma - 1 items that occur equally often, for the paper's widths and for `SketchSpec.for_accuracy`.
    """
    items = np.arange(1, round(1 / relative_error), dtype=np.uint64)
    allowed = relative_error * len(items)
    rows = []
    for kind in KINDS:
        for dimensions in ("paper", "for_accuracy"):
            failed = 0
            for seed in range(seeds):
                shape = SketchSpec.paper_dimensions if dimensions == "paper" else SketchSpec.for_accuracy
                spec = shape(relative_error=relative_error, failure_probability=BETA, seed=seed, kind=kind.name)
                errors = readings.frequencies(kind(spec).accumulate(items), items) - 1
                failed += int(np.sum(np.abs(errors) > allowed))
            rows.append(
                {
                    "sketch": kind.name,
                    "dimensions": dimensions,
                    "shape": f"{spec.depth} x {spec.width}",
                    "failed": failed / (seeds * len(items)),
                    "allotted": BETA / 2,
                }
            )
    return rows


def zipf(seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Items of bounded Zipf(1.0) records and how often each occurs."""
    counts = np.bincount(ordered_data.zipf(np.random.default_rng(seed), size).astype(np.int64))
    items = np.flatnonzero(counts)
    return items.astype(np.uint64), counts[items]
