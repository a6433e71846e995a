"""What a release of a table needs to know before its rows are read; mistakes of the caller are errors here."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple

from beam_dpsketch.config.paths import refusal
from beam_dpsketch.config.release import ReleaseConfig
from beam_dpsketch.frames.tables import TableParts
from beam_dpsketch.planning.planner import check_declared
from beam_dpsketch.privacy.terms import DeclaredTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.grouping import GroupedDeclaration
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import Selectors

PATHS = {"item": "item", "weight": "weight", "privacy_id": "unit.privacy_id", "key": "keys.field"}
"""Where the settings name the column of an argument."""


class FramePlan(NamedTuple):
    """A release of a table: all that is declared of it, and the terms that follow."""

    declaration: Declaration
    terms: DeclaredTerms

    @classmethod
    def of(cls, config: ReleaseConfig) -> FramePlan:
        """Return the plan; refuse settings that cannot work, and windows."""
        _refuse_windows(config)
        declaration = config.declaration
        declaration.check_max_partitions()
        terms = dataclasses.replace(declaration.terms(), disclosed=declaration.discloses(windows_are_public=True))
        check_declared(declaration, terms)
        return cls(declaration, terms)

    @property
    def sketch_input(self) -> SketchInput:
        """What is summed."""
        given, terms = self.declaration.sketch_input, self.terms
        return dataclasses.replace(given, counters=terms.counters, selection=terms.key_selection)

    @property
    def reader(self) -> RecordReader:
        """What reads the records."""
        declared = self.declaration
        by_item = isinstance(declared, GroupedDeclaration)
        return RecordReader(
            declared.selectors, per_key=declared.is_keyed, public_keys=declared.public_keys, by_item=by_item
        )

    @property
    def is_keyed(self) -> bool:
        """Whether there is a release for each key."""
        return self.declaration.is_keyed

    @property
    def columns(self) -> dict[str, str]:
        """The column of each argument that is given."""
        return columns_of(self.declaration.selectors)

    def paying(self) -> FramePlan:
        """Return the same plan without a budget; raise if a part of a budget has paid for another release."""
        return self._replace(terms=self.terms.paying_for(object()))

    def check_columns(self, table: TableParts) -> None:
        """Refuse columns that are missing, or of a type that cannot be used."""
        for argument, name in self.columns.items():
            if name not in table.names:
                meant = nearest(name, table.names, self.columns)
                raise refusal(PATHS[argument], f"{_shown(name)} is not a column of the table{meant}")
        self.reader.read_batch(table.empty, self.sketch_input)


def columns_of(selectors: Selectors) -> dict[str, str]:
    """Return the column of each argument; refuse what is not a name."""
    columns = {argument: field for argument, field in selectors.given.items() if isinstance(field, str)}
    for argument in selectors.given.keys() - columns.keys():
        raise refusal(PATHS[argument], "must be the name of a column of the table, got a callable")
    return columns


def _refuse_windows(config: ReleaseConfig) -> None:
    given: dict[str, Any] = {"windows": config.windows, "horizon": config.horizon}
    given |= {f"unit.{name}": getattr(config.unit, name, None) for name in ("max_windows", "period")}
    for path, value in given.items():
        if value is not None:
            raise refusal(
                path,
                "a table is released as a whole, because its rows have no event times; leave this out, or put the "
                "records into windows in a pipeline, before a transform of beam_dpsketch.transforms",
            )


def _shown(name: str) -> str:
    return repr(name) if len(name) <= 40 else "a long name"


def nearest(name: str, names: Iterable[Any], columns: dict[str, str]) -> str:
    """Return a hint to a column of nearly this name, if the table has another wanted one.

    Else the names may be values: those of the first record of a file without a header.
    """
    known = [each for each in names if isinstance(each, str)]
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near and not {*columns.values()}.isdisjoint(known) else ""
