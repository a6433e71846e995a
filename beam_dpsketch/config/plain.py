"""Plain values of settings, from JSON, YAML, dicts or rows.

Duplicate names, non-finite numbers and more than MAX_VALUES values are refused.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import numbers
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NoReturn

from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.errors import ConfigError
from beam_dpsketch.exact.sketches.listed_items import MAX_ITEMS

MAX_DEPTH_OF_BLOCKS = 16
MAX_VALUES = MAX_ITEMS + (1 << 16)
_MAX_NUMBER = 1 << 64
_OF_BEAM_YAML = ("__line__", "__uuid__")
_TWO_MEANINGS = re.compile(r"(.*\.)?summary_counts(\.\w+)?")
_BARE_NAME = re.compile(r"\s*\w+\s*")
_TOO_DEEP = "blocks are nested too deeply"


def plain(settings: Any, path: str) -> Any:
    """Convert settings to dicts, lists and scalars, and drop `None`.

    Text is parsed as JSON or YAML. Objects with `_asdict()` or `as_dict()`, such as named tuples and rows, are blocks.
    """
    if isinstance(settings, str):
        settings = parse(settings, path)
    return _Walk(MAX_VALUES).visit(settings, path, 0)


@dataclasses.dataclass
class _Walk:
    """A traversal that stops after MAX_VALUES, because a few YAML anchors can expand to billions of values."""

    left: int

    def visit(self, value: Any, path: str, depth: int) -> Any:
        self._count(1, path)
        if depth > MAX_DEPTH_OF_BLOCKS:
            raise refusal(path, f"blocks are nested more than {MAX_DEPTH_OF_BLOCKS} deep")
        if isinstance(value, (str, bytes, bool)) or value is None:
            return value
        if isinstance(value, numbers.Real):
            return _plain_number(value, path)
        if isinstance(value, (datetime.date, datetime.time)):
            raise refusal(path, f'must be in quotes: "{value.isoformat()}"')
        as_dict = getattr(value, "_asdict", None) or getattr(value, "as_dict", None)
        is_row = False
        if not isinstance(value, Mapping) and callable(as_dict):
            value, is_row = as_dict(), True
        if isinstance(value, Mapping):
            return self._block(value, path, depth, may_be_null=is_row)
        if isinstance(value, (list, tuple)):
            return self._list(value, path, depth)
        raise refusal(path, f"expected text, a number, a list or a block of settings, got {type(value).__name__}")

    def _list(self, value: Sequence[Any], path: str, depth: int) -> list[Any]:
        if all(type(each) is str or (type(each) is int and abs(each) <= _MAX_NUMBER) for each in value):
            # fast path for lists of a million items
            self._count(len(value), path)
            return list(value)
        return [self.visit(each, f"{path}[{place}]", depth + 1) for place, each in enumerate(value)]

    def _count(self, values: int, path: str) -> None:
        self.left -= values
        if self.left < 0:
            raise refusal(path, f"the settings have more than {MAX_VALUES} values. Each use of a YAML anchor counts")

    def _block(self, value: Mapping[Any, Any], path: str, depth: int, *, may_be_null: bool) -> dict[str, Any]:
        block = {}
        for name, each in value.items():
            if not isinstance(name, str):
                raise refusal(path, f"names of settings must be text, got {type(name).__name__}")
            if each is None and not may_be_null and _TWO_MEANINGS.fullmatch(join(path, name)):
                words = (
                    "must not be null, because Python and settings read null differently. Write none, or remove the "
                    "setting to use the default"
                )
                raise refusal(join(path, name), words)
            if each is not None and name not in _OF_BEAM_YAML:
                block[name] = self.visit(each, join(path, name), depth + 1)
        return block


def _plain_number(value: numbers.Real, path: str) -> int | float | Fraction:
    """Convert numpy numbers to Python numbers."""
    if isinstance(value, numbers.Integral) and abs(int(value)) > _MAX_NUMBER:
        raise refusal(path, "must be between -2**64 and 2**64")
    if isinstance(value, numbers.Integral):
        return int(value)
    return value if isinstance(value, Fraction) else float(value)


def parse(text: str, path: str) -> Any:
    """Parse JSON or YAML text. A single word stands for itself.

    Args:
      text: JSON, or YAML if PyYAML is installed.
      path: its path, for errors.
    """
    if _BARE_NAME.fullmatch(text):
        return text.strip()
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _parse_json(text, path)
        except json.JSONDecodeError:
            pass  # may be YAML in flow style
    return _parse_yaml(text, path)


def _parse_json(text: str, path: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        block = dict(found)
        if len(block) < len(found):
            names = [name for name, _ in found]
            raise refusal(path, f"{join('', max(names, key=names.count))} is given twice. Remove the duplicate", "E806")
        return block

    def constant(name: str) -> NoReturn:
        raise refusal(path, f"{name} is not supported. Use a finite number", "E806")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (ConfigError, json.JSONDecodeError):
        raise
    except RecursionError:
        raise refusal(path, _TOO_DEEP, "E806") from None
    except ValueError:  # Python reads at most 4,300 digits
        raise refusal(path, "a number has too many digits", "E806") from None


def _parse_yaml(text: str, path: str) -> Any:
    try:
        import yaml

        from beam_dpsketch.config.strict_yaml import StrictLoader
    except ImportError:
        raise refusal(path, "expected JSON. To read YAML, install PyYAML", "E806") from None
    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "not YAML"
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise refusal(path, f"{place}{problem}", "E806") from None
    except RecursionError:
        raise refusal(path, _TOO_DEEP, "E806") from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):  # raised by PyYAML's constructors
        raise refusal(path, "a value does not match its YAML type. Put the value in quotes", "E806") from None
