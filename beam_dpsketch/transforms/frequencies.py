"""`PrivateFrequencies`: how often each item occurs, as a sketch that answers for any item, for ever.

Guarantee: each release is rho-zCDP for the unit and the neighbouring relation that its privacy statement names; a
window is released once; noise is drawn once and is final before anything downstream sees it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from apache_beam.utils.timestamp import Duration

from beam_dpsketch import _validate
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionBounds
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.selectors import Selector, Selectors
from beam_dpsketch.sketches import SKETCHES
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.transforms.steps.declarations import Keys, Unit, declared_bounds
from beam_dpsketch.transforms.steps.private_release import PrivateRelease

Sketch: TypeAlias = Literal["count_sketch", "count_min"]


class PrivateFrequencies:
    """Private frequencies of all elements (`Globally`) or of the elements of each key (`PerKey`)."""

    class Globally(PrivateRelease):
        """Elements to one `ReleasedSketch` (one per window).

        Empty input in the global window gives a release too, so that nothing is said by its absence; so does every
        window of `time_range`. Without it, windows without data have no release. Data that arrive after the watermark
        has passed the end of their window are dropped.

        Args:
          spec: the sketch; see `SketchSpec` and `SketchSpec.for_accuracy`.
          privacy: what each release spends.
          item: what is counted: a field name, a callable, or `None` for the element itself.
          weight: how much it counts, a whole number, clamped to the bounds; `None` is 1.
          privacy_id: who is protected: all records of one id, bounded as `bounds` say.
          unit: "record" to protect only single records. Exactly one of this and privacy_id must be given.
          bounds: what one unit may contribute; more is dropped, at random. Must be given with privacy_id, and with its
            max_weight where weight is given.
          sketch: "count_sketch" (unbiased, takes deletions) or "count_min" (does not underestimate).
          time_range: (start, end) of the windows to release, as Beam Timestamps, datetimes (without a time zone: UTC)
            or seconds. Each window in it gets a release, whether it has data or not; elements in others are dropped,
            before anything is bounded. It must begin and end with a window. `None` takes the windows that have data,
            and the privacy statement says that these are published.
          max_windows: in how many windows each privacy id counts, in each of them within the bounds; noise grows with
            its square root. Without it an id is protected within each fixed window alone; sliding windows need it. On
            bounded input the windows are chosen at random; on unbounded input they are the first ones with data of
            the id.
          period: how long ids are protected: max_windows holds in each such period, a multiple of the time from one
            window to the next, as a Beam Duration or in seconds. A window is of the period in which it ends; periods
            count from the start of time_range, else from 1970. `None` is all of the input, which must be bounded or
            have a time_range.
        """

        def __init__(
            self,
            spec: SketchSpec,
            privacy: PrivacySpec,
            *,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            sketch: Sketch = "count_sketch",
            time_range: tuple[Any, Any] | None = None,
            max_windows: int | None = None,
            period: Duration | float | None = None,
        ) -> None:
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id)
            recipe = frequency_recipe(sketch, spec, declared_bounds(bounds, elements, unit))
            super().__init__(recipe, privacy, elements, time_range=time_range, max_windows=max_windows, period=period)

    class PerKey(PrivateRelease):
        """(key, value) pairs, or rows and batches with `key="field"`, to (key, `ReleasedSketch`).

        Keys are data. Either `public_keys` lists them: every listed key gets a release, whether it has data or not,
        and others are dropped. Or `keys_are_public=True` states that it is no secret which keys have data. Keys are
        text, bytes, integers or tuples of these, and come out as such; records with others are dropped.

        Args:
          spec, privacy, item, weight, privacy_id, unit, bounds, sketch: as in `Globally`; on pairs, selectors apply
            to the value. Each privacy id contributes to at most `bounds.max_partitions` keys.
          key: the key, a field name or a callable; `None` where elements are pairs.
          public_keys: the keys to release.
          keys_are_public: the caller's word that the keys in the data may be published.
          max_windows, period: as in `Globally`; `bounds.max_partitions` holds in each window.
          time_range: as in `Globally`, with `public_keys`: each of them gets a release in each window of the range.
            In windows, `public_keys` need it.
        """

        def __init__(
            self,
            spec: SketchSpec,
            privacy: PrivacySpec,
            *,
            key: Selector = None,
            item: Selector = None,
            weight: Selector = None,
            privacy_id: Selector = None,
            unit: Unit | None = None,
            bounds: ContributionBounds | None = None,
            sketch: Sketch = "count_sketch",
            public_keys: Iterable[Any] | None = None,
            keys_are_public: bool = False,
            time_range: tuple[Any, Any] | None = None,
            max_windows: int | None = None,
            period: Duration | float | None = None,
        ) -> None:
            keys = Keys.decided(public_keys, keys_are_public)
            elements = Selectors(item=item, weight=weight, privacy_id=privacy_id, key=key)
            recipe = frequency_recipe(sketch, spec, declared_bounds(bounds, elements, unit))
            super().__init__(
                recipe,
                privacy,
                elements,
                keys=keys,
                time_range=time_range,
                max_windows=max_windows,
                period=period,
            )


def frequency_recipe(sketch: Sketch, spec: SketchSpec, bounds: ContributionBounds) -> SketchInput:
    """The recipe of a flat sketch, by its name."""
    _validate.one_of(SKETCHES, sketch=sketch)
    _validate.instance(SketchSpec, spec=spec)
    return SketchInput(SKETCHES[sketch], spec, bounds)
