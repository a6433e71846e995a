"""`PrivateTopK`: the most frequent values, found without a candidate list.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names; the
search is post-processing of the release, so what is found is covered by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import apache_beam as beam
from apache_beam.utils.timestamp import Duration

from beam_dpsketch import _validate
from beam_dpsketch.domains import BytesDomain, Domain
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.selectors import Selector, Selectors
from beam_dpsketch.sketches.prefix import PrefixSpec, PrefixTree
from beam_dpsketch.sketches.tree_spec import DEFAULT_MEMORY, TreeSpec
from beam_dpsketch.transforms.outputs import TopK
from beam_dpsketch.transforms.quantiles import tree_recipe
from beam_dpsketch.transforms.steps.declarations import Keys, Unit, declared_bounds
from beam_dpsketch.transforms.steps.private_release import PrivateRelease

SEARCH_ARITY = 16
LEAF_SHARE = Fraction(1, 2)


class PrivateTopK:
    """Private top-K lists of all values (`Globally`) or of the values of each key (`PerKey`)."""

    class Globally(PrivateRelease):
        """Elements to one `TopK` (one per window).

        Which windows have a release, and what becomes of late data: see `PrivateFrequencies.Globally`.

        Args:
          domain: the universe: an ordered `Domain`, or `TextDomain` or `BytesDomain`.
          privacy: what each release spends.
          k: how many values are wanted.
          item, weight, privacy_id, unit, bounds, memory, time_range, max_windows, period: as in
            `PrivateQuantiles.Globally`.
        """

        _is_search = True

        def __init__(
            self,
            domain: Domain | BytesDomain,
            privacy: PrivacySpec,
            *,
            k: int,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            memory: int = DEFAULT_MEMORY,
            time_range: tuple[Any, Any] | None = None,
            max_windows: int | None = None,
            period: Duration | float | None = None,
        ) -> None:
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id)
            super().__init__(
                _recipe(domain, declared_bounds(bounds, elements, unit), memory),
                privacy,
                elements,
                time_range=time_range,
                max_windows=max_windows,
                period=period,
            )
            self._k = _checked(k)

        def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
            return super().expand(pcoll) | "TopK" >> beam.Map(TopK.of, self._k).with_output_types(TopK)

    class PerKey(PrivateRelease):
        """(key, value) pairs, or rows and batches with `key="field"`, to (key, `TopK`).

        Keys are data: see `PrivateFrequencies.PerKey`.

        Args:
          domain, privacy, k, item, weight, privacy_id, unit, bounds, memory: as in `Globally`.
          key, public_keys, keys_are_public, time_range, max_windows, period: as in `PrivateFrequencies.PerKey`.
        """

        _is_search = True

        def __init__(
            self,
            domain: Domain | BytesDomain,
            privacy: PrivacySpec,
            *,
            k: int,
            key: Selector = None,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            memory: int = DEFAULT_MEMORY,
            public_keys: Iterable[Any] | None = None,
            keys_are_public: bool = False,
            time_range: tuple[Any, Any] | None = None,
            max_windows: int | None = None,
            period: Duration | float | None = None,
        ) -> None:
            keys = Keys.decided(public_keys, keys_are_public)
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id, key=key)
            super().__init__(
                _recipe(domain, declared_bounds(bounds, elements, unit), memory),
                privacy,
                elements,
                keys=keys,
                time_range=time_range,
                max_windows=max_windows,
                period=period,
            )
            self._k = _checked(k)

        def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
            top = beam.Map(_keyed_top, self._k).with_output_types(tuple[Any, TopK])
            return super().expand(pcoll) | "TopK" >> top


def _recipe(domain: Domain | BytesDomain, bounds: ContributionBounds, memory: int) -> SketchInput:
    if isinstance(domain, BytesDomain):
        return SketchInput(PrefixTree, PrefixSpec.for_memory(domain, memory), bounds)
    spec = TreeSpec.for_memory(domain, memory, arity=SEARCH_ARITY, leaf_share=LEAF_SHARE)
    return tree_recipe(domain, bounds, memory, spec)


def _checked(k: int) -> int:
    _validate.whole(low=1, high=1 << 31, k=k)
    return k


def _keyed_top(element: tuple[Any, Any], k: int) -> tuple[Any, TopK]:
    key, released = element
    return key, TopK.of(released, k)
