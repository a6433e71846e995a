"""`PrivateQuantiles`: quantiles, ranks, ranges and more of ordered values, from one release.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names, over
all levels of its tree together; a window is released once; noise is drawn once and is final before anything downstream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apache_beam.utils.timestamp import Duration

from beam_dpsketch import _validate
from beam_dpsketch.domains import Domain
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.selectors import Selector, Selectors
from beam_dpsketch.sketches.dyadic import DyadicCountSketch
from beam_dpsketch.sketches.tree_spec import DEFAULT_MEMORY, TreeSpec
from beam_dpsketch.transforms.steps.declarations import Keys, Unit, declared_bounds
from beam_dpsketch.transforms.steps.private_release import PrivateRelease


class PrivateQuantiles:
    """Private distributions of all values (`Globally`) or of the values of each key (`PerKey`)."""

    class Globally(PrivateRelease):
        """Elements to one `ReleasedDyadicCountSketch` (one per window).

        Which windows have a release, and what becomes of late data: see `PrivateFrequencies.Globally`.

        Args:
          domain: the ordered universe, declared because taking it from the data would publish it. Values outside are
            clamped; nulls, NaN and values of other types are dropped.
          privacy: what each release spends, over all levels of the tree.
          item: the value: a field name, a callable, or `None` for the element itself.
          weight: how much it counts, a whole number, clamped to the bounds; `None` is 1.
          privacy_id: who is protected: all records of one id, bounded as `bounds` say.
          unit: "record" to protect only single records. Exactly one of this and privacy_id must be given.
          bounds: what one unit may contribute; more is dropped, at random. Must be given with privacy_id, and with its
            max_weight where weight is given.
          memory: bytes of a release, counted at 4 a counter; see `TreeSpec.for_memory`.
          spec: the layout, instead of the one for `memory`; its domain must be `domain`.
          time_range: the windows to release, with data or without; as in `PrivateFrequencies.Globally`.
          max_windows, period: in how many windows of each period a privacy id counts; as there.
        """

        def __init__(
            self,
            domain: Domain,
            privacy: PrivacySpec,
            *,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            memory: int = DEFAULT_MEMORY,
            spec: TreeSpec | None = None,
            time_range: tuple[Any, Any] | None = None,
            max_windows: int | None = None,
            period: Duration | float | None = None,
        ) -> None:
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id)
            super().__init__(
                tree_recipe(domain, declared_bounds(bounds, elements, unit), memory, spec),
                privacy,
                elements,
                time_range=time_range,
                max_windows=max_windows,
                period=period,
            )

    class PerKey(PrivateRelease):
        """(key, value) pairs, or rows and batches with `key="field"`, to (key, `ReleasedDyadicCountSketch`).

        Keys are data: see `PrivateFrequencies.PerKey`.

        Args:
          domain, privacy, item, weight, privacy_id, unit, bounds, memory, spec: as in `Globally`.
          key, public_keys, keys_are_public, time_range, max_windows, period: as in `PrivateFrequencies.PerKey`.
        """

        def __init__(
            self,
            domain: Domain,
            privacy: PrivacySpec,
            *,
            key: Selector = None,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            memory: int = DEFAULT_MEMORY,
            spec: TreeSpec | None = None,
            public_keys: Iterable[Any] | None = None,
            keys_are_public: bool = False,
            time_range: tuple[Any, Any] | None = None,
            max_windows: int | None = None,
            period: Duration | float | None = None,
        ) -> None:
            keys = Keys.decided(public_keys, keys_are_public)
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id, key=key)
            super().__init__(
                tree_recipe(domain, declared_bounds(bounds, elements, unit), memory, spec),
                privacy,
                elements,
                keys=keys,
                time_range=time_range,
                max_windows=max_windows,
                period=period,
            )


def tree_recipe(domain: Domain, bounds: ContributionBounds, memory: int, spec: TreeSpec | None) -> SketchInput:
    """The recipe of a tree over a domain."""
    if spec is None:
        spec = TreeSpec.for_memory(domain, memory)
    _validate.instance(TreeSpec, spec=spec)
    if spec.domain != domain:
        raise ValueError("the domain of spec must be the domain of the transform")
    return SketchInput(DyadicCountSketch, spec, bounds)
