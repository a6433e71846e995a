"""Calls of the expansion service, as SDKs of other languages make them."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.portability.api import beam_expansion_api_pb2
from apache_beam.transforms.external import ExternalTransform
from apache_beam.transforms.fully_qualified_named_transform import FullyQualifiedNamedTransform

from beam_dpsketch.rows.expansion import RowsExpansion
from beam_dpsketch.rows.expansion_requests import URN

EXTERNAL = "External"
"""The name of every call from Go."""


def payload(name: str, *arguments: Any, **settings: Any) -> bytes:
    """Return a constructor and its arguments, each of one type."""
    _, made = FullyQualifiedNamedTransform(name, arguments, settings).to_runner_api_parameter(None)
    return made.SerializeToString()


class AsGo:
    """Pass requests on with the name that Go gives to all its calls."""

    def __init__(self, service: RowsExpansion) -> None:
        self._service = service
        self.requests: list[Any] = []

    def Expand(self, request: Any) -> Any:  # noqa: N802
        sent = beam_expansion_api_pb2.ExpansionRequest()
        sent.CopyFrom(request)
        sent.transform.unique_name = EXTERNAL
        self.requests.append(sent)
        return self._service.Expand(sent)


def call(service: Any, name: str, **settings: Any) -> beam.PTransform:
    """Return a transform of rows that a service expands, named by an address or itself an object."""
    return ExternalTransform(URN, payload(f"beam_dpsketch.rows.{name}", **settings), service)
