"""Count-Min (Cormode and Muthukrishnan 2005): an item adds its weight to one cell in each row.

Guarantee before noise: while no item's net weight is negative, no row underestimates, so the minimum over rows is
the best estimate; how far it may exceed the truth is `SketchSpec.for_accuracy`. Source: J. Algorithms 55(1).
"""

from __future__ import annotations

import numpy as np

from beam_dpsketch.hashing import cells
from beam_dpsketch.sketches.linear import LinearSketch


class CountMin(LinearSketch):
    """A raw Count-Min sketch.

    >>> from beam_dpsketch import SketchSpec
    >>> sketch = CountMin(SketchSpec(depth=3, width=8)).accumulate(["a", "b", "a"])
    >>> sketch.counters.sum(axis=1).tolist()
    [3, 3, 3]
    """

    name = "count_min"
    has_signs = False

    def _add_to_row(self, row: int, keys: np.ndarray, weights: np.ndarray | None) -> None:
        spec = self._spec
        columns = cells.columns(keys, seed=spec.seed, row=row, width=spec.width)
        np.add.at(self._counters[row], columns, np.int64(1) if weights is None else weights)
