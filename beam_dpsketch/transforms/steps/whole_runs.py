"""Run-wide aggregates for bounded input: the clipping norm and the clipping histogram.

Guarantee: each unit is in at most one bin of the histogram. A unit is an id, or an id within one period, whose records
are all in one shard. Noise is drawn once, and the norm is final before any step reads it. Therefore, all steps in a run
use the same norm, with the privacy loss stated in `engine.norms`. In the same way, all releases of a run report the
same clipping histogram, if one bound covers several of them. The exact counts are in no message and in no display data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.transforms.window import GlobalWindows

from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.bounding.rules import rule_of_norm
from beam_dpsketch.exact.reading.groups import Row, add_wrapping
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.norms import choice_table
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.norm.choice import GRID, bin_count
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.transforms.steps.bounding import gather_records
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.windows import create_always, fires_again_late

NO_RUN: Mapping[str, Any] = MappingProxyType({})
"""Side input of steps with noise if no ledger has to pay first."""


class ChooseNorm(beam.PTransform):
    """Choose a norm from grouped shards, in units of 1/16 record: `Fraction(output, GRID)`.

    The input is bounded: (shard, records as bytes), grouped by shard, and in windows of a period if units are per
    period. The output is a single element in the global window, even for empty input.

    Args:
      sketch_input: the sketch whose counters are scaled, with the weight bounds.
      terms: terms of the release, with an `AutoNorm`.
      run: the side input that names the run, if a ledger has to pay first.
      scaled_units: calibrated number of units that should exceed the norm.
    """

    def __init__(
        self,
        sketch_input: SketchInput,
        terms: ReleaseTerms,
        idempotent_noise: IdempotentNoise | None = None,
        run: Mapping[str, Any] = NO_RUN,
        *,
        scaled_units: Fraction,
    ) -> None:
        super().__init__()
        choice_table(terms)  # raises for settings that cannot work
        self._scaled_units = scaled_units
        self._input, self._terms, self._idempotent_noise, self._run = sketch_input, terms, idempotent_noise, run

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        spec, least = self._input.spec, self._input.bounds.bound(1)  # any norm, because lengths do not depend on it
        assert isinstance(least, NormBound)
        draw = DrawNorm(spec, self._terms, self._idempotent_noise, scaled_units=self._scaled_units)
        return (
            pcoll
            | "LengthHistogram" >> LengthHistogram(NormRule(least, SketchInput(spec, least)))
            | "DrawNorm" >> beam.ParDo(draw, **self._run).with_output_types(int)
            | "MakeFinal" >> beam.Reshuffle().with_output_types(int)
        )


class LengthHistogram(beam.PTransform):
    """Compute the exact histogram of unit lengths from grouped shards. It is not private."""

    def __init__(self, rule: NormRule) -> None:
        super().__init__()
        self._rule = rule

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        bins = bin_count(self._rule.bounds.max_weight)
        return (
            pcoll
            | "CountLengths" >> beam.ParDo(CountLengths(self._rule)).with_output_types(list[int])
            | "AddUp" >> AddUpForRun(bins)
        )


class CountLengths(beam.DoFn):
    """Count the units of (shard, records) by length, once per window."""

    def __init__(self, rule: NormRule) -> None:
        self._rule = rule

    def process(
        self, element: tuple[bytes, Iterable[bytes]], pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[list[int]]:
        if fires_again_late(pane):
            return
        for part in gather_records(self._rule, element[1]):
            yield self._rule.length_histogram(part).tolist()


def _no_counts(bins: int) -> list[list[int]]:
    return [[0] * bins]


class AddUpForRun(beam.PTransform):
    """Add up exact counts of all windows to a single element in the global window, even for empty input.

    `CombineGlobally` would show them in its error if a runner mixed up two runs.
    """

    def __init__(self, bins: int) -> None:
        super().__init__()
        self._bins = bins

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        counted = pcoll | "AllWindows" >> beam.WindowInto(GlobalWindows())
        nothing = create_always(counted, None, [self._bins], _no_counts)
        return (
            (counted, nothing)
            | "WithNothing" >> beam.Flatten()
            | "Together" >> beam.WithKeys(0).with_output_types(tuple[int, list[int]])
            | "Combine" >> beam.CombinePerKey(WrappingSum())
            | "Counts" >> beam.MapTuple(lambda _, counts: [*counts]).with_output_types(list[int])
        )


class WrappingSum(beam.CombineFn):
    """Add up rows of 64-bit integers that wrap around, as all counters do."""

    def create_accumulator(self) -> Row:
        return ()

    def add_input(self, mutable_accumulator: Row, element: Row) -> Row:
        return add_wrapping(mutable_accumulator, element) if mutable_accumulator else element

    def merge_accumulators(self, accumulators: Iterable[Row]) -> Row:
        return functools.reduce(self.add_input, filter(None, accumulators), ())

    def extract_output(self, accumulator: Row) -> Row:
        return accumulator


class DrawNorm(DrawsNoise):
    """Choose the norm from the exact histogram, in units of 1/16 record."""

    def __init__(
        self, spec: Any, terms: ReleaseTerms, idempotent_noise: IdempotentNoise | None, *, scaled_units: Fraction
    ) -> None:
        super().__init__(idempotent_noise)
        self._spec, self._terms, self._scaled_units = spec, terms, scaled_units

    def process(self, element: list[int], run: bytes | None = None) -> Iterator[int]:
        lengths = np.array(element, dtype=np.int64)
        norm = self.run().choose_norm(lengths, self._spec, self._terms, scaled_units=self._scaled_units)
        yield int(norm * GRID)


class BoundByNorm(beam.DoFn):
    """Bound (shard, records) by the chosen norm, and attach it to the result."""

    def __init__(self, sketch_input: SketchInput, terms: ReleaseTerms) -> None:
        self._sketch_input, self._terms = sketch_input, terms

    def process(
        self, element: tuple[bytes, Iterable[bytes]], norm: int, pane: Any = beam.DoFn.PaneInfoParam
    ) -> Iterator[Bounded]:
        if fires_again_late(pane):
            return
        max_norm = norm_of(norm)
        assert max_norm is not None
        rule = rule_of_norm(self._sketch_input, self._terms, max_norm)
        for part in gather_records(rule, element[1]):
            yield rule.bound(part)._replace(max_norm=max_norm, shard=element[0])


def norm_of(sixteenths: int | None) -> Fraction | None:
    """Convert the output of `ChooseNorm` to a norm. `None` if no norm is chosen from the data."""
    return None if sixteenths is None else Fraction(sixteenths, GRID)


class LostByRun(beam.PTransform):
    """Add up the run's exact clipping histogram: a single element in the global window.

    Args:
      size: number of counts per shard.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return (
            pcoll | "OfShard" >> beam.FlatMap(_counts).with_output_types(list[int]) | "AddUp" >> AddUpForRun(self._size)
        )


def _counts(bounded: Bounded) -> Iterator[list[int]]:
    if bounded.lost is not None:
        yield bounded.lost.tolist()


class DrawLost(beam.PTransform):
    """Add noise to the run's clipping histogram, once, and make it final.

    Args:
      calibration: calibration of the run's releases.
      max_norm: the norm in units of 1/16 record, if it is chosen from the data.
      run: the side input that names the run, if a ledger has to pay first.
    """

    def __init__(
        self,
        calibration: Calibration,
        idempotent_noise: IdempotentNoise | None,
        max_norm: beam.PCollection | None,
        run: Mapping[str, Any] = NO_RUN,
    ) -> None:
        super().__init__()
        self._draw = _DrawLost(calibration, idempotent_noise)
        self._inputs = dict(run) if max_norm is None else {"norm": beam.pvalue.AsSingleton(max_norm), **run}

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        drawn = pcoll | "Draw" >> beam.ParDo(self._draw, **self._inputs).with_output_types(list[int])
        return drawn | "MakeFinal" >> beam.Reshuffle().with_output_types(list[int])


class _DrawLost(DrawsNoise):
    def __init__(self, calibration: Calibration, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__(idempotent_noise)
        self._calibration = calibration

    def process(self, element: list[int], norm: int | None = None, run: bytes | None = None) -> Iterator[list[int]]:
        yield self.run().draw_lost(np.array(element, dtype=np.int64), self._calibration, norm_of(norm))
