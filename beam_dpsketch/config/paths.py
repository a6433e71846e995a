"""Say in a message where a setting is, and show what was written there in few characters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ConfigError

_MAX_SHOWN = 40


def join(path: str, name: str) -> str:
    """Return the path of a setting in the block at this path."""
    name = name if name.isprintable() and len(name) <= _MAX_SHOWN else ascii(name[:_MAX_SHOWN])
    return f"{path}.{name}" if path else name


def refusal(path: str, message: str, code: str = "E805") -> ConfigError:
    """Return the error about the setting at this path; an empty path is all of the settings."""
    return ConfigError(path or "settings", message, code)


def unknown(path: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error about a name that is not one of the known ones, with the nearest of them."""
    hint = hint_of(name, known) or f"; known here: {', '.join(known)}"
    return refusal(join(path, name), f"unknown setting{hint}", "E801")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like this one, if one is."""
    return _validate.nearest(name[:_MAX_SHOWN], known)


def hint_of(name: str, known: Iterable[str], others: Mapping[str, str] | None = None) -> str:
    """Ask whether a known name was meant: by what else people call it, or as the nearest one; else return nothing."""
    return _validate.did_you_mean((others or {}).get(name.lower()) or nearest(name, known))


def shown(value: Any) -> str:
    """Return a short text or a number as it was written, and of anything else what it is."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return repr(value) if len(value) <= _MAX_SHOWN else "a long text"
    if isinstance(value, (int, float)):
        return repr(value)
    return {dict: "a block", list: "a list", bytes: "bytes", type(None): "nothing"}.get(
        type(value), type(value).__name__
    )
