"""Linear data structures: exact, mergeable, nothing private. `SKETCHES` names them."""

from beam_dpsketch.sketches.count_min import CountMin
from beam_dpsketch.sketches.count_sketch import CountSketch
from beam_dpsketch.sketches.linear import LinearSketch, RawSketch

__all__ = ["SKETCHES", "CountMin", "CountSketch", "LinearSketch", "RawSketch"]

SKETCHES: dict[str, type[LinearSketch]] = {kind.name: kind for kind in (CountMin, CountSketch)}
