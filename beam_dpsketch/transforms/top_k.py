"""`PrivateTopK`: the most frequent values, found without a candidate list.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names; the
search is post-processing of the release, so what is found is covered by it.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.declaring import Searchable, declare_top_k
from beam_dpsketch.records.grouping import Groups
from beam_dpsketch.records.public import Keys, TimeRange, keyed
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.transforms.outputs import TopK
from beam_dpsketch.transforms.steps.private_release import Family, PrivateRelease


class _TopKRelease(PrivateRelease):
    """Turn elements into one `TopK`, or one per key."""

    _is_search = True

    def __init__(self, k: int, declaration: Declaration) -> None:
        _validate.whole(low=1, high=1 << 31, k=k)
        super().__init__(declaration)
        self._k = k

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        released, k = super().expand(pcoll), self._k
        if not self._declaration.is_keyed:
            return released | "TopK" >> beam.Map(TopK.of, k).with_output_types(TopK)
        search = beam.MapTuple(lambda key, release: (key, TopK.of(release, k)))
        return released | "TopK" >> search.with_output_types(tuple[Any, TopK])


class PrivateTopK(metaclass=Family):
    """Private top-K lists of all values (`Globally`) or of the values of each key (`PerKey`)."""

    class Globally(_TopKRelease):
        """Turn elements into one `TopK` (one per window).

        Which windows have a release, and what becomes of late data: see `PrivateFrequencies.Globally`.

        Args:
          domain: the universe: an ordered `Domain`, `TextDomain` or `BytesDomain`; or a layout over it (`TreeSpec`,
            `PrefixSpec`).
          privacy: what each release spends.
          k: how many values are wanted.
          unit, item, weight, windows: as in `PrivateQuantiles.Globally`.
          method: `None` searches a tree of fixed size, for delta = 0. `Groups(delta)` counts each item for itself and
            releases those above a threshold, as `ReleasedCounts`: closer counts, where distinct items can be shuffled.
            Windows without a released item then have a release only in the global window and with `windows`.
        """

        def __init__(
            self,
            domain: Searchable,
            privacy: PrivacySpec,
            *,
            k: int,
            unit: Unit,
            item: Selector = None,
            weight: Selector = None,
            windows: TimeRange | None = None,
            method: Groups | None = None,
        ) -> None:
            super().__init__(k, declare_top_k(method, domain, privacy, unit, item, weight, windows=windows))

    class PerKey(_TopKRelease):
        """Turn (key, value) pairs, or rows and batches with a key field, into (key, `TopK`).

        Args:
          domain, privacy, k, item, weight, method: as in `Globally`; on pairs, selectors apply to the value.
          unit, keys, windows: as in `PrivateFrequencies.PerKey`. With `method=Groups(delta)`, `AssumePublicKeys`
            assumes nothing: a key shows only if one of its items is released. `PublicKeys` always have a release in the
            global window and with `windows`; elsewhere they show in the same way. `KeySelection` is refused.
        """

        def __init__(
            self,
            domain: Searchable,
            privacy: PrivacySpec,
            *,
            k: int,
            unit: Unit,
            keys: Keys,
            item: Selector = None,
            weight: Selector = None,
            windows: TimeRange | None = None,
            method: Groups | None = None,
        ) -> None:
            super().__init__(k, declare_top_k(method, domain, privacy, unit, item, weight, keyed(keys), windows))
