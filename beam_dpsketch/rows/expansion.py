"""Beam expansion service with the row transforms alone, for pipelines in Java and Go.

Guarantee: a request runs no code that it contains, and reads no file. `expansion_requests.py` lists its allowed parts.
The service serves no files, because its workers run in this process or in a container and need none. A loopback worker
runs any step that a runner sends, so anyone with access to its port can execute code.

Source: Beam's `expansion_service_main`, which also serves every file that this process can read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_expansion_api_pb2, beam_expansion_api_pb2_grpc, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.expansion_service import ExpansionServiceServicer
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms import fully_qualified_named_transform as by_name
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from beam_dpsketch import rows
from beam_dpsketch.errors import ConfigError
from beam_dpsketch.rows.expansion_requests import SOURCE, copy_request
from beam_dpsketch.transforms.files import ONLY_WORKERS_LOOK

GLOB = f"{rows.__name__}.*"
OPTIONS = (
    "--runner=PortableRunner",
    "--sdk_location=container",
    "--pickle_library=cloudpickle",
    "--experiments=disable_logging_submission_environment",
)

_SETTINGS_ERROR = re.compile(r"(?:beam_dpsketch[\w.]+|ValueError|TypeError): (.*)")
_ANOTHER = re.compile(r"\[dpsketch-E\d+\]$|^and \d+ more$")
"""Ends of the second and later lines in an error with several refusals."""
MAX_MIB = 16
"""Maximum request size. SDKs send kilobytes, and a list with a million short items has about 10 MB."""
_SIZES = [("grpc.max_receive_message_length", MAX_MIB << 20), ("grpc.max_send_message_length", -1)]


class RowsExpansion(beam_expansion_api_pb2_grpc.ExpansionServiceServicer):
    """Expand row transforms, with unique labels for each call.

    Go uses the same name for all calls to a transform, and runners that identify steps by name would mix their groups.
    Therefore the label includes the request's namespace, which SDKs never repeat.

    Args:
      options: pipeline options with the workers' environment.
      is_worker: whether steps run in this process, where Beam identifies rows from all programs by schema id.
    """

    def __init__(self, options: PipelineOptions, *, is_worker: bool) -> None:
        self._beam = ExpansionServiceServicer(options)
        self._ids: dict[str, str] | None = {} if is_worker else None

    def Expand(self, request: Any, context: Any = None) -> Any:  # noqa: N802  Beam's name
        """Expand the requested transform, or respond with an error, shortened if it is about settings.

        The response also contains the request's components unchanged, because SDKs look up their own ids in it.
        """
        try:
            own, ids = copy_request(request)
            own.transform.unique_name = self.label(request)
            looking = ONLY_WORKERS_LOOK.set(True)
            try:
                response = self._beam.Expand(own)
            finally:
                ONLY_WORKERS_LOOK.reset(looking)
            if response.error:
                response.error = _shortened(response.error)
                return response
            self._keep(ids)
        except ConfigError as error:
            return beam_expansion_api_pb2.ExpansionResponse(error=str(error))
        response.components.transforms.pop(SOURCE, None)
        response.components.MergeFrom(request.components)
        return response

    def label(self, request: Any) -> str:
        """Build a label that is unique to the call."""
        return f"{request.transform.unique_name} {request.namespace}"

    def _keep(self, ids: dict[str, str]) -> None:
        """Refuse rows if the worker in this process may have their schema id with other fields."""
        if self._ids is None:
            return
        for given, own in ids.items():
            if self._ids.setdefault(given, own) != own:
                raise ConfigError(
                    "input",
                    "another program used this schema id for rows with other fields, and the worker would confuse "
                    "them. Go derives the id from a type name. Restart the service, or rename the type",
                    "E813",
                )


class Service(NamedTuple):
    """A running service.

    Attributes:
      address: host and port.
      stop: stops the service, and waits until it has stopped.
    """

    address: str
    stop: Callable[[], None]


def serve(host: str, port: int, image: str | None) -> Service:
    """Start the service.

    Args:
      host: host name or address to listen at.
      port: port, or 0 to choose a free port.
      image: container image whose workers run the Python steps. `None` runs them in this process.

    Raises:
      ConfigError: the service cannot listen at this host and port.
    """
    pickler.set_library("cloudpickle")
    server = grpc.server(shared_unbounded_instance(), options=[*_SIZES, ("grpc.so_reuseport", 0)])
    try:
        port = server.add_insecure_port(f"{_bracketed(host)}:{port}")
    except RuntimeError:
        raise ConfigError("port", f"cannot listen at {host}:{port}. Use another port, or 0 for a free port") from None
    address = f"{_bracketed(host)}:{port}"
    if image is None:
        worker = ["--environment_type=EXTERNAL", f"--environment_config={_bracketed(_reachable(host))}:{port}"]
        pool = BeamFnExternalWorkerPoolServicer()
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    else:
        worker = ["--environment_type=DOCKER", f"--environment_config={image}"]
    servicer = RowsExpansion(PipelineOptions([*OPTIONS, *worker]), is_worker=image is None)
    beam_expansion_api_pb2_grpc.add_ExpansionServiceServicer_to_server(servicer, server)
    by_name.FullyQualifiedNamedTransform._FILTER_GLOB = GLOB
    server.start()
    return Service(address, lambda: server.stop(None).wait())


def _shortened(trace: str) -> str:
    """Extract the error at the end of a trace if it is about settings. Keep other traces as they are."""
    lines = trace.rstrip().splitlines()
    for place in range(len(lines) - 1, 0, -1):
        if found := _SETTINGS_ERROR.fullmatch(lines[place]):
            is_ours = any("beam_dpsketch" in line for line in lines[max(place - 4, 0) : place])
            return "\n".join([found[1], *lines[place + 1 :]]) if is_ours else trace
        if not _ANOTHER.search(lines[place]):
            break
    return trace


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _reachable(host: str) -> str:
    """Find the host name by which local runners reach the service: localhost for a wildcard address."""
    return "localhost" if host in ("0.0.0.0", "::") else host
