"""Makes the tables of `docs/format.md` from those that the package reads and writes with.

python -m tests.statement.format.page
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beam_dpsketch.answers import release_file
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement import release_format as fields

PAGE = Path(__file__).parents[3] / "docs" / "format.md"
_NUMBERS = {"<B": "u8", "<H": "u16", "<I": "u32", "<Q": "u64", "<d": "f64"}
_PLAIN = {
    "fraction": fields.Exact,
    "time": fields.TIME,
    "duration": fields.DURATION,
    "i64": fields.I64,
    "i128": fields.I128,
}


def tables() -> dict[str, str]:
    """All tables of the page by name."""
    specs = {kind: spec.fields for kind, spec in release_format.SPECS.items() if kind != "count_min"}
    records = {f"record of a {kind}": table for kind, table in release_file.RECORDS.items() if table}
    named = {
        "start of a record": {"kind": release_file.RECORD_KIND},
        **records,
        "start of a release": release_format._START,
        **{f"spec of a {kind}": table for kind, table in specs.items()},
        "statement": release_format._STATEMENT.fields,
        "counters": release_format._COUNTERS,
    }
    inside = {found.type.__name__: found.fields for table in named.values() for found in _objects(table.values())}
    return {name: _table(table) for name, table in {**named, **inside}.items()} | {
        "constants": _rows(
            ("header of a file", f"{len(release_file.HEADER)} bytes", _hex(release_file.HEADER)),
            ("digest in a file", f"{release_file.DIGEST_BYTES} bytes", ""),
            ("digest of a release", f"{release_format._DIGEST_BYTES} bytes", ""),
            ("format_version of a release", "u16", str(release_format.FORMAT_VERSION)),
        )
    }


def made_anew(page: str) -> str:
    """The page with its tables as they should be."""
    known = tables()
    return re.sub(
        r"(<!-- table: (.+?) -->\n).*?(?=<!-- end -->)", lambda found: found[1] + known[found[2]], page, flags=re.DOTALL
    )


def _objects(parts: Any) -> Iterator[fields.Object]:
    """All objects in these fields."""
    for field in parts:
        if isinstance(field, fields.Object):
            yield field
            yield from _objects(field.fields.values())
        elif isinstance(field, fields.OneOf):
            yield from _objects(field.options)
        elif isinstance(field, (fields.Repeated, fields.Optional, fields.OrZero)):
            yield from _objects([field.field])


def _table(table: Mapping[str, fields.Field]) -> str:
    return _rows(*((f"`{name}`", *_described(field)) for name, field in table.items())) if table else "No fields.\n"


def _rows(*rows: tuple[str, str, str]) -> str:
    return "| field | type | values |\n|---|---|---|\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _described(field: Any) -> tuple[str, str]:
    """The type of a field, and its values."""
    for name, plain in _PLAIN.items():
        if field is plain:
            return name, ""
    match field:
        case fields.Number(format):
            return _NUMBERS[format], ""
        case fields.Constant(expected):
            return f"{len(expected)} bytes", _hex(expected)
        case fields.Bytes(size):
            return f"{size} bytes", ""
        case fields.Text(max_size, length):
            return f"bytes after {_NUMBERS[length.format]}", f"at most {max_size} bytes"
        case fields.Choice(options):
            return "choice", _choices(each.name if isinstance(each, enum.Enum) else each for each in options)
        case fields.Flags(flags):
            return "flags", ", ".join(f"{flag.value} `{flag.name}`" for flag in flags if flag.value)
    return _described_parts(field)


def _described_parts(field: Any) -> tuple[str, str]:
    """The type of a field that has others in it, and its values."""
    match field:
        case fields.Name(limit):
            return "text after u16", f"UTF-8, at most {limit} bytes"
        case release_format.InnerSpec:
            return "spec", "kind, as at the start of a release, and its spec"
        case fields.Repeated(inner):
            kind, values = _described(inner)
            return f"list of {kind}", values
        case fields.Optional(inner):
            kind, values = _described(inner)
            return f"optional {kind}", values
        case fields.OrZero(inner):
            kind, values = _described(inner)
            return f"optional {kind}", values or "0 if absent"
        case fields.Object(type):
            return f"`{type.__name__}`", ""
        case fields.OneOf(options):
            return "one of", _choices(option.type.__name__ for option in options)
    raise TypeError(f"the page cannot describe {field}")


def _choices(names: Any) -> str:
    return ", ".join(f"{place} `{name}`" for place, name in enumerate(names))


def _hex(data: bytes) -> str:
    return f"`{data.hex(' ')}`"


if __name__ == "__main__":
    PAGE.write_text(made_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
