"""Rows of visits with fields of every type, and what comes out of transforms with plain settings."""

from __future__ import annotations

import pickle
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.typehints.schemas import named_fields_to_schema
from apache_beam.utils.timestamp import Timestamp

from tests.helpers.pipelines import Sink

Build = Callable[[beam.Pipeline], Mapping[str, beam.PCollection]]
START = 1_704_067_200
HOUR = 3600


class Visit(NamedTuple):
    """Who was where, with a value of every type that a domain reads."""

    person: str
    city: str
    mark: bytes
    zip: int
    delay: int
    km: float
    ip: str
    when: Timestamp
    seconds: int


CITIES = ("Oslo", "Oslo", "Oslo", "Bern", "Rome")


def visit(number: int) -> Visit:
    city, seconds = CITIES[number % 5], START + number * 97 % (2 * HOUR)
    return Visit(
        person=f"person {number % 60}",
        city=city,
        mark=city.encode() + b"\xff",
        zip=len(city) * 1000 + number % 2,
        delay=number * 31 % 67 - 7,
        km=number % 9 / 4,
        ip=f"10.0.0.{number % 3}",
        when=Timestamp(seconds),
        seconds=seconds,
    )


VISITS = [visit(number) for number in range(120)]
DOMAINS: dict[str, dict[str, Any]] = {
    "delay": {"type": "integer", "low": -10, "high": 60},
    "km": {"type": "float", "low": 0, "high": 3, "step": 0.25},
    "ip": {"type": "ipv4"},
    "when": {"type": "timestamp", "start": "2024-01-01", "end": "2024-01-02"},
    "city": {"type": "text", "max_bytes": 3},
    "mark": {"type": "bytes", "max_bytes": 4},
}
"""A domain for each field."""

TYPES: dict[str, Any] = {"delay": int, "km": float, "ip": str, "when": str, "city": str, "mark": bytes}
PRIVACY = {"rho": 3}
UNIT = {"privacy_id": "person", "records": {"max_records": 2}}
KEYED = {"privacy_id": "person", "records": {"max_records": 2, "max_keys": 2}}
WINDOWS = {"start": START, "end": START + 2 * HOUR}
HORIZON = {"start": START, "window_size": "1h", "windows": 2}


def visits(pipeline: beam.Pipeline, label: str = "Visits") -> beam.PCollection:
    """Return the visits in the global window, with a schema and their times."""
    created = pipeline | label >> beam.Create(VISITS).with_output_types(Visit)
    return created | f"{label} in time" >> beam.Map(_stamped).with_output_types(Visit)


def by_hand(row: Mapping[str, Any]) -> beam.Row:
    """Return a row as users write it: Beam cannot tell the type of a column whose values are all missing."""
    return beam.Row(**{name: value for name, value in row.items() if value is not None})


def hourly(rows: beam.PCollection) -> beam.PCollection:
    return rows | "Hours" >> beam.WindowInto(FixedWindows(HOUR))


def _stamped(each: Visit) -> TimestampedValue:
    return TimestampedValue(each, each.seconds)


class Seen(NamedTuple):
    """What came out of a transform: the schema, and the rows as dicts, in no order."""

    columns: dict[str, Any]
    rows: list[dict[str, Any]]


def seen(build: Build, runner: str = "FnApiRunner") -> dict[str, Seen]:
    """Return what came out of each of several collections of one pipeline."""
    columns, rows = {}, defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline(runner=runner) as pipeline:
            named = []
            for name, found in build(pipeline).items():
                columns[name] = dict(found.element_type._fields)
                schema = named_fields_to_schema(found.element_type._fields)
                assert b"pythonsdk_any" not in schema.SerializeToString(), "a type that other languages cannot read"
                everywhere = found | f"Global {name}" >> beam.WindowInto(GlobalWindows())
                named.append(everywhere | f"Name {name}" >> beam.Map(_named, name))
            named | beam.Flatten() | beam.ParDo(Sink(folder))
        for path in Path(folder).iterdir():
            name, row = pickle.loads(path.read_bytes())
            rows[name].append(row)
    return {name: Seen(columns[name], rows[name]) for name in columns}


def _named(row: Any, name: str) -> tuple[str, dict[str, Any]]:
    return name, row._asdict()


def plain(row: Any) -> Any:
    """Return the row without the columns of privacy."""
    return {name: each for name, each in row.items() if name not in {*PRIVACY_COLUMNS, "notes", "lost"}}


PRIVACY_COLUMNS = {
    "rho": float,
    "epsilon": float,
    "delta": float,
    "keys_delta": float,
    "relation": str,
    "protected": str,
    "release_id": str,
}
NUMBERS = {"estimate": float, "lower": float, "upper": float}
