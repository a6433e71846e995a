"""`PrivateMetrics`: several metrics of the same records, from one release.

Guarantee: each release is rho-zCDP, or epsilon-DP by Laplace noise, for the unit and the neighbouring relation that its
privacy statement names, over all metrics together; a window is released once; noise is drawn once and is final before
anything downstream. Under a `Horizon` all rows together are rho-zCDP, even if later data depend on earlier rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.kinds.metrics.kind import Metric, Metrics
from beam_dpsketch.kinds.metrics.released import ReleasedMetrics
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, declare


class PrivateMetrics(PrivateRelease[Output], kind=Metrics):
    """Turn elements into one `ReleasedMetrics`, or into (key, that) for each key; one for each window.

    Records are read, bounded and shuffled once, and keys are chosen once, for all metrics. Which windows have a
    release, what keys may be, what becomes of late data, and which rows come out under a `Horizon`: see
    `PrivateFrequencies`.

    Args:
      metrics: each after its name: a `Metric` says what is released, its field, and its part of rho.
      privacy: what each release spends, over all metrics; under a `Horizon`, what all rows spend together.
      unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records. Its bound holds
        over all metrics together: see `Metrics`.
      weight: how much a record counts in each metric, a whole number, clamped to the bounds of the unit; `None` is 1.
      keys: which keys are released, as of `PrivateFrequencies`; `None` makes one release of all elements.
      windows: a `TimeRange`, whose windows are released with data or without; a `Horizon`; or `None` for the windows
        that have data.
    """

    @overload
    def __init__(
        self: PrivateMetrics[ReleasedMetrics],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        *,
        unit: Unit,
        weight: Selector = ...,
        keys: None = ...,
        windows: TimeRange | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateMetrics[tuple[Any, ReleasedMetrics]],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        *,
        unit: Unit,
        weight: Selector = ...,
        keys: Keys,
        windows: TimeRange | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateMetrics[TimelineRow],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        *,
        unit: Unit,
        weight: Selector = ...,
        keys: None = ...,
        windows: Horizon,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateMetrics[tuple[Any, TimelineRow]],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        *,
        unit: Unit,
        weight: Selector = ...,
        keys: Keys,
        windows: Horizon,
    ) -> None: ...
    def __init__(
        self,
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        *,
        unit: Unit,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
    ) -> None:
        others = {"privacy": privacy, "unit": unit, "item": None, "weight": weight, "keys": keys, "windows": windows}
        super().__init__(declare(lambda: Metrics(metrics), **others))
