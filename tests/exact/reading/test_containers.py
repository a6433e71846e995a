"""Containers that never are a record are refused by type, with the way out; no value is looked at or shown."""

from __future__ import annotations

import collections
import pickle
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from beam_dpsketch import AssumePublicKeys, CountSketch, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import RecordReader, read_table
from beam_dpsketch.exact.reading.selectors import Selectors, is_batch_type, is_batch_type_by_name
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.exact_sums import KeyRecords
from beam_dpsketch.transforms.steps.sums import RawSketchFn
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import SPEC, exact, seen_by_sink

PRIVACY = PrivacySpec(rho=0.1)
SECRET = "planted-4711"
RECORD = {"user": SECRET, "page": SECRET, "n": 1, "key": SECRET}
BOUNDS = RecordBounds(1, max_weight=3)
RECIPE = SketchInput(SPEC, BOUNDS)


class Frame(pd.DataFrame):
    """As the GeoDataFrame of geopandas."""


class DataFrame:
    """As that of polars."""

    def __arrow_c_stream__(self) -> None:
        raise AssertionError("it was read")


class Modin:
    """As that of modin, under any name."""

    def __dataframe__(self) -> None:
        raise AssertionError("it was read")


def test_batches_are_recognised_by_type() -> None:
    made = pa.table({"page": ["p", None]})
    for batch in (made, made.to_batches()[0], made.to_pandas(), Frame(made.to_pandas())):
        assert is_batch_type(type(batch))
        assert is_batch_type_by_name(type(batch))
    for other in (dict, str, tuple, beam.Row, pd.Series, bytes):
        assert not is_batch_type(other)
        assert not is_batch_type_by_name(other)


@pytest.mark.parametrize("kind", [DataFrame, Modin], ids=lambda kind: str(kind.__name__))
def test_frames_of_others_are_refused_whatever_reads_them(kind: type) -> None:
    for elements in (Selectors(), Selectors(item="page"), Selectors(item=str)):
        with pytest.raises(
            TypeError, match=f"{kind.__name__}, which is a container and not a record. Convert it to a pyarrow"
        ):
            elements.is_batch_type(kind)


LISTS: list[Any] = [
    [RECORD],
    [],
    {SECRET},
    frozenset([SECRET]),
    collections.deque([RECORD]),
    (SECRET for _ in range(1)),
    np.array([SECRET]),
    np.array([(SECRET,)], dtype=[("page", object)]),
    pa.array([SECRET]),
    pa.chunked_array([[SECRET]]),
]


@pytest.mark.parametrize("element", LISTS, ids=lambda element: type(element).__name__)
def test_lists_and_arrays_are_refused_by_type(element: Any) -> None:
    for elements in (Selectors(), Selectors(item="page"), Selectors(item=len, weight="n")):
        with pytest.raises(TypeError, match=r"which is a container and not a record\. ") as caught:
            elements.is_batch_type(type(element))
        assert SECRET not in str(caught.value)


def _first(row: list[Any]) -> Any:
    return row[0]


def _rest(row: list[Any]) -> Any:
    return tuple(row[1:])


@pytest.mark.pipeline
def test_callables_may_read_a_record_from_a_list() -> None:
    rows = [["u", "good"], ["v", "good"], [], ["w"]]
    counters = exact(rows, PrivateFrequencies(SPEC, PRIVACY, item=_rest, privacy_unit=PrivacyId(_first, BOUNDS)))
    np.testing.assert_array_equal(counters, CountSketch(SPEC).accumulate([("good",), ("good",), ()]).counters)


def run_untyped(element: Any, private: beam.PTransform) -> list[Any]:
    """What the transform makes of an element of whose type Beam knows nothing."""
    return seen_by_sink(lambda pipeline: pipeline | beam.Create([0]) | beam.Map(lambda _: element) | private)


WAYS: dict[str, Callable[[], beam.PTransform]] = {
    "record": lambda: PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=Record()),
    "id": lambda: PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=PrivacyId("user", BOUNDS)),
    "key": lambda: PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=Record(), keys=AssumePublicKeys("key")),
    "key and id": lambda: PrivateFrequencies(
        SPEC, PRIVACY, item="page", privacy_unit=in_keys(PrivacyId("user", BOUNDS), "key"), keys=AssumePublicKeys("key")
    ),
}


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("way", WAYS)
def test_lists_of_records_stop_the_job_with_the_way_out(way: str) -> None:
    with pytest.raises(Exception, match=r"Unpack it with beam\.FlatMap") as caught:
        run_untyped([RECORD, RECORD], WAYS[way]())
    assert SECRET not in str(caught.value)


@pytest.mark.pipeline
def test_groups_are_refused_as_values_of_keys() -> None:
    """What GroupByKey makes is no record."""
    per_key = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record(), keys=AssumePublicKeys())
    with pytest.raises(Exception, match=r"An element is a list, which is a container"):
        run_untyped(("a", [SECRET]), per_key)


COLUMNS = {name: np.array([value, value], dtype=object) for name, value in RECORD.items()}


@pytest.mark.parametrize("make", [np.asarray, pa.array, pd.Series], ids=lambda make: str(make.__name__))
@pytest.mark.parametrize("argument", ["privacy_id", "key", "item", "weight"])
def test_arrays_as_values_are_refused(argument: str, make: Any) -> None:
    """One column of a dict of columns is enough."""
    fields = {"privacy_id": "user", "key": "key", "item": "page", "weight": "n"}
    element = {**RECORD, fields[argument]: make(COLUMNS[fields[argument]])}
    elements = Selectors(item="page", weight="n", privacy_id="user", key="key")
    records = RecordReader(elements, per_key=True)
    message = (
        f"{argument} selects a .*, which is a container and not a value. Convert a dict with columns to a pyarrow Table"
    )
    with pytest.raises(TypeError, match=message) as caught:
        read_table(records, records.read_rows([element]), RECIPE.bounds, RECIPE)
    assert SECRET not in str(caught.value)
    if argument != "privacy_id":
        with pytest.raises(TypeError, match=message):
            _without_ids(records, element, elements)


def _without_ids(records: RecordReader, element: Any, elements: Selectors) -> Any:
    total, keyed = RawSketchFn(RECIPE, elements), KeyRecords(records, RECIPE)
    keyed.start_bundle()
    values = [value for _, value in keyed.process(element)]
    return total.compact(total.add_inputs(total.create_accumulator(), values))


@pytest.mark.pipeline
def test_lists_as_values_are_data() -> None:
    rows = [{"page": ["p"]}, {"page": {"p": 1}}, {"page": "good"}, {"page": ()}]
    counters = exact(rows, PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=Record()))
    np.testing.assert_array_equal(counters, CountSketch(SPEC).accumulate(["good", ()]).counters)


def test_what_asks_for_types_travels() -> None:
    for elements in (Selectors(), Selectors(item=len)):
        records = pickle.loads(pickle.dumps(RecordReader(elements, per_key=False)))
        assert records.is_batch_type is elements.is_batch_type
