"""Validated copies of expansion requests. Beam reads only the copy, which contains the listed parts.

Guarantee: reading a request runs no code that it contains, and opens no file. Only these parts are allowed:

* a transform in `ALLOWED`, with settings that are text, numbers, booleans, lists, maps and rows, decoded here
* at most one collection of rows, in windows from `_WINDOWS`, with the coders for rows and these windows

No byte after the end of the settings is read. Beam's own decoder trusts the lengths in them, and a wrong length can
expose process memory or crash the process. The copied schema has no type whose values require running code to read.

Beam treats schemas with equal ids as equal, and would read rows of one by the fields of the other. Go derives the id
from a type's name, so rows from two programs can share it. Therefore each copy has an id derived from its field names,
types and positions. Copies share an id only if they are equal.

SDKs also send options, environments, requirements, coders for other collections and requested output coders. The copy
omits these. Output rows have the schema of their transform.

Source: Beam's `FullyQualifiedNamedTransform` reads name and settings, and `PipelineContext` reads the rest. Both can
unpickle. `RowCoder` encodes rows, and `SchemaTranslation` stores schemas by id.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.coders import RowCoder
from apache_beam.portability.api import (
    beam_expansion_api_pb2,
    beam_runner_api_pb2,
    external_transforms_pb2,
    schema_pb2,
    standard_window_fns_pb2,
)
from apache_beam.portability.common_urns import (
    coders,
    fixed_windows,
    global_windows,
    primitives,
    session_windows,
    sliding_windows,
)
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.fully_qualified_named_transform import PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN as URN
from apache_beam.typehints.schemas import ATOMIC_TYPE_TO_PRIMITIVE
from google.protobuf.message import DecodeError

from beam_dpsketch import rows
from beam_dpsketch.errors import ConfigError

ALLOWED = tuple(f"{rows.__name__}.{name}" for name in rows.__all__ if name != "ReadParquetBatches")
"""Allowed constructors. `ReadParquetBatches` is missing, because its tables cannot leave Python."""

SOURCE = "source"
"""Placeholder step for the transforms before this one."""

_WINDOWS = {
    global_windows.urn: (standard_window_fns_pb2.GlobalWindowsPayload, coders.GLOBAL_WINDOW.urn),
    fixed_windows.urn: (standard_window_fns_pb2.FixedWindowsPayload, coders.INTERVAL_WINDOW.urn),
    sliding_windows.urn: (standard_window_fns_pb2.SlidingWindowsPayload, coders.INTERVAL_WINDOW.urn),
    session_windows.urn: (standard_window_fns_pb2.SessionWindowsPayload, coders.INTERVAL_WINDOW.urn),
}
"""Allowed window functions, with their settings' type and window coder."""

LOGICAL = frozenset(
    f"beam:logical_type:{name}:v1"
    for name in (
        *("date", "javasdk_time", "micros_instant", "millis_instant", "timestamp"),
        *("decimal", "fixed_decimal", "fixed_bytes", "var_bytes", "fixed_char", "var_char"),
    )
)
"""Logical types for numbers, text, bytes and times."""

_MAX_FIELDS = 10_000
_INNER = {
    "row_type": (),
    "array_type": ("element_type",),
    "iterable_type": ("element_type",),
    "map_type": ("key_type", "value_type"),
    "logical_type": ("representation", "argument_type"),
}
"""Non-atomic types, and their inner types."""
_MAX_SHIFT = 63
_ROWS = "input", "expected one collection of rows with a schema"
_BEAMS = (
    "windows",
    "expected global, fixed, sliding or session windows of Beam, with a trigger that Beam for Python supports",
)


def copy_request(request: Any) -> tuple[Any, dict[str, str]]:
    """Copy the allowed parts of a request, and map its schema ids to the copies' ids.

    Raises:
      ConfigError: a part is not allowed. The message is one line for the pipeline's author.
    """
    transform, before = request.transform, request.components.transforms
    if transform.spec.urn != URN:
        raise ConfigError("urn", f"must be {URN}", "E815")
    if not request.namespace:
        raise ConfigError("namespace", "expected a name that no other call uses", "E815")
    if transform.subtransforms or any(each.spec.urn != primitives.IMPULSE.urn for each in before.values()):
        raise ConfigError("components", "expected only the transform to expand", "E815")
    if len(transform.inputs) > 1:
        raise ConfigError(*_ROWS, "E815")
    copy = beam_expansion_api_pb2.ExpansionRequest(namespace=request.namespace)
    copy.transform.unique_name = transform.unique_name
    copy.transform.spec.urn, copy.transform.spec.payload = URN, _copy_call(transform.spec.payload)
    schemas = SchemaCopier("input", LOGICAL)
    for tag, name in transform.inputs.items():
        copy.transform.inputs[tag] = name
        copy.components.transforms[SOURCE].spec.urn = primitives.IMPULSE.urn
        copy.components.transforms[SOURCE].outputs["out"] = name
        _copy_collection(request.components, name, copy.components, schemas)
    return copy, schemas.ids


def _copy_call(payload: bytes) -> bytes:
    """Decode and re-encode a constructor and its settings, because Beam's decoder trusts its input."""
    refusal = "payload", "expected a name and settings in the format of Beam's SDKs"
    given = _read(external_transforms_pb2.ExternalConfigurationPayload, payload, refusal)
    schema = SchemaCopier("settings").copy(given.schema)
    try:
        settings = read_settings(schema, given.payload)
        encoded = RowCoder(schema).encode(settings)
    except (MalformedError, TypeError):  # or a list as map key
        raise ConfigError(*refusal, "E815") from None
    if getattr(settings, "constructor", None) not in ALLOWED:
        raise ConfigError("constructor", f"expected one of {', '.join(ALLOWED)}", "E815")
    copy = external_transforms_pb2.ExternalConfigurationPayload(schema=schema, payload=encoded)
    return bytes(copy.SerializeToString())


def _copy_collection(given: Any, name: str, copy: Any, schemas: SchemaCopier) -> None:
    """Copy a collection with its row schema and windows."""
    collection = _part(given.pcollections, name, _ROWS)
    copy.pcollections[name].CopyFrom(
        beam_runner_api_pb2.PCollection(
            unique_name=name,
            coder_id=collection.coder_id,
            windowing_strategy_id=collection.windowing_strategy_id,
            is_bounded=collection.is_bounded,
        )
    )
    payload = _coder(given, collection.coder_id, coders.ROW.urn, _ROWS)
    copied = copy.coders[collection.coder_id].spec
    copied.urn = coders.ROW.urn
    copied.payload = schemas.copy(_read(schema_pb2.Schema, payload, _ROWS)).SerializeToString()
    strategy = _part(given.windowing_strategies, collection.windowing_strategy_id, _BEAMS)
    _copy_windows(given, strategy, copy.windowing_strategies[collection.windowing_strategy_id])


def _copy_windows(given: Any, strategy: Any, copy: Any) -> None:
    """Copy windows and triggers. Beam derives the window coder from the window function."""
    urn = strategy.window_fn.urn
    settings, window_coder = _part(_WINDOWS, urn, _BEAMS)
    _coder(given, strategy.window_coder_id, window_coder, _BEAMS)
    payload = _read(settings, strategy.window_fn.payload, _BEAMS).SerializeToString()
    copy.CopyFrom(
        beam_runner_api_pb2.WindowingStrategy(
            window_fn=beam_runner_api_pb2.FunctionSpec(urn=urn, payload=payload),
            trigger=strategy.trigger,
            accumulation_mode=strategy.accumulation_mode,
            output_time=strategy.output_time,
            allowed_lateness=strategy.allowed_lateness,
        )
    )
    copy.DiscardUnknownFields()
    try:
        Windowing.from_runner_api(copy, None)
    except Exception:  # Beam's exception depends on the problem, such as a size or a trigger
        raise ConfigError(*_BEAMS, "E815") from None


def _coder(given: Any, name: str, urn: str, refusal: tuple[str, str]) -> bytes:
    """Get the payload of a coder with this URN. Reject components."""
    coder = _part(given.coders, name, refusal)
    if coder.spec.urn != urn or coder.component_coder_ids:
        raise ConfigError(*refusal, "E815")
    return bytes(coder.spec.payload)


def _part(parts: Mapping[str, Any], name: str, refusal: tuple[str, str]) -> Any:
    """Look up a required part."""
    if name not in parts:
        raise ConfigError(*refusal, "E815")
    return parts[name]


def _read(kind: Any, payload: bytes, refusal: tuple[str, str]) -> Any:
    """Parse a message, and drop unknown fields."""
    try:
        message = kind.FromString(payload)
    except DecodeError:
        raise ConfigError(*refusal, "E815") from None
    message.DiscardUnknownFields()
    return message


class SchemaCopier:
    """Copy schemas, with new ids.

    Args:
      subject: subject of refusals.
      logical: allowed logical types.

    Attributes:
      ids: maps each input id to its copy's id.
    """

    def __init__(self, subject: str, logical: frozenset[str] = frozenset()) -> None:
        self.ids: dict[str, str] = {}
        self._fields = 0
        self._subject, self._logical = subject, logical

    def copy(self, schema: Any) -> Any:
        """Copy a schema.

        Raises:
          ConfigError: a type is not allowed, a field name is not a Python identifier, two schemas share an id, or
            there are more than `_MAX_FIELDS` fields.
        """
        self._fields += len(schema.fields)
        if self._fields > _MAX_FIELDS:
            raise ConfigError(self._subject, f"expected at most {_MAX_FIELDS:,} fields", "E815")
        try:
            namedtuple("Fields", [field.name for field in schema.fields])  # validates the names
        except (ValueError, SyntaxError):
            raise ConfigError(
                self._subject,
                "expected unique field names that are valid in Python: letters, digits and _, with a letter first",
                "E815",
            ) from None
        copy = schema_pb2.Schema(encoding_positions_set=schema.encoding_positions_set)
        for field in schema.fields:
            place = field.encoding_position if schema.encoding_positions_set else 0
            copy.fields.add(name=field.name, type=self._copy_type(field.type), encoding_position=place)
        content = copy.SerializeToString(deterministic=True)
        copy.id = str(uuid.UUID(bytes=hashlib.blake2b(content, digest_size=16).digest()))
        if self.ids.setdefault(schema.id or copy.id, copy.id) != copy.id:
            raise ConfigError(self._subject, "two schemas have the same id", "E815")
        return copy

    def _copy_type(self, kind: Any) -> Any:
        """Copy an allowed type."""
        which = kind.WhichOneof("type_info")
        copy = schema_pb2.FieldType(nullable=kind.nullable)
        if which == "atomic_type" and kind.atomic_type in ATOMIC_TYPE_TO_PRIMITIVE:
            copy.atomic_type = kind.atomic_type
            return copy
        if which not in _INNER or (which == "logical_type" and kind.logical_type.urn not in self._logical):
            got = f"the logical type {kind.logical_type.urn!r}" if which == "logical_type" else "another type"
            others = ", times and decimals" if self._logical else ""
            raise ConfigError(
                self._subject,
                f"expected text, numbers, booleans, lists, maps and rows{others}, got {got}. Convert it to text",
                "E815",
            )
        given, made = getattr(kind, which), getattr(copy, which)
        made.SetInParent()
        for inner in _INNER[which]:
            if inner != "argument_type" or given.HasField(inner):
                getattr(made, inner).CopyFrom(self._copy_type(getattr(given, inner)))
        if which == "row_type":
            made.schema.CopyFrom(self.copy(given.schema))
        if which == "logical_type":
            made.urn = given.urn
            if given.HasField("argument"):
                made.argument.CopyFrom(given.argument)
                made.argument.DiscardUnknownFields()
        return copy


class MalformedError(Exception):
    """Bytes that are not settings with this schema."""


def read_settings(schema: Any, data: bytes) -> beam.Row:
    """Decode a row.

    Args:
      schema: names and types, without logical types.
      data: exactly one encoded row.

    Raises:
      MalformedError: the data is not such a row.
    """
    reader = _Reader(data)
    row = reader.row(schema)
    if reader.left:
        raise MalformedError
    return row


class _Reader:
    """Sequential decoder."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def row(self, schema: Any) -> beam.Row:
        fields = schema.fields
        if self.varint() != len(fields) or schema.encoding_positions_set:
            raise MalformedError
        nulls = int.from_bytes(self.take(self.varint()), "little")
        if any(nulls >> place & 1 and not field.type.nullable for place, field in enumerate(fields)):
            raise MalformedError
        return beam.Row(
            **{
                field.name: None if nulls >> place & 1 else self._value(field.type)
                for place, field in enumerate(fields)
            }
        )

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise MalformedError
        self._at += size
        return self._data[self._at - size : self._at]

    def varint(self) -> int:
        """Decode a signed 64-bit integer, 7 bits per byte."""
        result = 0
        for shift in range(0, _MAX_SHIFT + 1, 7):
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _signed(result, 64)
        raise MalformedError

    def text(self) -> str:
        try:
            return self.take(self.varint()).decode("utf-8")
        except UnicodeDecodeError:
            raise MalformedError from None

    def boolean(self) -> bool:
        (byte,) = self.take(1)
        if byte > 1:
            raise MalformedError
        return bool(byte)

    def _value(self, kind: Any) -> Any:
        """Decode a non-null value."""
        which = kind.WhichOneof("type_info")
        if which == "atomic_type":
            return _ATOMIC[kind.atomic_type](self)
        if which == "row_type":
            return self.row(kind.row_type.schema)
        size = _signed(int.from_bytes(self.take(4), "big"), 32)
        if which == "map_type":
            return {self._element(kind.map_type.key_type): self._element(kind.map_type.value_type) for _ in range(size)}
        element = getattr(kind, str(which)).element_type
        return [self._element(element) for _ in range(size)] if size >= 0 else self._blocks(element)

    def _blocks(self, kind: Any) -> list[Any]:
        """Decode a list of unknown length."""
        found = []
        while size := self.varint():
            found += [self._element(kind) for _ in range(size)]
        return found

    def _element(self, kind: Any) -> Any:
        """Decode a list or map element, which may be null."""
        return self._value(kind) if not kind.nullable or self.boolean() else None


def _signed(bits: int, width: int) -> int:
    bits &= (1 << width) - 1
    return bits - (bits >> (width - 1) << width)


_ATOMIC: dict[int, Callable[[_Reader], Any]] = {
    schema_pb2.BYTE: lambda reader: reader.take(1)[0],
    schema_pb2.INT16: lambda reader: _signed(int.from_bytes(reader.take(2), "big"), 16),
    schema_pb2.INT32: lambda reader: _signed(reader.varint(), 32),
    schema_pb2.INT64: _Reader.varint,
    schema_pb2.FLOAT: lambda reader: struct.unpack(">f", reader.take(4))[0],
    schema_pb2.DOUBLE: lambda reader: struct.unpack(">d", reader.take(8))[0],
    schema_pb2.STRING: _Reader.text,
    schema_pb2.BOOLEAN: _Reader.boolean,
    schema_pb2.BYTES: lambda reader: reader.take(reader.varint()),
}
