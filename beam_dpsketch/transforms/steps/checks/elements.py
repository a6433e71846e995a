"""Check elements before a pipeline runs: their declared types, and a public sample.

A pipeline drops an unusable record, because an error about it would reveal it. A selector that never finds a value is a
public mistake, and an error here. A type that can never count is refused while a pipeline is built. Properties that
types leave open, such as the fields of a dict, are only listed, and a sample shows them.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import inspect
import ipaddress
import re
import typing
import uuid
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Self

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.parquetio import ReadFromParquet, ReadFromParquetBatched
from apache_beam.testing.test_stream import ElementEvent
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints import row_type, trivial_inference, typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch.columns import plain_column
from beam_dpsketch.encodings import encode_all
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, InputWarning, levels_to_caller, said_by
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.calendar import Calendar
from beam_dpsketch.exact.reading.columns import TIMES, Readable, all_valid
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.reading.reading import MISSING_KEY, Columns, RecordReader
from beam_dpsketch.exact.reading.selectors import (
    Selector,
    Selectors,
    as_columns,
    column_of,
    describe_argument,
    is_batch_type,
)
from beam_dpsketch.transforms.steps.idempotent_noise import Replayable

_MADE_UP: Mapping[type, list[Any]] = {
    bool: [True],
    str: ["a", "10.0.0.1", "2024-01-01"],
    bytes: [b"a"],
    int: [1],
    float: [1.5],
    tuple: [()],
    decimal.Decimal: [decimal.Decimal(1)],
    uuid.UUID: [uuid.UUID(int=1)],
    datetime.datetime: [datetime.datetime(2024, 1, 1)],
    datetime.date: [datetime.date(2024, 1, 1)],
    ipaddress.IPv4Address: [ipaddress.IPv4Address("10.0.0.1")],
    Timestamp: [Timestamp(0)],
    np.integer: [np.int64(1)],
    np.floating: [np.float64(1.5)],
    np.datetime64: [np.datetime64("2024-01-01")],
}
"""Sample values of each type, and of derived types, to test the reader of an argument."""
_FLOATS = (float, np.floating)
_OPEN = (typehints.AnyTypeConstraint, typehints.TypeVariable, typehints.ABCSequenceTypeConstraint)
_MAPPINGS = (typehints.DictConstraint, typehints.MappingTypeConstraint)
_CONTAINERS: dict[type, type] = {typehints.ListConstraint: list, typehints.SetTypeConstraint: set}
_WITHOUT_FIELDS = (str, bytes, int, float, tuple, list, set, np.ndarray, np.generic)


class ReadsElements(Replayable):
    """Private transform of elements, which can be checked before it runs."""

    _is_checked = False

    def __init__(self, declared: ReleaseSpec) -> None:
        super().__init__()
        self._declared = declared

    def check(self, sample: Iterable[Any]) -> Self:
        """Check that every element of a public or made-up sample is usable, and return the transform.

        Runs the selectors immediately, without a pipeline and without spending privacy budget. A checked transform does
        not warn that the types of its elements are unknown. Values that would be clamped, and items that are not among
        `ListedItems`, cause a warning.

        Errors and warnings show values of the sample. Do not pass protected elements.

        Args:
          sample: some elements as in the pipeline: rows, dicts, (key, value) pairs, or batches, or a single batch.
            Elements that are a `TimestampedValue` are checked against the declared windows.

        Raises:
          ValueError: for the first unusable element. The message names the argument, the field and the reason: a
            missing field, a callable that raises, a value whose type cannot be counted, a fractional weight, an
            unlisted key, or a time outside the declared windows.

        >>> from beam_dpsketch import PrivacySpec, Record, SketchSpec
        >>> from beam_dpsketch.transforms import PrivateFrequencies
        >>> towns = PrivateFrequencies(SketchSpec(), PrivacySpec(rho=0.5), item="town", privacy_unit=Record())
        >>> towns.check([{"city": "Oslo"}])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        beam_dpsketch.errors.ArgumentError: element 0 of the sample has no field for item='town': ... [...]
        """
        _Check(self._declared).all_of(sample)
        self._is_checked = True
        return self

    def check_types(self, elements: beam.PCollection) -> None:
        """Raise if element types are unusable, and warn once about arguments that types leave open."""
        reader, sketch_input, element_type = self._declared.reader, self._declared.sketch_input, type_of(elements)
        if not reader.per_key:
            refuse_pairs(reader.selectors, element_type)
        questions = open_questions(reader, sketch_input, element_type, source_columns(elements))
        if questions and not self._is_checked:
            warnings.warn(
                f"{self.default_label()} cannot check {'; '.join(questions)}: element types are unknown or too "
                "general. Unusable records are dropped silently. Call .check(sample) with public or made-up elements, "
                "or declare types with with_output_types, such as a beam.Row or a named tuple",
                InputWarning,
                stacklevel=levels_to_caller(),
            )


class _Check:
    """Reader of sample elements that raises if the transform would drop one."""

    def __init__(self, declared: ReleaseSpec) -> None:
        self._selectors, self._sketch_input = declared.selectors, declared.sketch_input
        self._fields, self._readables = declared.spec.fields, declared.reader.readables(declared.sketch_input)
        self._reader, self._declared = declared.reader, declared
        self._warned: set[str] = set()

    def all_of(self, sample: Any) -> None:
        """Raise if an element is unusable."""
        if is_batch_type(type(sample)):  # type: ignore[arg-type]
            sample = [sample]
        if isinstance(sample, (str, bytes, dict)):
            raise ArgumentTypeError(
                "sample", f"must be a list of elements or a single batch, got {type(sample).__name__}", "E611"
            )
        sizes = [self._element(element, f"element {place} of the sample") for place, element in enumerate(sample)]
        if not sum(sizes):
            raise ArgumentError("sample", "must contain at least one record", "E611")

    def _element(self, element: Any, place: str) -> int:
        if isinstance(element, TimestampedValue):
            self._time(element.timestamp, place)
            element = element.value
        columns = self._columns(element, place)
        for argument, values in columns.by_argument(self._selectors).items():
            self._values(argument, values, place, element)
        return len(columns.items)

    def _time(self, time: Any, place: str) -> None:
        """Raise if the time is outside the declared windows."""
        windows = self._declared.windows
        if windows is not None and not windows.start_micros <= time.micros < windows.end_micros:
            edges = windows.start_micros, time.micros, windows.end_micros
            start, time, end = (micros // 1_000_000 for micros in edges)
            words = (
                f"{place} has a time of {time} seconds since 1970, outside the declared windows, {start} to {end}. "
                "Such records are dropped. Beam counts times in seconds: divide milliseconds by 1000"
            )
            raise ArgumentError("", words, "E612")

    def _columns(self, element: Any, place: str) -> Columns:
        try:
            if self._reader.is_batch_type(type(element)):
                return self._reader.read_batch(element, self._sketch_input)
            columns = self._reader.read_rows([element])
        except (TypeError, ValueError) as error:
            raise ArgumentError("", f"{place}: {said_by(error)}", "E612") from None
        if columns.keys is not None and columns.keys[0] is MISSING_KEY:
            raise ArgumentError(
                "",
                f"{place} is not a (key, value) pair, got {_shown(element)}. Name the key field, such as "
                "$selection_of_pages",
                "E612",
            )
        return columns

    def _values(self, argument: str, values: Any, place: str, element: Any) -> None:
        """Check the values of an argument in one element, and show batch values in their original form."""
        selector, is_batch = self._selectors.fields[argument], self._reader.is_batch_type(type(element))
        words = describe_argument(argument, selector)
        try:
            mask = self._reader.tally(self._sketch_input).counting(argument, values).tolist()
        except TypeError as error:  # from a column
            raise ArgumentError("", f"{place}: {words}: {said_by(error)}", "E612") from None
        for number, counts in enumerate(mask):
            where = f"row {number} of {place}" if is_batch else place
            value = _cell(element, selector, number) if is_batch else values[number]
            if counts:
                self._warn_if_clamped(argument, value, f"{where}: {words}")
            elif argument in self._fields and self._fields[argument].is_listed and _is_countable(values, number):
                problem = "which is not in ListedItems. Such records are dropped"
                self._warn_once("unlisted", f"{where}: {words} is {_shown(value)}, {problem}")
            else:
                columns = as_columns(selector)
                if not is_batch and (value is None or len(columns) > 1):
                    value_of_pair = self._reader.split_pair(element)[1] if self._reader.per_key else element
                    for each in map(column_of, columns):
                        _check_selected(words, each, value_of_pair, place)
                if any(isinstance(each, Calendar) for each in columns) and not _is_countable(values, number):
                    problem = "has no value, or a time outside the declared days. Such records are dropped"
                    raise ArgumentError("", f"{where}: {words} {problem}", "E612")
                raise ArgumentError("", f"{where}: {words} {self._problem(argument, value)}", "E612")

    def _problem(self, argument: str, value: Any) -> str:
        if value is None:
            return "is None. Such records are dropped"
        if argument == "key" and all_valid(encode_all([value])).all():
            return f"is {_shown(value)}, which is not in PublicKeys"
        readable = self._readables[argument]
        return f"is {_shown(value)}, but {what_counts(argument, readable)}. {remedy(type(value), readable)}"

    def _warn_if_clamped(self, argument: str, value: Any, words: str) -> None:
        bounds = self._sketch_input.bounds
        if argument == "weight":
            inside = bounds.min_weight <= value <= bounds.max_weight
            limits = f"the allowed weights, {bounds.min_weight} to {bounds.max_weight}"
            limits += " (weights are not signed)" if value < 0 else ""
        else:
            domain = self._readables[argument].domain
            inside = domain is None or domain.is_inside(value)
            limits = str(domain)
        if not inside:
            self._warn_once(argument, f"{words} is {_shown(value)}, outside {limits}. It is clamped")

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, InputWarning, stacklevel=levels_to_caller())


def _is_countable(values: Any, number: int) -> bool:
    """Whether a value of a list or column has canonical bytes."""
    return bool(all_valid(encode_all(values[number : number + 1])).all())


def _cell(batch: Any, selector: Any, row: int) -> Any:
    if isinstance(selector, tuple):
        return tuple(_cell(batch, each, row) for each in selector)
    is_arrow, name = isinstance(batch, (pa.Table, pa.RecordBatch)), column_of(selector)
    return plain_column(batch[name].slice(row, 1))[0].as_py() if is_arrow else batch[name].iloc[row]


def _check_selected(words: str, selector: Selector, value: Any, place: str) -> None:
    """Raise if the selector of a missing value raises, or names an absent field."""
    if callable(selector):
        try:
            selector(value)
        except Exception as error:
            raised = f"{place}: {words} raises {type(error).__name__}: {said_by(error)}"
            raise ArgumentError("", raised, "E612") from error
    elif selector is not None and not (selector in value if isinstance(value, dict) else hasattr(value, selector)):
        fields = value if isinstance(value, dict) else getattr(value, "_fields", None) or getattr(value, "__dict__", {})
        listed = f"its fields are {', '.join(map(str, fields))}" if fields else f"it is a {type(value).__name__}"
        nested = ". A name selects a top-level field. Use a callable for a nested field" if "." in selector else ""
        raise ArgumentError("", f"{place} has no field for {words}: {listed}{nested}", "E612")


def _shown(value: Any) -> str:
    """Format a sample value with its type, shortened."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def open_questions(
    reader: RecordReader, sketch_input: SketchInput | None, element_type: Any, columns: frozenset[str] | None = None
) -> list[str]:
    """Raise if an element type can never count, and describe the arguments that types leave open.

    Args:
      reader: reads the elements.
      sketch_input: use of the items. Without it they must have canonical bytes.
      element_type: the type.
      columns: names of all fields, if the source of the elements lists them.
    """
    selectors, readables = reader.selectors, reader.readables(sketch_input)
    kind, found = convert_to_beam_type(element_type), {}
    if reader.per_key and selectors.key is None and not _is_batch(kind):
        key, kind = _pair(kind)
        found["key"] = key, not _is_open(key)
    selectors.is_batch_type(_CONTAINERS.get(type(kind), object))  # raises for lists, unless callables read them
    for argument in (*selectors.keys, "privacy_id", *selectors.items, "weight"):
        selector = column_of(selectors.all[argument])
        if selector is not None or argument in selectors.items:
            found[argument] = _selected_of(argument, selector, kind, columns)
    questions = (
        _question(argument, column_of(selectors.fields[argument]), selected, is_known, readables[argument])
        for argument, (selected, is_known) in found.items()
    )
    return [question for question in questions if question]


def refuse_pairs(selectors: Selectors, element_type: Any) -> None:
    """Raise if elements are pairs without `keys` and `item`, because whole pairs would be counted silently."""
    members = _members(convert_to_beam_type(element_type))
    pairs = [isinstance(each, typehints.TupleHint.TupleConstraint) and len(each.tuple_types) == 2 for each in members]
    if selectors.item is None and all(pairs):
        raise ArgumentError(
            "keys",
            "is required, because elements are (key, value) pairs. Use $keys_of_pairs to release each key, "
            "item=lambda pair: pair[1] to count values, or item=lambda pair: pair to count whole pairs",
            "E601",
        )


def what_counts(argument: str, readable: Readable) -> str:
    """Describe the usable values of an argument."""
    if argument == "weight":
        return "a weight must be a whole number"
    if readable is TIMES:
        return f"a calendar reads {readable.description}"
    if (domain := readable.domain) is not None:
        return f"{type(domain).__name__} accepts {domain.takes}"
    named = f"a {argument.partition('[')[0]}" if argument.startswith(("key", "privacy_id")) else "an item"
    return f"{named} must be text, bytes, an integer, a date, a UUID or a tuple of these"


def remedy(kind: Any, readable: Readable) -> str:
    """Advise how to convert values of an unusable type."""
    if isinstance(kind, type) and issubclass(kind, _FLOATS):
        numbers = readable.domain is not None and readable.domain.plain_type is int
        return "Round it, or use FloatDomain(low, high, step)" if numbers else "Round it to an int"
    return "Convert it before, or in a callable"


def _question(argument: str, selector: Selector, kind: Any, is_known: bool, readable: Readable) -> str | None:
    """Describe an argument that types leave open. Raise if its type is unusable, which is guessed for callables."""
    words = describe_argument(argument, selector)
    if _is_open(kind):
        return None if is_known else words
    if not _may_count(kind, readable):
        remedied = remedy(one := _one_of(kind), readable)
        if isinstance(selector, str) and isinstance(one, type) and issubclass(one, _FLOATS):
            remedied += f". If missing values turned integers into floats, read it with dtype: {{{selector}: Int64}}"
        reason = f"{_type_words(kind)}, but {what_counts(argument, readable)}. {remedied}"
        if not callable(selector):
            raise ArgumentTypeError("", f"{words} has type {reason}", "E603")
        return f"{words} (which seems to return {reason})"
    return None if is_known else words


def type_of(elements: beam.PCollection) -> Any:
    """Find the declared type of elements. For a `TestStream`, which declares none, infer the type of its elements."""
    step = elements.producer
    while step is not None and isinstance(step.transform, beam.WindowInto):
        step = step.inputs[0].producer
    events = getattr(step and step.transform, "_events", ()) if _is_open(elements.element_type) else ()
    values = [each.value for event in events if isinstance(event, ElementEvent) for each in event.timestamped_values]
    return typehints.Union[tuple(map(trivial_inference.instance_to_type, values))] if values else elements.element_type


def source_columns(elements: beam.PCollection) -> frozenset[str] | None:
    """Find the columns read by a Parquet source of the elements. `None` if the source lists none.

    The source is the step that outputs the elements, or a step around it.
    """
    step = elements.producer
    while step is not None and elements in step.outputs.values():
        source = getattr(step.transform, "_source", None)
        if isinstance(step.transform, (ReadFromParquet, ReadFromParquetBatched)) or source is step.transform:
            names = getattr(source, "_columns", None)
            return None if names is None else frozenset(name.partition(".")[0] for name in names)
        step = step.parent
    return None


def _selected_of(argument: str, selector: Selector, kind: Any, columns: frozenset[str] | None) -> tuple[Any, bool]:
    """Find the selected type like `_selected`, if the names of all fields may be available."""
    if columns is None or not isinstance(selector, str):
        return _selected(argument, selector, kind)
    if selector not in columns:
        words = f"is not a column that the source reads. Columns: {', '.join(sorted(columns))}"
        raise ArgumentError(f"{argument}={selector!r}", words, "E606")
    return (typehints.Any, True) if _is_open(kind) else _selected(argument, selector, kind)


def _selected(argument: str, selector: Selector, kind: Any) -> tuple[Any, bool]:
    """Find the type of the selected value, and whether all elements certainly have it."""
    if _is_batch(kind):
        if not isinstance(selector, str):
            raise ArgumentTypeError(argument, "must be a column name, because elements are batches", "E604")
        return typehints.Any, True  # columns are checked when the first batch is read
    fields = field_types(kind)
    if selector is None:
        if fields is not None and not (isinstance(kind, type) and issubclass(kind, tuple)):
            # A runner that encodes it makes it a named tuple, so it would count on some runners only.
            raise ArgumentError("item", f"is required, because elements are rows. Fields: {', '.join(fields)}", "E605")
        return kind, not _is_open(kind)
    if isinstance(selector, str):
        if fields is not None and selector not in fields:
            raise ArgumentError(f"{argument}={selector!r}", f"is not a field. Fields: {', '.join(fields)}", "E606")
        if fields is None and _has_no_field(kind, selector):
            raise ArgumentTypeError(
                f"{argument}={selector!r}",
                f"names a field, but elements have type {_type_words(kind)}. Use a callable, such as "
                f"{argument}=lambda element: element[0]",
                "E607",
            )
        selected = typehints.Any if fields is None else fields[selector]
        return selected, not _is_open(selected)
    is_known = not _is_open(kind) and not isinstance(kind, _MAPPINGS)
    return convert_to_beam_type(trivial_inference.infer_return_type(selector, [kind])), is_known


def field_types(kind: Any) -> dict[str, Any] | None:
    """List the field types of rows, named tuples and dataclasses. `None` for other types."""
    if not isinstance(kind, row_type.RowTypeConstraint):
        kind = row_type.RowTypeConstraint.from_user_type(kind)
    if kind is None:
        return None
    fields = dict(kind._fields)
    if any(isinstance(field, (str, typing.ForwardRef)) for field in fields.values()):  # text annotations
        with contextlib.suppress(NameError):  # names defined elsewhere
            fields.update(typing.get_type_hints(kind.user_type))
    return {name: convert_to_beam_type(field) for name, field in fields.items()}


def _pair(kind: Any) -> tuple[Any, Any]:
    """Split a pair type into key type and value type."""
    if _is_open(kind) or kind is tuple:
        return typehints.Any, typehints.Any
    pairs = [parts for parts in map(_parts, _members(kind)) if len(parts) == 2]
    if not pairs:
        raise ArgumentTypeError(
            "keys",
            f"must name a field, because elements are not (key, value) pairs, got {_type_words(kind)}. Example: "
            "$selection_of_pages",
            "E602",
        )
    keys, values = zip(*pairs, strict=True)
    return typehints.Union[keys], typehints.Union[values]


def _parts(kind: Any) -> list[Any]:
    """List the types of a tuple's parts."""
    if isinstance(kind, typehints.TupleHint.TupleConstraint):
        return list(kind.tuple_types)
    fields = field_types(kind) if isinstance(kind, type) and issubclass(kind, tuple) else None
    return list((fields or {}).values())


def _may_count(kind: Any, readable: Readable) -> bool:
    """Whether some values of a type are usable, by reading sample values."""
    if _is_open(kind):
        return True
    if isinstance(kind, typehints.UnionConstraint):
        return any(_may_count(each, readable) for each in _members(kind) if each is not type(None))
    if isinstance(kind, typehints.TupleHint.TupleConstraint):
        return _may_count(tuple, readable) and all(_may_count(part, readable) for part in kind.tuple_types)
    if isinstance(kind, typehints.TupleHint.TupleSequenceConstraint):
        return _may_count(tuple, readable) and _may_count(kind.inner_type, readable)
    if isinstance(kind, row_type.RowTypeConstraint):
        kind = kind.user_type  # for fields that are named tuples
    base = next((each for each in getattr(kind, "__mro__", ()) if each in _MADE_UP), None)
    return base is not None and bool(readable.find(_MADE_UP[base]).any())


def _is_open(kind: Any) -> bool:
    """Whether the values of a type are unknown."""
    if isinstance(kind, typehints.UnionConstraint):
        return any(map(_is_open, _members(kind)))
    if isinstance(kind, type):
        return kind is object or inspect.isabstract(kind)
    return not isinstance(kind, typehints.TypeConstraint) or isinstance(kind, _OPEN)


def _has_no_field(kind: Any, name: str) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, _WITHOUT_FIELDS) and not hasattr(kind, name)
    return not _is_open(kind) and not any(
        isinstance(each, _MAPPINGS) or (isinstance(each, type) and not issubclass(each, _WITHOUT_FIELDS))
        for each in _members(kind)
    )


def _members(kind: Any) -> list[Any]:
    """List the member types of a union, or the single type."""
    return [*kind.union_types] if isinstance(kind, typehints.UnionConstraint) else [kind]


def _is_batch(kind: Any) -> bool:
    return isinstance(kind, type) and is_batch_type(kind)


def _one_of(kind: Any) -> Any:
    """Unwrap an optional type."""
    members = [each for each in _members(kind) if each is not type(None)]
    return members[0] if len(members) == 1 else kind


def _type_words(kind: Any) -> str:
    """Format a type as in source code."""
    if isinstance(kind, type):
        return kind.__name__
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", str(kind))
