"""How many units are of each length, counted from single records by brute force in whole numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch.exact.bounding.norm_rule import PartRecords, UnitLengths
from beam_dpsketch.privacy.norm.choice import bin_count
from tests.helpers import laws, norms
from tests.helpers.norms import Case, Place


def squared_length(spec: Any, weights: dict[Place, int]) -> Fraction:
    """N^2 of one unit, from the cells that each item changes alone."""
    total = Fraction(0)
    for number, of_table in enumerate(norms.weights_of_squares(spec)):
        sums: Counter[Any] = Counter()
        for place, weight in weights.items():
            for cell, change in norms.changed_cells(spec, place.item)[number].items():
                sums[place.key, place.window, cell] += abs(change * weight)
        total += of_table * sum(each**2 for each in sums.values())
    return total


def histogram(case: Case) -> list[int]:
    """The number of units in each bin; those shorter than 1 are in the first."""
    counts = [0] * bin_count(case.bounds.max_weight)
    for weights in norms.units_of(norms.netted(case.records, case.bounds.max_per_item)).values():
        squared = squared_length(case.sketch_input.spec, weights)
        counts[min(len(counts) - 1, max((place for place in range(80) if 2**place <= squared), default=0))] += 1
    return counts


def _of_each_record(exact: Any, lengths: UnitLengths, parts: Sequence[PartRecords]) -> np.ndarray:
    return exact(lengths, parts)[:, parts[0].rows.codes["unit"]]


RECORDS_IN_PLACE_OF_UNITS = laws.around(UnitLengths, "squares", _of_each_record)
