"""Conversion between value objects and the plain values stored in releases, by field types.

Guarantee: `read` uses only a closed list of classes and their validating constructors. It raises `FormatError`,
`ValueError` or `TypeError` for any other input. A new field or a changed field type changes the format, which the tests
of golden releases detect.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias, TypeVar, Union

from beam_dpsketch.errors import FormatError
from beam_dpsketch.exact.domains import DOMAINS, BytesDomain
from beam_dpsketch.exact.domains.base import Domain
from beam_dpsketch.exact.sketches.factor import FactorizationSpec
from beam_dpsketch.exact.sketches.listed_items import CountSpec, ListedItems, ThresholdedItems, from_encoded
from beam_dpsketch.exact.sketches.metrics import MetricsSpec
from beam_dpsketch.exact.sketches.spec import SketchSpec, Spec
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.privacy.contributions import Bounds, RecordBounds
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism

_DOMAINS = sorted(DOMAINS, key=lambda each: each.number)
T = TypeVar("T")

ONE_OF: Mapping[type, tuple[type, ...]] = {
    **{base: tuple(each for each in _DOMAINS if issubclass(each, base)) for base in (Domain, BytesDomain)},
    Spec: (SketchSpec, TreeSpec, ListedItems, ThresholdedItems, StatisticsSpec, FactorizationSpec, CountSpec),
    Bounds: (RecordBounds, NormBound),
    RowMechanism: (BinnedRoot, BinaryTree),
}
"""Concrete classes for fields with a base class. The index is stored, so append new classes at the end."""
ReleasedSpec: TypeAlias = (
    SketchSpec
    | TreeSpec
    | ListedItems
    | ThresholdedItems
    | StatisticsSpec
    | FactorizationSpec
    | MetricsSpec
    | CountSpec
)
"""Specs of releases. No other spec contains `MetricsSpec`, so nesting is finite."""

_MADE_BY: Mapping[type, Callable[..., Any]] = {ListedItems: from_encoded}
"""Constructors for classes that are not built from their stored fields by name. Lists of many keys share one object."""

_MAX_BYTES = 1024  # for an integer, because dividing much larger integers would take hours
_EPOCH, _MICROSECOND = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), datetime.timedelta(microseconds=1)


class Codec(NamedTuple):
    """Storage format for a type: `write` converts a value to a plain value, and `read` inverts it.

    `read` refuses values with another type. Its caller detects values that `write` would have written differently.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


@functools.cache
def fields_of(kind: type) -> dict[str, Any]:
    """Map each stored field to its type, in order. Derived fields are not stored."""
    if kind is ListedItems:
        return {"encoded_items": bytes}
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        return {
            field.name: hints[field.name] for field in dataclasses.fields(kind) if field.metadata.get("is_stored", True)
        }
    return {name: hints[name] for name in kind._fields}  # type: ignore[attr-defined]  # a named tuple


@functools.cache
def codec_of(hint: Any) -> Codec:
    """Build the codec for a field type, or raise `TypeError` if the type is not stored."""
    if options := options_of(hint):
        return _one_of(options)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if (present := without_none(hint)) is not None:
        return _optional(codec_of(present))
    if typing.get_origin(hint) is tuple:
        return _list_of(codec_of(typing.get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, enum.Flag):
        return Codec(lambda value: value.value, lambda plain: hint(_whole(plain)))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice([*hint])
    if has_fields(hint):
        return Codec(functools.partial(_write, hint), functools.partial(_read, hint))
    raise TypeError(f"{hint} cannot be stored")


def has_fields(hint: Any) -> bool:
    """Whether a type is stored as the list of its fields."""
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"))


def without_none(hint: Any) -> Any:
    """Remove `None` from an optional type. Returns `None` if the type is not optional."""
    inside = typing.get_args(hint)
    if type(None) not in inside:
        return None
    return Union[tuple(each for each in inside if each is not type(None))]  # noqa: UP007


def options_of(hint: Any) -> tuple[type, ...]:
    """List possible classes, if the type does not determine the class. Empty for any other type."""
    is_union = typing.get_origin(hint) in (Union, types.UnionType) and hint not in _SIMPLE
    if is_union and type(None) not in typing.get_args(hint):
        return tuple(one for each in typing.get_args(hint) for one in ONE_OF.get(each, (each,)))
    return ONE_OF.get(hint, ())


def _one_of(kinds: tuple[type, ...]) -> Codec:
    """Build the codec for several classes: the class index, then the fields."""

    def read(plain: Any) -> Any:
        first, *fields = _list(plain)
        return _read(_at(kinds, first), fields)

    def write(value: Any) -> list[Any]:
        kind = type(value)
        return [kinds.index(kind), *_write(kind, value)]

    return Codec(write, read)


def _choice(options: Sequence[Any]) -> Codec:
    """Build the codec for a fixed list. It stores the index. Append new options at the end."""
    return Codec(options.index, lambda plain: _at(options, plain))


def _at(options: Sequence[T], place: Any) -> T:
    if not 0 <= _whole(place) < len(options):
        raise FormatError("a field has an unknown value")
    return options[place]


def _optional(form: Codec) -> Codec:
    return Codec(
        lambda value: None if value is None else form.write(value),
        lambda plain: None if plain is None else form.read(plain),
    )


def _list_of(form: Codec) -> Codec:
    return Codec(
        lambda values: [form.write(each) for each in values],
        lambda plain: tuple(form.read(each) for each in _list(plain)),
    )


def _write(kind: type, value: Any) -> list[Any]:
    return [codec_of(hint).write(getattr(value, name)) for name, hint in fields_of(kind).items()]


def _read(kind: type, plain: Any) -> Any:
    hints, values = fields_of(kind), _list(plain)
    if len(values) != len(hints):
        raise FormatError("an object has the wrong number of fields")
    read = {name: codec_of(hint).read(value) for (name, hint), value in zip(hints.items(), values, strict=True)}
    return _MADE_BY.get(kind, kind)(**read)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def read(plain: Any) -> Any:
        if type(plain) is not kind:
            raise FormatError("a field has the wrong type")
        return plain

    return read


_list = _exactly(list)


def _write_whole(value: int) -> int | bytes:
    if -(1 << 63) <= value < 1 << 64:
        return int(value)
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _whole(plain: Any) -> int:
    if type(plain) is bytes and len(plain) <= _MAX_BYTES:
        return int.from_bytes(plain, "little", signed=True)
    return int(_exactly(int)(plain))


def _read_fraction(plain: Any) -> Fraction:
    parts = [*map(_whole, _list(plain))]
    if len(parts) != 2 or parts[1] < 1:
        raise FormatError("a fraction must have a numerator and a denominator above 0")
    return Fraction(*parts)


def _read_micros(origin: Any) -> Callable[[Any], Any]:
    def read(plain: Any) -> Any:
        try:
            return origin + _whole(plain) * _MICROSECOND
        except OverflowError:
            raise FormatError("a time is out of range") from None

    return read


_FRACTION = Codec(lambda value: [*map(_write_whole, value.as_integer_ratio())], _read_fraction)
_SIMPLE: dict[Any, Codec] = {
    **{kind: Codec(kind, _exactly(kind)) for kind in (bool, float, str, bytes)},
    int: Codec(_write_whole, _whole),
    Fraction: _FRACTION,
    int | Fraction: _FRACTION,
    datetime.datetime: Codec(lambda value: (value - _EPOCH) // _MICROSECOND, _read_micros(_EPOCH)),
    datetime.timedelta: Codec(lambda value: value // _MICROSECOND, _read_micros(datetime.timedelta(0))),
}
