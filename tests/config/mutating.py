"""Mutated settings: parts replaced, removed, renamed or added, and characters of their text changed."""

from __future__ import annotations

import copy
import datetime
import math
import random
from fractions import Fraction
from typing import Any

from tests.config.examples import BLOCKS

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e-300, 5e-324, 1e300, math.nan, math.inf, -math.inf, 1 << 31, 1 << 63,
    (1 << 64) - 1, 1 << 64, 10**400, "", " ", "a", "none", "auto", "record", "1e-6", "1/3", "1/0", "0/1", "-1/2",
    "1" * 5000, "\ud800", "\0", "{", "[]", "{}", '{"a": 1}', "a: b", "&a [*a]", "1h", "0s", "1ms", "99999999w",
    "2024-01-01", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", b"", b"\xff", [], {}, [[]], [None],
    {"a": 1}, {"hex": "0"}, {"hex": 0}, {1: 2}, {None: 1}, {"": 1}, (), set(), object(), 1j, datetime.date(2024, 1, 1),
    datetime.datetime(2024, 1, 1), datetime.timedelta(1), Fraction(1, 3), Fraction(10**400, 3), range(3), iter([]),
]  # fmt: skip
NAMES = {name for read, settings in BLOCKS if isinstance(settings, dict) for name in settings} | {"auto", "", "x"}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all parts of settings."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for name, part in inner for each in places(part, (*path, name)))]


def mutate(settings: Any, source: random.Random) -> Any:
    """Replace, remove, rename or add a part of settings, or change a character of their text."""
    settings = copy.deepcopy(settings)
    *above, last = source.choice(places(settings)[1:])
    block = settings
    for name in above:
        block = block[name]
    match source.randrange(6):
        case 0 | 1:
            block[last] = source.choice(ODD)
        case 2:
            del block[last]
        case 3 if isinstance(block, dict):
            block[source.choice(sorted(NAMES))] = block.pop(last)
        case 4 if isinstance(block, dict):
            block[source.choice(sorted(NAMES))] = copy.deepcopy(source.choice(BLOCKS)[1])
        case _:
            block[last] = copy.deepcopy(source.choice(BLOCKS)[1])
    return settings


def mutate_text(text: str, source: random.Random) -> str:
    place = source.randrange(len(text))
    odd = source.choice("{}[]:,&*!|>'\"%@`#-?\n\t \0\ud800e019.") * source.choice((1, 1, 1, 40))
    return text[:place] + odd + text[place + source.randrange(3) :]
