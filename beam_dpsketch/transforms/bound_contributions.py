"""`BoundContributions`."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch.hashing.encodings import decode
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.records.priorities import RandomPriorities
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import Selector, Selectors
from beam_dpsketch.transforms.steps.bounding import bounded_tables
from beam_dpsketch.transforms.steps.element_types import open_questions
from beam_dpsketch.transforms.windows.guard import check_windowing


class BoundedRecord(NamedTuple):
    """One bounded record: its partition (`None` without keys), item and weight."""

    key: Any
    item: Any
    weight: int


class BoundContributions(beam.PTransform):
    """Keeps what each privacy id may contribute, as `BoundedRecord` elements.

    The private transforms do this themselves; use it to see what bounds keep, or before other aggregations.

    Args:
      bounds: how much to keep of each privacy id, in each window.
      privacy_id: who is protected; see `beam_dpsketch.records.selectors` for this and the following.
      item: what is counted; `None` is the element.
      weight: how much it counts; `None` is 1.
      key: the partition; `None` for a single one.
    """

    def __init__(
        self,
        bounds: ContributionBounds,
        *,
        privacy_id: Selector,
        item: Selector = None,
        weight: Selector = None,
        key: Selector = None,
    ) -> None:
        super().__init__()
        _validate.instance(ContributionBounds, bounds=bounds)
        if privacy_id is None:
            raise ValueError("privacy_id must say whose contributions are bounded")
        self._bounds = bounds
        self._elements = Selectors(item=item, weight=weight, privacy_id=privacy_id, key=key)
        self._elements.check_weight(bounds)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        check_windowing(pcoll)
        keyed = self._elements.key is not None
        open_questions(self._elements, pcoll.element_type, domain=None, keyed=keyed)
        records = RecordReader(self._elements, per_key=keyed)
        tables = bounded_tables(pcoll, records, self._bounds, None, RandomPriorities())
        return tables | "Unpack" >> beam.FlatMap(_contributions, self._bounds).with_output_types(BoundedRecord)


def _contributions(bounded: pa.Table, bounds: ContributionBounds) -> Iterator[BoundedRecord]:
    """The records of a table, one by one."""
    keys = bounded["key"].to_pylist() if "key" in bounded.column_names else itertools.repeat(None)
    copies = bounded["copies"].to_pylist() if "copies" in bounded.column_names else itertools.repeat(1)
    weights = np.clip(bounded["weight"].to_numpy(), bounds.min_weight, bounds.max_weight).tolist()
    for key, item, weight, times in zip(keys, bounded["item"].to_pylist(), weights, copies, strict=False):
        yield from itertools.repeat(BoundedRecord(None if key is None else decode(key), decode(item), weight), times)
