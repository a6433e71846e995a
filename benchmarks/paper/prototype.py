"""The settings that the authors' notebook really used, for re-running them with this package's sketches.

Each function names how the code departs from the paper. Source: github.com/ZhaoFuheng/
Differentially-Private-Linear-Sketches at commit 691ef094: CountMin.py, CountMedian.py, DCS.py, Evaluation.ipynb;
written anew from their description, none of their code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beam_dpsketch import DyadicCountSketch, SketchSpec, TreeSpec
from beam_dpsketch.exact.domains import Domain
from beam_dpsketch.exact.sketches import LinearSketch
from benchmarks import readings

BYTES_PER_COUNTER = 4


class Sketch(NamedTuple):
    """Rows, columns, the noise of each counter and, for Count-Min, the offset E added to it."""

    depth: int
    width: int
    sigma: float
    offset: float


def sketch(gamma: float, beta: float, rho: float | None) -> Sketch:
    """Constructor of CountMin.py and CountMedian.py, with arguments as it declares them.

    Departures from the paper: depth ln(1 / beta) where the noise is for ln(2 / beta) rows, not rounded up; the last
    parenthesis of E is misplaced, so that E grows with 1 / sqrt(beta) instead of sqrt(ln(1 / beta)).
    """
    rows = math.log(2 / beta)
    sigma = math.sqrt(rows / rho) if rho else 0.0
    offset = sigma * math.sqrt(2) * math.sqrt(math.log(rows * 4 / gamma) / beta) if rho else 0.0
    return Sketch(math.ceil(math.log(1 / beta)), math.ceil(1 / gamma), sigma, offset)


def figure_1(gamma: float, beta: float, rho: float | None) -> Sketch:
    """As the notebook calls it: beta and gamma swapped, so the width is 1 / beta whatever the space on the axis."""
    return sketch(beta, gamma, rho)


def frequencies(raw: LinearSketch, items: np.ndarray, settings: Sketch) -> np.ndarray:
    """Estimates from counters with the prototype's noise (continuous, not seeded) and offset."""
    noise = np.random.default_rng().normal(0, settings.sigma, raw.counters.shape) if settings.sigma else 0
    return readings.frequencies(raw, items, noise) + (0 if raw.has_signs else settings.offset)


def spec(settings: Sketch, seed: int) -> SketchSpec:
    """The same shape for this package's sketches."""
    return SketchSpec(depth=settings.depth, width=settings.width, seed=seed)


class Tree(NamedTuple):
    """Shape of each level, what the paper asks for, and the noise of each counter."""

    depth: int
    paper_depth: int
    width: int
    sigma: float

    def memory(self, domain: Domain) -> int:
        """Bytes that the levels of a binary tree really take."""
        return BYTES_PER_COUNTER * domain.bits * self.depth * self.width


def tree(domain: Domain, gamma: float, rho: float | None) -> Tree:
    """DCS.py: the paper's width and its depth ln(ln(U) / gamma), but the sketches have ln(depth) rows.

    Their constructor takes a failure probability, is given 1 / depth, and takes the logarithm again.
    """
    log_size = math.log(domain.size)
    width = math.ceil(math.sqrt(log_size * math.log(log_size / gamma)) / gamma)
    paper_depth = math.ceil(math.log(log_size / gamma))
    level = sketch(1 / width, 1 / paper_depth, rho and rho / domain.bits)
    return Tree(level.depth, paper_depth, width, level.sigma)


def tree_spec(domain: Domain, settings: Tree, seed: int) -> TreeSpec:
    """The same shape for this package's trees."""
    return TreeSpec.paper_layout(domain, depth=settings.depth, width=settings.width, seed=seed)


def ranks(raw: DyadicCountSketch, items: np.ndarray, settings: Tree) -> np.ndarray:
    """Ranks with the prototype's noise (continuous, not seeded); like its rank(U), that of the last item is 0."""
    counters = readings.all_counters(raw)
    noise = np.random.default_rng().normal(0, settings.sigma, len(counters)) if settings.sigma else 0
    found = readings.ranks(raw.spec, counters + noise, items, "paper")
    return np.where(items == raw.spec.domain.size - 1, 0.0, found)
