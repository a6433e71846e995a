"""Requests of Java and Go, recorded, and what somebody hostile makes of them."""

from __future__ import annotations

import base64
import contextlib
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apache_beam.coders import Coder
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_expansion_api_pb2, beam_runner_api_pb2, external_transforms_pb2, schema_pb2
from apache_beam.portability.common_urns import artifact_types, environments, primitives
from apache_beam.transforms.ptransform import PTransform
from apache_beam.utils.urns import RunnerApiFn
from google.protobuf.message import DecodeError

from tests.helpers import canary
from tests.helpers.other_languages import payload

VECTORS = Path(__file__).parents[1] / "vectors" / "expansion_requests.json"
RECORDED = {
    name: beam_expansion_api_pb2.ExpansionRequest.FromString(base64.b64decode(text))
    for name, text in json.loads(VECTORS.read_text()).items()
}
"""What the programs in `pipelines/` sent, by the names of language and transform."""

Change = Callable[[Any, random.Random, Path], None]
_PICKLED = (
    *(python_urns.PICKLED_CODER, python_urns.PICKLED_WINDOWFN, python_urns.PICKLED_TRANSFORM),
    *(python_urns.PICKLED_DOFN, python_urns.PICKLED_SOURCE),
)
_URNS = sorted({*_PICKLED, *Coder._known_urns, *PTransform._known_urns, *RunnerApiFn._known_urns, "", "x"})
_LOGICAL = ("beam:logical_type:python_callable:v1", "beam:logical:pythonsdk_any:v1", "beam:logical_type:javasdk:v1")
_CONSTRUCTORS = (
    *("__callable__", "__constructor__", canary.NAME, "os.system", "beam_dpsketch.rows.base.inspect.os.system"),
    *("beam_dpsketch.rows.ReadParquetBatches", "beam_dpsketch.rows.ReadReleases", "beam_dpsketch.rows.WriteReleases"),
)


def mutated(
    seed: Any, draw: random.Random, file: Path, changes: Sequence[Change] | None = None, *, bytes_too: bool = True
) -> Any:
    """A request with one to three changes, or with other bytes; `None` if these are no request."""
    request = twin(seed)
    if bytes_too and draw.random() < 0.3:
        return _with_other_bytes(request, draw)
    for change in draw.choices(changes or CHANGES, k=draw.randint(1, 3)):
        with contextlib.suppress(DecodeError):  # of what another change left
            change(request, draw, file)
    return request


def twin(message: Any) -> Any:
    """A copy, which may go into the message: protobuf crashes if that itself does."""
    twin = type(message)()
    twin.CopyFrom(message)
    return twin


def _with_other_bytes(request: Any, draw: random.Random) -> Any:
    """Change bytes of the whole request, of the settings, or of a coder."""
    spot = draw.randrange(3)
    if spot == 0:
        try:
            return type(request).FromString(_spliced(request.SerializeToString(), draw))
        except DecodeError:
            return None
    spec = (
        request.transform.spec if spot == 1 else draw.choice([each.spec for each in request.components.coders.values()])
    )
    spec.payload = _spliced(spec.payload, draw)
    return request


def _spliced(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed) + 1)
        new = draw.choice(
            [b"", bytes([draw.randrange(256)]), canary.PAYLOAD, canary.ID.encode(), bytes(changed[at : at + 9])]
        )
        changed[at : at + draw.choice([0, 1, 1, 4])] = new
    return bytes(changed)


def _any(parts: Any, draw: random.Random) -> Any:
    """A part of a map, made if there is none."""
    return parts[draw.choice([*sorted(parts), "new"])]


def _id(request: Any, draw: random.Random) -> str:
    """An id that is a pickle, that names nothing, or that names another part."""
    coders = request.components.coders
    coders["pickled"].spec.urn, coders["pickled"].spec.payload = python_urns.PICKLED_CODER, canary.CODER
    return draw.choice([canary.ID, canary.ID, "pickled", "pickled", "absent", "", *sorted(coders)])


def _bring_code(spec: Any, draw: random.Random, urn: str, data: bytes) -> None:
    """Name something pickled, and half the time what is read here."""
    if draw.random() < 0.5:
        urn, data = draw.choice(_URNS), draw.choice([canary.PAYLOAD, canary.CODER, canary.ID.encode(), b""])
    spec.urn, spec.payload = urn, data


def coder_ids(request: Any, draw: random.Random, _: Path) -> None:
    _any(request.components.pcollections, draw).coder_id = _id(request, draw)


def coders(request: Any, draw: random.Random, _: Path) -> None:
    _bring_code(_any(request.components.coders, draw).spec, draw, python_urns.PICKLED_CODER, canary.CODER)


def components_of_coders(request: Any, draw: random.Random, _: Path) -> None:
    """Pickled ids, cycles and deep nesting."""
    name = draw.choice(sorted(request.components.coders))
    coder = request.components.coders[name]
    coder.component_coder_ids.extend([draw.choice([name, _id(request, draw)])] * draw.randint(1, 2))
    if draw.random() < 0.7:
        coder.spec.urn = draw.choice(["beam:coder:kv:v1", "beam:coder:iterable:v1", "beam:coder:nullable:v1"])
    if draw.random() < 0.2:
        for n in range(1500):
            nested = request.components.coders[f"c{n}"]
            nested.spec.urn = "beam:coder:kv:v1"
            nested.component_coder_ids.extend([f"c{n + 1}"] * 2)
        coder.component_coder_ids[:] = ["c0"]


def output_coders(request: Any, draw: random.Random, _: Path) -> None:
    for tag in draw.choice([["out"], ["out"], ["a", "b"]]):
        request.output_coder_requests[tag] = _id(request, draw)


def options(request: Any, draw: random.Random, file: Path) -> None:
    for name, value in (
        ("runner", canary.NAME),
        ("pickle_library", "dill"),
        ("setup_file", str(file)),
        ("extra_packages", str(file)),
        ("environment_config", str(file)),
        ("beam_plugins", canary.NAME),
    ):
        if draw.random() < 0.6:
            request.pipeline_options[f"beam:option:{name}:v1"] = value


def windows(request: Any, draw: random.Random, _: Path) -> None:
    strategy = _any(request.components.windowing_strategies, draw)
    what = draw.randrange(5)
    if what <= 1:
        _bring_code(strategy.window_fn, draw, python_urns.PICKLED_WINDOWFN, canary.PAYLOAD)
    elif what == 2:
        strategy.window_coder_id = _id(request, draw)
    elif what == 3:
        strategy.ClearField("trigger")
    else:
        strategy.trigger.repeat.subtrigger.CopyFrom(twin(strategy.trigger))


def environments_of_their_own(request: Any, draw: random.Random, file: Path) -> None:
    name = draw.choice(["new", "go", *request.components.environments])
    own = request.components.environments[name]
    own.urn = draw.choice([environments.PROCESS.urn, environments.EXTERNAL.urn, python_urns.SUBPROCESS_SDK, "x"])
    own.payload = draw.choice(
        [canary.PAYLOAD, beam_runner_api_pb2.ProcessPayload(command=str(file)).SerializeToString()]
    )
    payload = beam_runner_api_pb2.ArtifactFilePayload(path=str(file)).SerializeToString()
    own.dependencies.add(type_urn=artifact_types.FILE.urn, type_payload=payload)
    for each in [request.transform, *request.components.transforms.values()]:
        each.environment_id = name


def steps(request: Any, draw: random.Random, _: Path) -> None:
    name = draw.choice(["new", *sorted(request.components.transforms)])
    step = request.components.transforms[name]
    _bring_code(step.spec, draw, python_urns.PICKLED_TRANSFORM, canary.ID.encode())
    if draw.random() < 0.3:
        pardo = beam_runner_api_pb2.ParDoPayload()
        pardo.do_fn.urn, pardo.do_fn.payload = python_urns.PICKLED_DOFN, canary.PAYLOAD
        step.spec.urn, step.spec.payload = primitives.PAR_DO.urn, pardo.SerializeToString()
    step.outputs["out"] = draw.choice(sorted(request.components.pcollections))
    step.inputs["in"] = draw.choice([*sorted(request.components.pcollections), "absent"])
    draw.choice([step, request.transform]).subtransforms.append(name)


def transform(request: Any, draw: random.Random, _: Path) -> None:
    _bring_code(request.transform.spec, draw, python_urns.PICKLED_TRANSFORM, canary.ID.encode())


def constructor(request: Any, draw: random.Random, file: Path) -> None:
    name = draw.choice(_CONSTRUCTORS)
    arguments: list[Any] = [canary.SOURCE] if name.startswith("__") else []
    request.transform.spec.payload = (
        payload(name, *arguments, path=str(file)) if arguments else payload(name, path=str(file))
    )


def settings(request: Any, draw: random.Random, _: Path) -> None:
    """Values that Python reads by running them."""
    made = draw.random() < 0.5
    sent = payload("beam_dpsketch.rows.PrivateTopK", item=canary.SOURCE) if made else request.transform.spec.payload
    given = external_transforms_pb2.ExternalConfigurationPayload.FromString(sent)
    if made:
        kind = given.schema.fields[-1].type.row_type.schema.fields[0].type.logical_type
        kind.urn = _LOGICAL[0]
        kind.representation.atomic_type = schema_pb2.STRING
    else:
        _spoil(given.schema, draw)
    request.transform.spec.payload = given.SerializeToString()


def rows(request: Any, draw: random.Random, _: Path) -> None:
    for coder in request.components.coders.values():
        if coder.spec.urn == "beam:coder:row:v1":
            schema = schema_pb2.Schema.FromString(coder.spec.payload)
            _spoil(schema, draw)
            coder.spec.payload = schema.SerializeToString()


def _spoil(schema: Any, draw: random.Random) -> None:
    field = draw.choice([*schema.fields]) if schema.fields else schema.fields.add(name="x")
    what = draw.randrange(5)
    if what == 0:
        field.type.logical_type.urn = draw.choice(_LOGICAL)
        field.type.logical_type.payload = canary.PAYLOAD
        field.type.logical_type.representation.atomic_type = schema_pb2.STRING
    elif what == 1:
        for _ in range(draw.choice([1, 10, 30])):
            field.type.array_type.element_type.CopyFrom(twin(field.type))
    elif what == 2:
        field.name = draw.choice(["_x", "class", "a-b", "", canary.SOURCE, *(each.name for each in schema.fields)])
    elif what == 3:
        field.type.row_type.schema.CopyFrom(twin(schema))
    else:
        schema.options.add(name=canary.NAME).type.logical_type.urn = _LOGICAL[0]


def labels(request: Any, draw: random.Random, file: Path) -> None:
    """What is only said: display data, annotations, requirements, capabilities."""
    request.requirements.append(canary.NAME)
    request.transform.annotations["x"] = canary.PAYLOAD
    request.transform.display_data.add(urn=canary.NAME, payload=canary.PAYLOAD)
    request.transform.unique_name = draw.choice([str(file), "", "a/b", canary.ID])
    request.namespace = draw.choice(["", "x", str(file)])


def inputs(request: Any, draw: random.Random, _: Path) -> None:
    names = [*sorted(request.components.pcollections), "absent", canary.ID]
    request.transform.inputs[draw.choice(["x", *sorted(request.transform.inputs)])] = draw.choice(names)


CHANGES: tuple[Change, ...] = (
    *(coder_ids, coders, components_of_coders, output_coders, options, windows, environments_of_their_own),
    *(steps, transform, constructor, settings, rows, labels, inputs),
)
