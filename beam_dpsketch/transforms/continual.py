"""Continual release: the answers so far, at the end of every window, for the rho of one release.

Guarantee: all rows of one horizon together are rho-zCDP for the unit that their privacy statement names, even if later
data depend on earlier rows. The windows of the horizon are declared before any data is seen. Each window, empty ones
too, is summed exactly. Each row is a public integer combination of windows. It gets noise once, and comes out once, as
soon as its window closes. Records outside the horizon, and records later than the watermark, are dropped.
`SketchTimeline` answers any window, any range of windows and every prefix from the rows.

Take independent windows instead, with `WindowInto` and `PrivateFrequencies`, where only single windows matter: each
then has less noise, by about half. From ranges of about ten windows on, a timeline has less.

Sources: Fichtenberger, Henzinger and Upadhyay 2023, Andersson and Pagh 2024 ("binned"); Zhao et al., NeurIPS 2022,
Appendix D ("tree").
"""

from __future__ import annotations

from beam_dpsketch.domains import Domain
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.declaring import declare_frequencies, declare_quantiles
from beam_dpsketch.records.public import Keys, keyed
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.transforms.steps.over_time.continual_release import ContinualRelease
from beam_dpsketch.transforms.steps.private_release import Family


class PrivateContinualFrequencies(metaclass=Family):
    """How often each item occurs, in every range of windows of a horizon."""

    class Globally(ContinualRelease):
        """Turn elements with timestamps into `TimelineRow`s, for a `SketchTimeline`.

        Input has no windows of its own. A row comes out in its window, when that closes.

        Args:
          spec: the sketch of each window, or `ListedItems`.
          privacy: what all rows of the horizon spend together.
          horizon: the windows.
          unit: whom all rows together protect: `Record`, or `PrivacyId` with a `NormBound` or with `RecordBounds` and
            `max_windows`. Under `RecordBounds` an id counts in at most `max_windows` windows of the horizon. On bounded
            input these are random; on unbounded input they are the first ones with data of the id. A norm covers all
            windows on bounded input. On unbounded input it is one of each window, and needs `max_windows`.
          item, weight: as in `PrivateFrequencies.Globally`.
        """

        def __init__(
            self,
            spec: SketchSpec | ListedItems,
            privacy: PrivacySpec,
            horizon: Horizon,
            *,
            unit: Unit,
            item: Selector = None,
            weight: Selector = None,
        ) -> None:
            super().__init__(declare_frequencies(spec, privacy, unit, item, weight), horizon)

    class PerKey(ContinualRelease):
        """Turn (key, value) pairs, or elements with a key field, into (key, `TimelineRow`) pairs.

        `SketchTimeline.by_key` makes a timeline of each key. Every key has all rows of the horizon.

        Args:
          spec, privacy, horizon, unit, item, weight: as in `PrivateContinualFrequencies.Globally`. Bounds
            hold over all keys, as in `PrivateFrequencies.PerKey`.
          keys: `PublicKeys`; on bounded input also `KeySelection`, which chooses keys once for all windows, or
            `AssumePublicKeys`.
        """

        def __init__(
            self,
            spec: SketchSpec | ListedItems,
            privacy: PrivacySpec,
            horizon: Horizon,
            *,
            unit: Unit,
            keys: Keys,
            item: Selector = None,
            weight: Selector = None,
        ) -> None:
            super().__init__(declare_frequencies(spec, privacy, unit, item, weight, keyed(keys)), horizon)


class PrivateContinualQuantiles(metaclass=Family):
    """Distributions of ordered values, in every range of windows of a horizon."""

    class Globally(ContinualRelease):
        """Turn elements with timestamps into `TimelineRow`s, for a `SketchTimeline`.

        Args:
          domain: as in `PrivateQuantiles.Globally`; the memory of a `TreeSpec` is that of one window.
          privacy, horizon, unit: as in `PrivateContinualFrequencies.Globally`.
          item, weight: as in `PrivateQuantiles.Globally`.
        """

        def __init__(
            self,
            domain: Domain | TreeSpec,
            privacy: PrivacySpec,
            horizon: Horizon,
            *,
            unit: Unit,
            item: Selector = None,
            weight: Selector = None,
        ) -> None:
            super().__init__(declare_quantiles(domain, privacy, unit, item, weight), horizon)

    class PerKey(ContinualRelease):
        """Turn (key, value) pairs, or elements with a key field, into (key, `TimelineRow`) pairs.

        Args:
          domain, privacy, horizon, unit, item, weight: as in `PrivateContinualQuantiles.Globally`.
          keys: as in `PrivateContinualFrequencies.PerKey`.
        """

        def __init__(
            self,
            domain: Domain | TreeSpec,
            privacy: PrivacySpec,
            horizon: Horizon,
            *,
            unit: Unit,
            keys: Keys,
            item: Selector = None,
            weight: Selector = None,
        ) -> None:
            super().__init__(declare_quantiles(domain, privacy, unit, item, weight, keyed(keys)), horizon)
