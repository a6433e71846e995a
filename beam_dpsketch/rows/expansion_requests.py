"""What a request to expand a transform may hold: a copy is made of the listed parts, and Beam reads the copy alone.

Guarantee: reading a request runs no code that it brings, and opens no file. Refused are all but:

* a transform in `ALLOWED`, with settings that are text, numbers, booleans, lists, maps and rows, decoded here;
* one collection of rows or none, in windows of `_WINDOWS`, with the coders of rows and of these windows.

SDKs also send options, environments, requirements, coders of other collections and coders that they want for the
output. These are left out of the copy: the rows that come out have the schema of their transform.

Source: Beam's `FullyQualifiedNamedTransform` reads name and settings, and `PipelineContext` the rest. Both unpickle, in
several ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from google.protobuf.message import DecodeError

from beam_dpsketch import rows
from beam_dpsketch.errors import ConfigError
from beam_dpsketch.rows.expansion_schemas import LOGICAL, SchemaCopier
from beam_dpsketch.rows.expansion_settings import MalformedError, read_settings

ALLOWED = tuple(f"{rows.__name__}.{name}" for name in rows.__all__ if name != "ReadParquetBatches")
"""What can be constructed. The tables of `ReadParquetBatches` do not leave Python."""

SOURCE = "source"
"""The step that stands for what the program does before the transform."""

_WINDOWS = {
    global_windows.urn: (standard_window_fns_pb2.GlobalWindowsPayload, coders.GLOBAL_WINDOW.urn),
    fixed_windows.urn: (standard_window_fns_pb2.FixedWindowsPayload, coders.INTERVAL_WINDOW.urn),
    sliding_windows.urn: (standard_window_fns_pb2.SlidingWindowsPayload, coders.INTERVAL_WINDOW.urn),
    session_windows.urn: (standard_window_fns_pb2.SessionWindowsPayload, coders.INTERVAL_WINDOW.urn),
}
"""Window functions, with the type of their settings and the coder of their windows."""

_ROWS = "input", "expected one collection of rows with a schema"
_BEAMS = "windows", "expected global, fixed, sliding or session windows of Beam, with a trigger that Python knows"


def copy_request(request: Any) -> tuple[Any, dict[str, str]]:
    """Return a request with the listed parts of another, and the ids of the schemas of its input.

    Raises:
      ConfigError: one line for whoever wrote the pipeline.
    """
    transform, before = request.transform, request.components.transforms
    if transform.spec.urn != URN:
        raise ConfigError("urn", f"this service expands {URN} alone", "E815")
    if not request.namespace:
        raise ConfigError("namespace", "expected a name that no other call has", "E815")
    if transform.subtransforms or any(each.spec.urn != primitives.IMPULSE.urn for each in before.values()):
        raise ConfigError("components", "expected no transforms but the one to expand", "E815")
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
    """Return a constructor and its settings, encoded again: Beam's decoder trusts the bytes that it reads."""
    refusal = "payload", "expected a name and settings, as Beam's SDKs send them"
    given = _read(external_transforms_pb2.ExternalConfigurationPayload, payload, refusal)
    schema = SchemaCopier("settings").copy(given.schema)
    try:
        settings = read_settings(schema, given.payload)
        encoded = RowCoder(schema).encode(settings)
    except (MalformedError, TypeError):  # or a key of a map that is a list
        raise ConfigError(*refusal, "E815") from None
    if getattr(settings, "constructor", None) not in ALLOWED:
        raise ConfigError("constructor", f"expected one of {', '.join(ALLOWED)}", "E815")
    copy = external_transforms_pb2.ExternalConfigurationPayload(schema=schema, payload=encoded)
    return bytes(copy.SerializeToString())


def _copy_collection(given: Any, name: str, copy: Any, schemas: SchemaCopier) -> None:
    """Copy a collection, its rows and its windows."""
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
    """Copy windows and triggers. Beam knows the coder of windows by their function."""
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
    except Exception:  # of Beam, by what is wrong: a size, a trigger
        raise ConfigError(*_BEAMS, "E815") from None


def _coder(given: Any, name: str, urn: str, refusal: tuple[str, str]) -> bytes:
    """Return the payload of a coder of this kind, which has no components."""
    coder = _part(given.coders, name, refusal)
    if coder.spec.urn != urn or coder.component_coder_ids:
        raise ConfigError(*refusal, "E815")
    return bytes(coder.spec.payload)


def _part(parts: Mapping[str, Any], name: str, refusal: tuple[str, str]) -> Any:
    """Return a part of a request, which must be there."""
    if name not in parts:
        raise ConfigError(*refusal, "E815")
    return parts[name]


def _read(kind: Any, payload: bytes, refusal: tuple[str, str]) -> Any:
    """Return a message, without fields that Beam does not know."""
    try:
        message = kind.FromString(payload)
    except DecodeError:
        raise ConfigError(*refusal, "E815") from None
    message.DiscardUnknownFields()
    return message
