"""Releases of a run before their noise: one by one, or in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.sketches import RawSketch


class Part(NamedTuple):
    """One of several releases of a run, before its noise.

    Attributes:
      raw: the sketch of all the data of the part.
      side: the exact number of each of `ReleaseTerms.counters`, int64, in units of 2**-scale_bits; then the histogram
        of lost weight, if it is of the release.
      name: what `part_name` calls the part.
      run: 16 bytes for all releases of one run of a transform, and for no other: the caller's promise that the bounds
        hold over all of them together; of a row over time, its timeline. `None` makes the release a run of its own.
    """

    raw: RawSketch
    side: np.ndarray
    name: bytes = b""
    run: bytes | None = None


class PartColumns(NamedTuple):
    """Several releases of a run, before their noise, in columns: what `Part` has of each.

    Attributes:
      kind: of their sketches, of `spec`, which count in units of 2**-scale_bits.
      spec: see `kind`.
      scale_bits: see `kind`.
      counters: the exact counters of each, int64 of shape (parts, spec.cells).
      side: of each, int64 of shape (parts, numbers).
      names: of each.
      runs: of each.
    """

    kind: type[RawSketch]
    spec: Any
    scale_bits: int
    counters: np.ndarray
    side: np.ndarray
    names: Sequence[bytes]
    runs: Sequence[bytes | None]

    @classmethod
    def of(cls, parts: Sequence[Part], terms: ReleaseTerms) -> PartColumns:
        """Return one or more parts in columns; refuse those that do not suit the terms, or each other."""
        for part in parts:
            checked(part.raw, parts[0].raw, terms)
        first = parts[0].raw
        return cls(
            type(first),
            first.spec,
            first.scale_bits,
            np.stack([part.raw.to_vector() for part in parts]),
            np.stack([part.side for part in parts]),
            [part.name for part in parts],
            [part.run for part in parts],
        )

    def alone(self, place: int) -> PartColumns:
        """Return one of them."""
        one = slice(place, place + 1)
        return self._replace(
            counters=self.counters[one], side=self.side[one], names=self.names[one], runs=self.runs[one]
        )


def checked(raw: RawSketch, first: RawSketch, terms: ReleaseTerms) -> RawSketch:
    """Return a raw sketch; refuse one that does not suit the terms, or is of another kind than the first."""
    _validate.instance(RawSketch, raw=raw)
    if raw.is_weighted and not terms.bounds.says_max_weight:
        raise ArgumentError(
            "bounds", "must say max_weight for a sketch with weights, as in $records_of_weights", "E203"
        )
    if raw.scale_bits != terms.scale_bits:
        raise ArgumentError(
            "raw",
            "must hold weights as its bounds make them: a $NormBound scales them, which only transforms do, "
            "and $RecordBounds leave them whole",
            "E617",
        )
    if type(raw) is not type(first) or raw.spec != first.spec:
        raise ValueError("parts must be of one kind and spec")
    return raw
