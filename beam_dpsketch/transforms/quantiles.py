"""`PrivateQuantiles`: quantiles, ranks, ranges and more of ordered values, from one release.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names, over
all of its counters together; a window is released once; noise is drawn once and is final before anything downstream.
Under a `Horizon` all rows together are rho-zCDP, even if later data depend on earlier rows.
"""

from __future__ import annotations

from typing import Any, overload

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.tree.ranked import ReleasedRanks
from beam_dpsketch.domains import Domain
from beam_dpsketch.kinds.layouts import Purpose
from beam_dpsketch.kinds.ranks.histogram import FactorSpec
from beam_dpsketch.kinds.sketched import Quantiles
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, declare


class PrivateQuantiles(PrivateRelease[Output], kind=Quantiles):
    """Turn elements into one `ReleasedRanks`, or into (key, that) for each key; one for each window.

    Which windows have a release, what keys may be, what becomes of late data, and which rows come out under a
    `Horizon`: see `PrivateFrequencies`.

    Args:
      domain: the ordered universe, declared because taking it from the data would publish it; or a layout over it, a
        `FactorSpec` or a `TreeSpec`, whose memory is that of one window. If none is given, domains of up to 256 values
        have a `TreeSpec.histogram` where Laplace noise makes it closer. Others of up to 2**17 values have a
        `FactorSpec`, and those of up to 2**32 `TreeSpec.for_ranks`. Wider ones have `TreeSpec.for_memory`, and so have
        all others under a norm of order 2, a `Horizon` or large weights. With `optimize_for="values"`, domains of up to
        2**17 values have a `TreeSpec.histogram`, and wider ones a tree.
        Values outside are clamped; nulls, NaN and values of other types are dropped.
      privacy: what each release spends, over all counters; under a `Horizon`, what all rows spend together.
      unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records.
      item: the value: a field name, a callable, or `None` for the element itself.
      weight: how much it counts, a whole number, clamped to the bounds of the unit; `None` is 1.
      keys: which keys are released, as of `PrivateFrequencies`; `None` makes one release of all elements.
      windows: a `TimeRange`, whose windows are released with data or without; a `Horizon`; or `None` for the windows
        that have data.
      optimize_for: what is asked most, which chooses the layout: "ranks", which quantiles are read from, "ranges", or
        "values", for how often single values occur.
    """

    @overload
    def __init__(
        self: PrivateQuantiles[ReleasedRanks],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: TimeRange | None = ...,
        optimize_for: Purpose = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateQuantiles[tuple[Any, ReleasedRanks]],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: TimeRange | None = ...,
        optimize_for: Purpose = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateQuantiles[TimelineRow],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: Horizon,
        optimize_for: Purpose = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateQuantiles[tuple[Any, TimelineRow]],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: Horizon,
        optimize_for: Purpose = ...,
    ) -> None: ...
    def __init__(
        self,
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
        optimize_for: Purpose = "ranks",
    ) -> None:
        others = {"privacy": privacy, "unit": unit, "item": item, "weight": weight, "keys": keys, "windows": windows}
        super().__init__(declare(lambda: Quantiles(domain, optimize_for), **others))
