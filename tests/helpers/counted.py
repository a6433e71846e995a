"""The exact counters of rows and batches, by the steps of private transforms, and what they may be made of."""

from __future__ import annotations

import datetime
from typing import Any

from beam_dpsketch import IntegerDomain, RecordBounds, TreeSpec
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.domains import FloatDomain, IPv4Domain, TimestampDomain
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader, read_table
from beam_dpsketch.exact.reading.selectors import Selectors
from beam_dpsketch.transforms.steps.exact_sums import KeyRecords
from beam_dpsketch.transforms.steps.sums import RawSketchFn
from tests.helpers.pipelines import SPEC

DAY = datetime.datetime(2024, 1, 1)
DOMAINS = [
    IntegerDomain(-5, 100),
    IntegerDomain(0, (1 << 64) - 1),
    FloatDomain(0, 1, 0.01),
    IPv4Domain(),
    TimestampDomain(DAY, DAY + datetime.timedelta(1)),
]
BOUNDS = RecordBounds(max_records=300, max_keys=30, max_weight=1 << 17)
RECIPES = [SketchInput(SPEC, BOUNDS), *(SketchInput(TreeSpec.for_memory(domain, 20_000), BOUNDS) for domain in DOMAINS)]


def counted(elements: list[Any], recipe: SketchInput, *, key: str | None = None) -> dict[Any, list[int]]:
    """The exact counters, as the steps make them: each record, of each key, and what bounding keeps of privacy ids."""
    records = RecordReader(Selectors(item="item", weight="n", privacy_id="user", key=key), per_key=key is not None)
    total = RawSketchFn(recipe, Selectors(item="item", weight="n"))
    if key is not None:
        read: dict[Any, list[Any]] = {}
        keyed = KeyRecords(records, recipe)
        keyed.start_bundle()
        for element in elements:
            for of, value in keyed.process(element):
                read.setdefault(of, []).append(value)
        sums = {of: total.add_inputs(total.create_accumulator(), values) for of, values in read.items()}
        return {of: found.to_sketch().to_vector().tolist() for of, found in sums.items() if len(found.to_sums().items)}
    rows = [element for element in elements if not records.is_batch_type(type(element))]
    batches = [element for element in elements if records.is_batch_type(type(element))]
    columns = [records.read_batch(batch, recipe) for batch in batches] + ([records.read_rows(rows)] if rows else [])
    kept = [
        RecordRule(BOUNDS, RandomPriorities(1)).select(read_table(records, each, BOUNDS, recipe)) for each in columns
    ]
    bounded = total.add_inputs(total.create_accumulator(), (Bounded(each).to_items(recipe) for each in kept))
    direct = total.add_inputs(total.create_accumulator(), elements)
    return {"bounded": bounded.to_sketch().to_vector().tolist(), "direct": direct.to_sketch().to_vector().tolist()}
