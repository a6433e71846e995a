"""Items and values of a release out of text, by the type of its domain."""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.cli.faults import UsageError
from beam_dpsketch.cli.text import shown
from beam_dpsketch.domains import (
    BytesDomain,
    Domain,
    FloatDomain,
    IntegerDomain,
    IPv4Domain,
    TextDomain,
    TimestampDomain,
)
from beam_dpsketch.sketches.listed_items import ListedItems

ItemType: TypeAlias = Literal["int", "text"]
ITEM_TYPES: tuple[ItemType, ...] = ("text", "int")


def read_values(texts: Iterable[str], released: ReleasedSketch, item_type: ItemType | None) -> list[Any]:
    """Return what texts stand for in a release.

    Args:
      texts: as they were typed, or stand in a file. Bytes are given in hex after 0x, or else as text.
      released: what will be asked. The type of its domain decides; of listed items, that of the item itself.
      item_type: what items of a flat sketch are, which does not say so itself; `None` for text. Of listed items it
        picks "1" or 1 where both are listed.

    Raises `UsageError` where a text is not of this type; the message does not contain it.
    """
    spec = released.spec
    if isinstance(spec, ListedItems):
        wanted = {"int": (int,), "text": (str,), None: (object,)}[item_type]
        listed = {shown(item): item for item in reversed(spec.items) if isinstance(item, wanted)}
        return [listed.get(text, text) for text in texts]
    domain = getattr(spec, "domain", None)
    if domain is None:
        read, expected = _READERS[IntegerDomain] if item_type == "int" else _READERS[TextDomain]
    else:
        read, expected = _READERS[type(domain)]
    return [_converted(text, read, expected) for text in texts]


def count_outside(values: Iterable[Any], domain: Domain) -> int:
    """Return how many values lie outside a domain, which moves them to its nearest end."""
    return sum(not domain.is_inside(value) for value in values)


def describe_size(released: ReleasedSketch | TimelineRow) -> str:
    """Return in a few words what a release is over, and the shape of a flat sketch."""
    spec = released.spec
    domain = getattr(spec, "domain", None)
    if domain is not None:
        return _describe(domain)
    if isinstance(spec, ListedItems):
        return f"{spec.cells} listed items"
    return f"{spec.depth} x {spec.width} counters"


def _describe(domain: Any) -> str:
    if isinstance(domain, BytesDomain):
        return f"{domain.takes} up to {domain.max_bytes} bytes"
    if isinstance(domain, IPv4Domain):
        return "IPv4 addresses"
    if isinstance(domain, IntegerDomain):
        return f"whole numbers {domain.low} to {domain.high}"
    if isinstance(domain, FloatDomain):
        return f"numbers {domain.low:g} to {domain.high:g} in steps of {domain.resolution:g}"
    return f"times {shown(domain.start)} to {shown(domain.end)} in steps of {domain.resolution}"


def read_lines(path: str, option: str) -> list[str]:
    """Return the lines of the file that an option names, without empty ones."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line for line in file.read().split("\n") if line]
    except ValueError:  # of the encoding; its message would contain bytes of the file
        raise UsageError(f"{option} must be a file of text in UTF-8, with one item a line") from None
    if not lines:
        raise UsageError(f"{option} must be a file with one item a line, and it is empty")
    return lines


def read_time(text: str) -> datetime.datetime:
    """Return a time in ISO 8601, or in seconds since 1970; raise `ValueError` for other text.

    >>> read_time("2024-01-01T08:30Z") == read_time("1704097800")
    True
    """
    try:
        seconds = float(text)
    except ValueError:
        return datetime.datetime.fromisoformat(f"{text[:-1]}+00:00" if text[-1:] in ("Z", "z") else text)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return epoch + datetime.timedelta(seconds=seconds)


def _between(number: Any, low: Any, high: Any) -> Any:
    if not low <= number <= high:  # NaN neither
        raise ValueError
    return number


def read_share(text: str) -> float:
    """Return an argument from 0 to 1."""
    return _read_argument(text, float, 0.0, 1.0, "a number from 0 to 1, such as 0.95 for 95 %")


def read_open_share(text: str) -> float:
    """Return an argument above 0 and below 1."""
    low, high = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)
    return _read_argument(text, float, low, high, "a number above 0 and below 1")


def read_confidence(text: str) -> float:
    """Return an argument that is a confidence; nearer to 1, (1 + confidence) / 2 is 1 among floats."""
    return _read_argument(text, float, 1e-12, 1 - 1e-12, "a confidence such as 0.95, at most 0.999999999999")


def read_whole(low: int, high: int) -> Callable[[str], int]:
    """Return a function that reads an argument that is a whole number of a range."""
    return lambda text: _read_argument(text, int, low, high, f"a whole number from {low} to {high}")


def _read_argument(text: str, kind: Callable[[str], Any], low: Any, high: Any, expected: str) -> Any:
    try:
        return _between(kind(text), low, high)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {expected}") from None


def _read_float(text: str) -> float:
    return _between(float(text), -math.inf, math.inf)


def _read_bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:]) if text[:2] == "0x" else text.encode("utf-8", "surrogateescape")


def _converted(text: str, read: Callable[[str], Any], expected: str) -> Any:
    try:
        return read(text)
    except (ValueError, OverflowError):
        raise UsageError(f"this release is about {expected}: give such values") from None


_READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    IntegerDomain: (int, "whole numbers"),
    FloatDomain: (_read_float, "numbers"),
    IPv4Domain: (lambda text: str(ipaddress.IPv4Address(int(text) if text.isdecimal() else text)), "IPv4 addresses"),
    TimestampDomain: (read_time, "times, in ISO 8601 or in seconds since 1970"),
    TextDomain: (str, "text"),
    BytesDomain: (_read_bytes, "bytes, in hex after 0x or as text"),
}
