"""Arguments and values out of text, in the grammar of settings; a value of a release by the type of its domain."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from beam_dpsketch.answers.released import Released
from beam_dpsketch.config import ConfigError
from beam_dpsketch.config.asking import value_reader
from beam_dpsketch.config.scalars import read_number
from beam_dpsketch.config.scalars import read_whole as read_whole_number
from beam_dpsketch.domains import Domain
from beam_dpsketch.domains.timestamps import BLANKS
from beam_dpsketch.errors import UsageError
from beam_dpsketch.statement.showing import in_words

ItemType: TypeAlias = Literal["int", "text"]
ITEM_TYPES: tuple[ItemType, ...] = ("text", "int")


def read_values(texts: Iterable[str], released: Released, item_type: ItemType | None) -> tuple[Any, ...]:
    """Parse texts as values of a release.

    Args:
      texts: as they were typed, or stand in a file. Bytes are given in hex after 0x, or else as text.
      released: what will be asked. The type of its domain decides; of listed items, that of the item itself.
      item_type: what items of a flat sketch are, which does not say so itself; `None` for text. Of listed items it
        picks "1" or 1 where both are listed.

    Raises `UsageError` where a text is not of this type; the message does not contain it.
    """
    spec = released.spec
    if spec.is_listed:
        wanted = {"int": (int,), "text": (str,), None: (object,)}[item_type]
        listed = {in_words(item): item for item in reversed(spec.items) if isinstance(item, wanted)}
        return tuple(listed.get(text, text) for text in texts)
    domain = spec.domain
    try:
        if domain is not None:
            read = _READERS.get(domain.plain_type) or value_reader(domain)
            return tuple(read(text, "") for text in texts)
        return read_items(texts, item_type)
    except ConfigError:
        expected = "whole numbers" if domain is None else domain.parsed
        raise UsageError(f"this release is about {expected}: give such values") from None


def read_items(texts: Iterable[str], item_type: ItemType | None) -> tuple[Any, ...]:
    """Parse texts as items of a flat sketch, which does not say what they are; raise `ConfigError` for other text."""
    return tuple(read_whole_number(text, "") for text in texts) if item_type == "int" else tuple(texts)


def count_outside(values: Iterable[Any], domain: Domain) -> int:
    """Return how many values lie outside a domain, which moves them to its nearest end."""
    return sum(not domain.is_inside(value) for value in values)


def read_lines(path: str, option: str) -> list[str]:
    """Return the lines of the file that an option names, without blanks around them and without empty ones."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [*filter(None, (line.strip(BLANKS) for line in file.read().split("\n")))]
    except OSError as error:  # what was given may be the items themselves, so it is not shown
        words = f"must be a file with one item a line, and what was given is none: {error.strerror}"
        raise UsageError(f"{option} {words}") from None
    except ValueError:  # of the encoding; its message would contain bytes of the file
        raise UsageError(f"{option} must be a file of text in UTF-8, with one item a line") from None
    if not lines:
        raise UsageError(f"{option} must be a file with one item a line, and it is empty")
    return lines


def read_share(text: str) -> float:
    """Return an argument from 0 to 1."""
    return _read_argument(text, _read_real, 0.0, 1.0, "a number from 0 to 1, such as 0.95 for 95 %")


def read_real(text: str) -> float:
    """Return an argument that is a finite number."""
    return _read_argument(text, _read_real, -math.inf, math.inf, "a number")


def read_open_share(text: str) -> float:
    """Return an argument above 0 and below 1."""
    low, high = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)
    return _read_argument(text, _read_real, low, high, "a number above 0 and below 1")


def read_confidence(text: str) -> float:
    """Return an argument that is a confidence; nearer to 1, (1 + confidence) / 2 is 1 among floats."""
    return _read_argument(text, _read_real, 1e-12, 1 - 1e-12, "a confidence such as 0.95, at most 0.999999999999")


def read_whole(low: int, high: int, expected: str | None = None) -> Callable[[str], int]:
    """Return a function that reads an argument that is a whole number of a range."""
    words = expected or f"a whole number from {low} to {high}"
    return lambda text: _read_argument(text, read_whole_number, low, high, words)


def _read_argument(text: str, read: Callable[[str, str], Any], low: Any, high: Any, expected: str) -> Any:
    try:
        if low <= (number := read(text, "")) <= high:
            return number
    except ConfigError:
        pass
    raise argparse.ArgumentTypeError(f"expected {expected}")


def _read_real(text: str, path: str) -> float:
    return float(read_number(text, path))


def _read_bytes(text: str, path: str) -> bytes:
    try:
        return bytes.fromhex(text[2:]) if text[:2] == "0x" else text.encode("utf-8", "surrogateescape")
    except ValueError:
        raise ConfigError(path, "expected bytes in hexadecimal digits after 0x") from None


_READERS: dict[type, Callable[[str, str], Any]] = {int: read_whole_number, bytes: _read_bytes}
