"""Released CountSketch: the Huber mean over rows, unbiased, with intervals read from the noisy counters.

Guarantee: each item's interval holds with about the given confidence, over the seed and the noise, for data of
any skew; `row_mean` has the argument. Source: Charikar, Chen and Farach-Colton 2002, who take the median over rows;
private form: Zhao et al., NeurIPS 2022.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from beam_dpsketch import _validate
from beam_dpsketch.answers.released_sketch import ReleasedFrequencies
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.estimators.row_mean import RowReader
from beam_dpsketch.sketches import CountSketch


class ReleasedCountSketch(ReleasedFrequencies):
    """A released CountSketch: Huber means over rows, unbiased also with deletions, and two-sided intervals.

    The Huber mean is the median over rows plus the mean of the rows' distances from it, each clipped at one scale.
    """

    name = "count_sketch"
    raw_type = CountSketch

    def _estimates(self, items: Any) -> np.ndarray:
        return self._rows.estimates(self._keys(items))

    def _frequencies(self, items: Any, confidence: float) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        middle, (below, above) = self._estimates(items), self._rows.margins(confidence)
        return Frequencies(items, middle, middle - below, middle + above, from_about=self._from_about)

    @functools.cached_property
    def _rows(self) -> RowReader:
        return RowReader(self.spec, self.counters, self.privacy.sigma_squared)
