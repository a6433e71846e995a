"""The private transforms that users import: what each is given, and what comes out of it.

Guarantee: each release is rho-zCDP, or epsilon-DP by Laplace noise, for the unit and the neighboring relation that its
privacy statement names, over all of its counters together; a window is released once; noise is drawn once and is final
before anything downstream sees it. Under a `Horizon` all rows together are rho-zCDP, even if later data depend on
earlier rows. The search of `PrivateTopK` is post-processing of the release, so what is found is covered by it.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, Required, TypeAlias, TypedDict, Unpack

from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.answers.tree import ReleasedRanks
from beam_dpsketch.exact.declared.public import Keys, TimeRange
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.units import Unit
from beam_dpsketch.exact.domains import BytesDomain, Domain, FloatDomain, IntegerDomain
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.selectors import Selector
from beam_dpsketch.exact.sketches.factor import FactorSpec
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.planning.kinds.grouped_counts import Groups, top_k
from beam_dpsketch.planning.kinds.layouts import Purpose
from beam_dpsketch.planning.kinds.metrics import Metric, Metrics
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles, Searchable, TopKSearch
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.transforms.outputs import TopK
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, refused_together

Spec: TypeAlias = "SketchSpec | ListedItems"
Numbers: TypeAlias = "IntegerDomain | FloatDomain"


# Type checkers read the overloads: what comes out depends on `keys` and `windows`. They are spelled `typing.overload`,
# because Jedi, which notebooks use, then shows the one signature that follows them, with all names and defaults.


class _Shared(TypedDict, total=False):
    """Arguments of all private transforms."""

    unit: Required[Unit]
    weight: Selector


class _One(_Shared, total=False):
    keys: None
    windows: TimeRange | None


class _OneForEachKey(_Shared, total=False):
    keys: Required[Keys]
    windows: TimeRange | None


class _Rows(_Shared, total=False):
    keys: None
    windows: Required[Horizon]


class _RowsForEachKey(_Shared, total=False):
    keys: Required[Keys]
    windows: Required[Horizon]


class PrivateFrequencies(PrivateRelease[Output], kind=ItemFrequencies):
    """Turn elements into one `ReleasedSketch`, or into (key, `ReleasedSketch`) for each key; one for each window.

    Empty input in the global window gives a release too, so that its absence says nothing. So does every window of a
    `TimeRange`. Without one, windows without data have no release. Data that arrive after the watermark has passed the
    end of their window are dropped.

    With keys, elements are rows or batches with a key field, or (key, value) pairs; selectors apply to the value of a
    pair. Keys are text, bytes, integers or tuples of these, and come out as such; records with others are dropped.

    Under a `Horizon`, rows over time come out: `TimelineRow`s, or (key, `TimelineRow`), for a `SketchTimeline`, which
    answers any window, any range of windows and every prefix. Input then has no windows of its own. A row comes out in
    its window, when that closes. Every key has all rows. Records outside the horizon, and those later than the
    watermark, are dropped. Windows without a horizon have less noise in a single window and in short ranges; `explain`
    computes from which range on a timeline has less.

    Sources of rows over time: Fichtenberger, Henzinger and Upadhyay 2023, Andersson and Pagh 2024 ("binned"); Zhao et
    al., NeurIPS 2022, Appendix D ("tree").

    Args:
      spec: the sketch, see `SketchSpec` and `SketchSpec.for_accuracy`; or `ListedItems`, to count these exactly.
      privacy: what each release spends; under a `Horizon`, what all rows spend together.
      unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records. With keys, each
        privacy id contributes to at most `max_keys` keys, in each window. Under a `Horizon`, a `PrivacyId` has
        `RecordBounds` and `max_windows`, or a `NormBound`. With `max_windows` it counts in that many windows of the
        horizon: random ones on bounded input, the first ones with data of the id on unbounded input. A norm covers all
        windows on bounded input; on unbounded input it is one of each window, and needs `max_windows`.
      item: what is counted: a field name, a callable, or `None` for the element itself.
      weight: how much it counts, a whole number, clamped to the bounds of the unit; `None` is 1.
      keys: which keys are released: `PublicKeys`, a list; `KeySelection`, those that enough units vote for; or
        `AssumePublicKeys`, those that have data. `None` makes one release of all elements. Under a `Horizon` the last
        two need bounded input, and keys are chosen once for all windows.
      windows: a `TimeRange`, whose windows are released with data or without; a `Horizon`; or `None` for the windows
        that have data. In windows, `PublicKeys` need a `TimeRange`.
    """

    @typing.overload
    def __init__(
        self: PrivateFrequencies[ReleasedSketch],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        **others: Unpack[_One],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateFrequencies[tuple[Any, ReleasedSketch]],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateFrequencies[TimelineRow],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        **others: Unpack[_Rows],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateFrequencies[tuple[Any, TimelineRow]],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        **others: Unpack[_RowsForEachKey],
    ) -> None: ...
    def __init__(
        self,
        spec: Spec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
    ) -> None:
        others = privacy, unit, item, weight, keys, windows
        with refused_together(*others):
            count = ItemFrequencies(spec)
        super().__init__(ReleaseSpec(count, *others))


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

    @typing.overload
    def __init__(
        self: PrivateQuantiles[ReleasedRanks],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_One],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateQuantiles[tuple[Any, ReleasedRanks]],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateQuantiles[TimelineRow],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_Rows],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateQuantiles[tuple[Any, TimelineRow]],
        domain: Domain | TreeSpec | FactorSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_RowsForEachKey],
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
        others = privacy, unit, item, weight, keys, windows
        with refused_together(*others):
            count = Quantiles(domain, optimize_for)
        super().__init__(ReleaseSpec(count, *others))


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

    @typing.overload
    def __init__(
        self: PrivateStatistics[ReleasedStatistics],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        variance: bool = ...,
        item: Selector = ...,
        **others: Unpack[_One],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateStatistics[tuple[Any, ReleasedStatistics]],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        variance: bool = ...,
        item: Selector = ...,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateStatistics[TimelineRow],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        variance: bool = ...,
        item: Selector = ...,
        **others: Unpack[_Rows],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateStatistics[tuple[Any, TimelineRow]],
        domain: Numbers,
        privacy: PrivacySpec,
        *,
        variance: bool = ...,
        item: Selector = ...,
        **others: Unpack[_RowsForEachKey],
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
        others = privacy, unit, item, weight, keys, windows
        with refused_together(*others):
            count = Statistics(domain, variance)
        super().__init__(ReleaseSpec(count, *others))


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

    @typing.overload
    def __init__(
        self: PrivateMetrics[ReleasedMetrics],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        **others: Unpack[_One],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateMetrics[tuple[Any, ReleasedMetrics]],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateMetrics[TimelineRow], metrics: Mapping[str, Metric], privacy: PrivacySpec, **others: Unpack[_Rows]
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateMetrics[tuple[Any, TimelineRow]],
        metrics: Mapping[str, Metric],
        privacy: PrivacySpec,
        **others: Unpack[_RowsForEachKey],
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
        others = privacy, unit, None, weight, keys, windows
        with refused_together(*others):
            count = Metrics(metrics)
        super().__init__(ReleaseSpec(count, *others))


class PrivateTopK(PrivateRelease[Output], kind=TopKSearch):
    """Turn elements into one `TopK`, or into (key, `TopK`) for each key; one for each window.

    Which windows have a release, what keys may be, and what becomes of late data: see `PrivateFrequencies`.

    Args:
      domain: the universe: an ordered `Domain`, or a `TreeSpec` over it; or `TextDomain` or `BytesDomain`, whose
        items are counted one by one.
      privacy: what each release spends.
      k: how many values are wanted.
      unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records.
      item: the value: a field name, a callable, or `None` for the element itself.
      weight: how much it counts, a whole number, clamped to the bounds of the unit; `None` is 1.
      keys: which keys are released, as of `PrivateFrequencies`; `None` makes one release of all elements. Where
        items are counted one by one, `AssumePublicKeys` assumes nothing: a key shows only if one of its items is
        released. `PublicKeys` always have a release in the global window and with `windows`; elsewhere they show in
        the same way. `KeySelection` is refused.
      windows: a `TimeRange`, whose windows are released with data or without; or `None` for the windows that have data.
        Lists over a `Horizon` cannot be had: release frequencies or quantiles over time.
      method: `Groups` counts each item for itself and releases those with enough votes, or a count above a threshold,
        as `ReleasedCounts`. `None` does so for text and bytes, and half of the delta of `privacy` pays for the choice;
        with rho give `Groups(delta)`. Of an ordered domain, `None` is a histogram or a tree. Windows without a released
        item have a release only in the global window and with `windows`.
    """

    @typing.overload
    def __init__(
        self: PrivateTopK[TopK],
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        item: Selector = ...,
        method: Groups | None = ...,
        **others: Unpack[_One],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateTopK[tuple[Any, TopK]],
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        item: Selector = ...,
        method: Groups | None = ...,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    def __init__(
        self,
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        unit: Unit,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | None = None,
        method: Groups | None = None,
    ) -> None:
        others = privacy, unit, item, weight, keys, windows
        with refused_together(*others):
            count = top_k(domain, k, method)
        super().__init__(ReleaseSpec(count, *others))
