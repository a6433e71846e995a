"""What is stored in a release, part by part, as plain values with their types: to look at, and to forge."""

from __future__ import annotations

import copy
import hashlib
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgpack

from beam_dpsketch.statement.codec import fields_of, has_fields, options_of, without_none
from beam_dpsketch.statement.release_format import DIGEST_BYTES, RELEASE_START, Content


class Part(NamedTuple):
    """One part: its name, as in `statement.side.0.share`, its place in lists of lists, its type and its plain value."""

    name: str
    place: tuple[int, ...]
    hint: Any
    plain: Any


def parts_of(plain: Any) -> Iterator[Part]:
    """Yield all parts of a release, the outer ones first."""
    for place, (name, hint) in enumerate(fields_of(Content).items()):
        yield from _within(Part(name, (place,), hint, plain[place]))


def _within(part: Part) -> Iterator[Part]:
    name, place, hint, plain = part
    yield part
    if inner := without_none(hint):
        if plain is not None:
            yield from [*_within(part._replace(hint=inner))][1:]
    elif typing.get_origin(hint) is tuple:
        for number, each in enumerate(plain):
            yield from _within(Part(f"{name}.{number}", (*place, number), typing.get_args(hint)[0], each))
    elif options := options_of(hint):
        yield Part(f"{name}.class", (*place, 0), type, plain[0])
        yield from _fields(part, options[plain[0]], 1)
    elif has_fields(hint):
        yield from _fields(part, hint, 0)


def _fields(part: Part, kind: type, start: int) -> Iterator[Part]:
    for number, (name, hint) in enumerate(fields_of(kind).items(), start):
        yield from _within(Part(f"{part.name}.{name}", (*part.place, number), hint, part.plain[number]))


def plain_of(data: bytes) -> list[Any]:
    """Return a release as plain values."""
    return msgpack.unpackb(data[len(RELEASE_START) : -DIGEST_BYTES])


def sealed(body: bytes) -> bytes:
    """Return a body under the digest that it needs."""
    return body + hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()


def packed(plain: Any) -> bytes:
    """Return plain values as a release, under a right digest."""
    return sealed(RELEASE_START + msgpack.packb(plain))


def with_part(plain: Any, place: tuple[int, ...], value: Any) -> list[Any]:
    """Return plain values with another one at this place; `...` takes it away."""
    changed = copy.deepcopy(plain)
    inside = changed
    for number in place[:-1]:
        inside = inside[number]
    if value is ...:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return changed


def forged(data: bytes, changes: Mapping[str, Any]) -> bytes:
    """Return a release with other plain values of some parts, by their names."""
    plain = known = plain_of(data)
    for name, value in changes.items():
        (place,) = (each.place for each in parts_of(known) if each.name == name)
        plain = with_part(plain, place, value)
    return packed(plain)
