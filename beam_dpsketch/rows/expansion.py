"""The transforms of rows for pipelines in Java and Go: Beam's expansion service, for these transforms alone.

Guarantee: a request can construct the classes in `beam_dpsketch.rows` and nothing else. It is refused if it names
anything else, or if reading it would run code that it brings: pickled Python, Python callables, other URNs.
A loopback worker runs the steps that a runner sends to it, so who reaches its port can run any code.

Source: Beam's `expansion_service_main`; `FullyQualifiedNamedTransform` reads the name and the settings of a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import grpc
from apache_beam.coders import RowCoder
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import (
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2,
    beam_expansion_api_pb2_grpc,
    beam_fn_api_pb2_grpc,
    external_transforms_pb2,
    schema_pb2,
)
from apache_beam.portability.common_urns import primitives
from apache_beam.runners.portability.artifact_service import ArtifactRetrievalService, BeamFilesystemHandler
from apache_beam.runners.portability.expansion_service import ExpansionServiceServicer
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms import fully_qualified_named_transform as by_name
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from beam_dpsketch import rows
from beam_dpsketch.errors import ConfigError

URN = by_name.PYTHON_FULLY_QUALIFIED_NAMED_TRANSFORM_URN
GLOB = f"{rows.__name__}.*"
ALLOWED = tuple(f"{rows.__name__}.{name}" for name in rows.__all__)
OPTIONS = (
    "--runner=PortableRunner",
    "--sdk_location=container",
    "--pickle_library=cloudpickle",
    "--experiments=disable_logging_submission_environment",
)

_PICKLED = {python_urns.PICKLED_CODER, python_urns.PICKLED_WINDOWFN}
_SETTINGS_ERROR = re.compile(r"(?:beam_dpsketch[\w.]+|ValueError|TypeError): (.*)")
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class RowsExpansion(ExpansionServiceServicer):
    """Expand the transforms of rows, each call with labels of its own.

    Go gives all calls of a transform one name, and runners that know steps by their names would mix their groups. So
    the namespace of the request, which SDKs never repeat, is added to the label.
    """

    def Expand(self, request: Any, context: Any = None) -> Any:  # noqa: N802  Beam's name
        """Return the steps of the transform that a request names, or an error of one line if we refuse it."""
        try:
            check_request(request)
        except ConfigError as error:
            return beam_expansion_api_pb2.ExpansionResponse(error=str(error))
        own = beam_expansion_api_pb2.ExpansionRequest()
        own.CopyFrom(request)
        own.transform.unique_name = self.label(request)
        response = super().Expand(own, context)
        if response.error:
            response.error = _shortened(response.error)
        return response

    def label(self, request: Any) -> str:
        """Return a label that no other call has."""
        return f"{request.transform.unique_name} {request.namespace}"


class Service(NamedTuple):
    """A service that listens.

    Attributes:
      address: host and port.
      stop: ends it, and waits until it has ended.
    """

    address: str
    stop: Callable[[], None]


def serve(host: str, port: int, image: str | None) -> Service:
    """Start the service.

    Args:
      host: the name or address that it listens at.
      port: 0 takes one that is free.
      image: the container whose workers run the Python steps; `None` runs them in this process.

    Raises:
      ConfigError: host and port cannot be listened at.
    """
    pickler.set_library("cloudpickle")
    server = grpc.server(shared_unbounded_instance(), options=[*_UNLIMITED, ("grpc.so_reuseport", 0)])
    try:
        port = server.add_insecure_port(f"{_bracketed(host)}:{port}")
    except RuntimeError:
        raise ConfigError(f"port: cannot listen at {host}:{port}; take another, or 0 for one that is free") from None
    address = f"{_bracketed(host)}:{port}"
    if image is None:
        worker = ["--environment_type=EXTERNAL", f"--environment_config={_bracketed(_reachable(host))}:{port}"]
        pool = BeamFnExternalWorkerPoolServicer()
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    else:
        worker = ["--environment_type=DOCKER", f"--environment_config={image}"]
    servicer = RowsExpansion(PipelineOptions([*OPTIONS, *worker]))
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(servicer, server)
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(
        ArtifactRetrievalService(BeamFilesystemHandler(None).file_reader), server
    )
    by_name.FullyQualifiedNamedTransform._FILTER_GLOB = GLOB
    server.start()
    return Service(address, lambda: server.stop(None).wait())


def check_request(request: Any) -> None:
    """Refuse a request for anything but a transform of rows with plain settings.

    Raises:
      ConfigError: one line for whoever wrote the pipeline.
    """
    spec = request.transform.spec
    if spec.urn != URN:
        raise ConfigError(f"urn: this service expands {URN} alone")
    components = request.components
    if not _PICKLED.isdisjoint(_read_urns(components)):
        raise ConfigError("input: expected rows with a schema in windows of Beam, and not pickled Python")
    if any(each.spec.urn not in ("", primitives.IMPULSE.urn) for each in components.transforms.values()):
        raise ConfigError("components: expected no transforms but the one to expand")
    if not request.namespace:
        raise ConfigError("namespace: expected a name that no other call has")
    if _name(spec.payload) not in ALLOWED:
        raise ConfigError(f"constructor: expected one of {', '.join(ALLOWED)}")


def _name(payload: bytes) -> object:
    """Return what a request wants to construct; read no settings whose types bring code."""
    try:
        settings = external_transforms_pb2.ExternalConfigurationPayload.FromString(payload)
        _check_types(field.type for field in settings.schema.fields)
        return getattr(RowCoder(settings.schema).decode(settings.payload), "constructor", None)
    except ConfigError:
        raise
    except Exception:  # of protobuf, of Beam or of Python, by which byte is wrong
        raise ConfigError("payload: expected a name and settings, as Beam's SDKs send them") from None


def _read_urns(components: Any) -> Iterator[str]:
    """Yield the URNs of all window functions, and of all coders that collections and windows have."""
    found = [each.coder_id for each in components.pcollections.values()]
    for strategy in components.windowing_strategies.values():
        yield strategy.window_fn.urn
        found.append(strategy.window_coder_id)
    seen: set[str] = set()
    while found:
        name = found.pop()
        if name not in seen and name in components.coders:
            seen.add(name)
            yield components.coders[name].spec.urn
            found.extend(components.coders[name].component_coder_ids)


def _check_types(kinds: Iterable[schema_pb2.FieldType]) -> None:
    """Refuse types of settings whose values are read by code that the request brings."""
    for kind in kinds:
        which = kind.WhichOneof("type_info")
        if which == "logical_type":
            raise ConfigError(
                f"settings: expected text, numbers, booleans, lists, maps and rows, got a {kind.logical_type.urn}; "
                "write it as text"
            )
        if which == "row_type":
            _check_types(field.type for field in kind.row_type.schema.fields)
        elif which == "array_type":
            _check_types([kind.array_type.element_type])
        elif which == "iterable_type":
            _check_types([kind.iterable_type.element_type])
        elif which == "map_type":
            _check_types([kind.map_type.key_type, kind.map_type.value_type])


def _shortened(trace: str) -> str:
    """Return the last line of a trace that ends in an error about the settings, and any other trace as it is."""
    *before, last = trace.rstrip().splitlines()
    found = _SETTINGS_ERROR.fullmatch(last)
    return found[1] if found and any("beam_dpsketch" in line for line in before[-4:]) else trace


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _reachable(host: str) -> str:
    """Return where a runner on this machine finds the service; all addresses are not one."""
    return "localhost" if host in ("0.0.0.0", "::") else host
