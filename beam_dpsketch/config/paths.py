"""Settings paths, and short forms of values, for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ConfigError

_MAX_SHOWN = 40


def join(path: str, name: str) -> str:
    """Append a setting's name to its block's path."""
    name = name if name.isprintable() and len(name) <= _MAX_SHOWN else ascii(name[:_MAX_SHOWN])
    return f"{path}.{name}" if path else name


def refusal(path: str, message: str, code: str = "E805") -> ConfigError:
    """Build the error about the setting at a path. An empty path stands for all settings."""
    return ConfigError(path or "settings", message, code)


def unknown(path: str, name: str, known: Iterable[str], hint: str = "") -> ConfigError:
    """Build the error about an unknown name, with the nearest known name if there is no other hint."""
    hint = hint or hint_of(name, known) or f". Known settings: {', '.join(known)}"
    return refusal(join(path, name), f"unknown setting{hint}", "E801")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the new name of a renamed setting, or the most similar known name, if any is similar."""
    return _validate.nearest_setting(name[:_MAX_SHOWN], known)


def hint_of(name: str, known: Iterable[str], others: Mapping[str, str] | None = None) -> str:
    """Suggest a known name: a synonym from `others`, its new name, or the nearest name. Empty if there is none."""
    return _validate.did_you_mean((others or {}).get(name.lower()) or nearest(name, known))


def shown(value: Any) -> str:
    """Format short text and numbers as written, and other values by their type."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return repr(value) if len(value) <= _MAX_SHOWN else "a long text"
    if isinstance(value, (int, float)):
        return repr(value)
    return {dict: "a block", list: "a list", bytes: "bytes", type(None): "nothing"}.get(
        type(value), type(value).__name__
    )
