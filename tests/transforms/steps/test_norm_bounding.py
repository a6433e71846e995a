"""What a `NormBound` leaves of each privacy id: equal, to the last bit, for any form, order and split of the records.

The counters before the noise are compared with `tests.helpers.norm_reference`, which shares no code with the package's
bounding. Nothing here is random.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    AssumePublicKeys,
    IntegerDomain,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    SketchSpec,
    TreeSpec,
)
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.reading.codec import concat_tables
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK
from beam_dpsketch.transforms.steps import bounding as steps
from tests.helpers.every_kind import RUNNERS
from tests.helpers.norm_reference import UNIT, Counted, assert_same, expected, squared_length
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, numbers_by_key, run, seen_by_sink
from tests.helpers.tree_pipelines import ExactVectors, exact_vectors

PRIVACY = PrivacySpec(rho=Fraction(1, 10), relation=ADD_OR_REMOVE_ONE)
FLAT = SketchSpec(depth=3, width=16)
COUNT_MIN = SketchSpec(kind="count_min", depth=2, width=7)
NUMBERS = TreeSpec(
    domain=IntegerDomain(0, 63),
    levels=(
        Level(2, "exact", 1, 4, Fraction(1, 6)),
        Level(2, "count_min", 2, 5, Fraction(1, 3)),
        Level(2, "count_sketch", 3, 7, Fraction(1, 2)),
    ),
)
BOUND = NormBound(5)


class Visit(NamedTuple):
    user: int
    key: str
    item: Any
    n: int


def visits(item: Callable[[int], Any]) -> list[Counted]:
    """12 people with 1 to 89 records of 2 keys and 13 items, some deleted: the later ones exceed a norm of 5."""
    return [
        Counted(person, f"key {number * person % 2}", item(number * number % 13), number % 5 - 1)
        for person in range(1, 13)
        for number in range(1 + 8 * (person - 1))
    ]


def text(number: int) -> str:
    return f"{'abc'[number % 3]}{number}"


def per_key(spec: Any, bounds: NormBound = BOUND, keys: Any = None, **arguments: Any) -> beam.PTransform:
    return globally(spec, bounds, keys=keys or AssumePublicKeys("key"), **arguments)


def globally(spec: Any, bounds: NormBound = BOUND, **arguments: Any) -> beam.PTransform:
    arguments = {"item": "item", "privacy_unit": PrivacyId("user", bounds)} | arguments
    if isinstance(spec, (SketchSpec, ListedItems)):
        return PrivateFrequencies(spec, PRIVACY, **arguments)
    if spec is SEARCHED:
        return PrivateTopK(spec, PRIVACY, k=3, **arguments)
    return PrivateQuantiles(spec, PRIVACY, **arguments)


SEARCHED = TreeSpec.for_search(IntegerDomain(0, 255), 4_000)
SKETCHES: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "count sketch": (FLAT, text),
    "quantiles": (NUMBERS, lambda number: number * 5),
    "count-min": (COUNT_MIN, lambda number: number - 6),
    "listed items": (ListedItems(map(text, range(0, 13, 2))), text),
    "numbers": (SEARCHED, lambda number: number * 7),
}
BOUNDS: dict[str, tuple[NormBound, bool]] = {
    "signed": (NormBound(7, max_weight=3, signed=True), True),
    "records": (BOUND, False),
    "weights": (NormBound(Fraction(27, 4), max_weight=2), True),
    "people per item": (NormBound(3, max_per_item=1), False),
    "all": (NormBound(4, max_weight=3, max_per_item=2, signed=True), True),
}


def rows(records: Iterable[Counted]) -> list[dict[str, Any]]:
    return [{"user": each.person, "key": each.place, "item": each.item, "n": each.weight} for each in records]


def forms(records: list[Counted]) -> dict[str, dict[str, list[Any]]]:
    """The records as elements of each kind; every person is in several batches."""
    dicts = rows(random.Random(5).sample(records, len(records)))
    table = pa.Table.from_pylist(dicts)
    halves = [table.slice(0, 100), table.slice(100)]
    return {
        "batches": {
            "dicts": dicts,
            "tables": halves,
            "data frames": [half.to_pandas() for half in halves],
            "rows and record batches": [*dicts[:200], *table.slice(200).to_batches(max_chunksize=37)],
        },
        "records": {
            "dicts": dicts,
            "rows": [beam.Row(**row) for row in dicts],
            "named tuples": [Visit(**row) for row in dicts],
        },
    }


def counters(elements: dict[str, list[Any]], transform: beam.PTransform) -> dict[str, dict[Any, list[int]]]:
    """The exact counters by form and key, out of one pipeline."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return [
            pipeline
            | f"Create {form}" >> beam.Create(values)
            | f"Counters of {form}" >> ExactVectors(transform)
            | f"Name {form}" >> beam.Map(lambda found, form: (form, found), form)
            for form, values in elements.items()
        ] | beam.Flatten()

    found: dict[str, dict[Any, list[int]]] = defaultdict(dict)
    for form, output in seen_by_sink(build):
        key, vector = output if isinstance(output, tuple) else (None, output)
        assert key not in found[form]
        found[form][key] = vector
    return found


def wanted(spec: Any, bounds: NormBound, records: list[Counted], *, weighted: bool, keyed: bool) -> Any:
    """What the reference expects of a transform that reads weights, and keys, or does not."""
    return expected(
        spec,
        bounds,
        [each._replace(weight=each.weight if weighted else 1, place=each.place if keyed else None) for each in records],
    )


CASES = [
    (sketch, bounds, number == turn % 2)
    for turn, sketch in enumerate(SKETCHES)
    for number, bounds in enumerate([list(BOUNDS)[turn % 5], list(BOUNDS)[turn - 3]])
]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("elements", ["batches", "records"])
@pytest.mark.parametrize(("sketch", "bounds", "keyed"), CASES)
def test_every_kind_of_element_gives_the_counters_of_the_reference(
    sketch: str, bounds: str, keyed: bool, elements: str
) -> None:
    (spec, item), (bound, weighted) = SKETCHES[sketch], BOUNDS[bounds]
    records = visits(item)
    make = per_key if keyed else globally
    found = counters(forms(records)[elements], make(spec, bound, **({"weight": "n"} if weighted else {})))
    assert all(each == found["dicts"] for each in found.values())
    assert_same(found["dicts"], wanted(spec, bound, records, weighted=weighted, keyed=keyed))


# By hand, without a runner: any split into bundles.

RECORDS = RecordReader(Selectors(item="item", weight="n", privacy_id="user", key="key"), per_key=True)
SPECS: list[tuple[Any, Callable[[int], Any]]] = [
    (SketchSpec(depth=3, width=2), text),
    (SketchSpec(kind="count_min", depth=2, width=3), text),
    (
        TreeSpec(
            domain=IntegerDomain(0, 15), levels=(*NUMBERS.levels[:1], Level(2, "count_sketch", 2, 3, Fraction(5, 6)))
        ),
        int,
    ),
]


def by_hand(bundles: Iterable[list[Any]], spec: Any, bounds: NormBound) -> dict[Any, np.ndarray]:
    """Counters by key of what the steps of the pipeline keep, run by hand over these bundles."""
    recipe = SketchInput(spec, bounds)
    bound = NormRule(bounds, recipe)
    shards: dict[bytes, list[bytes]] = defaultdict(list)
    shard_records = steps.ShardRecords(RECORDS, bound, recipe)
    for bundle in bundles:
        shard_records.start_bundle()
        emitted = [value for row in bundle for value in shard_records.process(row) or ()]
        for value in [*emitted, *shard_records.finish_bundle()]:
            shards[value.value[0]].append(value.value[1])
    tables = [
        bounded.kept
        for shard in shards.items()
        for bounded in steps.BoundShard(bound).process(shard, PANE_INFO_UNKNOWN)
    ]
    found = numbers_by_key(Bounded(concat_tables(tables)).to_keyed(recipe)) if tables else {}
    return {key: numbers[: recipe.spec.cells] for key, numbers in found.items()}


def fused(pipeline: beam.Pipeline, elements: list[Any]) -> beam.PCollection:
    return pipeline | beam.Create(elements, reshuffle=False)


def across_a_stage(pipeline: beam.Pipeline, elements: list[Any]) -> beam.PCollection:
    return pipeline | beam.Create(elements) | "Away" >> beam.Reshuffle() | "Again" >> beam.Map(lambda each: each)


SOURCES: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "across a stage": (across_a_stage, FN_API, ()),
    "fused": (fused, FN_API, ()),
    "another runner": (across_a_stage, BUNDLE_BASED, ()),
    "replayed": (fused, FN_API, ("--direct_runner_bundle_repeat=3",)),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("parts", ["many parts", "one part"])
@pytest.mark.parametrize("source", SOURCES)
def test_neither_stages_nor_bundles_change_a_bit(source: str, parts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with one bundle, bounded by hand; a replayed bundle may come out several times, and is equal."""
    bound = NormBound(3, max_weight=3, max_per_item=2, signed=True)
    once = by_hand([rows(visits(text))], FLAT, bound)
    if parts == "many parts":
        for name, size in {"_READ_ELEMENTS": 5, "_READ_BYTES": 1, "BUFFERED_RECORDS": 11}.items():
            monkeypatch.setattr(steps, name, size)
        monkeypatch.setattr("beam_dpsketch.exact.bounding.parts.BLOCK", 30)
    read, runner, options = SOURCES[source]
    transform = per_key(FLAT, bound, weight="n")

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        return read(pipeline, rows(visits(text))) | ExactVectors(transform)

    found = seen_by_sink(build, *options, runner=runner)
    assert {key for key, _ in found} == once.keys()
    assert all(vector == once[key].tolist() for key, vector in found)


@pytest.mark.engine
@pytest.mark.parametrize("name", RUNNERS)
def test_other_runners_give_the_counters_of_the_reference(name: str, importable_in_workers: None) -> None:
    runner, options = RUNNERS[name]
    bound = NormBound(3, max_weight=3, max_per_item=2, signed=True)
    found = run(rows(visits(text)), ExactVectors(per_key(FLAT, bound, weight="n")), *options, runner=runner)
    assert len(found) == 2
    assert_same(dict(found), wanted(FLAT, bound, visits(text), weighted=True, keyed=True))


IDS: dict[str, list[Any]] = {
    "text": [f"user {number}" for number in range(1, 13)],
    "mixed": ["1", 1, b"1", ("1",), (1,), -1, "", b"", "ä", 1 << 63, "a\x00", "a"],
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_type_are_told_apart(kind: str) -> None:
    records = [each._replace(person=IDS[kind][each.person - 1]) for each in visits(text)]
    unweighted = [each._replace(weight=1) for each in records]
    found = by_hand([rows(unweighted[start::3]) for start in range(3)], FLAT, BOUND)
    assert_same(found, expected(FLAT, BOUND, unweighted))
    of_numbers = by_hand([rows(each._replace(weight=1) for each in visits(text))], FLAT, BOUND)
    assert found.keys() == of_numbers.keys()
    assert all(np.array_equal(found[key], of_numbers[key]) for key in found)


def test_nothing_is_scaled_up_to_the_norm_and_a_heavy_id_comes_up_to_it() -> None:
    light = [Counted(person, "k", text(item)) for person in range(5) for item in range(person + 1)]
    found = by_hand([rows(light)], FLAT, BOUND)
    exact = expected(FLAT, NormBound(1 << 20), light)  # a norm of nobody
    np.testing.assert_array_equal(found["k"], exact["k"].counters)
    assert np.all(found["k"] % UNIT == 0)
    heavy = [Counted("heavy", f"key {number % 3}", "same") for number in range(300)]
    change = by_hand([rows(heavy)], FLAT, BOUND)
    assert set(change) == {"key 0", "key 1", "key 2"}
    limit = Fraction(5 * UNIT) ** 2
    assert limit * Fraction(9999, 10_000) < squared_length(FLAT, change) <= limit


def test_one_norm_covers_all_keys() -> None:
    """Nine keys of nine records: each alone is within a norm of nine, and all together have a length of 27."""
    records = rows(Counted("u", f"key {key}", f"item {key}") for key in range(9) for _ in range(9))
    alone = by_hand([records[:9]], FLAT, NormBound(9))
    assert squared_length(FLAT, alone) == (9 * UNIT) ** 2
    together = by_hand([records[::2], records[1::2]], FLAT, NormBound(9))
    assert len(together) == 9
    for vector in together.values():
        assert set(np.abs(vector)) <= {0, 3 * UNIT, 3 * UNIT - 1}  # a third of each
    assert squared_length(FLAT, by_hand([records], FLAT, NormBound(27))) == (27 * UNIT) ** 2


def test_keys_that_are_not_listed_take_nothing_of_the_norm() -> None:
    listed = [Counted("u", "in", "a") for _ in range(5)]
    others = [Counted("u", "out", item) for item in "bcdefgh" for _ in range(50)]
    keys = PublicKeys(["in", "absent"], "key")
    found = exact_vectors(rows(listed + others), per_key(FLAT, NormBound(5), keys))
    np.testing.assert_array_equal(found["in"], expected(FLAT, NormBound(5), listed)["in"].counters)
    assert set(found) == {"in", "absent"}
    assert not found["absent"].any()


def test_deletions_cancel_before_anything_is_capped_or_scaled() -> None:
    """900 inserts and deletes of an id leave one record of three items; in parts they would leave much else."""
    churn = [Counted("u", "k", text(item), sign * 3) for item in range(30) for sign in (1, -1) for _ in range(15)]
    left = [Counted("u", "k", text(item), 1) for item in range(3)]
    bound = NormBound(3, max_weight=3, max_per_item=1, signed=True)
    bundles = [churn[::2] + left, churn[1::4], churn[3::4]]
    found = by_hand(map(rows, bundles), FLAT, bound)
    np.testing.assert_array_equal(found["k"], expected(FLAT, bound, left)["k"].counters)


def test_a_cap_of_one_for_each_item_counts_people() -> None:
    """Each person has at most 8 items, and a norm of 8 leaves all: the counters count people."""
    records = [Counted(person, "k", text(item)) for person in range(20) for item in range(person % 9) for _ in range(5)]
    found = by_hand([rows(records[::2]), rows(records[1::2])], FLAT, NormBound(8, max_per_item=1))
    people = [Counted(*each) for each in {(each.person, "k", each.item) for each in records}]
    np.testing.assert_array_equal(found["k"], expected(FLAT, NormBound(1 << 10), people)["k"].counters)


LEAVES = TreeSpec(domain=IntegerDomain(0, 63), levels=(Level(6, "exact", 1, 64, Fraction(1)),))
"""Each item has a counter of its own."""


def items_kept(bundles: list[list[Any]], limit: int) -> set[int]:
    """Return the items that have a count under this limit of items for each person."""
    found = by_hand(bundles, LEAVES, NormBound(1000, max_distinct_items=limit))
    return set(np.flatnonzero(found["k"]).tolist())


def test_the_items_kept_for_the_sake_of_memory_are_a_function_of_the_records() -> None:
    """Not of their order, form, bundle and number, or of other people; under a lower limit they are fewer of them."""
    own = rows(Counted("u", "k", item) for item in range(40))
    often = rows(Counted("u", "k", item) for item in range(40) for _ in range(item))
    kept = items_kept([own], 7)
    assert len(kept) == 7
    assert items_kept([own[::-1]], 7) == kept
    assert items_kept([own[start::5] for start in range(5)], 7) == kept
    assert items_kept([[pa.Table.from_pylist(own[:20]), *own[20:]]], 7) == kept
    assert items_kept([own], 3) < kept
    assert items_kept([own], 40) == set(range(40))
    assert items_kept([own + often], 7) == kept
    others = rows(Counted(f"other {item}", "k", 63) for item in range(9))
    assert items_kept([others[:5], own + others[5:]], 7) == kept | {63}


def test_what_cannot_be_counted_takes_nothing_of_the_norm() -> None:
    good = [Counted("u", "k", "a", 2), Counted("u", "k", "b", 1)]
    odd = [(None, "a", 3), ("u", None, 3), ("u", "c", 2.5), ("u", "c", None), (float("nan"), "a", 1), ("u", 1.5, 3)]
    bad = [{"user": user, "key": "k", "item": item, "n": weight} for user, item, weight in odd]
    bound = NormBound(3, max_weight=5)
    found = by_hand([[*bad[:3], *rows(good), *bad[3:]], [None, "text"]], FLAT, bound)
    np.testing.assert_array_equal(found["k"], expected(FLAT, bound, good)["k"].counters)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1 << 20),
    size=st.sampled_from([1, 20, 200]),
    bundles=st.integers(1, 4),
    sketch=st.sampled_from(SPECS),
    bounds=st.builds(
        NormBound,
        st.fractions(min_value=Fraction(1, 7), max_value=40, max_denominator=50),
        max_weight=st.integers(1, 9),
        max_per_item=st.none() | st.integers(1, 5),
        signed=st.booleans(),
    ),
)
def test_any_records_of_an_id_are_within_its_norm(
    seed: int, size: int, bundles: int, sketch: Any, bounds: NormBound
) -> None:
    """With few cells, so that items collide, in every split; and all are what the reference expects."""
    (spec, item), generator = sketch, np.random.default_rng(seed)
    records = [
        Counted("u", f"key {generator.integers(3)}", item(int(generator.integers(12))), int(generator.integers(-9, 10)))
        for _ in range(size)
    ]
    found = by_hand([rows(records)[start::bundles] for start in range(bundles)], spec, bounds)
    assert squared_length(spec, found) <= (bounds.max_norm * UNIT) ** 2
    again = by_hand([rows(records)[::-1]], spec, bounds)
    assert {key: vector.tolist() for key, vector in found.items()} == {
        key: each.tolist() for key, each in again.items()
    }
    for place, (exact, slack) in expected(spec, bounds, records).items():
        assert np.all(np.abs(found.get(place, 0) - exact) <= slack)
