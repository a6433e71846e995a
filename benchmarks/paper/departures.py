"""Where the prototype departs from the paper, and the paper from a guarantee that holds; evidence is computed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from beam_dpsketch import IntegerDomain
from benchmarks.paper import frequency, prototype, quantiles
from benchmarks.paper.records import Row, only

BETA = frequency.BETA


class Departure(NamedTuple):
    """What is expected, what is found, and how it shows."""

    expected: str
    found: str
    evidence: str


def algorithm_4(counts: np.ndarray, x: int, *, sibling: int) -> int:
    """The rank of x from exact counts of a binary tree: at every odd node on the path, the node less `sibling`."""
    total, level = 0, counts
    while x:
        if x % 2:
            total += int(level[x - sibling])
        x, level = x // 2, level.reshape(-1, 2).sum(axis=1)
    return total


def of_prototype() -> list[Departure]:
    """The authors' code against the paper."""
    shapes = [prototype.figure_1(gamma, BETA, None) for gamma in frequency.GAMMAS]
    written = [frequency.as_written(gamma, 0) for gamma in frequency.GAMMAS]
    space = [4 * shape.depth * shape.width / 1024 for shape in (shapes[0], shapes[-1])]
    axis = [frequency.kilobytes(gamma) for gamma in (frequency.GAMMAS[0], frequency.GAMMAS[-1])]
    first = prototype.sketch(2**-9, BETA, 0.1)
    offset = first.sigma * math.sqrt(2 * math.log(4 * math.log(2 / BETA) / (2**-9 * BETA)))
    domain = IntegerDomain(0, (1 << 16) - 1)
    tree = prototype.tree(domain, quantiles.GAMMA, None)
    nominal = tree._replace(depth=tree.paper_depth).memory(domain)
    bits_of_size = sum((domain.size >> level) & 1 for level in range(domain.bits))
    return [
        Departure(
            "the axis of Figure 1 is the space of the sketches",
            "the notebook passes beta and gamma in each other's place",
            f"shapes {', '.join(f'{shape.depth} x {shape.width}' for shape in shapes)}, that is {space[0]:.1f} to "
            f"{space[1]:.1f} KB where the axis says {axis[0]:.1f} to {axis[1]:.1f}; the axis has room for "
            f"{', '.join(f'{spec.depth} x {spec.width}' for spec in written)}",
        ),
        Departure(
            "E = sigma sqrt(2 ln(4 ln(2 / beta) / (gamma beta)))",
            "a misplaced parenthesis divides by beta after the logarithm",
            f"gamma = 2^-9, beta = 1 %, rho = 0.1, arguments in order: E = {first.offset:.0f} in the code, "
            f"{offset:.0f} by the formula; with the arguments swapped beta is gamma, and E grows with the space",
        ),
        Departure(
            f"ln(ln(U) / gamma) = {tree.paper_depth} rows at each level of the tree (U = 2^16)",
            "the logarithm is taken twice, and the reported space is that of the rows that are missing",
            f"{tree.depth} rows: {tree.memory(domain) / 1024:.0f} KB used, {nominal / 1024:.0f} KB reported",
        ),
        Departure(
            "rank(U) is N",
            "rank sums a term for every binary digit 1 of x below log2 U, and U has none there: rank(U) is 0",
            f"digits of U below log2 U: {bits_of_size}",
        ),
        Departure(
            "counts are exact before the noise",
            "counters are 32-bit floats, the noise is continuous and drawn when a sketch is made, for each shard anew",
            f"2^24 + 1 in 32-bit floats is 2^24 + {int(np.float32(2**24) + np.float32(1)) - 2**24}",
        ),
        Departure(
            "five independent runs",
            "the hash is fixed, so the five runs share it; text goes through Python's hash, salted in each process",
            "`python -c \"print(hash('a'))\"` prints another number each time; the distance between the published and "
            "the re-run CountSketch curves of Figure 1",
        ),
    ]


def of_paper(privacy: list[Row], failures: list[Row]) -> list[Departure]:
    """The paper against what its proofs need."""
    counts = np.arange(1, 17)
    settings = {"settings": "paper, gamma = beta = 1 %"}
    (pair,) = [row for row in privacy if row["settings"] == settings["settings"] and row["sketch"] == "count_sketch"]
    count_min = only(privacy, "spent_theirs", sketch="count_min", **settings)
    failed = [only(failures, "failed", sketch=kind, dimensions="paper") for kind in ("count_min", "count_sketch")]
    return [
        Departure(
            "replacing a record moves a CountSketch by at most sqrt(2 d)",
            "items may share a column with opposite signs; then it moves by 2 in that row, 2 sqrt(d) in all",
            f"seed {pair['seed']:.0f}, {pair['shape']}: items {pair['pair']} do so in every row; |v|^2 is "
            f"{pair['moved_squared']:.0f}, not {pair['moved_squared'] / 2:.0f}, and {pair['spent_theirs']:.2f} rho are "
            "spent for 1 claimed",
        ),
        Departure(
            "sigma^2 = ln(2 / beta) / rho for ln(2 / beta) rows",
            "rows are rounded up, the noise is not",
            f"Count-Min, {pair['shape']}: any two items that share no column spend {count_min:.2f} rho for 1 claimed",
        ),
        Departure(
            "width 1 / gamma gives |error| <= gamma N but with probability beta",
            "by Markov's inequality that width gives no bound for a row",
            f"on 1 / gamma - 1 equal items {failed[0]:.1%} (Count-Min) and {failed[1]:.1%} (CountSketch) of answers "
            "are further off, before any noise; the proofs allot 0.5 %",
        ),
        Departure(
            "Algorithm 4 returns how many records are below x",
            "it adds the odd nodes on the path themselves, not their left siblings",
            f"U = 16, item i occurs i + 1 times, x = 7: {algorithm_4(counts, 7, sibling=0)}; by left siblings "
            f"{algorithm_4(counts, 7, sibling=1)}, and {int(counts[:7].sum())} records are below 7",
        ),
        Departure(
            "log2 U levels share rho equally",
            "Algorithm 4 runs over levels 0 to log2 U, one more",
            f"U = 2^16: 17 levels of rho / 16 spend {17 / 16} rho",
        ),
    ]
