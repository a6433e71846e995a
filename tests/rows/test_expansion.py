"""The expansion service: what it refuses, what it says, and that two calls from Go are two releases."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_expansion_api_pb2, beam_expansion_api_pb2_grpc
from apache_beam.transforms.fully_qualified_named_transform import FullyQualifiedNamedTransform

from beam_dpsketch import rows
from beam_dpsketch.rows.expansion import GLOB, MAX_MIB, OPTIONS, RowsExpansion, serve
from beam_dpsketch.rows.expansion_requests import ALLOWED, URN, copy_request
from tests.helpers import noise
from tests.helpers.other_languages import EXTERNAL, AsGo, call, payload
from tests.helpers.pipelines import FN_API, seen_by_sink

UNIT = '{"privacy_id": "person", "records": {"max_records": 1, "max_keys": 2}}'
SETTINGS = {"item": "page", "listed_items": ["a", "b"], "privacy": '{"rho": 0.5}', "privacy_unit": UNIT}
ALONE = {"privacy": '{"rho": 0.5}', "privacy_unit": '{"privacy_id": "person", "records": {"max_records": 1}}'}
LATENCIES = {"item": "ms", "domain": '{"type": "integer", "low": 0, "high": 9}', **ALONE}
OVER_TIME = {
    "horizon": '{"start": 0, "window_size": "1h", "windows": 4}',
    "privacy_unit": '{"privacy_id": "person", "records": {"max_records": 1}, "max_windows": 1}',
}
KEYS = '{"assume_public": true, "field": "key"}'
VISITS = {
    name: [beam.Row(person=f"{name}{n}", key=key, page=page) for n, (key, page) in enumerate(pairs)]
    for name, pairs in {
        "first": [("x", "a")] * 30 + [("y", "b")] * 20,
        "second": [("x", "b")] * 7 + [("y", "a")] * 5 + [("y", "b")],
    }.items()
}


@pytest.fixture
def service() -> Iterator[AsGo]:
    """A service whose workers are threads of this process."""
    options = PipelineOptions([*OPTIONS, f"--environment_type={python_urns.EMBEDDED_PYTHON}"])
    with FullyQualifiedNamedTransform.with_filter(GLOB):
        yield AsGo(RowsExpansion(options, is_worker=True))


def taken(row: Any, name: str) -> Any:
    return name, row.key, row.item, row.estimate


def counted(service: AsGo) -> dict[Any, float]:
    """The answers of two calls with equal settings, by name of the input, key and item."""

    def build(pipeline: beam.Pipeline) -> Any:
        answers = []
        for name, visits in VISITS.items():
            found = (
                pipeline
                | f"Create {name}" >> beam.Create(visits)
                | f"Count {name}"
                >> call(service, "PrivateFrequencies", **SETTINGS, keys=KEYS, ask='{"items": ["a", "b"]}')
            )
            answers.append(found | f"Take {name}" >> beam.Map(taken, name))
        return answers | beam.Flatten()

    found = seen_by_sink(build, runner=FN_API)
    assert len({each[:3] for each in found}) == len(found)
    return {each[:3]: each[3] for each in found}


def exact() -> dict[Any, float]:
    counts = Counter((name, each.key, each.page) for name, visits in VISITS.items() for each in visits)
    return {place: float(counts[place]) for place in itertools.product(VISITS, "xy", "ab")}


@pytest.mark.pipeline
def test_two_calls_from_go_do_not_mix(service: AsGo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both requests have one name and equal settings; the runner knows groups by the names of steps."""
    noise.without_noise(monkeypatch)
    assert counted(service) == exact()
    assert [request.transform.unique_name for request in service.requests] == [EXTERNAL] * 2


@pytest.mark.pipeline
def test_two_calls_without_labels_of_their_own_mix(service: AsGo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake."""
    noise.without_noise(monkeypatch)
    monkeypatch.setattr(RowsExpansion, "label", lambda _, request: request.transform.unique_name)
    with pytest.raises(Exception, match=r"more than one element accessed as a singleton|did not execute"):
        counted(service)


def request(spec: bytes) -> Any:
    """A request for a transform without input."""
    made = beam_expansion_api_pb2.ExpansionRequest(namespace="n")
    made.transform.unique_name = EXTERNAL
    made.transform.spec.urn, made.transform.spec.payload = URN, spec
    return made


def error(service: AsGo, sent: Any) -> str:
    return service.Expand(sent).error


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "tests.helpers.canary.sing",
        "beam_dpsketch.rows.base.PrivateRows",
        "beam_dpsketch.rows.base.inspect.os.system",
        "beam_dpsketch.rows.files.beam.io.ReadFromText",
        "beam_dpsketch.rows.ReadParquetBatches",
        "beam_dpsketch.transforms.PrivateTopK",
        "__callable__",
        "__constructor__",
        "",
    ],
)
def test_only_transforms_of_rows_can_be_named(name: str, service: AsGo) -> None:
    assert error(service, request(payload(name, "true"))).startswith("constructor: expected one of beam_dpsketch.rows.")


def test_every_transform_of_rows_can_be_named() -> None:
    """But for the one that makes tables, which no other language takes."""
    for name in ALLOWED:
        copy_request(request(payload(name)))
    unnamed = {f"beam_dpsketch.rows.{name}" for name in rows.__all__} - {*ALLOWED}
    assert unnamed == {"beam_dpsketch.rows.ReadParquetBatches"}


CALLS: dict[str, dict[str, Any]] = {
    "PrivateFrequencies": {**SETTINGS, **ALONE},
    "PrivateQuantiles": {**LATENCIES, "ask": '{"quantiles": [0.5]}'},
    "PrivateMetrics": {
        **ALONE,
        "metrics": '[{"name": "people", "kind": "privacy_ids"}, {"name": "n", "kind": "count"}]',
    },
    "PrivateStatistics": LATENCIES,
    "PrivateTopK": {"item": "page", **ALONE, "k": 3, "domain": '{"type": "ipv4"}'},
    "PrivateContinualFrequencies": {**SETTINGS, **ALONE, **OVER_TIME},
    "PrivateContinualQuantiles": {**LATENCIES, **OVER_TIME},
    "PrivateContinualStatistics": {**LATENCIES, **OVER_TIME},
    "QueryReleases": {"ask": '{"count": true}'},
    "QueryTimeline": {"ask": '{"count": true}', "horizon": OVER_TIME["horizon"]},
    "WriteReleases": {"path": "out/cities"},
}


@pytest.mark.parametrize("name", [each.rpartition(".")[2] for each in ALLOWED if not each.endswith("ReadReleases")])
def test_a_call_without_input_names_it_in_one_line(name: str, service: AsGo) -> None:
    """Each transform of rows, but for those that read files."""
    said = error(service, request(payload(f"beam_dpsketch.rows.{name}", **CALLS[name])))
    assert said.startswith("input: "), said
    assert "\n" not in said
    assert "E813" in said


def test_a_path_that_is_a_pattern_is_refused_in_one_line(service: AsGo) -> None:
    said = error(service, request(payload("beam_dpsketch.rows.WriteReleases", path="out/run[1]/trips")))
    assert said.startswith("path: must not contain '['")
    assert "\n" not in said


def test_a_request_is_of_some_mebibytes_at_most() -> None:
    """The port refuses a larger one before it is read, and then takes others; a list of 500,000 items is not large."""
    service = serve("localhost", 0, None)
    try:
        with grpc.insecure_channel(service.address, options=[("grpc.max_send_message_length", -1)]) as channel:
            stub = beam_expansion_api_pb2_grpc.ExpansionServiceStub(channel)
            items = [f"item {number:06}" for number in range(500_000)]
            name = "beam_dpsketch.rows.PrivateFrequencies"
            large = request(payload(name, **{**CALLS["PrivateFrequencies"], "listed_items": items}))
            assert len(large.transform.spec.payload) > 5_000_000
            assert stub.Expand(large).error.startswith("input: ")
            large.transform.spec.payload += bytes(MAX_MIB << 20)
            with pytest.raises(grpc.RpcError, match="Received message larger than max") as caught:
                stub.Expand(large)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert stub.Expand(request(payload(name, **CALLS["PrivateFrequencies"]))).error.startswith("input: ")
    finally:
        service.stop()


def test_what_no_sdk_sends_is_refused_in_one_line(service: AsGo) -> None:
    fine = payload("beam_dpsketch.rows.ReadReleases", path="x")
    for end in range(0, len(fine), 7):
        assert "\n" not in error(service, request(fine[:end]))
        assert error(service, request(fine[:end])).split(":")[0] in ("payload", "constructor")
    unnamed = request(fine)
    unnamed.namespace = ""
    assert error(service, unnamed).startswith("namespace: ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "item: is missing. Set "),
        ({"privacy": "{}"}, "privacy: set epsilon and delta"),
        ({"kk": 3}, "kk: unknown setting. Did you mean 'k'?"),
        ({"method": '{"groups": {}}'}, "method.groups: unknown setting. Did you mean 'threshold'?"),
        ({"item": "absent"}, "item='absent' is not a field. Fields: person, key, page"),
    ],
    ids=["none", "value", "name", "old name", "field"],
)
def test_errors_are_a_line_for_each_setting_that_is_wrong(settings: Any, message: str, service: AsGo) -> None:
    usual = {"item": "page", "domain": "ipv4", "k": 3, "privacy": '{"rho": 1}', "privacy_unit": "record"}
    given = {**usual, **settings} if settings else {}
    with pytest.raises(RuntimeError) as refused:
        beam.Pipeline(runner=FN_API) | beam.Create(VISITS["first"]) | call(service, "PrivateTopK", **given)
    assert str(refused.value).startswith(message)
    lines = str(refused.value).split("\n")
    assert [line.split(":")[0] for line in lines[1:]] == (
        [] if settings else ["domain", "k", "privacy", "privacy_unit"]
    )
