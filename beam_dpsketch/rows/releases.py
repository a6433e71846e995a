"""Releases to rows, rows to releases, and rows that answer a question."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow

from beam_dpsketch.answers.notes import Note, codes
from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.questions.ask import Ask, privacy_fields
from beam_dpsketch.answers.released import Released
from beam_dpsketch.domains.timestamps import from_micros, to_iso
from beam_dpsketch.errors import ConfigError, FormatError
from beam_dpsketch.rows.schema import PLACES, RELEASE, ROW, STATEMENT, WINDOW_COLUMNS
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.transforms.outputs import TopK

NOT_ONE_BY_ONE = "rows over time answer nothing one by one: take QueryTimeline, and keep their field row"


class WithPlace(beam.DoFn):
    """Turn what a private transform gives into (fields that say where, release) pairs."""

    def __init__(self, places: Mapping[str, Any]) -> None:
        self._key_type, self._is_windowed = places.get("key"), "window_start" in places

    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[tuple[dict[str, Any], Any]]:
        fields: dict[str, Any] = {}
        if self._key_type is not None:
            fields["key"], element = element
            if not isinstance(fields["key"], self._key_type):
                raise ConfigError(
                    "keys.field",
                    "the input does not say of which type keys are, and they are not text; list the keys with "
                    "public, or convert the field before, as MapToFields with output_type does",
                )
        if self._is_windowed:
            fields |= window_fields(window)
        yield fields, element.release if isinstance(element, TopK) else element


def window_fields(window: Any) -> dict[str, str]:
    """Return when a window opens and closes, as ISO text; nothing for the global window."""
    return {} if isinstance(window, GlobalWindow) else fields_of_window(window.start.micros, window.end.micros)


def fields_of_window(start: int, end: int) -> dict[str, str]:
    """Return when a window opens and closes, as ISO text, given microseconds since 1970."""
    return {name: to_iso(from_micros(each)) for name, each in zip(WINDOW_COLUMNS, (start, end), strict=True)}


def to_release_row(fields: Mapping[str, Any], released: Any, is_text: bool = False) -> beam.Row:
    """Return a row that holds a release or a row over time, with its privacy statement in words."""
    data = released.to_bytes()
    return beam.Row(
        **fields,
        kind=released.spec.kind,
        **({ROW: released.number} if released.is_row else {}),
        **{RELEASE: base64.b64encode(data).decode() if is_text else data},
        **_told(released.clipping(), released.notes),
        **privacy_fields(released.privacy),
        **{STATEMENT: str(released.privacy)},
    )


def to_release(row: Any) -> Released | TimelineRow:
    """Return the release in a row, from bytes or base 64."""
    data = getattr(row, RELEASE)
    if isinstance(data, str):
        try:
            data = base64.b64decode(data, validate=True)
        except ValueError:
            raise FormatError("the text of a release is not base 64") from None
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
    """Return the fields of a row that say which release it is about."""
    return {name: getattr(row, name) for name in PLACES if name in names}


def answer_rows(fields: Mapping[str, Any], released: Released, ask: Ask, columns: Sequence[str]) -> Iterator[beam.Row]:
    """Yield one row for each part of an answer, with these columns."""
    answered = ask.answer(released)
    common = {**fields, **_told(answered.clipping, answered.notes), **privacy_fields(released.privacy)}
    for row in answered.rows:
        found = {**row, **common}
        yield beam.Row(**{name: _to_column(found[name]) for name in columns})


def _told(clipping: Clipping, notes: Iterable[Note]) -> dict[str, Any]:
    return {"notes": codes(notes), **clipping.columns()}


def _to_column(value: Any) -> Any:
    """Return a time as ISO text, which every sink can write, and other values as they are."""
    return to_iso(value) if isinstance(value, datetime.datetime) else value
