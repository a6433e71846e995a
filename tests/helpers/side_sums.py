"""What summary counts may hold of a unit: brute force in whole numbers and fractions, without the kernel.

Limits and sensitivities are a second derivation, written out counter by counter.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from beam_dpsketch import ADD_OR_REMOVE_ONE, NormBound
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading.codec import concat_tables, from_bytes, to_bytes
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches.metrics import MetricsSpec
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation
from beam_dpsketch.privacy.summary_counts import SummaryCount, SummaryCounts, summary_counts
from tests.helpers import norms
from tests.helpers.norms import UNIT, Case, Place, Records

NAMES = ("units", "records", "weight", "clipped", "scaled")
Cells: TypeAlias = dict[tuple[bytes, int], int]
"""What a unit adds to a counter in each key and window, in units of 1 / UNIT."""
Added: TypeAlias = dict[str, Cells]
"""The same for each counter."""


EVERY = SummaryCounts(records=Fraction(1, 50))


def counters_of(bounds: Bounds, max_cells: int | None) -> tuple[SummaryCount, ...]:
    """Return all summary counts."""
    return summary_counts(EVERY, bounds, max_cells=max_cells, clips=True)


def without_zeros(case: Case) -> Case:
    """Return the case without records of weight 0, which readers drop."""
    parts: list[Records] = [[record for record in part if record[1]] for part in case.parts]
    return Case(case.sketch_input, [record for record in case.records if record[1]], parts)


def side_sums(sketch_input: SketchInput, counters: Sequence[SummaryCount], *parts: Records) -> dict[Any, Added]:
    """Return what each unit adds to each counter, of records that come in these parts; the first is not pruned."""
    assert isinstance(sketch_input.bounds, NormBound)
    rule = NormRule(sketch_input.bounds, sketch_input, tuple(counters))
    first, *others = [norms.to_table(sketch_input, part) for part in parts if part]
    records = concat_tables([first, *(from_bytes(to_bytes(rule.prune(part))) for part in others)])
    kept, sums = rule.select_and_count(records)
    assert "records" not in kept.column_names
    assert kept.equals(rule.select(records))
    assert sums is not None
    found: dict[Any, Added] = defaultdict(lambda: defaultdict(dict))
    for row in sums.to_pylist():
        for counter in counters:
            cells = found[row["unit"]][counter.name]
            assert (row["key"], row["window"]) not in cells
            cells[row["key"], row["window"]] = row[counter.name]
    return found


def left_of(sketch_input: SketchInput, own: Records) -> tuple[dict[Place, int], int]:
    """Return what counts aside of one unit, by place, and how far off it may be.

    Of several metrics the one that loses most says it. Its factor is worked out here, where it is not rounded.
    """
    bounds, spec = sketch_input.bounds, sketch_input.spec
    assert isinstance(bounds, NormBound)
    kept, net = norms.bounded(sketch_input, own), norms.netted(own, bounds.max_per_item)
    if not isinstance(spec, MetricsSpec):
        return kept, 0
    whole = {place: weight * UNIT for place, weight in net.items()}
    if norms.in_parts(spec, kept) == norms.in_parts(spec, whole):
        return whole, 0
    factor = min(norms.factors_of_parts(sketch_input, net))
    left = {place: math.trunc(weight * factor) for place, weight in whole.items()}
    return left, len(left) + sum(map(abs, left.values())) // (1 << 16) + sum(map(abs, whole.values())) // (1 << 32)


def true_amounts(sketch_input: SketchInput, own: Records, kept: dict[Place, int]) -> Added:
    """Return v of one unit for each counter, in units of 1 / UNIT, in the cells where it has records."""
    bounds = sketch_input.bounds
    assert isinstance(bounds, NormBound)
    found: Added = {name: {(place.key, place.window): 0 for place, _ in own} for name in NAMES}
    net = norms.netted(own, bounds.max_per_item)
    for place, _ in own:
        found["records"][place.key, place.window] += UNIT
    is_scaled = any(abs(kept.get(place, 0)) < abs(weight) * UNIT for place, weight in net.items())
    for place, weight in net.items():
        cell, left = (place.key, place.window), kept.get(place, 0)
        found["units"][cell] = UNIT
        found["scaled"][cell] = UNIT if is_scaled else 0
        found["weight"][cell] += left
        found["clipped"][cell] += abs(weight) * UNIT - abs(left)
    return found


def squared_limit(name: str, bounds: NormBound, max_cells: int | None) -> Fraction:
    """Return K^2, in records."""
    norm = Fraction(bounds.max_norm)
    if name in ("units", "scaled"):
        most = max(1, math.floor(norm * norm))
        return Fraction(most if max_cells is None else min(most, max_cells))
    return norm**2 if name == "clipped" else (4 * norm) ** 2


def squared_delta(name: str, bounds: NormBound, max_cells: int | None, relation: NeighboringRelation) -> Fraction:
    """Return Delta^2, in records."""
    limit = squared_limit(name, bounds, max_cells)
    if relation is ADD_OR_REMOVE_ONE:
        return limit
    if name == "weight" and bounds.signed:
        return 4 * limit
    return 2 * limit


def square(cells: Iterable[int]) -> Fraction:
    """Return the sum of squares, in records."""
    return Fraction(sum(each * each for each in cells), UNIT**2)


def change(first: Cells, second: Cells) -> list[int]:
    """Return the change of each cell when one unit replaces another."""
    return [first.get(cell, 0) - second.get(cell, 0) for cell in {*first, *second}]


def check(case: Case, max_cells: int | None) -> None:
    """Raise unless each counter is a function of each unit alone, short enough, as said, and hides any unit."""
    bounds, case = case.bounds, without_zeros(case)
    if not case.records:
        return
    counters = counters_of(bounds, max_cells)
    assert [counter.name for counter in counters] == list(NAMES)
    found = side_sums(case.sketch_input, counters, case.records)
    assert side_sums(case.sketch_input, counters, *case.parts) == found, "the order or the split matters"
    check_changes(list(found.values()), counters)
    for unit, added in found.items():
        own = [record for record in case.records if record[0].unit == unit]
        assert side_sums(case.sketch_input, counters, own) == {unit: added}, "other units matter"
        if bounds.max_distinct_items is None:
            left, slack = left_of(case.sketch_input, own)
            check_amounts(true_amounts(case.sketch_input, own, left), added, bounds, max_cells, slack)


def check_amounts(true: Added, added: Added, bounds: NormBound, max_cells: int | None, weight_slack: int) -> None:
    """Raise unless a unit adds what the definitions say, up to rounding down; weights may be further off if given."""
    for name, amounts in true.items():
        slack = weight_slack if name in ("weight", "clipped") else 0
        limit, length = squared_limit(name, bounds, max_cells), square(amounts.values())
        assert {cell for cell, amount in amounts.items() if amount} <= added[name].keys()
        for cell, amount in added[name].items():
            assert amount * amounts[cell] >= 0 or abs(amount) <= slack, "the sign changed"
            exact = abs(amounts[cell])
            if length > limit:
                exact = math.isqrt(math.floor(amounts[cell] ** 2 * limit / length))
            least = exact - Fraction(exact, 1 << 22) - 1
            assert least - slack <= abs(amount) <= exact + slack, f"{name} is not as said"
            if not slack and length <= limit and length * UNIT**2 < 1 << 53:
                assert abs(amount) == exact, f"{name} of a unit within the limit was changed"


def check_changes(units: list[Added], counters: Sequence[SummaryCount]) -> None:
    """Raise if adding, removing or replacing a unit changes a counter by more than its noise is made for."""
    for counter, relation in itertools.product(counters, NeighboringRelation):
        delta = counter.sensitivity(relation).squared
        others = [{}] if relation is ADD_OR_REMOVE_ONE else [{}, *(added[counter.name] for added in units)]
        for added, other in itertools.product(units, others):
            assert square(change(added[counter.name], other)) <= delta, f"{counter.name} changes by too much"


def heavy_unit(
    sketch_input: SketchInput,
    cells: Sequence[tuple[bytes, int]],
    weight: int,
    sign: int = 1,
    items: Sequence[Any] | None = None,
) -> Records:
    """Return records of one unit, each item with this weight in each of the cells; at most max_weight in a record."""
    most = sketch_input.bounds.max_weight
    whole, rest = divmod(weight, most)
    weights = [most] * whole + [rest] * bool(rest)
    items = norms.keys_of(sketch_input.spec) if items is None else items
    return [(Place(0, *cell, item), sign * each) for cell, item, each in itertools.product(cells, items, weights)]


def draw(layout: str, seed: int, *, max_distinct_items: bool = False) -> tuple[Case, int | None]:
    """Draw a case and in how many cells a unit counts in full; often all of it is in one cell."""
    case = norms.draw_case(layout, seed, max_distinct_items=max_distinct_items)
    rng = np.random.default_rng(seed)
    max_cells = [None, 1, 2, 5][rng.integers(4)]
    if max_cells == 1 and rng.integers(2):
        records, *parts = [
            [(place._replace(key=b"", window=0), weight) for place, weight in each]
            for each in (case.records, *case.parts)
        ]
        case = Case(case.sketch_input, records, list(parts))
    return case, max_cells
