"""Copies of schemas: what is kept, what is refused, and that an id stands for one content."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.schemas import LogicalType, typing_from_runner_api

from beam_dpsketch.errors import ConfigError
from beam_dpsketch.rows.expansion_requests import LOGICAL, SchemaCopier

TEXT = schema_pb2.FieldType(atomic_type=schema_pb2.STRING)


def schema_of(*kinds: Any, **settings: Any) -> Any:
    fields = [schema_pb2.Field(name=f"f{place}", type=kind) for place, kind in enumerate(kinds)]
    return schema_pb2.Schema(fields=fields, **settings)


def logical(urn: str, representation: Any = TEXT) -> Any:
    return schema_pb2.FieldType(logical_type=schema_pb2.LogicalType(urn=urn, representation=representation))


def test_times_decimals_and_sized_text_keep_their_types() -> None:
    known = LogicalType._known_logical_types.by_urn
    assert set(known) - LOGICAL == {"beam:logical_type:python_callable:v1"}
    for urn in LOGICAL & set(known):
        kind = logical(urn)
        if "fixed" in urn or "var" in urn or urn.endswith("timestamp:v1"):
            kind.logical_type.argument_type.atomic_type = schema_pb2.INT32
            kind.logical_type.argument.atomic_value.int32 = 6
        (copy,) = SchemaCopier("input", LOGICAL).copy(schema_of(kind)).fields
        copied, came = copy.type.logical_type, kind.logical_type
        assert (copied.urn, copied.argument, copied.argument_type) == (came.urn, came.argument, came.argument_type)
        if "fixed_decimal" not in urn:
            assert typing_from_runner_api(copy.type) == typing_from_runner_api(kind)


@pytest.mark.parametrize(
    "kind",
    [
        logical("beam:logical_type:python_callable:v1"),
        logical("beam:logical:pythonsdk_any:v1"),
        logical("beam:logical_type:javasdk:v1"),
        schema_pb2.FieldType(),
        schema_pb2.FieldType(atomic_type=77),
        schema_pb2.FieldType(array_type=schema_pb2.ArrayType()),
    ],
    ids=["callable", "any", "java", "none", "unknown", "list"],
)
def test_types_that_are_not_listed_are_refused_at_any_depth(kind: Any) -> None:
    lists = schema_pb2.FieldType(array_type=schema_pb2.ArrayType(element_type=kind))
    maps = schema_pb2.FieldType(map_type=schema_pb2.MapType(key_type=TEXT, value_type=kind))
    inner = schema_pb2.FieldType(row_type=schema_pb2.RowType(schema=schema_of(kind)))
    micros = logical("beam:logical_type:micros_instant:v1", kind)
    for each in (kind, lists, maps, inner, micros):
        with pytest.raises(ConfigError, match=r"^input: expected text, numbers"):
            SchemaCopier("input", LOGICAL).copy(schema_of(each))
    with pytest.raises(ConfigError, match=r"^settings: expected text, numbers"):
        SchemaCopier("settings").copy(schema_of(logical("beam:logical_type:micros_instant:v1")))


def test_an_id_is_made_of_names_types_and_places() -> None:
    number = schema_pb2.FieldType(atomic_type=schema_pb2.INT64)
    placed = schema_of(TEXT, number, encoding_positions_set=True)
    placed.fields[0].encoding_position = 1
    different = [
        schema_of(TEXT, number),
        schema_of(number, TEXT),
        schema_of(TEXT),
        placed,
        schema_of(TEXT, schema_pb2.FieldType(atomic_type=schema_pb2.INT64, nullable=True)),
    ]
    assert len({SchemaCopier("input").copy(each).id for each in different}) == len(different)
    noted = schema_of(TEXT, number, id="other", options=[schema_pb2.Option(name="x")])
    assert SchemaCopier("input").copy(noted) == SchemaCopier("input").copy(different[0])
    assert [field.encoding_position for field in SchemaCopier("input").copy(placed).fields] == [1, 0]


def test_two_schemas_of_a_request_have_two_ids() -> None:
    copier = SchemaCopier("input")
    copier.copy(schema_of(TEXT, id="same"))
    copier.copy(schema_of(TEXT, id="same"))
    with pytest.raises(ConfigError, match=r"^input: two schemas have the same id \[dpsketch-E815\]$"):
        copier.copy(schema_of(TEXT, TEXT, id="same"))


@pytest.mark.parametrize(
    "names", [["a", "a"], ["_x"], ["class"], ["a-b"], [""], ["fi", "\N{LATIN SMALL LIGATURE FI}"]], ids=str
)
def test_names_that_python_cannot_use_are_refused(names: list[str]) -> None:
    fields = [schema_pb2.Field(name=name, type=TEXT) for name in names]
    with pytest.raises(ConfigError, match=r"^input: expected unique field names"):
        SchemaCopier("input").copy(schema_pb2.Schema(fields=fields))


@pytest.mark.parametrize("layout", ["wide", "nested", "several"])
def test_so_many_fields_are_refused(layout: str) -> None:
    """10,000 of all schemas of a request together, however they are parted."""
    for fields, is_taken in ((10_000, True), (10_001, False)):
        copier = SchemaCopier("input", LOGICAL)
        if layout == "wide":
            schemas = [schema_of(*[TEXT] * fields)]
        elif layout == "several":
            schemas = [schema_of(*[TEXT] * 5000), schema_of(*[TEXT] * (fields - 5000))]
        else:
            row = schema_pb2.FieldType(row_type=schema_pb2.RowType(schema=schema_of(*[TEXT] * 99)))
            schemas = [schema_of(*[row] * 100, *[TEXT] * (fields - 10_000))]
        if is_taken:
            assert [len(copier.copy(each).fields) for each in schemas]
            continue
        with pytest.raises(ConfigError, match=r"^input: expected at most 10,000 fields"):
            [*map(copier.copy, schemas)]
