"""Summary counts in rows over time: each counter of a unit is short enough over all rows, keys and windows."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import REPLACE_ONE, NormBound, SketchSpec
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.over_time import mechanism as base
from beam_dpsketch.privacy.over_time.lengths import WindowPairs
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.over_time.pairs import ONE_PAIR
from beam_dpsketch.privacy.summary_counts import SummaryCount
from tests.helpers import laws, rows, side_sums
from tests.helpers.norms import Place, Records
from tests.helpers.rows import UNIT
from tests.helpers.side_sums import NAMES, Cells

every_mechanism = pytest.mark.parametrize("made", rows.MECHANISMS)
WIDE = SketchSpec(kind="count_sketch", depth=1, width=1 << 12, seed=3)  # its 16 items share no cell
NARROW = SketchSpec(depth=2, width=2, seed=3)
TOO_MUCH = "changes by too much"


def input_of(spec: Any, mechanism: RowMechanism, max_norm: Any, **settings: Any) -> SketchInput:
    return SketchInput(spec, NormBound(max_norm, **{"max_weight": 1 << 20} | settings), over_time=rows.over(mechanism))


def length(mechanism: RowMechanism, added: Cells) -> Fraction:
    """The squared length over all rows over the longest column, in records."""
    by_key: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    start, step = rows.end(0), rows.end(1) - rows.end(0)
    for (key, end), amount in added.items():
        by_key[key].append(((end - start) // step, amount))
    squares = sum(rows.squared_rows(mechanism, of_windows) for of_windows in by_key.values())
    return Fraction(squares, rows.longest(mechanism) * UNIT**2)


def change(first: Cells, second: Cells) -> Cells:
    return {cell: first.get(cell, 0) - second.get(cell, 0) for cell in {*first, *second}}


def at_random(mechanism: RowMechanism, seed: int, *, signed: bool, size: int = 60) -> Records:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, [2, 60, 5000][rng.integers(3)], size) * (rng.choice([1, -1], size) if signed else 1)
    windows, items = int(rng.integers(1, mechanism.windows + 1)), int(rng.integers(1, 16))
    return [
        (Place(int(rng.integers(3)), b"k%d" % rng.integers(2), rows.end(int(rng.integers(windows))), item), int(weight))
        for item, weight in zip(rng.integers(0, items, size).tolist(), weights, strict=True)
    ]


def heavy(mechanism: RowMechanism, unit: int, keys: list[bytes], weight: int) -> Records:
    """Records of one unit in all windows: each window adds to each row that it is in."""
    every = itertools.product(keys, range(mechanism.windows), range(16))
    return [(Place(unit, key, rows.end(window), item), weight) for key, window, item in every]


def cases() -> Iterator[tuple[SketchInput, Records]]:
    """The same in every run."""
    for made, signed, number in itertools.product(rows.MECHANISMS.values(), (False, True), range(12)):
        mechanism, spec = made(2 + number % 5), (WIDE, NARROW)[number % 2]
        max_norm = [Fraction(5, 2), 9, 40][number % 3]
        yield input_of(spec, mechanism, max_norm, signed=signed), at_random(mechanism, number, signed=signed)
    for made, signed in itertools.product(rows.MECHANISMS.values(), (False, True)):
        for weight in (1, 3000):
            mechanism, first, second = made(6), [b"a", b"b", b"c"], [b"d", b"e", b"f"]
            records = [*heavy(mechanism, 0, first, weight), *heavy(mechanism, 1, second, weight)]
            records += heavy(mechanism, 2, first, -weight if signed else weight)
            yield input_of(WIDE, mechanism, 6, signed=signed), records


def check(sketch_input: SketchInput, records: Records, ratios: dict[Any, Fraction]) -> None:
    """Raise if a counter of a unit changes all rows by too much, or is smaller than need be; note the largest."""
    bounds, over_time = sketch_input.bounds, sketch_input.over_time
    assert isinstance(bounds, NormBound)
    assert over_time is not None
    counters = side_sums.counters_of(bounds, None)
    found = side_sums.side_sums(sketch_input, counters, records)
    for counter, relation in itertools.product(counters, NeighboringRelation):
        delta = side_sums.squared_delta(counter.name, bounds, None, relation)
        assert delta == counter.sensitivity(relation).squared
        units: list[Cells] = [added[counter.name] for added in found.values()]
        for one, other in itertools.product(units, [{}, *units] if relation is REPLACE_ONE else [{}]):
            ratio = length(over_time.mechanism, change(one, other)) / delta
            assert ratio <= 1, f"{counter.name} {TOO_MUCH}: {float(ratio)}"
            key = (counter.name, relation, counter.signed)
            ratios[key] = max(ratios.get(key, ratio), ratio)
    check_amounts(sketch_input, counters, records, found)


def check_amounts(sketch_input: SketchInput, counters: Any, records: Records, found: dict[Any, Any]) -> None:
    """Raise unless records, which need no norm, are K / |v| of what there are."""
    assert sketch_input.over_time is not None
    for unit, added in found.items():
        true: Cells = defaultdict(int)
        for place, _ in records:
            true[place.key, place.window] += UNIT * (place.unit == unit)
        (counter,) = (each for each in counters if each.name == "records")
        factor = min(1.0, float(counter.squared_limit / length(sketch_input.over_time.mechanism, true)) ** 0.5)
        for cell, amount in added["records"].items():
            assert amount == pytest.approx(true[cell] * factor, abs=1.01), "records are not as said"


def check_all() -> dict[Any, Fraction]:
    ratios: dict[Any, Fraction] = {}
    for case in cases():
        check(*case, ratios)
    return ratios


def test_every_counter_hides_every_unit_and_each_sensitivity_is_attained() -> None:
    """By units in all windows of three keys; replaced in other keys, or by the opposite weights."""
    ratios = check_all()
    assert len(ratios) == 2 * (len(NAMES) + 1)  # weight with and without signs
    assert min(ratios.values()) > Fraction(97, 100)  # whole steps of 1 / 256 round units down


@pytest.mark.one_fast_case
@every_mechanism
@given(data=st.data())
def test_order_split_and_other_units_do_not_matter(made: str, data: Any) -> None:
    mechanism, signed = rows.MECHANISMS[made](data.draw(st.integers(2, 6))), data.draw(st.booleans())
    sketch_input = input_of(NARROW, mechanism, 5, signed=signed)
    counters = side_sums.counters_of(sketch_input.bounds, None)
    records = at_random(mechanism, data.draw(st.integers(0, 1 << 40)), signed=signed)
    found = side_sums.side_sums(sketch_input, counters, records)
    order = data.draw(st.permutations(list(records)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=4)))
    parts = [order[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(order)], strict=True)]
    assert side_sums.side_sums(sketch_input, counters, *parts) == found
    for unit, added in found.items():
        own = [record for record in records if record[0].unit == unit]
        assert side_sums.side_sums(sketch_input, counters, own) == {unit: added}


@every_mechanism
def test_light_units_count_in_full(made: str) -> None:
    """In a table that is not netted too."""
    mechanism = rows.MECHANISMS[made](6)
    sketch_input = input_of(WIDE, mechanism, 12)
    records = [(Place(0, b"k", rows.end(window), 5), 2) for window in (3, 0, 3, 5)]
    counters = side_sums.counters_of(sketch_input.bounds, None)
    for others in ([], heavy(mechanism, 1, [b"a"], 99)):
        added = side_sums.side_sums(sketch_input, counters, [*records, *others])[0]
        cells = {(b"k", rows.end(window)): UNIT for window in (0, 3, 5)}
        assert added["units"] == cells
        assert added["records"] == {**cells, (b"k", rows.end(3)): 2 * UNIT}
        assert added["weight"] == {cell: 2 * amount for cell, amount in added["records"].items()}
        assert {*added["clipped"].values(), *added["scaled"].values()} == {0}


def test_above_the_dense_limit_counters_are_never_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit counts there as if its windows were one, and still reaches all of K."""
    monkeypatch.setattr(base, "MAX_DENSE", 1)
    for made in rows.MECHANISMS.values():
        sketch_input = input_of(WIDE, made(6), 6)
        counters = side_sums.counters_of(sketch_input.bounds, None)
        records = [*heavy(made(6), 0, [b"a", b"b"], 30), (Place(1, b"a", rows.end(0), 3), 9000)]
        for added in side_sums.side_sums(sketch_input, counters, records).values():
            for counter in counters:
                cells = added[counter.name]
                assert length(made(6), cells) <= counter.squared_limit
                sums = [sum(cells.get((key, rows.end(window)), 0) for window in range(6)) for key in (b"a", b"b")]
                total = Fraction(sum(each**2 for each in sums), UNIT**2)
                assert total <= counter.squared_limit
                assert cells == {} or len(cells) == 1 or total > counter.squared_limit * Fraction(9, 10)


# Faults.


def limited(**changes: Any) -> laws.Fault:
    return laws.around(SummaryCount, "limited", lambda exact, *given, **settings: exact(*given, **settings | changes))


def in_each_window(exact: Any, counter: SummaryCount, values: Any, units: np.ndarray, **settings: Any) -> np.ndarray:
    return exact(counter, values, np.arange(len(units)), **settings | {"pairs": None})


FAULTS = {
    "no cross terms": laws.put(
        WindowPairs, "squares", lambda _, sizes, needed: np.square(sizes * 1.0) * ONE_PAIR * needed
    ),
    "no pairs": limited(pairs=None),
    "16 bits": limited(scale_bits=16),
    "a limit for each window": laws.around(SummaryCount, "limited", in_each_window),
    "units mixed up": laws.around(  # squares in the order in which they were paired
        WindowPairs, "squares", lambda exact, *given: exact(*given)[::-1], f"{TOO_MUCH}|not as said"
    ),
}
test_a_planted_fault_is_found = laws.mutants(FAULTS, check_all, words=TOO_MUCH)
