"""Released metrics: several sketches over the same records, each by its name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import ClassVar

import numpy as np

from beam_dpsketch.answers.counts import ReleasedCount
from beam_dpsketch.answers.released import RELEASED_KINDS, Released
from beam_dpsketch.exact.sketches.metrics import JoinedSketches
from beam_dpsketch.privacy.summary_counts import UNITS
from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.tabular import Note


class ReleasedMetrics(Released, Mapping[str, Released]):
    """Several metrics in one release, by name: ``released["delay"].mean()``. `PrivateMetrics` makes it.

    Each metric has the noise for its share of rho. Rho is spent once for all metrics, and each metric has the statement
    of the whole release, including its clipping. Only the whole release answers summary counts, because they cover the
    records that count in any metric. `combine` rejects two metrics, because they share a release id.
    """

    name = kind = "metrics"
    raw_type: ClassVar[type[JoinedSketches]] = JoinedSketches

    @functools.cached_property
    def shares(self) -> dict[str, Fraction]:
        """Share of rho per metric, after the share for summary counts."""
        return {part.name: part.share for part in self._spec.parts}

    @functools.cached_property
    def parts(self) -> dict[str, Released]:
        """Releases by the name of their metric."""
        found: dict[str, Released] = {}
        cell = table = 0
        for part in self._spec.parts:
            if part.spec.counts_privacy_ids:
                if (note := self._privacy.note(UNITS)) is not None:
                    found[part.name] = ReleasedCount.of_note(part.spec, note, self._privacy)
                continue
            counters = self._counters[cell : cell + part.spec.cells]
            noise = self._privacy.sigma_squared_per_level[table : table + part.tables]
            uncounted = self._privacy.uncounted & ~self._spec.uncounted | part.spec.uncounted
            statement = dataclasses.replace(
                self._privacy, sigma_squared_per_level=noise, of_metric=True, uncounted=uncounted
            )
            kind = RELEASED_KINDS[part.kind.name]
            found[part.name] = kind(part.spec, np.array(counters), statement, self._scale_bits)
            cell, table = cell + part.spec.cells, table + part.tables
        return found

    def __getitem__(self, name: str) -> Released:
        return self.parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def clipping(self, confidence: float = 0.95) -> Clipping:
        """Estimate the share of all records that the contribution bounds removed, as in `Released.clipping`."""
        return dataclasses.replace(self.privacy, of_metric=True).clipping(confidence)

    __eq__, __hash__ = Released.__eq__, Released.__hash__

    @property
    def _size(self) -> str:
        return ", ".join(f"{name} ({share} of rho): {self[name]._size}" for name, share in self.shares.items())

    @property
    def _exceeds_noise(self) -> bool:
        return any(each._exceeds_noise for each in self.values())

    def _own_notes(self) -> tuple[Note, ...]:
        return tuple(
            note._replace(message=f"{name}: {note.message}")
            for name, each in self.items()
            for note in each._own_notes()
        )
