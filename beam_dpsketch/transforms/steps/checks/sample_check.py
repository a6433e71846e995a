"""Check elements before a pipeline runs: their types, and a sample that the caller makes public.

A pipeline drops a record that it cannot use, because an error about it would reveal it. A selector that never finds
anything is a mistake, and public; here it is an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import TimestampedValue

from beam_dpsketch._columns import plain_column
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, ElementsWarning, levels_to_caller, said_by
from beam_dpsketch.hashing.encodings import encode_all
from beam_dpsketch.records.columns import all_valid
from beam_dpsketch.records.reading import MISSING_KEY, Columns
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.selectors import Selector, describe_argument, is_batch_type
from beam_dpsketch.transforms.steps.checks.element_types import (
    open_questions,
    refuse_pairs,
    remedy,
    source_columns,
    what_counts,
)
from beam_dpsketch.transforms.steps.idempotent_noise import Replayable

_Self = TypeVar("_Self", bound="ReadsElements")


class ReadsElements(Replayable):
    """A private transform of elements, which can be checked before it runs."""

    _is_checked = False

    def __init__(self, declared: ReleaseSpec) -> None:
        super().__init__()
        self._declared = declared

    def check(self: _Self, sample: Iterable[Any]) -> _Self:
        """Return the transform itself, if it can use every element of a public or made-up sample.

        Run the selectors here and now, without a pipeline and without spending privacy. A checked transform does not
        warn that the types of its elements are unknown. Values that would be clamped cause a warning, and so do items
        that are not among `ListedItems`.

        Errors and warnings show values of the sample: give it no element that is to be protected.

        Args:
          sample: some elements as the pipeline would hold them: rows, dicts, (key, value) pairs, or batches; or one
            batch alone. Those that are a `TimestampedValue` are checked against the declared windows.

        Raises:
          ValueError: for the first element that cannot be used. The message names the argument, the field and the
            reason: a field that is missing, a callable that raises, a value of a type that cannot be counted, a
            fractional weight, a key that is not listed, a time outside of the declared windows.

        >>> from beam_dpsketch import PrivacySpec, Record, SketchSpec
        >>> from beam_dpsketch.transforms import PrivateFrequencies
        >>> towns = PrivateFrequencies(SketchSpec(), PrivacySpec(rho=0.5), item="town", unit=Record())
        >>> towns.check([{"city": "Oslo"}])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        beam_dpsketch.errors.ArgumentError: element 0 of the sample has no field for item='town': ... [...]
        """
        _Check(self._declared).all_of(sample)
        self._is_checked = True
        return self

    def check_types(self, elements: beam.PCollection) -> None:
        """Refuse elements of types that cannot be used; warn, once, of arguments that types leave open."""
        selectors, domains, per_key = self._declared.selectors, _domains(self._declared), self._declared.is_keyed
        if not per_key:
            refuse_pairs(selectors, elements.element_type)
        columns = source_columns(elements)
        questions = open_questions(selectors, elements.element_type, domains=domains, per_key=per_key, columns=columns)
        if questions and not self._is_checked:
            warnings.warn(
                f"{self.default_label()} cannot check {'; '.join(questions)}: the types of its elements do not tell. A "
                "record without a usable value is dropped in silence. Call .check(sample) with some public or made-up "
                "elements, or declare types: a beam.Row or named tuple with with_output_types",
                ElementsWarning,
                stacklevel=levels_to_caller(),
            )


def _domains(declared: ReleaseSpec) -> dict[str, Any]:
    """Return which values each item can have, by its argument; `None` where any can."""
    return {argument: spec.domain for argument, spec in declared.spec.fields.items()}


class _Check:
    """Reads sample elements as a transform would, and raises where that would drop one."""

    def __init__(self, declared: ReleaseSpec) -> None:
        self._selectors, self._sketch_input = declared.selectors, declared.sketch_input
        self._domains, self._fields = _domains(declared), declared.spec.fields
        self._reader, self._declared = declared.reader, declared
        self._warned: set[str] = set()

    def all_of(self, sample: Any) -> None:
        """Raise for the first element that cannot be used."""
        if is_batch_type(type(sample)):  # type: ignore[arg-type]
            sample = [sample]
        if isinstance(sample, (str, bytes, dict)):
            raise ArgumentTypeError(
                "sample", f"must be a list of elements, or one batch, got one {type(sample).__name__}", "E611"
            )
        sizes = [self._element(element, f"element {place} of the sample") for place, element in enumerate(sample)]
        if not sum(sizes):
            raise ArgumentError("sample", "must hold at least one record", "E611")

    def _element(self, element: Any, place: str) -> int:
        if isinstance(element, TimestampedValue):
            self._time(element.timestamp, place)
            element = element.value
        columns = self._columns(element, place)
        batch = element if self._reader.is_batch_type(type(element)) else None
        for argument, values in columns.by_argument(self._selectors).items():
            self._values(argument, values, place, batch)
        return len(columns.items)

    def _time(self, time: Any, place: str) -> None:
        """Refuse a time outside of the windows that are declared."""
        windows = self._declared.windows
        if windows is not None and not windows.start_micros <= time.micros < windows.end_micros:
            edges = windows.start_micros, time.micros, windows.end_micros
            start, time, end = (micros // 1_000_000 for micros in edges)
            words = (
                f"{place} has a time of {time} seconds since 1970, outside of the declared windows, {start} to {end}: "
                "such a record is dropped; times of Beam are in seconds, so divide milliseconds by 1000"
            )
            raise ArgumentError("", words, "E612")

    def _columns(self, element: Any, place: str) -> Columns:
        """Read one element as the transform does."""
        try:
            if self._reader.is_batch_type(type(element)):
                return self._reader.read_batch(element, self._sketch_input)
        except (TypeError, ValueError) as error:
            raise ArgumentError("", f"{place}: {said_by(error)}", "E612") from None
        key, value = None, element
        given = self._selectors.given
        if self._reader.per_key and "key" not in given:
            key, value = self._reader.split_pair(element)
            if key is MISSING_KEY:
                raise ArgumentError(
                    "",
                    f"{place} is no (key, value) pair, so keys must name a field, as in $selection_of_pages; it is "
                    f"{_shown(element)}",
                    "E612",
                )
        read = {argument: [_selected(argument, selector, value, place)] for argument, selector in given.items()}
        keys = read.get("key", [key]) if self._reader.per_key else None
        items: Any = [read.get(argument, [value]) for argument in self._selectors.items]
        items = list(zip(*items, strict=True)) if isinstance(self._selectors.item, tuple) else items[0]
        return Columns(read.get("privacy_id"), keys, items, read.get("weight"))

    def _values(self, argument: str, values: Any, place: str, batch: Any) -> None:
        """Check the values of an argument in one element; show those of a batch as they are in it."""
        words = describe_argument(argument, self._selectors.all[argument])
        try:
            mask = self._reader.tally(self._sketch_input).counting(argument, values).tolist()
        except TypeError as error:  # of a column
            raise ArgumentError("", f"{place}: {words}: {said_by(error)}", "E612") from None
        for number, counts in enumerate(mask):
            where = place if batch is None else f"row {number} of {place}"
            value = values[number] if batch is None else _cell(batch, str(self._selectors.all[argument]), number)
            if counts:
                self._warn_if_clamped(argument, value, f"{where}: {words}")
            elif argument in self._fields and self._fields[argument].is_listed and _is_countable(values, number):
                problem = "which is not one of the ListedItems: such a record is dropped"
                self._warn_once("unlisted", f"{where}: {words} is {_shown(value)}, {problem}")
            else:
                raise ArgumentError("", f"{where}: {words} {self._problem(argument, value)}", "E612")

    def _problem(self, argument: str, value: Any) -> str:
        if value is None:
            return "is None: such a record is dropped"
        if argument == "key" and all_valid(encode_all([value])).all():
            return f"is {_shown(value)}, which is not one of the PublicKeys"
        remedied = remedy(argument, type(value), self._domains)
        return f"is {_shown(value)}, but {what_counts(argument, self._domains)}; {remedied}"

    def _warn_if_clamped(self, argument: str, value: Any, words: str) -> None:
        bounds = self._sketch_input.bounds
        if argument == "weight":
            inside = bounds.min_weight <= value <= bounds.max_weight
            limits = f"the weights {bounds.min_weight} to {bounds.max_weight} of its bounds"
            limits += ", which are not signed" if value < 0 else ""
        else:
            domain = self._domains.get(argument)
            inside = domain is None or domain.is_inside(value)
            limits = str(domain)
        if not inside:
            self._warn_once(argument, f"{words} is {_shown(value)}, outside {limits}: it is clamped to them")

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, ElementsWarning, stacklevel=levels_to_caller())


def _is_countable(values: Any, number: int) -> bool:
    """Return whether a value of a list or column has canonical bytes."""
    return bool(all_valid(encode_all(values[number : number + 1])).all())


def _cell(batch: Any, name: str, row: int) -> Any:
    """Return one value of a batch."""
    is_arrow = isinstance(batch, (pa.Table, pa.RecordBatch))
    return plain_column(batch[name].slice(row, 1))[0].as_py() if is_arrow else batch[name].iloc[row]


def _selected(argument: str, selector: Selector, value: Any, place: str) -> Any:
    """Return what a selector reads of a value; raise where there is nothing."""
    words = describe_argument(argument, selector)
    if not isinstance(selector, str):
        assert selector is not None
        try:
            return selector(value)
        except Exception as error:
            raised = f"{place}: {words} raises {type(error).__name__}: {said_by(error)}"
            raise ArgumentError("", raised, "E612") from error
    fields = value if isinstance(value, dict) else getattr(value, "_fields", None) or getattr(value, "__dict__", {})
    if selector in value if isinstance(value, dict) else hasattr(value, selector):
        return value[selector] if isinstance(value, dict) else getattr(value, selector)
    listed = f"its fields are {', '.join(map(str, fields))}" if fields else f"it is a {type(value).__name__}"
    nested = "; a name is one field, for a nested one give a callable" if "." in selector else ""
    raise ArgumentError("", f"{place} has no field for {words}: {listed}{nested}", "E612")


def _shown(value: Any) -> str:
    """Return a value of the sample with its type, not too long."""
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"
