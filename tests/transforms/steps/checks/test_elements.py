"""Mistakes that would be noise with an interval: each is an error or a warning that names the argument."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import inspect
import ipaddress
import uuid
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.test_stream import TestStream as Stream

from beam_dpsketch import (
    AssumePublicKeys,
    BytesDomain,
    FloatDomain,
    Horizon,
    InputWarning,
    IntegerDomain,
    IPv4Domain,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.transforms import BoundContributions, PrivateFrequencies, PrivateQuantiles, PrivateTopK
from tests.helpers.pipelines import FN_API, SPEC

PRIVACY = PrivacySpec(rho=0.1)
FOUR = RecordBounds(max_records=4, max_weight=9)
RECORD = Record(max_weight=9)
DAY = datetime.datetime(2026, 3, 2)
YEAR = TimestampDomain(DAY, DAY + datetime.timedelta(365))
ROW = {"user": "u", "city": "Oslo", "ms": 1.0, "n": 7, "ts": DAY, "id": uuid.UUID(int=4711)}


class Visit(NamedTuple):
    user: str
    city: str | None
    ms: float
    seen: bool
    place: tuple[str, int]
    shares: tuple[float, float]
    what: Any = None


@dataclasses.dataclass
class Trip:
    user: datetime.datetime
    city: str


def who(field: str) -> PrivacyId:
    return PrivacyId(field, FOUR)


def frequencies(*, privacy_unit: Any = RECORD, **arguments: Any) -> PrivateFrequencies:
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=privacy_unit, **arguments)


def per_key(keys: Any = AssumePublicKeys(), **arguments: Any) -> PrivateFrequencies:  # noqa: B008
    return PrivateFrequencies(SPEC, PRIVACY, privacy_unit=RECORD, keys=keys, **arguments)


def quantiles(domain: Any = IntegerDomain(0, 100), **arguments: Any) -> PrivateQuantiles:  # noqa: B008
    return PrivateQuantiles(domain, PRIVACY, privacy_unit=RECORD, **arguments)


def continual(**arguments: Any) -> PrivateFrequencies:
    return PrivateFrequencies(SPEC, PRIVACY, windows=Horizon(0, 60, 4), privacy_unit=RECORD, **arguments)


def top(domain: Any, **arguments: Any) -> PrivateTopK:
    return PrivateTopK(domain, PrivacySpec(epsilon=2, delta=1e-6), k=3, privacy_unit=RECORD, **arguments)


def built(element_type: Any, *transforms: beam.PTransform) -> None:
    """Applies transforms to elements of a declared type, in a pipeline that never runs."""
    elements = beam.Pipeline(runner=FN_API) | beam.Create([0]) | beam.Map(repr).with_output_types(element_type)
    for number, transform in enumerate(transforms):
        elements | str(number) >> transform


def created(elements: list[Any], transform: beam.PTransform) -> None:
    beam.Pipeline(runner=FN_API) | beam.Create(elements) | transform


def fails(row: Any) -> Any:
    return row["nope"]


Mistake = tuple[Callable[[], Any], str]
DECLARED: dict[str, Mistake] = {
    "floats": (lambda: created([1.5], frequencies()), r"item \(the element itself\) has type float, .* Round it"),
    "times": (
        lambda: created([DAY], frequencies()),
        r"item \(the element itself\) has type datetime, but an item must",
    ),
    "dicts": (lambda: created([ROW], frequencies()), r"item \(the element itself\) has type Dict\[str, Union"),
    "arrays": (lambda: created([np.arange(3)], frequencies()), "has type ndarray"),
    "lists of dicts": (lambda: created([[ROW]], frequencies(item="city")), r"An element is a list, .* beam.FlatMap"),
    "a name of tuples": (lambda: created([("a", 1)], frequencies(item="city")), "names a field, .* Use a callable"),
    "text for numbers": (lambda: created(["7"], quantiles()), "has type str, but IntegerDomain accepts whole numbers"),
    "floats for integers": (
        lambda: created([1.5], quantiles()),
        r"has type float, but IntegerDomain .* Round it, or use FloatDomain\(low, high, step\)",
    ),
    "a float field": (lambda: built(Visit, quantiles(item="ms")), r"item='ms' has type float, .* FloatDomain\("),
    "a float item": (lambda: built(Visit, frequencies(item="ms")), "item='ms' has type float"),
    "a float id": (
        lambda: built(Visit, frequencies(item="city", privacy_unit=who("ms"))),
        "privacy_id='ms' has type float",
    ),
    "a time as id": (
        lambda: built(Trip, frequencies(item="city", privacy_unit=who("user"))),
        "privacy_id='user' has type datetime",
    ),
    "a time in a Row": (lambda: created([beam.Row(user=DAY)], frequencies(item="user")), "has type datetime"),
    "a float weight": (
        lambda: built(Visit, frequencies(item="city", weight="ms")),
        "weight='ms' has type float, but a weight must be a whole number. Round it to an int",
    ),
    "a bool": (lambda: built(Visit, frequencies(item="seen")), "item='seen' has type bool"),
    "a tuple of floats": (lambda: built(Visit, frequencies(item="shares")), "item='shares' has type Tuple"),
    "a float key": (lambda: built(Visit, per_key(AssumePublicKeys("ms"), item="city")), "key='ms' has type float"),
    "a text weight": (
        lambda: built(Visit, frequencies(item="city", weight="user")),
        "weight='user' has type str, but a weight must be a whole number",
    ),
    "a number for a time": (lambda: built(Visit, quantiles(YEAR, item="ms")), "has type float, but TimestampDomain"),
    "text for a float": (lambda: built(Visit, quantiles(FloatDomain(0, 1, 0.1), item="user")), "FloatDomain accepts"),
    "numbers for text": (lambda: created([1], top(TextDomain(8))), "has type int, but TextDomain accepts text"),
    "no key": (
        lambda: created([ROW], per_key(item="n")),
        r"keys must name a field, because elements are not \(key, value\) pairs",
    ),
    "no key of rows": (lambda: built(Visit, per_key(item="city")), "keys must name a field, .* got Visit"),
    "groups": (lambda: built(tuple[str, list[int]], per_key()), r"An element is a list, which is a container"),
    "a float key of pairs": (lambda: built(tuple[float, str], per_key()), r"key \(of the pair\) has type float"),
    "a path": (lambda: built(Visit, frequencies(item="place.x")), "item='place.x' is not a field. Fields: "),
    "a callable on batches": (lambda: built(pa.Table, frequencies(item=len)), "item must be a column name"),
    "continual": (lambda: built(Visit, continual(item="ms")), "item='ms' has type float"),
    "bounding": (lambda: built(Visit, BoundContributions(who("ms"), item="city")), "privacy_id='ms' has type float"),
}


@pytest.mark.parametrize("name", DECLARED)
def test_types_of_which_nothing_would_count_are_refused_at_once(name: str) -> None:
    build, message = DECLARED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        build()


def test_types_that_may_count_are_accepted_without_a_warning() -> None:
    def built(element_type: Any, *transforms: Any) -> None:  # as far as types are checked
        elements = beam.Pipeline(runner=FN_API) | beam.Create([0]) | beam.Map(repr).with_output_types(element_type)
        for transform in transforms:
            transform.check_types(elements)

    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        of_visits = [
            frequencies(item="city", privacy_unit=who("user")),
            frequencies(item="place"),
            frequencies(item=lambda visit: visit.city),
            frequencies(item="city", weight=lambda visit: len(visit.user), privacy_unit=who("user")),
            per_key(AssumePublicKeys("city"), item="place"),
            quantiles(FloatDomain(0, 1, 0.1), item="ms"),
            top(TextDomain(8), item="city"),
            continual(item="city"),
        ]
        built(Visit, *of_visits)
        built(
            tuple[str, int | None],
            frequencies(item=lambda pair: pair),
            frequencies(item=lambda pair: pair[1]),
            per_key(),
        )
        built(tuple[str, Visit], per_key(item="city"))
        built(tuple[str, str] | tuple[int, bytes], per_key())  # as of beam.Create, of keys of two types
        built(list[str], frequencies(item=lambda parts: parts[0]))
        built(str, frequencies(), top(TextDomain(8)), quantiles(IPv4Domain()), frequencies(item=len))
        built(bytes, frequencies())
        built(np.int64, frequencies(), quantiles())
        built(int | float, quantiles())  # some of them count
        built(pd.Timestamp, quantiles(YEAR))
        built(beam.utils.timestamp.Timestamp, quantiles(YEAR))
        for batch in (pa.Table, pa.RecordBatch, pd.DataFrame):
            built(batch, frequencies(item="city"), per_key(AssumePublicKeys("user"), item="city"))


VALUES: list[Any] = [
    *("a", "10.0.0.1", "2026-03-02", b"a", 7, True, 1.5, ("a", 1), [1], {"a"}, 1j),
    *(decimal.Decimal(7), decimal.Decimal("1.5"), uuid.UUID(int=1), ipaddress.IPv4Address(1)),
    *(DAY, DAY.date(), pd.Timestamp(DAY), np.datetime64("2026-03-02"), beam.utils.timestamp.Timestamp(1772409600)),
    *(np.int64(7), np.float32(1.5), np.float64(1.5), np.bool_(True), np.arange(2)),
]
READERS: dict[str, beam.PTransform] = {
    "items": frequencies(item="x"),
    "ids": frequencies(item=len, privacy_unit=who("x")),
    "keys": per_key(AssumePublicKeys("x"), item=len),
    "weights": frequencies(item=len, weight="x"),
    "integers": quantiles(item="x"),
    "floats": quantiles(FloatDomain(0, 100, 0.5), item="x"),
    "times": quantiles(YEAR, item="x"),
    "addresses": quantiles(IPv4Domain(), item="x"),
    "text": top(TextDomain(8), item="x"),
    "bytes": top(BytesDomain(8), item="x"),
}


def accepts(check: Callable[[Any], Any], given: Any) -> bool:
    try:
        check(given)
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.filterwarnings("ignore::beam_dpsketch.InputWarning")
@pytest.mark.parametrize("name", READERS)
def test_a_type_is_refused_if_and_only_if_no_value_of_it_counts(name: str) -> None:
    transform, pipeline = READERS[name], beam.Pipeline(runner=FN_API)
    for kind in {type(value) for value in VALUES}:
        rows = beam.pvalue.PCollection(pipeline, element_type=NamedTuple("Of", [("x", kind)]))
        counts = [accepts(transform.check, [{"x": value}]) for value in VALUES if type(value) is kind]
        assert accepts(transform.check_types, rows) == any(counts), kind


WARNED: dict[str, tuple[Any, beam.PTransform, list[str]]] = {
    "dicts": (
        dict[str, Any],
        frequencies(item="town", privacy_unit=who("usr")),
        ["privacy_id='usr'; item='town'", "Call .check", "PrivateFrequencies cannot check"],
    ),
    "anything": (Any, frequencies(), ["item (the element itself)"]),
    "pairs of anything": (Any, per_key(), ["key (of the pair); item (the element itself)"]),
    "a callable": (Any, frequencies(item=fails), ["item (a callable)"]),
    "a callable that gives a list": (
        Any,
        frequencies(item=lambda row: [row]),
        ["a callable) (which seems to return List"],
    ),
    "a field of any type": (Visit, frequencies(item="what"), ["item='what'"]),
    "continual": (Any, continual(item="town"), ["PrivateFrequencies cannot check item='town'"]),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", WARNED)
def test_types_that_tell_nothing_are_warned_of_once_by_name(name: str) -> None:
    element_type, transform, words = WARNED[name]
    line = inspect.getsourcelines(built)[1] + 4  # where a transform is applied
    with pytest.warns(InputWarning) as caught:
        built(element_type, transform)
    (warning,) = caught
    assert all(word in str(warning.message) for word in words)
    assert (warning.filename, warning.lineno) == (__file__, line)


def test_a_checked_transform_does_not_warn() -> None:
    transform = frequencies(item="city", privacy_unit=who("user"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        assert transform.check([ROW]) is transform
        built(dict[str, Any], transform)


UNUSABLE: dict[str, tuple[beam.PTransform, Any, str]] = {
    "a number of 33 bits": (
        quantiles(IPv4Domain()),
        [1 << 32],
        "4294967296 .*, but IPv4Domain accepts addresses as 32-bit",
    ),
    "a missing field": (
        frequencies(item="town"),
        [ROW],
        "element 0 .* no field for item='town': its fields are user, ",
    ),
    "a missing id": (frequencies(item="city", privacy_unit=who("usr")), [ROW], "no field for privacy_id='usr'"),
    "a path": (
        frequencies(item="geo.city"),
        [ROW],
        "item='geo.city'.*A name selects a top-level field. Use a callable",
    ),
    "a later element": (frequencies(item="city"), [ROW, {"user": "u"}], "element 1 of the sample has no field"),
    "None": (frequencies(item="city"), [{"city": None}], "item='city' is None. Such records are dropped"),
    "a callable that raises": (frequencies(item=fails), [ROW], r"item \(a callable\) raises KeyError: 'nope'"),
    "a float item": (frequencies(item="ms"), [ROW], r"item='ms' is 1.0 \(float\), but an item must be .* Round it"),
    "a time": (frequencies(item="ts"), [ROW], r"item='ts' is datetime.datetime\(2026, 3, 2, 0, 0\) \(datetime\)"),
    "a list": (frequencies(item=lambda row: [row["city"]]), [ROW], r"is \['Oslo'\] \(list\)"),
    "a time as id": (
        frequencies(item="city", privacy_unit=who("ts")),
        [ROW],
        r"privacy_id='ts' is datetime\..* \(datetime\)",
    ),
    "a float id": (frequencies(item="city", privacy_unit=who("ms")), [ROW], "privacy_id='ms' is 1.0"),
    "a float key": (per_key(AssumePublicKeys("ms"), item="city"), [ROW], "key='ms' is 1.0"),
    "no pair": (per_key(item="city"), [ROW], r"is not a \(key, value\) pair, got .*\. Name the key field"),
    "a batch in a pair": (
        per_key(item="x"),
        [("a", pa.table({"x": ["b"]}))],
        "Batches must contain their keys as a column",
    ),
    "an unlisted key": (
        per_key(PublicKeys(["7"], "n"), item="city"),
        [ROW],
        r"key='n' is 7 \(int\), which is not in PublicKeys",
    ),
    "a fractional value": (quantiles(item="x"), [{"x": 1.5}], r"is 1.5 .*FloatDomain\(low, high, step\)"),
    "text for a number": (quantiles(item="city"), [ROW], "is 'Oslo' .* IntegerDomain accepts whole numbers"),
    "text for a time": (quantiles(YEAR, item="city"), [ROW], "TimestampDomain accepts datetime"),
    "a number for text": (top(TextDomain(8), item="n"), [ROW], "TextDomain accepts text"),
    "a fractional weight": (
        frequencies(item="city", weight="w", privacy_unit=who("user")),
        [{**ROW, "w": 3.5}],
        "weight='w' is 3.5 .* a weight must be a whole number",
    ),
    "a row": (frequencies(item="town"), [beam.Row(city="Oslo")], "no field for item='town': its fields are city"),
    "a list of rows": (
        frequencies(item="city"),
        [[ROW]],
        "An element is a list, which is a container and not a record. Unpack it",
    ),
    "a column": (frequencies(item="town"), pa.table({"city": ["Oslo"]}), "item='town' is not a column"),
    "a float column": (frequencies(item="ms"), pd.DataFrame({"ms": [1.0, 1.5]}), r"row 1 .* item='ms' is .*1\.5"),
    "fractions in a column": (
        quantiles(item="x"),
        pd.DataFrame({"x": [1.0, 2.5]}),
        r"row 1 of element 0 .* item='x' is np.float64\(2.5\)",
    ),
    "a null in a column": (frequencies(item="x"), pa.table({"x": ["a", None]}), "row 1 .* is None"),
    "a key in a column": (per_key(PublicKeys(["b"], "k"), item="k"), pa.table({"k": ["b", "a"]}), "row 1 .* 'a'"),
    "empty": (frequencies(item="city"), [], "sample must contain at least one record"),
    "an empty batch": (frequencies(item="x"), pa.table({"x": pa.array([], "string")}), "at least one record"),
    "continual": (continual(item="town"), [ROW], "no field for item='town'"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_sample_that_cannot_be_used_is_an_error_that_says_why(name: str) -> None:
    transform, sample, message = UNUSABLE[name]
    with pytest.raises(ValueError, match=message):
        transform.check(sample)


def test_one_element_is_no_sample() -> None:
    for sample in (ROW, "Oslo"):
        with pytest.raises(TypeError, match="sample must be a list of elements or a single batch"):
            frequencies(item="city").check(sample)


def samples() -> Iterator[tuple[beam.PTransform, Any]]:
    yield (
        frequencies(item="city", weight="n", privacy_unit=who("user")),
        [ROW, beam.Row(**ROW), pd.DataFrame([ROW] * 2)],
    )
    yield frequencies(), ["a", 1, b"b", ("a", 1)]
    yield per_key(), [("a", "x"), (1, "y")]
    yield per_key(PublicKeys(["a"])), [("a", "x")]
    yield per_key(AssumePublicKeys("k"), item="x"), pa.table({"k": ["a"], "x": [b"b"]})
    yield quantiles(item="ms"), [ROW]
    yield quantiles(YEAR, item="ts"), [ROW, pa.table({"ts": [DAY]})]
    yield quantiles(IPv4Domain()), ["10.0.0.1", 17]
    yield quantiles(FloatDomain(0, 1, 0.1)), [0, 0.3, np.float32(1)]
    yield top(TextDomain(4)), ["Oslo"]
    yield continual(item="city"), [ROW]


def test_what_can_be_used_passes_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for transform, sample in samples():
            assert transform.check(sample) is transform


CLAMPED: dict[str, tuple[beam.PTransform, Any, str]] = {
    "a number": (quantiles(), [7, 101, -1], r"element 1 of the sample: item \(.*\) is 101 .* outside IntegerDomain\("),
    "a float": (quantiles(FloatDomain(0, 1, 0.1)), [1.5], "outside FloatDomain"),
    "a time": (quantiles(YEAR), [DAY - datetime.timedelta(1)], "outside TimestampDomain"),
    "a long text": (top(TextDomain(3)), ["Oslo"], "'Oslo' .* outside TextDomain"),
    "a weight": (
        frequencies(item="city", weight="w", privacy_unit=who("user")),
        [{**ROW, "w": 10}],
        "weight='w' is 10 .* outside the allowed weights, 0 to 9",
    ),
}


@pytest.mark.parametrize("name", CLAMPED)
def test_sample_values_that_would_be_clamped_are_warned_of_once(name: str) -> None:
    transform, sample, message = CLAMPED[name]
    with pytest.warns(InputWarning, match=message) as caught:
        transform.check(sample)
    assert len(caught) == 1


def test_elements_of_a_test_stream_have_their_own_types() -> None:
    def released(item: str, *rows: Any) -> None:
        stream = Stream().add_elements(rows[:1]).add_elements(rows[1:])
        windows = beam.WindowInto(beam.window.FixedWindows(60))
        users = PrivacyId("user", FOUR, max_windows=2, period=120)
        elements = beam.Pipeline(runner=FN_API) | stream | windows
        elements | PrivateFrequencies(SPEC, PRIVACY, privacy_unit=users, item=item)

    row = beam.Row(user="u", city="Oslo")
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        released("city", row, row)
    with pytest.raises(ValueError, match=r"item='town' is not a field. Fields: user, city"):
        released("town", row)
    with pytest.warns(InputWarning, match="cannot check"):
        released("city", {"user": "u", "city": "Oslo"})
