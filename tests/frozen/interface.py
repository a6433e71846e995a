"""The public interface as lines of text, found in the package itself."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import beam_dpsketch
from beam_dpsketch.cli.main import make_parser
from tests.helpers.pages import PAGES, ROOT

FOLDER = Path(__file__).parent
MODULES = ("", "config", "explore", "plots", "research", "rows", "transforms")
"""Modules whose `__all__` is public."""

CODE = " ".join(re.findall(r"`+[^`]+`+", " ".join(PAGES.values())))
USED = {*re.findall(r"(?<=\.)[a-z]\w*|[a-z]\w*(?=\()", CODE)}
"""Names that code on a page reads from an object or calls."""


def names() -> Iterator[str]:
    """Public names, and the members and signatures of each."""
    for path, named in public_objects():
        if inspect.isclass(named):
            yield f"{path}{signature(named)}"
            yield from (f"{path}.{member}" for member in members(named))
        elif callable(named):
            yield f"{path}{signature(named)}"
        else:
            yield f"{path}: {type(named).__name__}"


def public_objects() -> Iterator[tuple[str, Any]]:
    for name in MODULES:
        module = importlib.import_module(f"beam_dpsketch.{name}".rstrip("."))
        yield from ((f"{module.__name__}.{each}", getattr(module, each)) for each in sorted(module.__all__))
    for path in sorted({*re.findall(r"`(answers(?:\.\w+)+)`", PAGES["reference"])}):
        module, name = path.rsplit(".", 1)
        yield f"beam_dpsketch.{path}", getattr(importlib.import_module(f"beam_dpsketch.{module}"), name)


def members(owner: type) -> Iterator[str]:
    """Attributes of a class that code on a page uses. They are public, others may change."""
    owned = {
        name: value
        for base in reversed(owner.__mro__)
        if base.__module__.startswith(beam_dpsketch.__name__)
        for name, value in {**dict.fromkeys(inspect.get_annotations(base)), **vars(base)}.items()
    }
    for name in sorted(each for each in owned if not each.startswith("_") and each in USED):
        member = inspect.unwrap(getattr(owned[name], "__func__", owned[name]))
        yield f"{name}{signature(member)}" if inspect.isfunction(member) else name


def signature(called: Any) -> str:
    """Parameters with their defaults; types are left to mypy."""
    try:
        found = inspect.signature(called)
    except ValueError:
        return "(...)"
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    return str(inspect.Signature(plain))


def options() -> Iterator[str]:
    """Commands with their arguments, choices and defaults."""
    yield from _options("dpsketch", make_parser())


def _options(command: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from _options(f"{command} {name}", child)
        elif not isinstance(action, argparse._HelpAction):
            name = "/".join(action.option_strings) or action.metavar or action.dest
            choices = f" {{{','.join(map(str, action.choices))}}}" if action.choices else ""
            required = " required" if action.required else ""
            yield f"{command} {name}{choices} nargs={action.nargs} default={action.default!r}{required}"


def settings() -> Iterator[str]:
    """Paths of all settings of the row transforms, from their JSON schema."""
    schema = json.loads((ROOT / "docs" / "yaml_schema.json").read_text(encoding="utf-8"))
    yield from sorted({*_paths(schema, "")})


def _paths(schema: Any, path: str) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
                for key, child in value.items():
                    if key.startswith("__"):
                        continue
                    yield f"{path}.{key}".lstrip(".")
                    yield from _paths(child, f"{path}.{key}")
            else:
                yield from _paths(value, path)
    elif isinstance(schema, list):
        for each in schema:
            yield from _paths(each, path)


def codes() -> Iterator[str]:
    """Error codes with their arguments, and the first sentence of each explanation."""
    rows = re.findall(r"^\| (E\d{3}) \| ([^|]*) \| ([^|]+) \|$", PAGES["errors"], re.MULTILINE)
    yield from (f"{code} {argument}: {' '.join(why.split())}" for code, argument, why in rows)


FILES: dict[str, Callable[[], Iterator[str]]] = {
    "names.txt": names,
    "options.txt": options,
    "settings.txt": settings,
    "codes.txt": codes,
}
