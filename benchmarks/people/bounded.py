"""Bound the records of people as the transforms do, count them, and release the counters: without a pipeline."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import NormBound, PrivacySpec, RecordBounds, ReleaseTerms, SketchSpec, release
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches import RawSketch
from beam_dpsketch.privacy.contributions import Bounds, NeighboringRelation, PrivacyUnit
from benchmarks.people.data import People

EPSILON, DELTA = 2.0, 1e-6
SKETCH = SketchSpec(depth=5, width=2048)


@functools.cache
def privacy(relation: NeighboringRelation) -> PrivacySpec:
    """What every release may spend; all of rho goes to the counters."""
    return PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=relation)


class Counted:
    """People, counted in a sketch of each key after bounding.

    Args:
      people: whose records.
      spec: any one of the kind of sketch; its seed does not matter.
    """

    def __init__(self, people: People, spec: Any) -> None:
        self.people, items = people, np.unique(people.items)
        keys, usable = SketchInput(spec, NormBound(1)).keys(pa.array(items))
        assert usable.all()
        columns: dict[str, pa.Array] = {"unit": pa.array(people.units)}
        if people.keys is not None:
            columns["key"] = pa.array(people.keys)
        columns["item"] = pa.array(keys).take(pa.array(np.searchsorted(items, people.items)))
        self.records = pa.table({**columns, "weight": pa.array(np.ones(len(people.units), dtype=np.int64))})
        self._netted = NormRule(NormBound(1), SketchInput(spec, NormBound(1))).prune(self.records)

    def raw(self, spec: Any, bounds: Bounds) -> list[RawSketch]:
        """Return the exact sketch of each key, of what bounding keeps; records that go are chosen anew each time."""
        sketch_input = SketchInput(spec, bounds)
        if isinstance(bounds, NormBound):
            kept = NormRule(bounds, sketch_input).select(self._netted)  # `select` nets again, which changes nothing
        else:
            assert isinstance(bounds, RecordBounds)
            kept = RecordRule(bounds, RandomPriorities()).select(self.records)
        keys, weights = sketch_input.column_keys(kept["item"]), kept["weight"].to_numpy()
        if self.people.keys is None:
            return [_sketch(sketch_input, keys, weights)]
        partitions = kept["key"].to_numpy()
        parts = [partitions == number for number in range(int(self.people.keys.max()) + 1)]
        return [_sketch(sketch_input, keys[part], weights[part]) for part in parts]


def _sketch(sketch_input: SketchInput, keys: np.ndarray, weights: np.ndarray) -> RawSketch:
    bounded = sketch_input.bounded(keys, weights)
    return sketch_input.raw_sketch().accumulate_keys(bounded.keys, bounded.weights)


def released(raw: list[RawSketch], bounds: Bounds, relation: NeighboringRelation) -> list[ReleasedSketch]:
    """Return a release of each key's sketch, with noise of its own."""
    terms = ReleaseTerms(privacy(relation), bounds, privacy_unit=PrivacyUnit.PRIVACY_ID)
    return [release_sketch(each, terms) for each in raw]


def release_sketch(raw: RawSketch, terms: ReleaseTerms) -> ReleasedSketch:
    """Release the counters of a sketch that answers about items."""
    found = release(raw, terms)
    assert isinstance(found, ReleasedSketch)
    return found
