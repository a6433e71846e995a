"""Which keys and windows are released, by the caller's decision: those taken from the data show who is in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeAlias

from beam_dpsketch.domains.times import to_micros
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.privacy.contributions import Bounds, RecordBounds
from beam_dpsketch.records.selectors import Selector, check_selector


@dataclasses.dataclass(frozen=True, init=False)
class PublicKeys:
    """Release each listed key, with data or without; drop records of others.

    Args:
      keys: text, bytes, integers or tuples of these; known without the data.
      field: where an element holds its key: a field name or a callable; `None` if elements are (key, value) pairs.
    """

    keys: tuple[Any, ...]
    field: Selector

    def __init__(self, keys: Iterable[Any], field: Selector = None) -> None:
        check_selector(field=field)
        if isinstance(keys, (str, bytes)):
            raise TypeError("keys must be a list of keys, got one text")
        encoded = dict.fromkeys(map(encode, keys))
        if not encoded:
            raise ValueError("keys must not be empty")
        object.__setattr__(self, "keys", tuple(map(decode, encoded)))
        object.__setattr__(self, "field", field)
        if not all(map(is_unicode, self.keys)):
            raise ValueError("keys must be text that UTF-8 can hold; one has half of a surrogate pair")


@dataclasses.dataclass(frozen=True)
class AssumePublicKeys:
    """Release each key that has data: the caller's word that it is public which ones do.

    Args:
      field: where an element holds its key: a field name or a callable; `None` if elements are (key, value) pairs.
    """

    field: Selector = None

    def __post_init__(self) -> None:
        check_selector(field=self.field)

    @property
    def keys(self) -> None:
        """There is no list."""


Keys: TypeAlias = "PublicKeys | AssumePublicKeys"


def keyed(keys: Keys) -> Keys:
    """Return the decision; refuse what decides nothing, such as `None`."""
    if not isinstance(keys, (PublicKeys, AssumePublicKeys)):
        raise TypeError(
            "keys must be PublicKeys([...]) or AssumePublicKeys(): output keys taken from the data show who is in it; "
            f"got {type(keys).__name__}"
        )
    return keys


def check_partitions(keys: Keys, bounds: Bounds) -> None:
    """Refuse more partitions than there are keys, for which noise would be added in vain."""
    if keys.keys is not None and isinstance(bounds, RecordBounds) and bounds.max_partitions > len(keys.keys):
        raise ValueError(
            f"bounds.max_partitions must be at most {len(keys.keys)}, the number of keys, got {bounds.max_partitions}: "
            "no privacy id can be in more, and noise grows with it"
        )


@dataclasses.dataclass(frozen=True)
class TimeRange:
    """Release each window from start to end, with data or without; drop records of other windows.

    It must begin and end with a window. Without it the windows with data are released, and the privacy statement says
    that it is published which ones have data.

    Args:
      start: when the first window opens: a `datetime` (without a time zone: UTC), a Beam `Timestamp`, or seconds since
        1970.
      end: when the last window closes.
    """

    start: Any
    end: Any

    def __post_init__(self) -> None:
        if not self.start_micros < self.end_micros:
            raise ValueError("end must be after start")

    @property
    def start_micros(self) -> int:
        """The start in microseconds since 1970."""
        return to_micros(start=self.start)

    @property
    def end_micros(self) -> int:
        """The end in microseconds since 1970."""
        return to_micros(end=self.end)
