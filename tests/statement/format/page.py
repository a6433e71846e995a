"""Makes the tables of `docs/format.md` from the types that the package reads and writes.

python -m tests.statement.format.page
"""

from __future__ import annotations

import datetime
import enum
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from beam_dpsketch.answers import release_file
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement.codec import fields_of, has_fields, options_of, without_none

PAGE = Path(__file__).parents[3] / "docs" / "format.md"
_PLAIN = {
    bool: "bool",
    int: "whole",
    float: "number",
    str: "text",
    bytes: "bytes",
    Fraction: "fraction",
    int | Fraction: "fraction",
    datetime.datetime: "time",
    datetime.timedelta: "duration",
}


def tables() -> dict[str, str]:
    """All tables of the page by name."""
    return {
        "constants": _rows(
            ("header of a file", "10 bytes", _hex(release_file.HEADER)),
            ("start of a release", "6 bytes", _hex(release_format.RELEASE_START)),
            ("digest", f"{release_format.DIGEST_BYTES} bytes", ""),
            ("kinds of records", "1 byte", _numbered(release_format.RECORD_KINDS)),
        ),
        **{kind.__name__: _table(fields_of(kind)) for kind in dict.fromkeys(_classes(release_format.Content))},
    }


def made_anew(page: str) -> str:
    """The page with its tables as they should be."""
    known = tables()
    return re.sub(
        r"(<!-- table: (.+?) -->\n).*?(?=<!-- end -->)", lambda found: found[1] + known[found[2]], page, flags=re.DOTALL
    )


def _classes(hint: Any) -> Iterator[type]:
    """All classes whose fields are stored in this type, and in their fields."""
    if inner := without_none(hint):
        yield from _classes(inner)
    elif typing.get_origin(hint) is tuple:
        yield from _classes(typing.get_args(hint)[0])
    for each in options_of(hint) or ([hint] if has_fields(hint) else []):
        yield each
        for field in fields_of(each).values():
            yield from _classes(field)


def _table(fields: Mapping[str, Any]) -> str:
    return _rows(*((f"`{name}`", *_described(hint)) for name, hint in fields.items())) if fields else "No fields.\n"


def _rows(*rows: tuple[str, str, str]) -> str:
    return "| field | type | values |\n|---|---|---|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _described(hint: Any) -> tuple[str, str]:
    """The type of a field, and its values."""
    if hint in _PLAIN:
        return _PLAIN[hint], ""
    if inner := without_none(hint):
        kind, values = _described(inner)
        return f"optional {kind}", values
    if typing.get_origin(hint) is tuple:
        kind, values = _described(typing.get_args(hint)[0])
        return f"list of {kind}", values
    if options := options_of(hint):
        return "one of", _numbered(each.__name__ for each in options)
    if issubclass(hint, enum.Flag):
        return "flags", ", ".join(f"{flag.value} `{flag.name}`" for flag in hint if flag.value)
    if issubclass(hint, enum.Enum):
        return "choice", _numbered(each.name for each in hint)
    return f"`{hint.__name__}`", ""


def _numbered(names: Iterable[str]) -> str:
    return ", ".join(f"{place} `{name}`" for place, name in enumerate(names))


def _hex(data: bytes) -> str:
    return f"`{data.hex(' ')}`"


if __name__ == "__main__":
    PAGE.write_text(made_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
