"""Several sketches of the same records are each what it is alone; joined keys come apart as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch.exact.sketches.metrics import JoinedSketches, MetricsSpec
from tests.helpers import laws, strategies
from tests.helpers.metric_specs import IS_NUMBER, SPECS, items_of

MISSING = [None, float("nan"), [1], {"a": 1}]
"""What no sketch counts."""
every_spec = pytest.mark.parametrize("name", SPECS)


@st.composite
def records_of(draw: st.DrawFn, spec: MetricsSpec, size: int = 12) -> list[tuple[Any, int]]:
    """Draw records of one item for each metric, some of which are missing, and their weights."""
    items = [st.sampled_from(items_of(part.spec)) | st.sampled_from(MISSING) for part in spec.parts]
    return draw(st.lists(st.tuples(st.tuples(*items), strategies.weights), max_size=size))


def sketch_of(spec: MetricsSpec) -> laws.SketchOf:
    def of_records(records: laws.Records) -> Any:
        raw = JoinedSketches(spec)
        return laws.Whole(raw.accumulate(*zip(*records, strict=True)) if records else raw)

    return of_records


def alone(spec: MetricsSpec, records: laws.Records) -> list[list[int]]:
    """The counters of each sketch, of the records that it can count."""
    found = []
    for place, part in enumerate(spec.parts):
        raw = part.kind(part.spec)
        for items, weight in records:
            keys, usable = part.kind.usable_keys(part.spec, [items[place]])
            raw.accumulate_keys(keys[usable], np.array([weight])[usable])
        found.append(raw.to_vector().tolist())
    return found


def split_counters(spec: MetricsSpec, vector: np.ndarray) -> list[list[int]]:
    ends = np.cumsum([part.spec.cells for part in spec.parts])[:-1]
    return [each.tolist() for each in np.split(vector, ends)]


def check_apart(spec: MetricsSpec, records: laws.Records) -> None:
    """Raise unless keys that were joined are what they were, also out of an Arrow column, and in another order."""
    columns = [[items[place] for items, _ in records] for place in range(len(spec.parts))]
    found = [part.kind.usable_keys(part.spec, column) for part, column in zip(spec.parts, columns, strict=True)]
    wanted = [(keys, np.broadcast_to(usable, len(keys))) for keys, usable in found]
    joined = spec.joined(*zip(*wanted, strict=True))
    assert joined.dtype == spec.key_type == JoinedSketches.key_type(spec)
    order = np.random.default_rng(len(records)).permutation(len(records))
    for keys, kept in ((joined, slice(None)), (joined[order], order), (np.array(joined.tolist(), joined.dtype), ...)):
        split = [*spec.split(keys)]
        assert [part for part, _, _ in split] == [*spec.parts]
        for (part, own, has), (before, usable) in zip(split, wanted, strict=True):
            assert own.dtype == part.kind.key_type(part.spec)
            assert has.tolist() == usable[kept].tolist(), "another record has a key"
            assert own[has].tolist() == before[kept][has].tolist(), "another key"


@every_spec
@given(data=st.data())
def test_keys_that_are_joined_come_apart_as_they_were(name: str, data: st.DataObject) -> None:
    check_apart(SPECS[name], data.draw(records_of(SPECS[name])))


@every_spec
@given(data=st.data())
def test_different_records_have_different_keys(name: str, data: st.DataObject) -> None:
    """Records are netted by their keys, so equal keys must mean equal keys of each part."""
    spec = SPECS[name]
    items = [each for each, _ in data.draw(records_of(spec))]
    keys, _ = JoinedSketches.usable_keys(spec, items)
    split = [[None if not has else own for own, has in zip(*found[1:], strict=True)] for found in spec.split(keys)]
    apart = [*zip(*split, strict=True)]
    for one, of_one in zip(keys.tolist(), apart, strict=True):
        for other, of_other in zip(keys.tolist(), apart, strict=True):
            assert (one == other) == (of_one == of_other)


@pytest.mark.parametrize(("name", "is_number"), IS_NUMBER.items())
def test_keys_are_one_number_where_that_is_enough(name: str, is_number: bool) -> None:
    assert (SPECS[name].key_type == np.uint64) == is_number == bool(SPECS[name].places)


@every_spec
@given(data=st.data())
def test_each_sketch_has_the_counters_that_it_has_alone(name: str, data: st.DataObject) -> None:
    spec = SPECS[name]
    records = data.draw(records_of(spec))
    assert split_counters(spec, sketch_of(spec)(records).counters) == alone(spec, records)
    unweighted = [items for items, _ in records]
    once = JoinedSketches(spec).accumulate(unweighted)
    assert split_counters(spec, once.to_vector()) == alone(spec, [(items, 1) for items in unweighted])


@every_spec
@given(data=st.data())
def test_records_that_are_taken_apart_or_counted_add_the_same(name: str, data: st.DataObject) -> None:
    spec = SPECS[name]
    records = data.draw(records_of(spec, 6)) * data.draw(st.sampled_from([1, 40]))
    keys, usable = JoinedSketches.usable_keys(spec, [items for items, _ in records])
    keys, weights = keys[usable], np.array([weight for _, weight in records], dtype=np.int64)[usable]
    for given_weights in (weights, np.full(len(keys), 3)):
        fewer, summed = JoinedSketches.fewer(spec, keys, given_weights)
        assert len(fewer) == len(summed) <= len(keys)
        whole = JoinedSketches(spec).accumulate_keys(keys, given_weights)
        assert JoinedSketches(spec).accumulate_keys(fewer, summed) == whole
    counted, counts, total = JoinedSketches.counted(spec, [items for items, _ in records])
    assert total == usable.sum()
    whole = JoinedSketches(spec).accumulate_keys(keys, None)
    assert JoinedSketches(spec).accumulate_keys(counted, counts) == whole


@every_spec
@given(data=st.data())
def test_joined_sketches_are_a_commutative_monoid(name: str, data: st.DataObject) -> None:
    few = records_of(SPECS[name], 4)
    laws.check_commutative_monoid(sketch_of(SPECS[name]), data.draw(few), data.draw(few), data.draw(few))


@every_spec
@given(data=st.data())
def test_deletion_is_the_inverse_of_insertion(name: str, data: st.DataObject) -> None:
    laws.check_deletion_is_inverse(sketch_of(SPECS[name]), data.draw(records_of(SPECS[name])))


@every_spec
@given(data=st.data())
def test_a_key_of_one_part_alone_adds_what_the_whole_adds_to_it(name: str, data: st.DataObject) -> None:
    spec = SPECS[name]
    keys, usable = JoinedSketches.usable_keys(spec, [items for items, _ in data.draw(records_of(spec, 1))])
    keys, parts = keys[usable], JoinedSketches.parts(spec)
    assert sum(part.share for part in parts) == 1
    assert sum(part.tables for part in parts) == len(JoinedSketches.tables(spec))
    whole = JoinedSketches(spec).accumulate_keys(keys, None)
    for place, part in enumerate(parts):
        alone, has = JoinedSketches.alone(spec, place, keys)
        own = part.kind(part.spec).accumulate_keys(JoinedSketches.own(spec, place, keys)[has], None).to_vector()
        assert (
            JoinedSketches.own(spec, place, alone)[has].tolist() == JoinedSketches.own(spec, place, keys)[has].tolist()
        )
        found = JoinedSketches(spec).accumulate_keys(alone[has], None).to_vector()
        start = sum(each.spec.cells for each in parts[:place])
        expected = np.zeros_like(found)
        expected[start : start + part.spec.cells] = own
        assert found.tolist() == expected.tolist()
        assert whole.to_vector()[start : start + part.spec.cells].tolist() == own.tolist()


@every_spec
def test_a_column_of_structs_counts_as_tuples_do(name: str) -> None:
    spec = SPECS[name]
    parts = [items_of(part.spec)[:3] for part in spec.parts]
    rows = [
        tuple(None if (place + step) % 4 == 0 else column[(place + step) % 3] for step, column in enumerate(parts))
        for place in range(6)
    ]
    try:
        columns = [pa.array([row[place] for row in rows]) for place in range(len(parts))]
    except (pa.ArrowException, OverflowError):
        pytest.skip("these items are of several types")
    structs = pa.StructArray.from_arrays(columns, [*map(str, range(len(parts)))])
    for some, same in ((structs, rows), (structs.slice(1, 4), rows[1:5]), (structs.slice(0, 0), [])):
        keys, usable = JoinedSketches.usable_keys(spec, some)
        expected, also = JoinedSketches.usable_keys(spec, same)
        assert usable.tolist() == also.tolist()
        assert keys[usable].tolist() == expected[also].tolist()
