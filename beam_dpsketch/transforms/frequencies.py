"""`PrivateFrequencies`: how often each item occurs, from one release.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names; a
window is released once; noise is drawn once and is final before anything downstream sees it.
"""

from __future__ import annotations

from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.records.declaring import declare_frequencies
from beam_dpsketch.records.public import Keys, TimeRange, keyed
from beam_dpsketch.records.selectors import Selector
from beam_dpsketch.records.units import Unit
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.transforms.steps.private_release import Family, PrivateRelease


class PrivateFrequencies(metaclass=Family):
    """Private frequencies of all elements (`Globally`) or of the elements of each key (`PerKey`)."""

    class Globally(PrivateRelease):
        """Turn elements into one `ReleasedSketch` (one per window).

        Empty input in the global window gives a release too, so that its absence says nothing; so does every window of
        `windows`. Without it, windows without data have no release. Data that arrive after the watermark has passed
        the end of their window are dropped.

        Args:
          spec: the sketch, see `SketchSpec` and `SketchSpec.for_accuracy`; or `ListedItems`, to count these exactly.
          privacy: what each release spends.
          unit: whom the release protects: `PrivacyId`, all records of one id, or `Record`, single records.
          item: what is counted: a field name, a callable, or `None` for the element itself.
          weight: how much it counts, a whole number, clamped to the bounds of the unit; `None` is 1.
          windows: the windows to release; `None` takes those that have data.
        """

        def __init__(
            self,
            spec: SketchSpec | ListedItems,
            privacy: PrivacySpec,
            *,
            unit: Unit,
            item: Selector = None,
            weight: Selector = None,
            windows: TimeRange | None = None,
        ) -> None:
            super().__init__(declare_frequencies(spec, privacy, unit, item, weight, windows=windows))

    class PerKey(PrivateRelease):
        """Turn (key, value) pairs, or rows and batches with a key field, into (key, `ReleasedSketch`).

        Keys are text, bytes, integers or tuples of these, and come out as such; records with others are dropped.

        Args:
          spec, privacy, item, weight: as in `Globally`; on pairs, selectors apply to the value.
          unit: as there; each privacy id contributes to at most `max_partitions` keys, in each window.
          keys: which keys are released: `PublicKeys`, a list; `KeySelection`, those that enough units vote for; or
            `AssumePublicKeys`, those that have data.
          windows: as in `Globally`: each listed key gets a release in each window. In windows, `PublicKeys` need it.
        """

        def __init__(
            self,
            spec: SketchSpec | ListedItems,
            privacy: PrivacySpec,
            *,
            unit: Unit,
            keys: Keys,
            item: Selector = None,
            weight: Selector = None,
            windows: TimeRange | None = None,
        ) -> None:
            super().__init__(declare_frequencies(spec, privacy, unit, item, weight, keyed(keys), windows))
