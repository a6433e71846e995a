"""Count-Min (Cormode and Muthukrishnan 2005): an item adds its weight to one cell in each row.

Guarantee before noise: while no item's net weight is negative, no row underestimates, so the minimum over rows is the
best estimate. `SketchSpec.for_accuracy` bounds how far it exceeds the truth. Source: J. Algorithms 55(1).
"""

from __future__ import annotations

from beam_dpsketch.sketches.linear import LinearSketch


class CountMin(LinearSketch):
    """A raw Count-Min sketch.

    >>> from beam_dpsketch import SketchSpec
    >>> sketch = CountMin(SketchSpec(kind="count_min", depth=3, width=8)).accumulate(["a", "b", "a"])
    >>> sketch.counters.sum(axis=1).tolist()
    [3, 3, 3]
    """

    name = "count_min"
    has_signs = False
