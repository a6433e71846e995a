"""CountSketch (Charikar, Chen and Farach-Colton 2002): an item adds its weight, times a sign, to one cell a row.

Guarantee before noise: `sign * counter` is an unbiased estimate in each row, also with deletions. The median over rows
is robust to heavy collisions, and `SketchSpec.for_accuracy` bounds its error. Releases take the Huber mean around it.
Source: ICALP 2002.
"""

from __future__ import annotations

from beam_dpsketch.sketches.linear import LinearSketch


class CountSketch(LinearSketch):
    """A raw CountSketch.

    >>> from beam_dpsketch import SketchSpec
    >>> sketch = CountSketch(SketchSpec(depth=3, width=8)).accumulate(["a", "b"], weights=[5, 2])
    >>> sketch.accumulate(["a", "b"], weights=[-5, -2]).counters.any()
    np.False_
    """

    name = "count_sketch"
    has_signs = True
