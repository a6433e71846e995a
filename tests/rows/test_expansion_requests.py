"""What requests to the expansion service cannot do: run code that they bring, read files, mix with other programs."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from apache_beam.coders import RowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_expansion_api_pb2_grpc,
    beam_runner_api_pb2,
    schema_pb2,
)
from apache_beam.portability.common_urns import artifact_types
from apache_beam.runners.portability.artifact_service import ArtifactRetrievalService, BeamFilesystemHandler
from apache_beam.transforms.fully_qualified_named_transform import FullyQualifiedNamedTransform

from beam_dpsketch.rows import expansion, expansion_requests
from beam_dpsketch.rows.expansion import GLOB, OPTIONS, RowsExpansion
from beam_dpsketch.rows.expansion_requests import SchemaCopier, copy_request
from tests.helpers import canary, hostile_requests
from tests.helpers.hostile_requests import RECORDED, mutated, twin
from tests.helpers.other_languages import payload

OF_PARTS = ("transforms", "pcollections", "coders", "windowing_strategies", "environments")
CHEAP = ("go_write", "java_query")


def made(*, is_worker: bool = False) -> RowsExpansion:
    workers = PipelineOptions([*OPTIONS, "--environment_type=DOCKER", "--environment_config=image"])
    return RowsExpansion(workers, is_worker=is_worker)


@pytest.fixture
def service() -> Iterator[RowsExpansion]:
    """A service with workers in containers."""
    with FullyQualifiedNamedTransform.with_filter(GLOB):
        yield made()


class Remembering:
    """Beam's part of the service, asked once for each request that differs in more than labels."""

    def __init__(self, service: RowsExpansion) -> None:
        self._beam, self._known = service._beam, dict[bytes, Any]()
        service._beam = self

    def Expand(self, request: Any) -> Any:  # noqa: N802
        same = twin(request)
        same.namespace = same.transform.unique_name = ""
        asked = same.SerializeToString(deterministic=True)
        if asked not in self._known:
            self._known[asked] = self._beam.Expand(request)
        return twin(self._known[asked])


def test_no_file_is_looked_for(service: RowsExpansion, tmp_path: Path) -> None:
    """A release of an earlier run is an error in Python; here it would tell of files, by a pattern even of names."""
    (tmp_path / "out-00000-of-00001.dpsketch").touch()
    for path, code in {tmp_path / "out": "", tmp_path.parent / "*" / "out": "E724"}.items():
        sent = twin(RECORDED["java_write"])
        sent.transform.spec.payload = payload("beam_dpsketch.rows.WriteReleases", path=str(path))
        error = service.Expand(sent).error
        assert code in error if code else error == ""


def heard_by(service: Any, requests: Iterator[Any], file: Path) -> list[str]:
    """What the canary says of requests, until it says something."""
    with canary.listening(file) as heard:
        for sent in requests:
            answer = service.Expand(sent)
            assert canary.SECRET not in str(answer)
            lines = answer.error.splitlines()
            assert len(lines) <= 1 or all(line.endswith("]") and "[dpsketch-E" in line for line in lines), answer.error
            if heard:
                break
        return [*heard]


def hostile(count: int, names: tuple[str, ...], file: Path) -> Iterator[Any]:
    """Requests, each with changes of several kinds or with other bytes."""
    draw, sent = random.Random(27), 0
    while sent < count:
        request = mutated(RECORDED[names[sent % len(names)]], draw, file)
        if request is not None:
            sent += 1
            yield request


@pytest.mark.parametrize(
    ("count", "names"),
    [(300, CHEAP), pytest.param(20_000, (*CHEAP * 8, *RECORDED), marks=pytest.mark.slow)],
    ids=["some", "many"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_hostile_requests_reach_nothing(
    count: int, names: tuple[str, ...], service: RowsExpansion, tmp_path: Path
) -> None:
    """No request runs the canary or opens its file, and each refusal is one line."""
    Remembering(service)
    file = canary.canary_file(tmp_path)
    assert heard_by(service, hostile(count, names, file), file) == []


def artifacts_of(address: str, file: Path) -> list[bytes]:
    """What a service hands out of a file, asked in every way that Beam has."""
    path = beam_runner_api_pb2.ArtifactFilePayload(path=str(file)).SerializeToString()
    url = beam_runner_api_pb2.ArtifactUrlPayload(url=file.as_uri()).SerializeToString()
    got = []
    with grpc.insecure_channel(address) as channel:
        stub = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        for kind in (each.urn for each in vars(artifact_types).values() if hasattr(each, "urn")):
            for data in (path, url):
                asked = beam_runner_api_pb2.ArtifactInformation(type_urn=kind, type_payload=data)
                try:
                    parts = stub.GetArtifact(beam_artifact_api_pb2.GetArtifactRequest(artifact=asked), timeout=60)
                    got += [each.data for each in parts]
                except grpc.RpcError:
                    continue
    return got


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_port_is_as_safe(tmp_path: Path) -> None:
    """Requests and artifacts over the port of a service whose workers are in containers."""
    file = canary.canary_file(tmp_path)
    with FullyQualifiedNamedTransform.with_filter(GLOB):
        service = expansion.serve("localhost", 0, "image")
        try:
            with grpc.insecure_channel(service.address) as channel:
                stub = beam_expansion_api_pb2_grpc.ExpansionServiceStub(channel)
                assert heard_by(stub, hostile(25, ("go_write",), file), file) == []
            with canary.listening(file) as heard:
                assert artifacts_of(service.address, file) == []
                assert heard == []
        finally:
            service.stop()


def test_the_artifacts_of_beam_are_any_file(tmp_path: Path) -> None:
    """The planted mistake: Beam's service hands out the canary, by its path and by a URL."""
    file = canary.canary_file(tmp_path)
    server = grpc.server(ThreadPoolExecutor(1))
    handler = ArtifactRetrievalService(BeamFilesystemHandler(None).file_reader)
    beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(handler, server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    assert artifacts_of(f"localhost:{port}", file).count(canary.SECRET.encode()) == 2
    server.stop(None).wait()


def test_files_that_settings_name_are_not_opened(service: RowsExpansion, tmp_path: Path) -> None:
    """They are for the workers, also the file of a secret."""
    file, sent = canary.canary_file(tmp_path), twin(RECORDED["go_top_k"])
    private = {"item": "page", "domain": "ipv4", "k": 3, "privacy": '{"rho": 1}', "privacy_unit": "record"}
    noise = json.dumps({"release_id": "x", "file": str(file)})
    calls = [payload("beam_dpsketch.rows.PrivateTopK", **private, idempotent_noise=noise)]
    with canary.listening(file) as heard:
        for each in [*calls, payload("beam_dpsketch.rows.ReadReleases", path=str(file))]:
            sent.transform.spec.payload = each
            assert service.Expand(sent).error == ""
            sent.transform.inputs.clear()
        assert heard == []


def _coder_ids(copy: Any, sent: Any) -> None:
    for name, each in copy.components.pcollections.items():
        each.coder_id = sent.components.pcollections[name].coder_id


def _coders(copy: Any, sent: Any) -> None:
    copy.components.coders.MergeFrom(sent.components.coders)


def _output_coders(copy: Any, sent: Any) -> None:
    _coders(copy, sent)
    copy.output_coder_requests.update(sent.output_coder_requests)


def _windows(copy: Any, sent: Any) -> None:
    for name, each in copy.components.windowing_strategies.items():
        each.window_fn.CopyFrom(sent.components.windowing_strategies[name].window_fn)


def _steps(copy: Any, sent: Any) -> None:
    _coders(copy, sent)
    copy.components.pcollections.MergeFrom(sent.components.pcollections)
    copy.components.windowing_strategies.MergeFrom(sent.components.windowing_strategies)
    copy.components.transforms.MergeFrom(sent.components.transforms)


def _transform(copy: Any, sent: Any) -> None:
    copy.transform.spec.CopyFrom(sent.transform.spec)


LET_THROUGH: list[tuple[Callable[..., None], Callable[..., None]]] = [
    (_coder_ids, hostile_requests.coder_ids),
    (_coders, hostile_requests.coders),
    (_output_coders, hostile_requests.output_coders),
    (_windows, hostile_requests.windows),
    (_steps, hostile_requests.steps),
    (_transform, hostile_requests.transform),
    (_transform, hostile_requests.settings),
]


@pytest.mark.parametrize(("let", "change"), LET_THROUGH, ids=[change.__name__ for _, change in LET_THROUGH])
def test_a_copy_with_one_part_as_it_came_is_found(
    let: Any, change: Any, service: RowsExpansion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted mistakes: each lets one kind of part through."""
    Remembering(service)
    file, seed = canary.canary_file(tmp_path), RECORDED["go_write"]

    def loose(sent: Any) -> Any:
        copy, ids = copy_request(seed)
        let(copy, sent)
        return copy, ids

    monkeypatch.setattr(expansion, "copy_request", loose)
    monkeypatch.setattr(expansion, "_shortened", lambda trace: "")
    sent = (mutated(seed, random.Random(n), file, [change], bytes_too=False) for n in range(30))
    assert heard_by(service, sent, file) != []


@pytest.mark.parametrize("name", RECORDED)
def test_requests_of_java_and_go_are_expanded(name: str, service: RowsExpansion) -> None:
    """The answer has all that the request has, as it came, and new parts; no environment needs files."""
    sent = RECORDED[name]
    answer = service.Expand(sent)
    assert answer.error == ""
    for kind in OF_PARTS:
        given, got = getattr(sent.components, kind), getattr(answer.components, kind)
        assert {each: got[each] for each in given} == dict(given)
        assert kind == "windowing_strategies" or len(got) > len(given)
    own = set(answer.components.environments) - set(sent.components.environments)
    (environment,) = (answer.components.environments[each] for each in own)
    assert environment.urn == "beam:env:docker:v1"
    assert not environment.dependencies
    used = {each.environment_id for each in answer.components.transforms.values()}
    assert used - {"", *own, *(each.environment_id for each in sent.components.transforms.values())} == set()
    assert answer.transform.inputs == sent.transform.inputs


def coder_of_input(sent: Any) -> Any:
    ((_, name),) = sent.transform.inputs.items()
    return sent.components.coders[sent.components.pcollections[name].coder_id]


def renamed(namespace: str, **names: str) -> Any:
    """A request of another program in Go, whose type has the same name and so the same id, but other fields."""
    sent = twin(RECORDED["go_query"])
    sent.namespace = namespace
    schema = schema_pb2.Schema.FromString(coder_of_input(sent).spec.payload)
    for field in schema.fields:
        field.name = names.get(field.name, field.name)
    coder_of_input(sent).spec.payload = schema.SerializeToString()
    return sent


def refusals_at_once(service: RowsExpansion) -> list[bool]:
    """Whether requests of two programs are refused, of which every other one has no releases; four at a time."""
    sent = [renamed(f"n{n}", release=["release", "other"][n % 2]) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        answers = [each.error for each in pool.map(service.Expand, sent)]
    assert all(each.startswith("input: expected rows with a field named release") for each in answers if each)
    return [bool(each) for each in answers]


def test_rows_of_two_programs_with_one_id_do_not_mix(service: RowsExpansion) -> None:
    assert refusals_at_once(service) == [False, True] * 6


def test_rows_that_keep_their_id_mix(service: RowsExpansion, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: Beam takes two schemas with one id for the same."""

    class Keeping(SchemaCopier):
        def copy(self, schema: Any) -> Any:
            made = super().copy(schema)
            made.id = schema.id
            return made

    monkeypatch.setattr(expansion_requests, "SchemaCopier", Keeping)
    assert refusals_at_once(service) != [False, True] * 6


def test_a_worker_in_this_process_gets_one_schema_an_id() -> None:
    """It would read the rows of one program by the fields of another. Requests that failed do not count."""
    first, second = renamed("a", rho="epsilon", epsilon="rho"), renamed("b")
    with FullyQualifiedNamedTransform.with_filter(GLOB):
        service = made(is_worker=True)
        assert service.Expand(renamed("c", release="other")).error.startswith(
            "input: expected rows with a field named release"
        )
        assert [service.Expand(each).error for each in (first, first)] == ["", ""]
        assert service.Expand(second).error.startswith(
            "input: another program used this schema id for rows with other fields"
        )
        assert [made().Expand(each).error for each in (first, second)] == ["", ""]


def test_beam_reads_rows_of_one_id_by_the_fields_that_came_first() -> None:
    """Why such rows are refused."""
    kind = schema_pb2.FieldType(atomic_type=schema_pb2.STRING)
    for names in (["person", "page"], ["page", "person"]):
        fields = [schema_pb2.Field(name=name, type=kind) for name in names]
        coder = RowCoder(schema_pb2.Schema(id="6b1f3d0e-7f0e-4c52-a1a8-2d3f7a7d9c11", fields=fields))
        assert coder.decode(b"\x02\x00\x01a\x01b").person == "a"


def test_chains_and_cycles_of_coders_are_refused_in_one_line(service: RowsExpansion) -> None:
    for names in (["c0", "c0"], [f"c{n}" for n in range(3000)]):
        sent = twin(RECORDED["go_write"])
        for name, inner in zip(names, [*names[1:], names[0]], strict=True):
            sent.components.coders[name].CopyFrom(
                beam_runner_api_pb2.Coder(
                    spec=beam_runner_api_pb2.FunctionSpec(urn="beam:coder:kv:v1"), component_coder_ids=[inner, inner]
                )
            )
        for collection in sent.components.pcollections.values():
            collection.coder_id = "c0"
        assert service.Expand(sent).error == "input: expected one collection of rows with a schema [dpsketch-E815]"


def test_what_a_program_says_of_itself_is_not_read(service: RowsExpansion, tmp_path: Path) -> None:
    """Options, environments, requirements and other coders change nothing, also if they are asked for."""
    plain, sent = (twin(RECORDED["go_write"]) for _ in range(2))
    draw = random.Random(1)
    for change in (
        hostile_requests.options,
        hostile_requests.environments_of_their_own,
        hostile_requests.output_coders,
    ):
        change(sent, draw, tmp_path)
    sent.requirements.append("x")
    sent.components.coders["other"].spec.urn = "beam:coders:javasdk:0.1"
    copies = [copy_request(each)[0].SerializeToString(deterministic=True) for each in (plain, sent)]
    assert copies[0] == copies[1]
    assert list(service.Expand(sent).requirements) == []
