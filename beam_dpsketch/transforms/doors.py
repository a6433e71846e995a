"""The private transforms of the public API: their arguments and outputs.

Guarantee: each release is rho-zCDP, or epsilon-DP by Laplace noise, for the unit and the neighboring relation in its
privacy statement, over all its counters together. A window is released once. Noise is drawn once and is final before
any later step reads it. Under a `Horizon` all timeline rows together are rho-zCDP, even if later data depend on earlier
rows. The search in `PrivateTopK` is post-processing of the release, so the guarantee covers the items found.
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
from beam_dpsketch.exact.sketches.factor import FactorizationSpec
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.planning.kinds.layouts import Purpose
from beam_dpsketch.planning.kinds.metrics import Metric, Metrics
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies, Quantiles, Searchable, TopKSearch
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.planning.kinds.thresholded_counts import Thresholding, top_k
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.transforms.outputs import TopK
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, refused_together

Spec: TypeAlias = "SketchSpec | ListedItems"
Numbers: TypeAlias = "IntegerDomain | FloatDomain"


# Type checkers read the overloads, because the output depends on `keys` and `windows`. They are written
# `typing.overload` because Jedi, which notebooks use, then shows the single signature after them, with all names and
# defaults.


class _Shared(TypedDict, total=False):
    privacy_unit: Required[Unit]
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
    """Release a `ReleasedSketch`, or (key, `ReleasedSketch`) for each key, in each window.

    Empty input in the global window has a release too, because a missing release would reveal something. Every window
    in a `TimeRange` has a release too. Without a range, windows without data have no release. Data that arrive after
    the watermark has passed their window's end are dropped.

    With keys, elements are rows or batches with a key field, or (key, value) pairs, and selectors apply to the value of
    a pair. Keys are text, bytes, integers or tuples of these, and keep their type. Records with other keys are dropped.

    Under a `Horizon`, the output is timeline rows, or (key, `TimelineRow`) pairs, for a `SketchTimeline`, which answers
    any window, any range of windows and every prefix. The input must then be in the global window. A row is released in
    its window, when the window closes. Every key has all rows. Records outside the horizon, and those later than the
    watermark, are dropped. Windows without a horizon have less noise in single windows and in short ranges. `explain`
    computes the range length from which a timeline has less.

    Sources of timeline rows: Fichtenberger, Henzinger and Upadhyay 2023, Andersson and Pagh 2024 ("binned"); Zhao et
    al., NeurIPS 2022, Appendix D ("tree").

    Args:
      spec: the sketch, see `SketchSpec` and `SketchSpec.for_accuracy`, or `ListedItems`, to count these exactly.
      privacy: privacy loss per release. Under a `Horizon`, the loss of all timeline rows together.
      privacy_unit: the privacy unit: `PrivacyId`, all records of an id, or `Record`, single records. With keys, each
        privacy id contributes to at most `max_keys` keys, in each window. Under a `Horizon`, a `PrivacyId` has
        `RecordBounds` and `max_windows`, or a `NormBound`. With `max_windows` it counts in that many windows of the
        horizon: random windows on bounded input, the first windows with data of the id on unbounded input. On bounded
        input a norm covers all windows. On unbounded input a norm applies to each window, and needs `max_windows`.
      item: the counted value: a field name, a callable, or `None` for the element itself.
      weight: whole number that a record counts, clamped to the unit's bounds. `None` is 1.
      keys: released keys: `PublicKeys`, a list, `KeySelection`, private selection by the votes of units, or
        `AssumePublicKeys`, every key with data. `None` makes a single release from all elements. Under a `Horizon` the
        last two need bounded input, and keys are chosen once for all windows.
      windows: a `TimeRange`, whose windows are released with or without data, a `Horizon`, or `None` for the windows
        with data. In windows, `PublicKeys` need a `TimeRange`.
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
        privacy_unit: Unit,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
    ) -> None:
        others = privacy, privacy_unit, item, weight, keys, windows
        with refused_together(*others):
            count = ItemFrequencies(spec)
        super().__init__(ReleaseSpec(count, *others))


class PrivateQuantiles(PrivateRelease[Output], kind=Quantiles):
    """Release `ReleasedRanks`, or (key, `ReleasedRanks`) for each key, in each window.

    For released windows, key types, late data, and timeline rows under a `Horizon`, see `PrivateFrequencies`.

    Args:
      domain: the ordered universe, or a layout over it, a `FactorizationSpec` or a `TreeSpec`. Declare it independently
        of the data, which it would publish. The memory of a layout is per window. By default, domains of up to 256
        values have a `TreeSpec.histogram` if Laplace noise makes it more accurate. Others of up to 2**17 values have a
        `FactorizationSpec`, and domains of up to 2**32 `TreeSpec.for_ranks`. Wider domains have `TreeSpec.for_memory`,
        and so have all others under an L2 norm, a `Horizon` or large weights. With `optimize_for="values"`, domains of
        up to 2**17 values have a `TreeSpec.histogram`, and wider domains a tree. Values outside are clamped. Nulls, NaN
        and values with other types are dropped.
      privacy: privacy loss per release, over all counters. Under a `Horizon`, the loss of all timeline rows together.
      privacy_unit: the privacy unit: `PrivacyId`, all records of an id, or `Record`, single records.
      item: the value: a field name, a callable, or `None` for the element itself.
      weight: whole number that a record counts, clamped to the unit's bounds. `None` is 1.
      keys: released keys, as in `PrivateFrequencies`. `None` makes a single release from all elements.
      windows: a `TimeRange`, whose windows are released with or without data, a `Horizon`, or `None` for the windows
        with data.
      optimize_for: main use of the release, which chooses the layout: "ranks", from which quantiles are computed,
        "ranges", or "values", for the frequency of single values.
    """

    @typing.overload
    def __init__(
        self: PrivateQuantiles[ReleasedRanks],
        domain: Domain | TreeSpec | FactorizationSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_One],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateQuantiles[tuple[Any, ReleasedRanks]],
        domain: Domain | TreeSpec | FactorizationSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateQuantiles[TimelineRow],
        domain: Domain | TreeSpec | FactorizationSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_Rows],
    ) -> None: ...
    @typing.overload
    def __init__(
        self: PrivateQuantiles[tuple[Any, TimelineRow]],
        domain: Domain | TreeSpec | FactorizationSpec,
        privacy: PrivacySpec,
        *,
        item: Selector = ...,
        optimize_for: Purpose = ...,
        **others: Unpack[_RowsForEachKey],
    ) -> None: ...
    def __init__(
        self,
        domain: Domain | TreeSpec | FactorizationSpec,
        privacy: PrivacySpec,
        *,
        privacy_unit: Unit,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
        optimize_for: Purpose = "ranks",
    ) -> None:
        others = privacy, privacy_unit, item, weight, keys, windows
        with refused_together(*others):
            count = Quantiles(domain, optimize_for)
        super().__init__(ReleaseSpec(count, *others))


class PrivateStatistics(PrivateRelease[Output], kind=Statistics):
    """Release `ReleasedStatistics`, or (key, `ReleasedStatistics`) for each key, in each window.

    For released windows, key types, late data, and timeline rows under a `Horizon`, see `PrivateFrequencies`.

    Args:
      domain: an `IntegerDomain` or a `FloatDomain`. Its ends are the value range: numbers outside count as the nearest
        end, so means and sums are of clamped numbers. Noise grows with the width of the range. Do not compute the ends
        from the data. Nulls, NaN and values with other types are dropped.
      privacy: privacy loss per release, over all its sums. Under a `Horizon`, the loss of all timeline rows together.
      privacy_unit: the privacy unit: `PrivacyId`, all records of an id, or `Record`, single records.
      variance: whether the release also contains the variance and the standard deviation. The noise of a count is then
        up to a quarter larger, and the noise of a mean up to an eighth.
      item: the number: a field name, a callable, or `None` for the element itself.
      weight: whole number of times that a record counts, clamped to the unit's bounds. `None` is 1.
      keys: released keys, as in `PrivateFrequencies`. `None` makes a single release from all elements.
      windows: a `TimeRange`, whose windows are released with or without data, a `Horizon`, or `None` for the windows
        with data.

    Under a `NormBound`, a unit's weight is scaled, and counts less in count, sum and mean alike.
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
        privacy_unit: Unit,
        variance: bool = False,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
    ) -> None:
        others = privacy, privacy_unit, item, weight, keys, windows
        with refused_together(*others):
            count = Statistics(domain, variance)
        super().__init__(ReleaseSpec(count, *others))


class PrivateMetrics(PrivateRelease[Output], kind=Metrics):
    """Release `ReleasedMetrics`, or (key, `ReleasedMetrics`) for each key, in each window.

    Records are read, bounded and shuffled once, and keys are chosen once, for all metrics. For released windows, key
    types, late data, and timeline rows under a `Horizon`, see `PrivateFrequencies`.

    Args:
      metrics: metrics by name. A `Metric` defines the kind of release, its field, and its budget share.
      privacy: privacy loss per release, over all metrics. Under a `Horizon`, the loss of all timeline rows together.
      privacy_unit: the privacy unit: `PrivacyId`, all records of an id, or `Record`, single records. Its bound applies
        to all metrics together, see `Metrics`.
      weight: whole number that a record counts in each metric, clamped to the unit's bounds. `None` is 1.
      keys: released keys, as in `PrivateFrequencies`. `None` makes a single release from all elements.
      windows: a `TimeRange`, whose windows are released with or without data, a `Horizon`, or `None` for the windows
        with data.
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
        privacy_unit: Unit,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | Horizon | None = None,
    ) -> None:
        others = privacy, privacy_unit, None, weight, keys, windows
        with refused_together(*others):
            count = Metrics(metrics)
        super().__init__(ReleaseSpec(count, *others))


class PrivateTopK(PrivateRelease[Output], kind=TopKSearch):
    """Release a `TopK`, or (key, `TopK`) for each key, in each window.

    For released windows, key types and late data, see `PrivateFrequencies`.

    Args:
      domain: the universe: an ordered `Domain`, or a `TreeSpec` over it. With `TextDomain` or `BytesDomain`, items are
        counted separately.
      privacy: privacy loss per release.
      k: the number of values to find.
      privacy_unit: the privacy unit: `PrivacyId`, all records of an id, or `Record`, single records.
      item: the value: a field name, a callable, or `None` for the element itself.
      weight: whole number that a record counts, clamped to the unit's bounds. `None` is 1.
      keys: released keys, as in `PrivateFrequencies`. `None` makes a single release from all elements. If items are
        counted separately, `AssumePublicKeys` assumes nothing, because a key appears only with a released item.
        `PublicKeys` always have a release in the global window and with `windows`. Elsewhere they appear only with a
        released item too. `KeySelection` is not supported.
      windows: a `TimeRange`, whose windows are released with or without data, or `None` for the windows with data.
        Lists over a `Horizon` are not supported: release frequencies or quantiles over time.
      method: `Thresholding` counts items separately and releases items with enough votes, or with a count above a
        threshold, as `ReleasedCounts`. `None` does so for text and bytes, and half of `privacy`'s delta pays for the
        choice. With rho pass `Thresholding(delta)`. For an ordered domain, `None` is a histogram or a tree. Windows
        without a released item have a release only in the global window and with `windows`.
    """

    @typing.overload
    def __init__(
        self: PrivateTopK[TopK],
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        item: Selector = ...,
        method: Thresholding | None = ...,
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
        method: Thresholding | None = ...,
        **others: Unpack[_OneForEachKey],
    ) -> None: ...
    def __init__(
        self,
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        privacy_unit: Unit,
        item: Selector = None,
        weight: Selector = None,
        keys: Keys | None = None,
        windows: TimeRange | None = None,
        method: Thresholding | None = None,
    ) -> None:
        others = privacy, privacy_unit, item, weight, keys, windows
        with refused_together(*others):
            count = top_k(domain, k, method)
        super().__init__(ReleaseSpec(count, *others))
