"""Messages about value objects in the words of settings: `norm: {max_norm: 20}` in place of `NormBound(20)`."""

from __future__ import annotations

import re
from typing import NamedTuple


class _Spelling(NamedTuple):
    """A value object as a setting: the name of its block, and those of the arguments without a name."""

    block: str
    arguments: tuple[str, ...] = ()
    inside: str = "{}"


_SPELLINGS = {
    "NormBound": _Spelling("norm", ("max_norm",)),
    "AutoNorm": _Spelling("norm", inside="auto"),
    "RecordBounds": _Spelling("records", ("max_contributions_per_partition",)),
    "Record": _Spelling("unit", inside="record"),
    "PublicKeys": _Spelling("keys.public"),
    "KeySelection": _Spelling("keys.select", ("delta", "field")),
    "AssumePublicKeys": _Spelling("keys.assume_public", inside="true"),
    "TimeRange": _Spelling("windows", ("start", "end")),
    "Groups": _Spelling("method.groups", ("delta",)),
}
_NAMES = "|".join(_SPELLINGS)
_CALL = re.compile(rf"(?:(?:method|windows|keys)=)?\b({_NAMES})\(([^()]*)\)|\b({_NAMES})\b")


def in_settings(message: str) -> str:
    """Return a message with settings in place of value objects.

    >>> in_settings("must be given, as in NormBound(20, max_keys=100)")
    'must be given, as in norm: {max_norm: 20, max_keys: 100}'
    >>> in_settings("the delta of KeySelection; declare windows=TimeRange(...)")
    'the delta of keys.select; declare windows'
    """
    return _CALL.sub(_setting, message)


def _setting(found: re.Match[str]) -> str:
    name, given, alone = found.groups()
    spelling = _SPELLINGS[name or alone]
    if not given or "..." in given:
        return f"{spelling.block}: {spelling.inside}" if spelling.inside != "{}" else spelling.block
    places = iter(spelling.arguments)
    parts = (each.strip().partition("=") for each in given.split(","))
    block = [f"{word}: {value}" if sign else f"{next(places, 'value')}: {word}" for word, sign, value in parts]
    shown = ", ".join(block)
    return f"record: {{{shown}}}" if name == "Record" else f"{spelling.block}: {{{shown}}}"
