"""`PrivateFrequencies`: how often each item occurs, from one release.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names; a
window is released once; noise is drawn once and is final before anything downstream sees it. Under a `Horizon` all rows
together are rho-zCDP, even if later data depend on earlier rows.
"""

from __future__ import annotations

from typing import Any, TypeAlias, overload

from beam_dpsketch.answers.over_time.row import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.kinds.sketched import ItemFrequencies
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, declare

Spec: TypeAlias = "SketchSpec | ListedItems"


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

    @overload
    def __init__(
        self: PrivateFrequencies[ReleasedSketch],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: TimeRange | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateFrequencies[tuple[Any, ReleasedSketch]],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: TimeRange | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateFrequencies[TimelineRow],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: Horizon,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateFrequencies[tuple[Any, TimelineRow]],
        spec: Spec,
        privacy: PrivacySpec,
        *,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: Horizon,
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
        others = {"privacy": privacy, "unit": unit, "item": item, "weight": weight, "keys": keys, "windows": windows}
        super().__init__(declare(lambda: ItemFrequencies(spec), **others))
