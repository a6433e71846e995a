"""`PrivateStatistics`: count, sum, mean and variance of numbers, from one release.

Guarantee: each release is rho-zCDP, or epsilon-DP by Laplace noise, for the unit and the neighbouring relation that its
privacy statement names, over count, sum and squares together; a window is released once; noise is drawn once and is
final before anything downstream. Under a `Horizon` all rows together are rho-zCDP, even if later data depend on earlier
rows.
"""

from __future__ import annotations

from typing import Any, TypeAlias, overload

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.domains import FloatDomain, IntegerDomain
from beam_dpsketch.kinds.statistics.kind import Statistics
from beam_dpsketch.kinds.statistics.released import ReleasedStatistics
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, declare

Numbers: TypeAlias = "IntegerDomain | FloatDomain"


class PrivateStatistics(PrivateRelease[Output], kind=Statistics):
    """Turn elements into one `ReleasedStatistics`, or into (key, that) for each key; one for each window.

    Which windows have a release, what keys may be, what becomes of late data, and which rows come out under a
    `Horizon`: see `PrivateFrequencies`.

    Args:
      domain: an `IntegerDomain` or a `FloatDomain`. Its ends are the clip bounds: numbers outside count as the nearest
        end, so means and sums are of clipped numbers. Noise grows with their distance. They must not be taken from the
        data. Nulls, NaN and values of other types are dropped.
      privacy: what each release spends, over all its sums; under a `Horizon`, what all rows spend together.
      unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records.
      variance: whether the variance and the standard deviation are told too. The noise of a count is then up to a
        quarter larger, that of a mean up to an eighth.
      item: the number: a field name, a callable, or `None` for the element itself.
      weight: how many times it counts, a whole number, clamped to the bounds of the unit; `None` is 1.
      keys: which keys are released, as of `PrivateFrequencies`; `None` makes one release of all elements.
      windows: a `TimeRange`, whose windows are released with data or without; a `Horizon`; or `None` for the windows
        that have data.

    Under a `NormBound`, a unit's weight is scaled, so that it counts less often in count, sum and mean alike.
    """

    @overload
    def __init__(
        self: PrivateStatistics[ReleasedStatistics],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        variance: bool = ...,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: TimeRange | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateStatistics[tuple[Any, ReleasedStatistics]],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        variance: bool = ...,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: TimeRange | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateStatistics[TimelineRow],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        variance: bool = ...,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: Horizon,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateStatistics[tuple[Any, TimelineRow]],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        variance: bool = ...,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: Horizon,
    ) -> None: ...
    def __init__(
        self,
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        variance: bool = False,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
    ) -> None:
        others = {"privacy": privacy, "unit": unit, "item": item, "weight": weight, "keys": keys, "windows": windows}
        super().__init__(declare(lambda: Statistics(domain, variance), **others))
