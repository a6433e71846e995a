"""How much one record loses at the end of graphs of steps, measured without noise on neighbouring databases."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple
from unittest import mock

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate, window
from apache_beam.transforms.combiners import ToList

from beam_dpsketch import AssumePublicKeys, PrivacySpec, Record, SketchSpec, WindowingError
from beam_dpsketch.engine import tables
from beam_dpsketch.transforms import PrivateFrequencies
from beam_dpsketch.transforms.steps.checks.copy_guard import check_no_copies
from beam_dpsketch.transforms.steps.windows import check_windowing
from tests.helpers import noise
from tests.helpers.graphs import NEIGHBOURS, Collections, Graph, Pair
from tests.helpers.pipelines import seen_by_sink

PRIVACY = PrivacySpec(rho=1, side_counters=None)


def release() -> beam.PTransform:
    """Return a release of how often each record counts: one cell a name."""
    one_cell = SketchSpec(kind="count_min", depth=1, width=1)
    names = AssumePublicKeys(lambda pair: pair[1])
    return PrivateFrequencies(one_cell, PRIVACY, unit=Record(), keys=names, item=lambda pair: pair[0])


def refusal(elements: beam.PCollection) -> str | None:
    """Return why elements are refused before a release, or `None`."""
    try:
        check_windowing(elements)
        check_no_copies(elements)
    except WindowingError as error:
        return str(error)
    return None


class Measured(NamedTuple):
    """What is known of graphs: why some were refused, and the largest loss of one record in the others.

    A loss is a multiple of the claimed rho.
    """

    refusals: dict[str, str]
    losses: dict[str, Fraction]

    @property
    def broken(self) -> list[str]:
        """The accepted graphs that lose more than they claim."""
        return [label for label, loss in self.losses.items() if loss > 1]


def measure(graphs: Iterable[Graph]) -> Measured:
    """Run all graphs that are accepted in one pipeline, without noise."""
    refusals, accepted = {}, []

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        alike: list[Collections] = []
        for graph in graphs:
            label = graph.label
            ends = pipeline | graph
            if why := refusal(ends):
                refusals[label] = why
                pipeline.transforms_stack[0].parts.pop()  # which does not run then
                continue
            accepted.append(label)
            ends = ends | f"{label}, marked" >> beam.Map(_mark, label).with_output_types(Pair)
            together = next((each for each in alike if each[0].windowing == ends.windowing), None)
            if together is None:
                alike.append([ends])
            else:
                together.append(ends)
        counts = [
            ends
            | f"joined {place}" >> beam.Flatten()
            | f"released {place}" >> release()
            | f"counts {place}" >> _Counts()
            for place, ends in enumerate(alike)
        ]
        return counts | beam.Flatten() | ToList()

    with (
        mock.patch.object(tables, "add_noise", noise.exact),
        mock.patch.object(userstate, "get_dofn_specs", _specs_of_each_class()),
        mock.patch.object(PipelineOptions, "view_as", functools.cache(PipelineOptions.view_as)),
    ):
        (counts,) = seen_by_sink(build, "--no_pipeline_type_check")
    return Measured(refusals, dict.fromkeys(accepted, Fraction(0)) | _largest_losses(counts))


def _largest_losses(counts: list[tuple[str, str, int, Fraction]]) -> dict[str, Fraction]:
    """Return the largest loss of one record in each graph, over all pairs of neighbours."""
    by_record: dict[Any, Counter[str]] = defaultdict(Counter)
    loss_of_one, records = {}, defaultdict(set)
    for name, interval, count, loss in counts:
        label, database, record = name.split(":", 2)
        by_record[label, database, record][interval] += count
        loss_of_one[label] = loss
        records[label].add(record)

    def change(label: str, record: str, first: str, second: str) -> int:
        before, after = by_record[label, first, record], by_record[label, second, record]
        return sum((after[interval] - before[interval]) ** 2 for interval in {**before, **after})

    return {
        label: loss_of_one[label] * max(change(label, name, *pair) for name in names for pair in NEIGHBOURS)
        for label, names in records.items()
    }


def _specs_of_each_class() -> Callable[[beam.DoFn], Any]:
    """Return a function for what Beam asks about state many times over; it asks once for each class."""
    known, ask = {}, userstate.get_dofn_specs

    def specs(function: beam.DoFn) -> Any:
        kind = type(function)
        if kind not in known:
            known[kind] = ask(function)
        return known[kind]

    return specs


def _mark(pair: Pair, label: str) -> Pair:
    return pair[0], f"{label}:{pair[1]}"


class _Counts(beam.PTransform):
    """Turns releases into their counts, and the loss of a change by 1 as a multiple of rho, in the global window."""

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | beam.Map(_count) | beam.WindowInto(window.GlobalWindows())


def _count(released: Any, interval: Any = beam.DoFn.WindowParam) -> tuple[str, str, int, Fraction]:
    name, sketch = released
    (sigma_squared,) = sketch.privacy.sigma_squared_per_level
    return name, str(interval), int(sketch.counters.sum()), 1 / (2 * sigma_squared * sketch.privacy.rho)
