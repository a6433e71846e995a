"""Raw sketches of a kind, whatever kind a spec names."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_dpsketch.exact.sketches import RawSketch
from beam_dpsketch.exact.sketches.spec import FLAT_KINDS


def of_kind(kind: type[RawSketch], spec: Any) -> Any:
    """Return the spec, of this kind."""
    return dataclasses.replace(spec, kind=kind.name) if kind.name in FLAT_KINDS else spec


def raw_of(kind: type[RawSketch], spec: Any) -> Any:
    """Return an empty sketch of this kind, with the other settings of the spec."""
    return kind(of_kind(kind, spec))
