"""Continual release: the answers so far, at the end of every window, for the rho of one release.

Guarantee: all releases of one horizon together are rho-zCDP for the unit that their privacy statement names. The
windows of the horizon, declared before any data is seen, are the leaves of a binary tree over time; every node, empty
ones too, is summed exactly, noised once and released once, as soon as its last window closes. Records outside the
horizon, and records later than the watermark, are dropped. `SketchTimeline` answers any range of windows and every
prefix from the nodes. On unbounded input, a stream keeps the sketches of its open windows and two for each level above.
Source: Zhao et al., NeurIPS 2022, Appendix D.
"""

from __future__ import annotations

from beam_dpsketch import _validate
from beam_dpsketch.domains import Domain
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.release.horizon import Horizon
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.transforms.quantiles import tree_spec
from beam_dpsketch.transforms.steps.continual_release import ContinualRelease
from beam_dpsketch.transforms.steps.private_release import Family


class PrivateContinualFrequencies(metaclass=Family):
    """How often each item occurs, in every range of windows of a horizon."""

    class Globally(ContinualRelease):
        """Turn elements with timestamps into `TimelineNode`s of `ReleasedSketch`es, for a `SketchTimeline`.

        Input has no windows of its own. A node comes out in the last of its windows, when that closes.

        Args:
          spec: the sketch of each node, or `ListedItems`.
          privacy: what all releases of the horizon spend together.
          horizon: the windows.
          unit: whom all releases together protect: `PrivacyId` or `Record`. In the bounds a partition is a window: an
            id counts in at most `max_partitions` windows of the horizon. On bounded input these are random; on
            unbounded input they are the first ones with data of the id.
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
            _validate.instance(SketchSpec, ListedItems, spec=spec)
            super().__init__(Declaration(spec, privacy, unit, item, weight), horizon)


class PrivateContinualQuantiles(metaclass=Family):
    """Distributions of ordered values, in every range of windows of a horizon."""

    class Globally(ContinualRelease):
        """Turn elements with timestamps into `TimelineNode`s of `ReleasedDyadicCountSketch`es, for a `SketchTimeline`.

        Args:
          domain: as in `PrivateQuantiles.Globally`; the memory of a `TreeSpec` is that of one node.
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
            super().__init__(Declaration(tree_spec(domain), privacy, unit, item, weight), horizon)
