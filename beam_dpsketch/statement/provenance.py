"""Release provenance: its columns, data set, program and date.

Guarantee: metadata, which is attached after the noise is drawn. It contains names and settings, never a value from a
record. Keyed messages, `ReleaseSpec.identify`, release ids and comparisons of releases do not use it.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Sequence
from typing import Any, Self

from beam_dpsketch import checks as _validate
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.reading.selectors import column_of
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.showing import printable
from beam_dpsketch.version import __version__

_SHOWN = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Provenance:
    """Metadata for reviewers. Each text has at most 500 printable characters.

    Attributes:
      privacy_id: its column. Empty if single records are protected.
      items: the counted columns, one for each metric. Empty if only records or privacy ids are counted.
      weight: its column, or empty.
      keys: the key columns.
      data_set: description in free words.
      version: the package version.
      settings: digest for all settings that determine the noise, in hexadecimal digits, as in a ledger entry.
      date: day when the noise was drawn, in UTC, such as "2026-11-30". Empty unless requested.
    """

    privacy_id: str = ""
    items: tuple[str, ...] = ()
    weight: str = ""
    keys: tuple[str, ...] = ()
    data_set: str = ""
    version: str = ""
    settings: str = ""
    date: str = ""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            for text in value if isinstance(value, tuple) else (value,):
                _validate.short_text(**{name: text})
        if self.date and datetime.date.fromisoformat(self.date).isoformat() != self.date:
            raise ValueError("date must be written as 2026-11-30")

    @classmethod
    def of(cls, declared: ReleaseSpec, terms: ReleaseTerms, windows: tuple[int, ...]) -> Self:
        """Describe a declared release under its terms, with the windows that `ReleaseSpec.identify` uses."""
        selectors, counted = declared.selectors, declared.count.alone(declared.item).values()
        no_item: Any = object()
        items = [count.selected(item, no_item) for count, item in counted]
        return cls(
            privacy_id="" if declared.privacy_id is None else _name(selectors.privacy_id),
            items=tuple(dict.fromkeys(_name(each) for each in items if each is not no_item)),
            weight="" if selectors.weight is None else _name(selectors.weight),
            keys=tuple(_name(each, "the key of a pair") for each in selectors.keys.values() if declared.is_keyed),
            data_set=declared.data_set,
            version=__version__,
            settings=declared.identify(terms, windows).hex(),
        )

    def dated(self) -> Self:
        """Set the date to this day."""
        return dataclasses.replace(self, date=datetime.datetime.now(datetime.UTC).date().isoformat())

    @property
    def columns(self) -> str:
        """Columns in words."""
        named = {"privacy id": self.privacy_id, "item": ", ".join(self.items)}
        named |= {"weight": self.weight, "key": ", ".join(self.keys)}
        return "; ".join(f"{what}: {columns}" for what, columns in named.items() if columns)

    @property
    def making(self) -> str:
        """Version, settings and date in words."""
        date = f", on {self.date}" if self.date else ""
        return f"by beam_dpsketch {self.version}, with settings {self.settings}{date}"


def _name(selector: Any, unnamed: str = "the element") -> str:
    """Name a column by printable text. A long name is cut, visibly."""
    column = column_of(selector)
    if not isinstance(column, str):
        return f"({unnamed})" if column is None else "(a callable)"
    text = printable(column)
    return text if len(text) <= _validate.MAX_TEXT else f"{text[: _validate.MAX_TEXT - 3]}..."


def joined(*several: Sequence[Provenance]) -> tuple[Provenance, ...]:
    """Join the provenance from several releases, without duplicates."""
    return tuple(dict.fromkeys(each for found in several for each in found))


def in_words(found: Sequence[Provenance]) -> dict[str, str]:
    """Format columns, data sets and making, by heading. Combined releases list several, up to 5."""
    return {
        "Columns": _listed(each.columns for each in found),
        "Data set": _listed(each.data_set for each in found),
        "Made": _listed(each.making for each in found),
    }


def _listed(found: Iterable[str]) -> str:
    words = [each for each in dict.fromkeys(found) if each]
    more = [f"and {len(words) - _SHOWN} more"] if len(words) > _SHOWN else []
    return " | ".join(words[:_SHOWN] + more)
