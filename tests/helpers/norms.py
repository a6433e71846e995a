"""What norm bounding may leave of a unit: brute force in whole numbers, from the cells that single items change.

Nothing here uses the kernel or `cells_of`: the cells of an item are those that `accumulate_keys` changes for it alone.
Where rows are released that are made of counters, they are the cells; their longest column is worked out by hand.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacySpec,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading import reading
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.exact.sketches.listed_items import CountSpec, ThresholdedItems
from beam_dpsketch.exact.sketches.metrics import MetricPart, MetricsSpec
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit

UNIT = 1 << 16
"""One record, in the units of scaled weights."""
ITEMS = 16
_MAX_ITEM_WEIGHT = (1 << 31) - 1


class Place(NamedTuple):
    """What records must have in common to be netted."""

    unit: Any
    key: bytes
    window: int
    item: Any


Records = Sequence[tuple[Place, int]]
Change = list[dict[tuple[bytes, int, int], int]]
"""For each table, what a unit adds to each cell of each key and window."""


class Case(NamedTuple):
    """Records of several units, and the sketch and bounds they are for."""

    sketch_input: SketchInput
    records: Records
    parts: list[Records]  # the same records in another order, split

    @property
    def bounds(self) -> NormBound:
        assert isinstance(self.sketch_input.bounds, NormBound)
        return self.sketch_input.bounds


def _flat(kind: str, rng: np.random.Generator) -> SketchSpec:
    depth, width, seed = (int(rng.integers(*ends)) for ends in ((1, 5), (1, 9), (0, 99)))
    return SketchSpec(kind=kind, depth=depth, width=width, seed=seed)


def _tree(*levels: tuple[int, str, int, int, Fraction]) -> Callable[[np.random.Generator], TreeSpec]:
    domain = IntegerDomain(0, ITEMS - 1)
    made = tuple(Level(*level) for level in levels)
    return lambda rng: TreeSpec(domain=domain, levels=made, seed=int(rng.integers(0, 99)))


def _statistics(rng: np.random.Generator) -> StatisticsSpec:
    return StatisticsSpec(IntegerDomain(-3, int(rng.choice([16, 32, 64])) - 3))


def _statistics_rounded(rng: np.random.Generator) -> StatisticsSpec:
    domains = [IntegerDomain(0, int(rng.integers(16, 4000))), FloatDomain(-0.5, 2, 1e-6), FloatDomain(0, 1, 1e-3)]
    return StatisticsSpec(domains[rng.integers(3)], bool(rng.integers(2)))


def _metrics(*layouts: Callable[[np.random.Generator], Any]) -> Callable[[np.random.Generator], MetricsSpec]:
    """Return metrics of such layouts, with shares that differ."""
    whole = len(layouts) * (len(layouts) + 1) // 2
    shares = [Fraction(place + 1, whole) for place in range(len(layouts))]
    return lambda rng: MetricsSpec(
        tuple(
            MetricPart(f"m{place}", made(rng), share)
            for place, (made, share) in enumerate(zip(layouts, shares, strict=True))
        )
    )


LAYOUTS: dict[str, Callable[[np.random.Generator], Any]] = {
    "count_sketch": functools.partial(_flat, "count_sketch"),
    "count_min": functools.partial(_flat, "count_min"),
    "one cell a row": lambda rng: SketchSpec(depth=int(rng.integers(1, 3)), width=1, seed=int(rng.integers(0, 99))),
    "histogram": _tree((4, "exact", 1, 16, Fraction(1))),
    "exact and count_sketch": _tree((2, "exact", 1, 4, Fraction(3, 4)), (2, "count_sketch", 2, 3, Fraction(1, 4))),
    "all kinds": _tree(
        (1, "exact", 1, 2, Fraction(1, 7)),
        (1, "count_min", 2, 2, Fraction(2, 7)),
        (2, "count_sketch", 3, 3, Fraction(4, 7)),
    ),
    "fine shares": _tree(
        (2, "exact", 1, 4, Fraction(1 << 28, 10**9 + 7)), (2, "count_sketch", 3, 4, 1 - Fraction(1 << 28, 10**9 + 7))
    ),
    "listed items": lambda rng: ListedItems([b"%d" % item for item in rng.permutation(ITEMS)]),
    "statistics": _statistics,
    "statistics, rounded": _statistics_rounded,
    "metrics": _metrics(
        lambda rng: ListedItems(range(ITEMS)),
        _tree((2, "exact", 1, 4, Fraction(3, 4)), (2, "count_sketch", 2, 3, Fraction(1, 4))),
        _statistics,
    ),
    "metrics, bytes": _metrics(functools.partial(_flat, "count_sketch"), functools.partial(_flat, "count_min")),
}
ROUNDED = ("fine shares", "statistics, rounded")
"""Where lengths are rounded up a little."""


def draw_case(layout: str, seed: int, *, max_distinct_items: bool = False) -> Case:
    """Draw a case at random: weights of every size, few items and cells, up to three keys and two windows."""
    rng = np.random.default_rng([seed, list(LAYOUTS).index(layout)])
    max_weight = int(rng.choice([1, 3, 50, 1000, 1 << 20, 1 << 31]))
    norms = [Fraction(1), Fraction(5, 2), Fraction(int(rng.integers(1, 200)), int(rng.integers(1, 17))), Fraction(1000)]
    bounds = NormBound(
        norms[rng.integers(len(norms))],
        max_weight=max_weight,
        signed=bool(rng.integers(2)),
        max_per_item=[None, 1, 3, 20][rng.integers(4)],
        max_distinct_items=int(rng.integers(1, 12)) if max_distinct_items else None,
    )
    sketch_input = SketchInput(LAYOUTS[layout](rng), bounds)
    items, largest = keys_of(sketch_input.spec), [1, max_weight][rng.integers(2)]
    keys, windows, size = (int(rng.integers(1, high)) for high in (4, 3, 60))
    weights = rng.integers(-largest if bounds.signed else 1, largest + 1, size)
    if rng.integers(2):
        weights[2:] = np.sign(weights[2:])  # a few heavy records among light ones
    records = [
        (
            Place(int(rng.integers(3)), b"k%d" % rng.integers(keys), int(rng.integers(windows)), items[place]),
            int(weight),
        )
        for place, weight in zip(rng.integers(0, ITEMS, size), weights, strict=True)
    ]
    shuffled = [records[place] for place in rng.permutation(size)]
    cuts = sorted(int(cut) for cut in rng.integers(0, size + 1, 2))
    return Case(sketch_input, records, [shuffled[: cuts[0]], shuffled[cuts[0] : cuts[1]], shuffled[cuts[1] :]])


def draw_cancelling_case(seed: int) -> Case:
    """Draw a unit with a heavy item and light ones that share its only cell with the opposite sign."""
    rng = np.random.default_rng(seed)
    spec = SketchSpec(depth=1, width=1, seed=int(rng.integers(0, 99)))
    items = keys_of(spec)
    heavy = items.pop(int(rng.integers(ITEMS)))
    opposite = [item for item in items if changed_cells(spec, item) != changed_cells(spec, heavy)]
    weights = [(heavy, int(rng.integers(50, 100))), *((item, int(rng.integers(1, 4))) for item in opposite)]
    records = [(Place(0, b"k", 0, item), weight) for item, weight in weights]
    bounds = NormBound(Fraction(int(rng.integers(2, 20)), 2), max_weight=100)
    return Case(SketchInput(spec, bounds), records, [records[::2], records[1::2]])


def keys_of(spec: Any) -> list[Any]:
    """Return the keys of a few items, as Python values."""
    items: Any = spec.items if isinstance(spec, ListedItems) else np.arange(ITEMS)
    if isinstance(spec, (StatisticsSpec, FactorizationSpec)):
        items = spec.domain.values(np.linspace(0, spec.domain.size - 1, ITEMS).astype(np.uint64))
    if isinstance(spec, MetricsSpec):
        return _keys_of_metrics(spec)
    keys, usable = raw_type(spec).usable_keys(spec, items)
    assert usable.all()
    return keys.tolist()


def _keys_of_metrics(spec: MetricsSpec) -> list[Any]:
    """Return keys of records: the first and the last with all items, others without some of them."""
    columns, usable = [], []
    for place, part in enumerate(spec.counted):
        key_type = part.kind.key_type(part.spec)
        keys = np.array(keys_of(part.spec), dtype=key_type)
        columns.append(np.concatenate([keys[:1], np.roll(keys[1:-1], place), keys[-1:]]))
        has = np.arange(ITEMS) % (len(spec.counted) + 2) != place + 1
        usable.append(has | (np.arange(ITEMS) == ITEMS - 1))
    return spec.joined(columns, usable).tolist()


def to_table(sketch_input: SketchInput, records: Records) -> pa.Table:
    """Return records as the steps of a transform hand them on."""
    item_type = pa.uint64() if sketch_input.key_type == np.uint64 else pa.large_binary()
    units = [place.unit for place, _ in records]
    return pa.table(
        {
            "unit": pa.array(units, pa.large_binary() if isinstance(units[0], bytes) else pa.int64()),
            "key": pa.array([place.key for place, _ in records], pa.large_binary()),
            "window": pa.array([place.window for place, _ in records], pa.int64()),
            "item": pa.array([place.item for place, _ in records], item_type),
            "weight": pa.array([weight for _, weight in records], pa.int64()),
        }
    )


def bounded(sketch_input: SketchInput, *parts: Records) -> dict[Place, int]:
    """Return the weights that are counted, of records that come in these parts."""
    bounds = sketch_input.bounds
    assert isinstance(bounds, NormBound)
    rule = NormRule(bounds, sketch_input)
    tables = [to_table(sketch_input, part) for part in parts if part]
    if len(parts) > 1:
        tables = [rule.prune(table) for table in tables]
    selected = rule.select(pa.concat_tables(tables))
    columns = [selected[name].to_pylist() for name in Place._fields]
    weights: Counter[Place] = Counter()
    for place, weight in zip(zip(*columns, strict=True), reading.total_weights(selected, bounds).tolist(), strict=True):
        weights[Place(*place)] += weight
    return dict(weights)


def netted(records: Records, cap: int | None = None) -> dict[Place, int]:
    """Return the net weights that are not 0, each of at most this size."""
    weights: Counter[Place] = Counter()
    for place, weight in records:
        weights[place] += weight
    cap = min(cap or _MAX_ITEM_WEIGHT, _MAX_ITEM_WEIGHT)
    return {place: max(-cap, min(cap, weight)) for place, weight in weights.items() if weight}


@functools.cache
def changed_cells(spec: Any, item: Any) -> tuple[dict[int, int], ...]:
    """Return the change of each cell of each table that one record of an item makes: what noise is added to."""
    flat = [cells.ravel().tolist() for cells in _of_one_record(spec, item).tables_to_release(0)]
    return tuple(
        {cell: in_amounts(change, amount) for cell, change in enumerate(cells) if change}
        for cells, amount in zip(flat, amounts_of(spec), strict=True)
    )


def changed_counters(spec: Any, item: Any) -> list[set[int]]:
    """Return the counters of each table that one record of an item changes."""
    return [{*np.flatnonzero(table).tolist()} for table in _of_one_record(spec, item).counter_tables()]


def _of_one_record(spec: Any, item: Any) -> RawSketch:
    kind = raw_type(spec)
    return kind(spec).accumulate_keys(np.array([item], dtype=kind.key_type(spec)), np.ones(1, dtype=np.int64))


def in_amounts(change: int, amount: int) -> Any:
    """Return a change of a counter as a part of the most that a record changes it, a whole number where that is 1."""
    return change if amount == 1 else Fraction(change, amount)


def tables_of(spec: Any) -> list[tuple[int, Fraction]]:
    """Return the rows of each table and its share of rho, as the spec says them."""
    if isinstance(spec, TreeSpec):
        return [(level.depth, level.share) for level in spec.levels]
    if isinstance(spec, (ListedItems, ThresholdedItems, FactorizationSpec, StatisticsSpec, CountSpec)):
        return [(1, Fraction(1))]
    if isinstance(spec, MetricsSpec):
        return [(rows, part.share * share) for part in spec.counted for rows, share in tables_of(part.spec)]
    return [(spec.depth, Fraction(1))]


def counters_of(spec: Any) -> list[int]:
    """Return for each table how many counters the kind names for an item: one in each row, or all of numbers."""
    if isinstance(spec, MetricsSpec):
        return [count for part in spec.counted for count in counters_of(part.spec)]
    return [spec.cells] if isinstance(spec, StatisticsSpec) else [rows for rows, _ in tables_of(spec)]


def amounts_of(spec: Any) -> list[int]:
    """Return for each table the most that a record of weight 1 changes its counters, in sum, by hand.

    A number is counted in steps from both ends of its domain, and there are as many steps as differ, up to 2^17. With
    squares, 1 is the square of the steps, or 2^18 if that is less. From 128 on, a guard adds 1/2^10, rounded up.
    """
    if isinstance(spec, MetricsSpec):
        return [amount for part in spec.counted for amount in amounts_of(part.spec)]
    if not isinstance(spec, StatisticsSpec):
        return [1] * len(tables_of(spec))
    steps = min(spec.domain.size - 1, 1 << 17)
    whole = min(steps**2, 1 << 18) if spec.variance else steps
    return [whole + (-(-whole // 1024) if whole >= 128 else 0)]


def squared_columns(spec: Any) -> list[int]:
    """Return for each table the squared length of the rows that one record changes at most; 1 where they are cells."""
    if isinstance(spec, MetricsSpec):
        return [square for part in spec.counted for square in squared_columns(part.spec)]
    sizes = [spec.domain.size if isinstance(spec, FactorizationSpec) else 0] * len(tables_of(spec))
    if isinstance(spec, TreeSpec):
        sizes = [level.width if level.sketch == "factor" else 0 for level in spec.levels]
    return [factor_by_hand(size).squared_length if size else 1 for size in sizes]


def columns_of_factor(size: int) -> list[list[int]]:
    """Return the columns of W for up to 2^17 values, from their first entry above 0, in units of 2^-17."""
    factor = factor_by_hand(size)
    return [[gain * entry for entry in factor.column[: size - place]] for place, gain in enumerate(factor.gains)]


class FactorByHand(NamedTuple):
    """W of up to 2^17 values by its definition: c_0, c_1..., the gain of each column, and its longest one's square."""

    column: list[int]
    gains: list[int]
    squared_length: int


@functools.cache
def factor_by_hand(size: int) -> FactorByHand:
    """Return W, exactly.

    Column j begins in row j, with c_0, c_1 and so on to 10 bits, where c_k is binom(2k, k) / 4^k. Its gain, to 7 bits,
    is the largest one with which the column is no longer than the first.
    """
    column, binomial = [], 1
    for k in range(size):
        column.append((binomial * 2**11 // 4**k + 1) // 2)
        binomial = binomial * (4 * k + 2) // (k + 1)
    squares = list(itertools.accumulate(entry * entry for entry in column))[::-1]
    gains = [math.isqrt(squares[0] * 4**7 // square) for square in squares]
    return FactorByHand(column, gains, max(gain**2 * square for gain, square in zip(gains, squares, strict=True)))


def weights_of_squares(spec: Any) -> list[Fraction]:
    """Return for each table what the squares of its changes count in the squared length of a unit."""
    tables = zip(tables_of(spec), squared_columns(spec), strict=True)
    return [share / rows / square for (rows, share), square in tables]


def has_signs(spec: Any) -> list[bool]:
    """Return for each table whether an item may count negatively in a cell, as the spec says it."""
    if isinstance(spec, TreeSpec):
        return [level.sketch == "count_sketch" for level in spec.levels]
    if isinstance(spec, MetricsSpec):
        return [signs for part in spec.counted for signs in has_signs(part.spec)]
    return [not isinstance(spec, (ListedItems, FactorizationSpec, StatisticsSpec)) and spec.kind == "count_sketch"]


def change(spec: Any, weights: Iterable[tuple[Place, int]]) -> Change:
    """Return what the records of one unit add to all counters."""
    tables: Change = [defaultdict(int) for _ in tables_of(spec)]
    for place, weight in weights:
        for table, cells in zip(tables, changed_cells(spec, place.item), strict=True):
            for cell, sign in cells.items():
                table[place.key, place.window, cell] += sign * weight
    return tables


def squared_length(spec: Any, added: Change) -> Fraction:
    """Return the square of the length, in the unit of the weights."""
    squares = [sum(value * value for value in table.values()) for table in added]
    weights = weights_of_squares(spec)
    return sum((weight * square for weight, square in zip(weights, squares, strict=True)), Fraction(0))


def distance(first: Change, second: Change) -> Change:
    """Return the difference of what two units add."""
    return [
        {cell: mine.get(cell, 0) - theirs.get(cell, 0) for cell in {*mine, *theirs}}
        for mine, theirs in zip(first, second, strict=True)
    ]


def loss(sketch_input: SketchInput, added: Change, relation: NeighboringRelation, rho: Fraction) -> Fraction:
    """Return the loss of a change of all counters, in zCDP, at the noise that a sketch with all of rho draws."""
    terms = ReleaseTerms(
        PrivacySpec(rho=rho, relation=relation, summary_counts=None),
        sketch_input.bounds,
        privacy_unit=PrivacyUnit.PRIVACY_ID,
    )
    spec = sketch_input.spec
    noise = [sigma * square for sigma, square in zip(calibrate(spec, terms), squared_columns(spec), strict=True)]
    squares = [sum(value * value for value in table.values()) for table in added]
    terms_of_tables = (square / (2 * variance * UNIT**2) for square, variance in zip(squares, noise, strict=True))
    return sum(terms_of_tables, Fraction(0))


def units_of(weights: dict[Place, int]) -> dict[Any, dict[Place, int]]:
    """Return the weights of each unit."""
    units: dict[Any, dict[Place, int]] = defaultdict(dict)
    for place, weight in weights.items():
        units[place.unit][place] = weight
    return units


def check(case: Case) -> None:
    """Raise unless the records that count are a function of each unit alone, short enough, and no smaller than said."""
    found = bounded(case.sketch_input, case.records)
    assert bounded(case.sketch_input, *case.parts) == found, "the order or the split matters"
    by_unit, net = units_of(found), units_of(netted(case.records, case.bounds.max_per_item))
    limit = case.bounds.squared_length * UNIT**2
    for unit, weights in by_unit.items():
        own = [record for record in case.records if record[0].unit == unit]
        assert bounded(case.sketch_input, own) == weights, "other units matter"
        length = squared_length(case.sketch_input.spec, change(case.sketch_input.spec, weights.items()))
        assert length <= limit, f"too long: {float(length / limit)}"
    for unit, weights in net.items():
        if case.bounds.max_distinct_items is None:
            check_kept(case.sketch_input, weights, by_unit.get(unit, {}))
        else:
            counted = Counter(
                part for place in by_unit.get(unit, {}) for part in parts_of(case.sketch_input.spec, place)
            )
            assert max(counted.values(), default=0) <= case.bounds.max_distinct_items, "a limit of memory is exceeded"


def parts_of(spec: Any, place: Place) -> list[int]:
    """Return the metrics that a record of this place is in, by number; the only one, if there are not several."""
    return [number for number, _ in own_items(spec, place.item)] if isinstance(spec, MetricsSpec) else [0]


def in_parts(spec: Any, weights: dict[Place, int]) -> Counter[Any]:
    """Return the weight of each item of each metric, in each key and window."""
    found = Counter[Any]()
    for place, weight in weights.items():
        for number, item in own_items(spec, place.item):
            found[place.key, place.window, number, item] += weight
    return found


def check_kept_in_parts(sketch_input: SketchInput, net: dict[Place, int], found: dict[Place, int]) -> None:
    """Raise unless each metric keeps of its items what its own factor leaves of them, up to rounding."""
    spec, wanted, kept, slack = sketch_input.spec, Counter[Any](), in_parts(sketch_input.spec, found), Counter[Any]()
    factors = factors_of_parts(sketch_input, net)
    rounding = 2.0**-21 if all(square == 1 for square in squared_columns(spec)) else 2.0**-16  # of pairs to 20 bits
    for place, weight in net.items():
        for number, item in own_items(spec, place.item):
            at = place.key, place.window, number, item
            wanted[at] += weight * UNIT * factors[number]
            slack[at] += 1 + abs(weight) * UNIT * rounding
    for at in {*wanted, *kept}:
        assert abs(kept[at] - wanted[at]) <= slack[at], "an item lost more than its part"


def own_items(spec: MetricsSpec, item: Any) -> list[tuple[int, Any]]:
    """Return the metrics that a record has items for, by number, and these items."""
    found = spec.split(np.array([item], dtype=raw_type(spec).key_type(spec)))
    return [(number, own[0]) for number, (_, own, has) in enumerate(found) if has[0]]


def factors_of_parts(sketch_input: SketchInput, net: dict[Place, int]) -> list[float]:
    """Return the factor of each metric for one unit, from the cells that each item changes alone."""
    spec, limit = sketch_input.spec, sketch_input.bounds.squared_length
    squares, tables = [], list(enumerate(weights_of_squares(spec)))
    for part in spec.counted:
        count, square = len(tables_of(part.spec)), Fraction(0)
        for table, of_table in tables[:count]:
            sums: Counter[Any] = Counter()
            for place, weight in net.items():
                for cell, change in changed_cells(spec, place.item)[table].items():
                    sums[place.key, place.window, cell] += abs(change * weight)
            square += of_table * sum(each**2 for each in sums.values())
        squares.append(square)
        del tables[:count]
    if sum(squares) <= limit:
        return [1.0] * len(squares)
    rest, left = set(range(len(squares))), limit
    while True:
        level = left / sum(spec.counted[number].share for number in rest)
        fitting = {number for number in rest if squares[number] <= spec.counted[number].share * level}
        if not fitting:
            of_rest = {number: math.sqrt(spec.counted[number].share * level / squares[number]) for number in rest}
            return [of_rest.get(number, 1.0) for number in range(len(squares))]
        rest, left = rest - fitting, left - sum(squares[number] for number in fitting)


def check_kept(sketch_input: SketchInput, net: dict[Place, int], found: dict[Place, int]) -> None:
    """Raise unless each item keeps the part max_norm / total of its weight, up to rounding; all of it if that is 1."""
    assert isinstance(sketch_input.bounds, NormBound)
    if isinstance(sketch_input.spec, MetricsSpec):
        check_kept_in_parts(sketch_input, net, found)
        return
    max_norm, total = Fraction(sketch_input.bounds.max_norm), sum(map(abs, net.values()))
    denominators = [(share / rows).denominator for rows, share in tables_of(sketch_input.spec)]
    rounding = Fraction(1, 1 << 23 if math.lcm(*denominators) <= 1 << 20 else 1 << 16)
    for place, weight in net.items():
        kept = found.get(place, 0) if weight > 0 else -found.get(place, 0)
        assert 0 <= kept <= abs(weight) * UNIT, "an item grew or changed its sign"
        if total <= max_norm:
            assert kept == abs(weight) * UNIT, "a unit within the norm was changed"
        factor = min(Fraction(1), max_norm / total) * (1 - rounding) - Fraction(1, 1 << 32)
        assert kept > abs(weight) * UNIT * factor - 1, "an item lost more than its part"


def check_losses(case: Case) -> None:
    """Raise if replacing, adding or removing a unit of the case costs more than rho."""
    rho, spec = Fraction(1, 10), case.sketch_input.spec
    weights = units_of(bounded(case.sketch_input, case.records)).values()
    changes = [change(spec, each.items()) for each in weights]
    for relation in NeighboringRelation:
        others = [change(spec, [])] if relation is ADD_OR_REMOVE_ONE else [change(spec, []), *changes]
        for first in changes:
            for second in others:
                spent = loss(case.sketch_input, distance(first, second), relation, rho)
                assert spent <= rho, f"costs {float(spent / rho)} rho"
