"""`PrivateQuantiles`: quantiles, ranks, ranges and more of ordered values, from one release.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names, over
all levels of its tree together; a window is released once; noise is drawn once and is final before anything downstream.
"""

from __future__ import annotations

from beam_dpsketch.domains import Domain
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.records.declaring import declare_quantiles
from beam_dpsketch.records.public import Keys, TimeRange, keyed
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.transforms.steps.private_release import Family, PrivateRelease


class PrivateQuantiles(metaclass=Family):
    """Private distributions of all values (`Globally`) or of the values of each key (`PerKey`)."""

    class Globally(PrivateRelease):
        """Turn elements into one `ReleasedDyadicCountSketch` (one per window).

        Which windows have a release, and what becomes of late data: see `PrivateFrequencies.Globally`.

        Args:
          domain: the ordered universe, declared because taking it from the data would publish it, or a `TreeSpec`
            over it (`TreeSpec.for_memory`). Values outside are clamped; nulls, NaN and values of other types are
            dropped.
          privacy: what each release spends, over all levels of the tree.
          unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records.
          item: the value: a field name, a callable, or `None` for the element itself.
          weight: how much it counts, a whole number, clamped to the bounds of the unit; `None` is 1.
          windows: the windows to release; `None` takes those that have data.
        """

        def __init__(
            self,
            domain: Domain | TreeSpec,
            privacy: PrivacySpec,
            *,
            unit: Unit,
            item: Selector = None,
            weight: Selector = None,
            windows: TimeRange | None = None,
        ) -> None:
            super().__init__(declare_quantiles(domain, privacy, unit, item, weight, windows=windows))

    class PerKey(PrivateRelease):
        """Turn (key, value) pairs, or rows and batches with a key field, into (key, `ReleasedDyadicCountSketch`).

        Args:
          domain, privacy, item, weight: as in `Globally`; on pairs, selectors apply to the value.
          unit, keys, windows: as in `PrivateFrequencies.PerKey`.
        """

        def __init__(
            self,
            domain: Domain | TreeSpec,
            privacy: PrivacySpec,
            *,
            unit: Unit,
            keys: Keys,
            item: Selector = None,
            weight: Selector = None,
            windows: TimeRange | None = None,
        ) -> None:
            super().__init__(declare_quantiles(domain, privacy, unit, item, weight, keyed(keys), windows))
