"""Read settings written as JSON or YAML; refuse names that are given twice and numbers that are not finite."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.errors import ConfigError

_BARE_NAME = re.compile(r"\s*\w+\s*")
_TOO_DEEP = "blocks are nested too deeply"


def parse(text: str, path: str) -> Any:
    """Return what JSON or YAML text says; a single word is that word.

    Args:
      text: JSON, or YAML where PyYAML is installed.
      path: where the text stands, for errors.
    """
    if _BARE_NAME.fullmatch(text):
        return text.strip()
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _parse_json(text, path)
        except json.JSONDecodeError:
            pass  # YAML in flow style begins in the same way
    return _parse_yaml(text, path)


def _parse_json(text: str, path: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        block = dict(found)
        if len(block) < len(found):
            names = [name for name, _ in found]
            raise refusal(path, f"{join('', max(names, key=names.count))} is given twice; keep one of them", "E806")
        return block

    def constant(name: str) -> NoReturn:
        raise refusal(path, f"{name} is not a number that can be used; take a finite one", "E806")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (ConfigError, json.JSONDecodeError):
        raise
    except RecursionError:
        raise refusal(path, _TOO_DEEP, "E806") from None
    except ValueError:  # Python reads no more than 4,300 digits
        raise refusal(path, "a number has too many digits", "E806") from None


def _parse_yaml(text: str, path: str) -> Any:
    try:
        import yaml

        from beam_dpsketch.config.strict_yaml import StrictLoader
    except ImportError:
        raise refusal(path, "expected JSON; to read YAML, install PyYAML", "E806") from None
    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "not YAML"
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise refusal(path, f"{place}{problem}", "E806") from None
    except RecursionError:
        raise refusal(path, _TOO_DEEP, "E806") from None
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError):  # from PyYAML's own constructors
        raise refusal(path, "a value is not what its form in YAML says; put it in quotes", "E806") from None
