"""Released square-root factorization: ranks, quantiles, ranges and values in an ordered domain from one release.

Guarantee: post-processing of noisy rows. All rows together decode to the weight of each value, and ranks are sums of
these weights, made monotone. Intervals surround the unbiased sums, whose variances are known. Therefore they are valid
at heavy values and in empty tails, for all data without negative net weights.
"""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.estimators import factor as factors
from beam_dpsketch.answers.estimators.comparing import ReleasedTable
from beam_dpsketch.answers.estimators.factor import FactorVariances, block_variances, likely_weights
from beam_dpsketch.answers.estimators.presence import deviations_for, exceeds_noise
from beam_dpsketch.answers.estimators.ranks import Ranks
from beam_dpsketch.answers.notes import of_ranks
from beam_dpsketch.answers.rows import Frequencies
from beam_dpsketch.answers.tree import Fitted, Method, ReleasedRanks, detection_limit, expansion, positions_of
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.statement.tabular import Note


class ReleasedFactorization(ReleasedRanks):
    """Ranks released by a square-root factorization. `PrivateQuantiles` makes it.

    `counters` are the noisy rows without the bits that noise drowns, because one record changes many rows. The sigma in
    the statement is relative to the length of that change over all rows. `weights` has one weight per value.
    """

    name = "factor"
    raw_type: ClassVar[type[FactorHistogram]] = FactorHistogram

    @functools.cached_property
    def weights(self) -> np.ndarray:
        """Unbiased estimate of each value's clipped weight: float64 of shape (size,), read-only, possibly below 0."""
        weights = self._decoded
        if self._known_total is not None:
            weights = factors.with_total(self._spec.factor, weights, self._known_total)
        weights.flags.writeable = False
        return weights

    def heavy_hitters(self, threshold: float, confidence: float = 0.95) -> Frequencies:
        _validate.open_unit_interval(confidence=confidence)
        margin = deviations_for(confidence) * self._deviations
        lower, upper = np.maximum(self.weights - margin, 0.0), self.weights + margin
        estimates, is_above = np.clip(self._likely, lower, upper), self.weights > self._expansion * self._deviations
        found = np.flatnonzero(is_above & (estimates >= threshold))
        order = found[np.argsort(-estimates[found], kind="stable")]
        items = self.spec.domain.values(order.astype(np.uint64))
        limit = detection_limit([float(self._deviations.max())], expansion=self._expansion)
        basis = self._basis(confidence)
        return Frequencies(items, estimates[order], lower[order], upper[order], limit, basis=basis)

    def reading(self, confidence: float) -> dict[str, Any]:
        blocks = [{"bits": bits, "variance": variance} for bits, variance in block_variances(self._spec.factor)]
        own = {"weights": self.weights, "blocks": blocks, "factor": self._variances.reading()}
        return {"type": self.name, **self._rank_reading(confidence), **own}

    @functools.cached_property
    def _ranks(self) -> Ranks:
        size = self._spec.cells
        pieces = np.arange(size, dtype=np.uint64), np.ones(size), self.weights
        return Ranks(*pieces, size=size, total=self._known_total, variances=self._variances)

    @property
    def _variances(self) -> FactorVariances:
        return FactorVariances(self._spec.factor, self._row_variance, known_total=self._known_total is not None)

    @functools.cached_property
    def _likely(self) -> np.ndarray:
        """Likely weight per value, at least 0."""
        ranks = self._ranks.rank(np.arange(self._spec.cells, dtype=np.uint64))
        return likely_weights(self._spec.factor, self.weights, np.diff(ranks, prepend=0.0), self._row_variance)

    def _fitted_weights(self, positions: np.ndarray) -> np.ndarray:
        return self._likely[positions]

    def _own_total(self) -> tuple[float, float]:
        return float(self._decoded.sum()), float(factors.total_covariances(self._spec.factor)[-1]) * self._row_variance

    def _fitted_by(self, method: Method) -> Fitted:
        _validate.one_of(("chosen",), method=method)
        return self._ranks

    @functools.cached_property
    def _decoded(self) -> np.ndarray:
        """Weight per value from the rows alone, without a known total."""
        return factors.decode(self._spec.factor, self._rows)

    @property
    def _row_variance(self) -> float:
        """Noise variance per row, in squared records as rows count them."""
        own, step = self._drawn_variance(0) * self._spec.factor.squared_length, 1 << self._spec.factor.dropped_bits
        return own + (self._rounding * step) ** 2 / 3 / len(self._privacy.release_ids)

    @property
    def _rows(self) -> np.ndarray:
        return self.counters * float(1 << self._spec.factor.dropped_bits)

    @functools.cached_property
    def _deviations(self) -> np.ndarray:
        return np.sqrt(factors.value_variances(self._spec.factor) * self._row_variance)

    @property
    def _expansion(self) -> float:
        return expansion(self._spec, self._privacy.noise)

    @property
    def _noise_reach(self) -> float:
        return deviations_for(0.95) * math.sqrt(self._own_total()[1])

    @property
    def _exceeds_noise(self) -> bool:
        scaled = self._rows / math.sqrt(self._row_variance)
        return exceeds_noise(scaled, 1.0, has_signs=False)

    def _own_notes(self) -> tuple[Note, ...]:
        if self.privacy.bounds.signed:
            return ()
        at_ends = self.weights[[0, -1]][np.newaxis]
        finest = float(self._deviations.max()) ** 2
        return of_ranks(self.spec.domain, self._own_total(), self._noise_reach, at_ends, finest)

    @property
    def _table(self) -> ReleasedTable:
        factor, noise = self._spec.factor, float(np.mean(np.square(self._deviations)))
        scale, spread = math.sqrt(self._row_variance / noise), factors.spread(self._spec.factor)

        def uncorrelated(weights: np.ndarray) -> np.ndarray:
            return scale * factors.rows_of_sums(factor, weights)

        return ReleasedTable(self.weights[np.newaxis], noise, "exact", spread=spread, uncorrelated=uncorrelated)

    def _signed_frequencies(self, items: Any, confidence: float) -> Frequencies:
        positions, _ = positions_of(self.spec.domain, items=items)
        weights, margin = self.weights[positions], deviations_for(confidence) * self._deviations[positions]
        bounds = weights, weights - margin, weights + margin
        return Frequencies(self.spec.domain.values(positions), *bounds, basis=self._basis(confidence))

    def _changed_candidates(self, before: Any, k: int) -> Any:
        changes = np.abs(self.weights - before.weights)
        return self.spec.domain.values(np.argsort(-changes, kind="stable")[:k].astype(np.uint64))

    @property
    def _size(self) -> str:
        return f"ranks by a square-root factorization over {self.spec.domain}, {self.spec.cells} rows{self._known}"
