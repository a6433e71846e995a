"""Schemas of other languages, copied: names, types and places of fields, under an id that is made of them.

Guarantee: no type in a copy has values that are read by running code that they bring.

Beam takes two schemas with one id for the same, and reads rows of the one by the fields of the other. Go makes the id
of a type's name, so rows of two programs share it. Copies share an id only if they are equal.

Source: `SchemaTranslation` in Beam, which keeps schemas by id.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import namedtuple
from typing import Any

from apache_beam.portability.api import schema_pb2
from apache_beam.typehints.schemas import ATOMIC_TYPE_TO_PRIMITIVE

from beam_dpsketch.errors import ConfigError

LOGICAL = frozenset(
    f"beam:logical_type:{name}:v1"
    for name in (
        *("date", "javasdk_time", "micros_instant", "millis_instant", "timestamp"),
        *("decimal", "fixed_decimal", "fixed_bytes", "var_bytes", "fixed_char", "var_char"),
    )
)
"""Logical types whose values are numbers, text, bytes and times."""

_MAX_FIELDS = 10_000
_INNER = {
    "row_type": (),
    "array_type": ("element_type",),
    "iterable_type": ("element_type",),
    "map_type": ("key_type", "value_type"),
    "logical_type": ("representation", "argument_type"),
}
"""The kinds of types that are not atomic, and which types each is made of."""


class SchemaCopier:
    """Copy schemas.

    Args:
      subject: what a refusal is about.
      logical: the logical types that may be there.

    Attributes:
      ids: for each id that was read, the one that its copy has.
    """

    def __init__(self, subject: str, logical: frozenset[str] = frozenset()) -> None:
        self.ids: dict[str, str] = {}
        self._fields = 0
        self._subject, self._logical = subject, logical

    def copy(self, schema: Any) -> Any:
        """Return the copy.

        Raises:
          ConfigError: a type is not listed, a name is not one in Python, two schemas have one id, or there are too
            many fields.
        """
        self._fields += len(schema.fields)
        if self._fields > _MAX_FIELDS:
            raise ConfigError(self._subject, f"expected at most {_MAX_FIELDS:,} fields", "E815")
        try:
            namedtuple("Fields", [field.name for field in schema.fields])  # which checks them
        except (ValueError, SyntaxError):
            raise ConfigError(
                self._subject,
                "expected different names of fields, each a name in Python: letters, digits and _, with a letter first",
                "E815",
            ) from None
        copy = schema_pb2.Schema(encoding_positions_set=schema.encoding_positions_set)
        for field in schema.fields:
            place = field.encoding_position if schema.encoding_positions_set else 0
            copy.fields.add(name=field.name, type=self._copy_type(field.type), encoding_position=place)
        content = copy.SerializeToString(deterministic=True)
        copy.id = str(uuid.UUID(bytes=hashlib.blake2b(content, digest_size=16).digest()))
        if self.ids.setdefault(schema.id or copy.id, copy.id) != copy.id:
            raise ConfigError(self._subject, "two schemas have one id", "E815")
        return copy

    def _copy_type(self, kind: Any) -> Any:
        """Return a copy of a listed type."""
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
                f"expected text, numbers, booleans, lists, maps and rows{others}, got {got}; write it as text",
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
