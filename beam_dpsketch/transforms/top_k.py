"""`PrivateTopK`: the most frequent values, found without a candidate list.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names; the
search is post-processing of the release, so what is found is covered by it.
"""

from __future__ import annotations

import functools
from typing import Any, overload

from beam_dpsketch.domains import BytesDomain
from beam_dpsketch.kinds.grouped_counts import Groups, top_k
from beam_dpsketch.kinds.sketched import Searchable, TopKSearch
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.records.public import Keys, TimeRange
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.transforms.outputs import TopK
from beam_dpsketch.transforms.private_release import Output, PrivateRelease, declare


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

    @overload
    def __init__(
        self: PrivateTopK[TopK],
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: None = ...,
        windows: TimeRange | None = ...,
        method: Groups | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: PrivateTopK[tuple[Any, TopK]],
        domain: Searchable | BytesDomain,
        privacy: PrivacySpec,
        *,
        k: int,
        unit: Unit,
        item: Selector = ...,
        weight: Selector = ...,
        keys: Keys,
        windows: TimeRange | None = ...,
        method: Groups | None = ...,
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
        others = {"privacy": privacy, "unit": unit, "item": item, "weight": weight, "keys": keys, "windows": windows}
        super().__init__(declare(functools.partial(top_k, domain, k, method), **others))
