"""The path that every private transform shares: guard, bound, combine exactly, release once, make it final."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import apache_beam as beam

from beam_dpsketch import _validate
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.planning.explanation import explanation
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.records.items import SketchInput
from beam_dpsketch.records.reading import RecordReader
from beam_dpsketch.records.selectors import Selectors
from beam_dpsketch.release.noising import calibrate
from beam_dpsketch.release.released_sketch import ReleasedSketch
from beam_dpsketch.release.statement import Disclosure
from beam_dpsketch.transforms.steps.application import application
from beam_dpsketch.transforms.steps.bounding import bounded_contributions
from beam_dpsketch.transforms.steps.bounding_over_windows import BoundedOverWindows
from beam_dpsketch.transforms.steps.copy_guard import check_no_copies
from beam_dpsketch.transforms.steps.declarations import Keys
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise, priorities_of
from beam_dpsketch.transforms.steps.keying import KeyRecords
from beam_dpsketch.transforms.steps.raw_sketch_fn import RawSketchFn
from beam_dpsketch.transforms.steps.release_once import DrawRun, ReleaseOnce
from beam_dpsketch.transforms.steps.runner_guard import check_runner
from beam_dpsketch.transforms.steps.sample_check import ReadsElements
from beam_dpsketch.transforms.steps.summing import summed_in_state
from beam_dpsketch.transforms.windows.guard import check_windowing, is_global
from beam_dpsketch.transforms.windows.time_range import CreateInEveryWindow, FilterToTimeRange, TimeRange
from beam_dpsketch.transforms.windows.window_limit import WindowLimit

IDENTITY_SELECTORS = Selectors()


class PrivateRelease(ReadsElements):
    """Elements to one release, or one per key; the transforms for users say which sketch."""

    _is_search: ClassVar[bool] = False

    def __init__(
        self,
        recipe: SketchInput,
        privacy: PrivacySpec,
        elements: Selectors,
        *,
        keys: Keys | None = None,
        time_range: tuple[Any, Any] | None = None,
        max_windows: int | None = None,
        period: Any = None,
    ) -> None:
        super().__init__()
        _validate.instance(PrivacySpec, privacy=privacy)
        self._limit = WindowLimit.declared(max_windows, period, has_privacy_id=elements.privacy_id is not None)
        if keys is None and recipe.bounds.max_partitions > 1:
            raise ValueError("bounds.max_partitions must be 1 without keys: there is one partition")
        if keys is not None:
            keys.check_partitions(recipe.bounds)
        if time_range is not None and keys is not None and keys.public is None:
            raise ValueError(
                "time_range with keys_are_public=True would still show which windows have data for a key; list the "
                "keys with public_keys, or leave time_range out"
            )
        calibrate(recipe.kind, recipe.spec, privacy, bounds=recipe.bounds, windows=max_windows or 1)
        self._recipe = recipe
        self._privacy = privacy
        self._elements = elements
        self._keys = keys
        self._time_range = None if time_range is None else TimeRange.declared(time_range)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        windows = check_windowing(pcoll)
        self._check_windows(pcoll, windows)
        if self._elements.privacy_id is None:
            check_no_copies(pcoll)
        windows = self._limit.max_windows if self._limit else windows
        self.check_types(pcoll)
        check_runner(pcoll, self._idempotent_noise)
        keyed = self._keys is not None
        output_type = tuple[Any, ReleasedSketch] if keyed else ReleasedSketch
        calibrate(self._recipe.kind, self._recipe.spec, self._privacy, bounds=self._recipe.bounds, windows=windows)
        combined = self._combined(pcoll)  # accumulator, or (key, accumulator)
        self.check_release_id(pcoll)
        return (
            combined
            | "ReleaseOnce"
            >> beam.ParDo(
                ReleaseOnce(
                    self._privacy.paying_for(application(pcoll)),
                    bounds=self._recipe.bounds,
                    unit=self._unit(pcoll),
                    windows=windows,
                    disclosed=self._disclosed(pcoll),
                    keyed=keyed,
                    period_micros=self._limit.period_micros if self._limit else 0,
                    idempotent_noise=self._idempotent_noise,
                ),
                **self._run(pcoll),
            ).with_output_types(output_type)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(output_type)
        )

    def default_label(self) -> str:
        """The name for users, such as `PrivateFrequencies.PerKey`."""
        return type(self).__qualname__

    def explain(self, n: int | None = None) -> str:
        """What will be released, in words, with what to expect of it, before any data is read.

        Quantiles: the error of ranks, given n. Frequencies: how wide intervals are, and given n, the error with
        collisions on made-up data. Top-K lists: the detection limit, from which weight on values are found. Where
        answers would be mostly noise, it says so.

        Args:
          n: about how many records (or what weight) count in one release, and per key, in that of one key. Records
            that the bounds drop do not count.
        """
        recipe = self._recipe
        windows = self._limit.max_windows if self._limit else 1
        return explanation(
            recipe.kind, recipe.spec, self._privacy, recipe.bounds, n, windows=windows, searched=self._is_search
        )

    def display_data(self) -> dict[str, Any]:
        """The public settings; neither the seed nor a key of the hash."""
        declared: dict[str, Any] = {} if self._time_range is None else {"time_range": str(self._time_range)}
        limit = {} if self._limit is None else dataclasses.asdict(self._limit)
        return {**settings(self._recipe, self._privacy), **declared, **limit, **self.display_of_noise()}

    def _check_windows(self, elements: beam.PCollection, windows: int) -> None:
        if windows > 1 and self._elements.privacy_id is not None and self._limit is None:
            raise WindowingError(
                "SlidingWindows with privacy_id would let one privacy id into any number of overlapping windows; say "
                'in how many with max_windows, or use FixedWindows, or unit="record"'
            )
        starts = self._window_starts(elements)
        if self._limit is not None:
            self._limit.periods(elements, starts)
        if starts is None and not is_global(elements) and self._keys is not None and self._keys.public is not None:
            raise WindowingError(
                "public_keys in windows would show which windows have data for a key; declare the windows with "
                "time_range=(start, end), or use the global window, or keys_are_public=True"
            )

    def _unit(self, elements: beam.PCollection) -> PrivacyUnit:
        if self._elements.privacy_id is None:
            return PrivacyUnit.RECORD
        if self._limit is not None:
            return self._limit.unit
        return PrivacyUnit.PRIVACY_ID if is_global(elements) else PrivacyUnit.PRIVACY_ID_IN_WINDOW

    def _disclosed(self, elements: beam.PCollection) -> Disclosure:
        disclosed = Disclosure.WINDOWS if self._time_range is None and not is_global(elements) else Disclosure.NONE
        if self._keys is not None and self._keys.public is None:
            disclosed |= Disclosure.KEYS
        return disclosed

    def _combined(self, elements: beam.PCollection) -> beam.PCollection:
        starts = self._window_starts(elements)
        if starts is not None:
            in_range = beam.ParDo(FilterToTimeRange(starts)).with_output_types(elements.element_type)
            elements = elements | "InTimeRange" >> in_range
        values, selectors = self._values(elements)
        if starts is not None:
            every = elements.pipeline | "EveryWindow" >> CreateInEveryWindow(starts, values.windowing, self._nothing())
            values = (values, every) | "WithEveryWindow" >> beam.Flatten()
        elif self._keys is not None and self._keys.public is not None:
            every = elements.pipeline | "PublicKeys" >> beam.Create(self._nothing(), reshuffle=False)
            values = (values, every) | "WithEveryKey" >> beam.Flatten()
        fn = RawSketchFn(self._recipe, selectors)
        if self._elements.privacy_id is None:  # bounded records all come as a window ends
            values, fn = summed_in_state(values, self._recipe, selectors, keyed=self._keys is not None)
        if self._keys is not None:
            return values | "Combine" >> beam.CombinePerKey(fn)
        combine = beam.CombineGlobally(fn)
        return values | "Combine" >> (combine if is_global(elements) else combine.without_defaults())

    def _run(self, elements: beam.PCollection) -> dict[str, Any]:
        """The side input that names a run of several releases; a stream does not wait for one."""
        single = self._keys is None and is_global(elements)
        if single or not elements.is_bounded or self._idempotent_noise is not None:
            return {}
        return {"run": beam.pvalue.AsSingleton(elements.pipeline | "Run" >> DrawRun())}

    def _window_starts(self, elements: beam.PCollection) -> range | None:
        if self._time_range is None:
            return None
        return self._time_range.window_starts(elements.windowing.windowfn, len(self._nothing()))

    def _nothing(self) -> list[Any]:
        """No contributions, to each release of a window that is made whatever the data."""
        empty = self._recipe.empty()
        return [empty] if self._keys is None else [(key, empty) for key in self._keys.public or ()]

    def _values(self, elements: beam.PCollection) -> tuple[beam.PCollection, Selectors]:
        """What is to be combined, keyed if there are keys, and how to read it."""
        keyed = self._keys is not None
        records = RecordReader(self._elements, per_key=keyed, public_keys=self._keys.public if self._keys else None)
        if self._elements.privacy_id is not None:
            return elements | "BoundContributions" >> self._bounded(elements, records), IDENTITY_SELECTORS
        if keyed:
            key_records = beam.ParDo(KeyRecords(records, self._recipe)).with_output_types(tuple[Any, Any])
            return elements | "Key" >> key_records, self._elements
        return elements, self._elements

    def _bounded(self, elements: beam.PCollection, records: RecordReader) -> beam.PTransform:
        if self._limit is None:
            return Bounded(records, self._recipe, self._idempotent_noise)
        periods = self._limit.periods(elements, self._window_starts(elements))
        return BoundedOverWindows(records, self._recipe, self._limit.max_windows, periods, self._idempotent_noise)


def settings(recipe: SketchInput, privacy: PrivacySpec) -> dict[str, Any]:
    """The public settings of a release as display data."""
    bounds = {name: str(value) for name, value in dataclasses.asdict(recipe.bounds).items()}
    return {
        "sketch": recipe.kind.name,
        "counters": recipe.spec.cells,
        **{name: getattr(recipe.spec, name) for name in ("depth", "width") if hasattr(recipe.spec, name)},
        "rho": float(privacy.rho),
        "neighboring": privacy.neighboring.name,
        **bounds,
    }


class Bounded(beam.PTransform):
    """Contribution bounding as one step of the graph."""

    def __init__(self, records: RecordReader, recipe: SketchInput, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._records = records
        self._recipe = recipe
        self._idempotent_noise = idempotent_noise

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return bounded_contributions(pcoll, self._records, self._recipe, priorities_of(self._idempotent_noise))
