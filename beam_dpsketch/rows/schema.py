"""Row schemas: field and setting types for Beam YAML, conversions between releases and rows, and answer rows."""

from __future__ import annotations

import base64
import datetime
import functools
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, NamedTuple, Optional, Union, get_args

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindow
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.typehints.row_type import RowTypeConstraint

from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.questions.ask import PRIVACY_COLUMNS, Ask, answer_columns, privacy_fields
from beam_dpsketch.answers.questions.entries import AnswerType
from beam_dpsketch.answers.released import Released
from beam_dpsketch.config.forms import Block, Entry, ListOf
from beam_dpsketch.errors import ConfigError, FormatError
from beam_dpsketch.exact.declared.public import Keys
from beam_dpsketch.exact.domains.timestamps import from_micros, to_iso
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.statement.clipping import COLUMNS, Clipping
from beam_dpsketch.statement.showing import is_key_column, key_columns
from beam_dpsketch.statement.tabular import Note
from beam_dpsketch.transforms.outputs import TopK
from beam_dpsketch.transforms.steps.windows import is_global

Columns = Mapping[str, Any]

WINDOW_COLUMNS: Columns = {"window_start": str, "window_end": str}
"""Window start and end, as UTC ISO text, because JSON has no times and every sink can write text."""
RELEASE, STATEMENT, ROW = "release", "statement", "row"
NOT_ONE_BY_ONE = "timeline rows cannot answer questions one by one. Use QueryTimeline, and keep their field row"
_OR_NONE: Any = float | None
TOLD_COLUMNS: Columns = {"notes": str, COLUMNS[0]: str, **dict.fromkeys(COLUMNS[1:], _OR_NONE)}
"""Columns with notes and clipping."""
_KEY_TYPES = (str, int, bytes)
_MAX_INT64 = (1 << 63) - 1


@functools.cache
def block_type(block: Block) -> Any:
    """Build a named tuple type for a block. Values arrive as a dict, a row or text."""
    return NamedTuple(block.name, [*setting_types(block).items()])


def setting_types(block: Block) -> dict[str, Any]:
    """Map each setting to its type, optional unless the setting is required."""
    shapes = {name: _shape(entry) for name, entry in block.entries.items()}
    return {name: shape if name in block.required else Optional[shape] for name, shape in shapes.items()}


def _shape(entry: Entry) -> Any:
    if isinstance(entry.form, ListOf):
        return list[block_type(entry.form.block)]  # type: ignore[misc]
    return block_type(entry.form) if isinstance(entry.form, Block) else entry.form.shape


def row_type(columns: Columns) -> RowTypeConstraint:
    """Build the row type with these columns."""
    return RowTypeConstraint.from_fields([(name, _known_to_beam(kind)) for name, kind in columns.items()])


def _known_to_beam(kind: Any) -> Any:
    """Convert a type for Beam schemas: times become text, and `float | None` becomes `Optional`."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return Union[tuple(str if each is datetime.datetime else each for each in kinds)]  # noqa: UP007


def columns_of(rows: beam.PCollection) -> dict[str, Any]:
    """Get the columns of a row collection. Reject collections without a schema."""
    found = _fields(rows.element_type)
    if not found:
        raise ConfigError("input", "expected rows with a schema. Use a beam.Row or a named tuple", "E813")
    return found


def release_columns(places: Columns, *, over_time: bool, is_text: bool) -> dict[str, Any]:
    """List the columns of release rows.

    Args:
      places: first columns.
      over_time: whether these are timeline rows, which have a number.
      is_text: whether releases are base64 text.
    """
    row = {ROW: int} if over_time else {}
    release = {RELEASE: str if is_text else bytes, **TOLD_COLUMNS}
    return {**places, "kind": str, **row, **release, **PRIVACY_COLUMNS, STATEMENT: str}


def columns_of_answers(places: Columns, ask: Ask, domain: Any, listed: ListedItems | None = None) -> dict[str, Any]:
    """List the columns of answer rows, with the privacy columns last.

    Args:
      places: first columns.
      ask: the question.
      domain: the release's domain, or `None` for a sketch without a domain.
      listed: listed items, whose type then determines the column type.
    """
    truncates = domain is not None and not domain.is_ordered
    return {
        **places,
        **answer_columns(ask.kind, _item_type(ask, domain, listed), truncates=truncates),
        **TOLD_COLUMNS,
        **PRIVACY_COLUMNS,
    }


def places_of(rows: beam.PCollection, keys: Keys | None) -> dict[str, Any]:
    """List the columns that identify a transform's releases."""
    return {**key_types(keys, rows), **({} if is_global(rows) else WINDOW_COLUMNS)}


def is_place(name: str) -> bool:
    """Whether a column identifies a release, if there are several."""
    return name in WINDOW_COLUMNS or is_key_column(name)


def key_types(keys: Keys | None, rows: beam.PCollection) -> dict[str, Any]:
    """Find the type of each key column from the public list, or from its field."""
    if keys is None:
        return {}
    several = isinstance(keys.field, tuple)
    listed = None if keys.listed is None else [*zip(*keys.listed, strict=True)] if several else [keys.listed]
    return {
        name: one_type(listed[place], "keys.public") if listed else _key_type(keys.columns[place], rows)
        for place, name in enumerate(key_columns(keys.columns if several else None, keys.column_names))
    }


def _key_type(column: Any, rows: beam.PCollection) -> type:
    kind = _without_none(_fields(rows.element_type).get(column, str))  # calendars and callables make text
    if kind in (typehints.Any, object):  # columns from a CSV file have no type, and keys are checked at run time
        return str
    if isinstance(kind, type) and issubclass(kind, np.integer):
        return int
    if kind not in _KEY_TYPES:
        raise ConfigError(
            "keys.field", "keys must be text, whole numbers or bytes for an output column. Convert the field before"
        )
    return kind


def one_type(values: Any, path: str) -> type:
    """Find the common type of values, and refuse mixed types."""
    kinds = {kind for value in values for kind in _KEY_TYPES if isinstance(value, kind)}
    if len(kinds) != 1 or any(isinstance(value, tuple) for value in values):
        raise ConfigError(
            path, "must have values of a single type for an output column. Use only text or only whole numbers"
        )
    return kinds.pop()


def _item_type(ask: Ask, domain: Any, listed: ListedItems | None) -> AnswerType:
    if domain is not None and domain.plain_type is int and domain.last > _MAX_INT64:
        raise ConfigError("domain.high", "must be below 2**63, the limit for whole numbers in output columns")
    if domain is not None:
        return domain.plain_type
    if not ask.entry.items_in:
        return str
    items = ask.items if ask.items is not None else listed and listed.items
    if not items:
        raise ConfigError(
            "ask.top_k", "requires candidates (a list of public items), or the domain of a release that is searched"
        )
    return one_type(items, f"ask.{ask.entry.items_in}")


def _fields(kind: Any) -> dict[str, Any]:
    """Map the fields of a row type or named tuple to their types. Empty for other types."""
    if isinstance(kind, type) and hasattr(kind, "_fields"):
        return typing.get_type_hints(kind)
    if not isinstance(kind, RowTypeConstraint):
        kind = RowTypeConstraint.from_user_type(kind) if isinstance(kind, type) else None
    return {} if kind is None else dict(kind._fields)


def _without_none(kind: Any) -> Any:
    """Remove `None` from an optional type."""
    kind = convert_to_beam_type(kind)
    if typehints.is_nullable(kind):
        return typehints.get_concrete_type_from_nullable(kind)
    return kind


class WithPlace(beam.DoFn):
    """Convert a private transform's output to (place fields, release) pairs."""

    def __init__(self, places: Mapping[str, Any]) -> None:
        self._key_types = {name: kind for name, kind in places.items() if is_key_column(name)}
        self._is_windowed = "window_start" in places

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[tuple[dict[str, Any], Any]]:
        fields: dict[str, Any] = {}
        if self._key_types:
            key, element = element
            fields = dict(zip(self._key_types, key if isinstance(key, tuple) else (key,), strict=True))
            if not all(isinstance(fields[name], kind) for name, kind in self._key_types.items()):
                raise ConfigError(
                    "keys.field",
                    "the schema of the input has no type for keys, and a key is not text. List the keys with public, "
                    "or convert the field before, for example with output_type of MapToFields",
                )
        if self._is_windowed:
            fields |= window_fields(window)
        yield fields, element.release if isinstance(element, TopK) else element


def window_fields(window: Any) -> dict[str, str]:
    """Format a window's start and end as ISO text. Empty for the global window."""
    return {} if isinstance(window, GlobalWindow) else fields_of_window(window.start.micros, window.end.micros)


def fields_of_window(start: int, end: int) -> dict[str, str]:
    """Format a window's start and end, in microseconds since 1970, as ISO text."""
    return {name: to_iso(from_micros(each)) for name, each in zip(WINDOW_COLUMNS, (start, end), strict=True)}


def to_release_row(fields: Mapping[str, Any], released: Any, is_text: bool = False) -> beam.Row:
    """Build a row with a release or a timeline row, and its privacy statement as text."""
    data = released.to_bytes()
    return beam.Row(
        **fields,
        kind=released.spec.kind,
        **({ROW: released.number} if released.is_row else {}),
        **{RELEASE: base64.b64encode(data).decode() if is_text else data},
        **_told(released.clipping(), released.notes),
        **privacy_fields(released.privacy),
        **{STATEMENT: released.privacy.text()},
    )


def to_release(row: Any) -> Released | TimelineRow:
    """Decode the release in a row, from bytes or base64."""
    data = getattr(row, RELEASE)
    if isinstance(data, str):
        try:
            data = base64.b64decode(data, validate=True)
        except ValueError:
            raise FormatError("The text of a release is not valid Base64") from None
    try:
        return TimelineRow.from_bytes(data) if getattr(row, ROW, None) is not None else Released.from_bytes(data)
    except FormatError:
        if getattr(row, ROW, None) is None and _is_row(data):
            raise ConfigError("input", NOT_ONE_BY_ONE, "E813") from None
        raise


def _is_row(data: bytes) -> bool:
    try:
        TimelineRow.from_bytes(data)
    except FormatError:
        return False
    return True


def places_in(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Extract the fields that identify a row's release."""
    return {name: getattr(row, name) for name in names if is_place(name)}


def answer_rows(fields: Mapping[str, Any], released: Released, ask: Ask, columns: Sequence[str]) -> Iterator[beam.Row]:
    """Yield a row with these columns for each part of an answer."""
    answered = ask.answer(released)
    common = {**fields, **_told(answered.clipping, answered.notes), **privacy_fields(released.privacy)}
    for row in answered.rows:
        found = {**row, **common}
        yield beam.Row(**{name: _to_column(found[name]) for name in columns})


def _told(clipping: Clipping, notes: Iterable[Note]) -> dict[str, Any]:
    return {"notes": codes(notes), **clipping.columns()}


def _to_column(value: Any) -> Any:
    """Format times as ISO text, which every sink can write, and keep other values."""
    return to_iso(value) if isinstance(value, datetime.datetime) else value
