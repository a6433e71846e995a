"""The terms of rows over time: those of a release, and how windows become rows."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from beam_dpsketch import _validate
from beam_dpsketch.privacy.norm_bounding import ROW_SCALE_BITS
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.terms import ReleaseTerms


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowTerms(ReleaseTerms):
    """What all rows of a horizon promise together; the unit is one over the horizon.

    Of `window_count`: under `RecordBounds` a unit counts in that many windows, and on unbounded input under a norm; on
    bounded input one norm covers all windows, and it is 1.

    Args:
      mechanism: which rows there are.
    """

    mechanism: RowMechanism

    @property
    def selections(self) -> int:
        return 1

    @property
    def reach(self) -> Fraction:
        return self.mechanism.squared_reach(self.window_count)

    @property
    def scale_bits(self) -> int:
        return ROW_SCALE_BITS if self.bounds.has_norm else 0

    @property
    def squared_unit(self) -> int:
        return self.mechanism.squared_length * 4**self.scale_bits

    def _check_horizon(self) -> None:
        _validate.instance(RowMechanism, mechanism=self.mechanism)
        if not self.unit.over_horizon:
            raise ValueError(f"unit must be one over the horizon, got {self.unit.value}")
        if self.window_count > self.mechanism.windows:
            raise ValueError(
                f"max_windows must be at most the {self.mechanism.windows} windows of the horizon, got "
                f"{self.window_count}"
            )
