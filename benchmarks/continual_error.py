"""Error of prefixes under continual release, against theory: ``python -m benchmarks.continual_error``.

Every window is empty, so that counters are errors: in a linear sketch they do not depend on the data. Errors are in
units of Delta / sqrt(2 rho), Delta the sensitivity of one sketch; root mean square and largest over all prefixes.
"Independent noise" releases each window for the whole rho, which is the least noise for a single window, and adds up
as many releases as the prefix has windows.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from beam_dpsketch import (
    REPLACE_ONE,
    CountSketch,
    Horizon,
    PrivacySpec,
    PrivacyUnit,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    TimelineNode,
    release,
)
from beam_dpsketch.hashing import cells
from beam_dpsketch.hashing.fingerprints import fingerprints
from beam_dpsketch.privacy.sensitivity import tree_height
from beam_dpsketch.release.release_id import RUN_BYTES, part_name
from beam_dpsketch.release.timeline import averaged_variance, covering
from benchmarks.measuring import environment

HORIZONS = (64, 1024)
PRIVACY = PrivacySpec(rho=1.0, relation=REPLACE_ONE)
RUN, SECOND = bytes(RUN_BYTES), 1_000_000
Read = Callable[[int], np.ndarray]


def nodes(raw: CountSketch, windows: int) -> Iterator[TimelineNode]:
    """Every node of a horizon without data."""
    for level in range(tree_height(windows)):
        for index in range(windows >> level):
            place = part_name(("level", level), (index << level) * SECOND, ((index + 1) << level) * SECOND)
            released = release(
                raw,
                ReleaseTerms(PRIVACY, unit=PrivacyUnit.RECORD_OVER_HORIZON, window_count=windows),
                run=RUN,
                part=place,
            )
            yield TimelineNode(level, index, released)


def errors(windows: int, width: int) -> dict[str, Read]:
    """For each method, the errors of the prefix that ends with a window, one for each column."""
    raw = CountSketch(SketchSpec(depth=1, width=width))
    timeline = SketchTimeline(nodes(raw, windows), Horizon(0.0, 1.0, windows))
    single = np.cumsum([release(raw, ReleaseTerms(PRIVACY)).counters[0] for _ in range(windows)], axis=0)
    columns = cells.columns(fingerprints(range(20 * width)), seed=raw.spec.seed, row=0, width=width)
    one_item_a_column = np.unique(columns, return_index=True)[1]
    return {
        "binary tree": lambda last: timeline.prefix(last).counters[0],
        "binary tree, averaged": lambda last: timeline.averaged_estimate(one_item_a_column, 0, last),
        "independent noise": lambda last: single[last],
    }


def theory(windows: int) -> dict[str, np.ndarray]:
    """The standard deviation of every prefix."""
    height = tree_height(windows)
    levels = [[level for level, _ in covering(0, last)] for last in range(windows)]
    return {
        "binary tree": np.sqrt([height * len(places) for places in levels]),
        "binary tree, averaged": np.sqrt([height * sum(map(averaged_variance, places)) for places in levels]),
        "independent noise": np.sqrt(np.arange(1, windows + 1)),
    }


def main() -> None:
    """Print two lines for each method and horizon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=4000, help="columns, each an independent repetition")
    width = parser.parse_args().width
    unit = math.sqrt(Fraction(4) / (2 * PRIVACY.rho))
    print(environment("numpy", "beam-dpsketch"))
    print(f"Seeds: hash 0, noise from the operating system; {width:,} columns, each a repetition; rho = {PRIVACY.rho}")
    print("Errors in units of Delta / sqrt(2 rho); unit of privacy: one record")
    print(f"{'windows':>7}  {'method':<22} {'rms':>7} {'theory':>7} {'ratio':>7} {'largest':>8} {'theory':>7}")
    for windows in HORIZONS:
        expected = theory(windows)
        for method, read in errors(windows, width).items():
            squares = np.array([np.square(read(last).astype(float)).mean() for last in range(windows)]) / unit**2
            rms, of_theory = math.sqrt(squares.mean()), math.sqrt(np.square(expected[method]).mean())
            largest = math.sqrt(squares.max())
            print(
                f"{windows:>7}  {method:<22} {rms:>7.2f} {of_theory:>7.2f} {rms / of_theory:>7.3f} {largest:>8.2f} "
                f"{expected[method].max():>7.2f}"
            )


if __name__ == "__main__":
    main()
