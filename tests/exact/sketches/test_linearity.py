"""Raw sketches are linear: the laws, and a slow dictionary of big integers that says the same."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import CountMin, CountSketch, SketchSpec
from tests.helpers import derivations, laws, strategies
from tests.helpers.raw import of_kind, raw_of

pytestmark = pytest.mark.parametrize("kind", strategies.KINDS)


def _sketch_of(kind, spec):
    def sketch_of(records):
        sketch = raw_of(kind, spec)
        if records:
            items, weights = zip(*records, strict=True)
            sketch.accumulate(items, weights)
        return sketch

    return sketch_of


def _reference(kind, spec, records):
    """Counters as the definition says, item by item, then wrapped to 64 bits."""
    counters = defaultdict(int)
    for item, weight in records:
        fingerprint = derivations.fingerprint(item, spec.item_hash, spec.item_key)
        for row in range(spec.depth):
            column, sign = derivations.cell(fingerprint, seed=spec.seed, row=row, width=spec.width)
            counters[row, column] += weight * (sign if kind is CountSketch else 1)
    array = [[counters[row, column] for column in range(spec.width)] for row in range(spec.depth)]
    return [[(value + (1 << 63)) % (1 << 64) - (1 << 63) for value in row] for row in array]


@given(spec=strategies.specs(), parts=st.tuples(*[strategies.records] * 3))
def test_sketches_are_a_commutative_monoid(kind, spec, parts):
    laws.check_commutative_monoid(_sketch_of(kind, spec), *parts)


@given(spec=strategies.specs(), records=strategies.records)
def test_deletion_is_the_inverse_of_insertion(kind, spec, records):
    laws.check_deletion_is_inverse(_sketch_of(kind, spec), records)


@given(spec=strategies.specs(), first=strategies.records, second=strategies.records)
def test_merge_changes_only_the_left(kind, spec, first, second):
    laws.check_merge_changes_only_the_left(_sketch_of(kind, spec), first, second)


@given(spec=strategies.specs(), records=strategies.records)
def test_counters_are_those_of_a_dictionary_of_big_integers(kind, spec, records):
    assert _sketch_of(kind, spec)(records).counters.tolist() == _reference(kind, spec, records)


@given(spec=strategies.specs(), items=strategies.item_lists)
def test_weights_default_to_one(kind, spec, items):
    sketch = raw_of(kind, spec).accumulate(items)
    assert sketch == raw_of(kind, spec).accumulate(items, [1] * len(items))
    assert sketch.counters.tolist() == _reference(kind, spec, [(item, 1) for item in items])


def test_the_laws_refuse_what_is_not_linear(kind):
    class Saturating(kind):
        def merge(self, other):
            super().merge(other)
            np.minimum(self._counters, 2, out=self._counters)
            return self

    sketch_of = _sketch_of(Saturating, SketchSpec(depth=2, width=2))
    with pytest.raises(AssertionError):
        laws.check_commutative_monoid(sketch_of, [("a", 2)], [("a", 2)], [("a", -3)])


@pytest.mark.parametrize(
    "weights",
    [
        [2, -1, 3],
        (2, -1, 3),
        np.array([2, -1, 3], dtype=np.int8),
        np.array([2, -1, 3], dtype=">i4"),
        [np.int16(2), -1, np.int64(3)],
        pa.array([2, -1, 3]),
        pa.chunked_array([[2], [-1, 3]]),
    ],
)
def test_weights_in_any_container(kind, weights):
    spec = SketchSpec(depth=3, width=5)
    assert raw_of(kind, spec).accumulate(list("abc"), weights) == raw_of(kind, spec).accumulate(
        list("aabccc"), [1, 1, -1, 1, 1, 1]
    )


def test_an_iterator_of_weights_is_read_once(kind):
    spec = SketchSpec(depth=3, width=5)
    assert raw_of(kind, spec).accumulate(iter("ab"), iter([2, 3])) == raw_of(kind, spec).accumulate(["a", "b"], [2, 3])


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ([1.0, 2], TypeError),
        ([True, 2], TypeError),
        (["1", 2], TypeError),
        ([None, 2], TypeError),
        (np.array([1.0, 2.0]), TypeError),
        (np.array([True, False]), TypeError),
        (np.array([[1], [2]]), TypeError),
        (np.array([1, 2], dtype=object), TypeError),
        (pa.array([1, None]), TypeError),
        (pa.array([1.5, 2.0]), TypeError),
        ([1 << 63, 2], ValueError),
        ([-(1 << 63) - 1, 2], ValueError),
        (np.array([1 << 63, 2], dtype=np.uint64), ValueError),
        ([1], ValueError),
        ([1, 2, 3], ValueError),
    ],
)
def test_weights_that_are_not_64_bit_integers_one_per_item_are_refused(kind, weights, error):
    sketch = raw_of(kind, SketchSpec(depth=2, width=4))
    with pytest.raises(error, match="weights"):
        sketch.accumulate(["a", "b"], weights)
    assert not sketch.counters.any()


def test_largest_unsigned_weights_that_fit_are_accepted(kind):
    sketch = raw_of(kind, SketchSpec(depth=1, width=1)).accumulate([0], np.array([(1 << 63) - 1], dtype=np.uint64))
    assert abs(int(sketch.counters[0, 0])) == (1 << 63) - 1


def test_a_refused_batch_leaves_the_counters_as_they_were(kind):
    sketch = raw_of(kind, SketchSpec(depth=2, width=4)).accumulate(["a"])
    before = sketch.counters.copy()
    with pytest.raises(TypeError):
        sketch.accumulate(["a", None])
    np.testing.assert_array_equal(sketch.counters, before)


def test_counters_cannot_be_changed_from_outside(kind):
    sketch = raw_of(kind, SketchSpec(depth=2, width=4))
    with pytest.raises(ValueError, match="read-only"):
        sketch.counters[0, 0] = 1


def test_from_vector_copies(kind):
    spec = SketchSpec(depth=2, width=4)
    counters = np.arange(8).reshape(2, 4)
    sketch = kind.from_vector(of_kind(kind, spec), counters.ravel())
    counters[0, 0] = 99
    assert sketch.counters.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_whether_weights_were_given_survives_a_merge(kind):
    spec = SketchSpec(depth=2, width=4)
    assert not raw_of(kind, spec).accumulate(["a"]).merge(raw_of(kind, spec)).is_weighted
    assert raw_of(kind, spec).merge(raw_of(kind, spec).accumulate(["a"], [1])).is_weighted


_OTHERS = [
    SketchSpec(depth=3, width=4),
    SketchSpec(depth=2, width=5),
    SketchSpec(depth=2, width=4, seed=1),
    SketchSpec(depth=2, width=4, item_hash="blake2b", item_key=bytes(16)),
]


@pytest.mark.parametrize("other", _OTHERS, ids=str)
def test_sketches_of_other_specs_are_not_merged(kind, other):
    with pytest.raises(ValueError, match="can be merged"):
        raw_of(kind, SketchSpec(depth=2, width=4)).merge(raw_of(kind, other))


def test_sketches_of_other_keys_are_not_merged(kind):
    first, second = (SketchSpec(depth=1, width=4, item_hash="blake2b", item_key=bytes([n] * 16)) for n in (1, 2))
    with pytest.raises(ValueError, match="can be merged") as caught:
        raw_of(kind, first).merge(raw_of(kind, second))
    assert "\\x01" not in str(caught.value)


def test_sketches_of_other_kinds_are_not_merged_or_equal(kind):
    spec = SketchSpec(depth=2, width=4)
    other = CountMin if kind is CountSketch else CountSketch
    with pytest.raises(ValueError, match="can be merged"):
        raw_of(kind, spec).merge(raw_of(other, spec))
    assert raw_of(kind, spec) != raw_of(other, spec)


def test_repr_hides_the_counters(kind):
    sketch = raw_of(kind, SketchSpec(depth=1, width=1)).accumulate(["a"], [8_675_309])
    assert "8675309" not in repr(sketch) + str(sketch)
    assert "counters hidden" in repr(sketch)


def test_a_raw_sketch_has_no_estimate_and_no_bytes(kind):
    for name in ("estimate", "interval", "top_k", "to_bytes"):
        assert not hasattr(raw_of(kind, SketchSpec(depth=1, width=1)), name)


def test_a_spec_is_needed(kind):
    with pytest.raises(TypeError, match="spec must be a SketchSpec, got dict"):
        kind({"depth": 1, "width": 1})
