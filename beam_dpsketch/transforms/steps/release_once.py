"""Steps that draw noise or choose a key, once for each key and window, and name their run.

Keys of a bundle wait until they have `COUNTERS`, or the bundle ends. Their noise is drawn together, and they travel
together. `outputs.MakeFinal` splits them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.noise.keys import KeyChoice
from beam_dpsketch.noise.run import COUNTERS, Sum
from beam_dpsketch.privacy.loss.payment import Bill
from beam_dpsketch.statement.release_format import spent_record
from beam_dpsketch.transforms.steps.idempotent_noise import DrawsNoise, IdempotentNoise
from beam_dpsketch.transforms.steps.windows import place_of, steps_before


class ReleaseOnce(DrawsNoise):
    """Release `KeyedSums` as ([keys], `NoisyReleases`), or (`None`, `NoisyReleases`), once per window.

    The output contains all keys, or only the selected keys.

    Args:
      calibration: noise and terms of each release, before a norm is chosen from the data.
      named: whether each element is (run name, element). Otherwise a side input names the run, or each release is a run
        of its own.
    """

    def __init__(
        self, calibration: Calibration, idempotent_noise: IdempotentNoise | None = None, *, named: bool = False
    ) -> None:
        super().__init__(idempotent_noise)
        self._calibration, self._named = calibration, named
        self.start_bundle()

    def start_bundle(self) -> None:
        self._waiting: list[Sum] = []
        self._size = 0
        self._lost: list[int] | None = None

    def process(
        self,
        element: Any,
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        run: bytes | None = None,
        lost: list[int] | None = None,
    ) -> Iterable[WindowedValue] | None:
        # lost: clipping histogram of the run, with its noise
        run, sums = element if self._named else (run, element)
        if (place := place_of(window, pane)) is None:
            return []
        self._waiting.append(Sum(place, sums, run, (window, timestamp, pane)))
        self._size += len(sums) * sums.sketch_input.spec.cells
        self._lost = lost
        return None if self._size < COUNTERS else list(self.finish_bundle())

    def finish_bundle(self) -> Iterator[WindowedValue]:
        waiting, lost = self._waiting, self._lost
        self.start_bundle()
        for places, releases in self.run().release(waiting, self._calibration, lost):
            together: dict[Any, list[int]] = defaultdict(list)
            for number, (_, output) in enumerate(places):
                together[output].append(number)
            for (window, timestamp, pane), numbers in together.items():
                keys = [key for number in numbers for key in places[number][0].key]
                yield WindowedValue((keys or None, releases.take(numbers)), timestamp, (window,), pane)


class ChooseOnce(DrawsNoise):
    """Select keys from `KeyedSums`, once per window.

    Args:
      choice: the key selection.
    """

    def __init__(self, choice: KeyChoice, idempotent_noise: IdempotentNoise | None = None) -> None:
        super().__init__(idempotent_noise)
        self._choice = choice

    def process(
        self,
        element: KeyedSums,
        pane: Any = beam.DoFn.PaneInfoParam,
        window: Any = beam.DoFn.WindowParam,
        run: bytes | None = None,
    ) -> Iterator[Any]:
        if (window_place := place_of(window, pane)) is not None:
            places, chosen = self.run().find_released(self._choice, element, window_place)
            yield from (key for number in chosen.tolist() for key in places[number].key)


def draw_run(pipeline: beam.Pipeline, idempotent_noise: IdempotentNoise | None = None) -> beam.PCollection:
    """Draw a name for a run while it runs, as a side input of `ReleaseOnce`. Under a secret, derive it from the secret.

    All releases of a run cost its rho once, so no two runs may share a name. It cannot be drawn while the pipeline is
    built, because a template, or a pipeline object, can run again on other data. The `Reshuffle` makes the name final
    before any step reads it. If it is not durable, a name that is drawn again splits the run in two, whose rho adds up.
    """
    draw = beam.ParDo(_NameRun(idempotent_noise)).with_output_types(bytes)
    drawn = pipeline | "Run" >> beam.Impulse() | "DrawRun" >> draw
    return drawn | "FinalRun" >> beam.Reshuffle().with_output_types(bytes)


class _NameRun(DrawsNoise):
    def process(self, element: bytes) -> Iterator[bytes]:
        yield self.run().name()


def pay_run(pipeline: beam.Pipeline, bill: Bill, idempotent_noise: IdempotentNoise | None) -> beam.PCollection:
    """Name the run after a ledger account has paid for it, as a side input of each step with noise.

    The name is final before the payment, so a worker that repeats the step does not pay again. If `Reshuffle` is not
    durable, a name that is drawn again costs budget. No release stays unpaid.
    """
    return draw_run(pipeline, idempotent_noise) | "Pay" >> beam.ParDo(_Pay(bill)).with_output_types(bytes)


class _Pay(beam.DoFn):
    def __init__(self, bill: Bill) -> None:
        self._bill = bill

    def process(self, element: bytes) -> Iterator[bytes]:
        self._bill.pay(element)
        yield element


class RecordSpent(beam.PTransform):
    """Turn the name of a run into a record of its privacy loss: a single element in the global window."""

    def __init__(self, calibrated: Calibration | Counting, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__()
        self._make = _MakeRecord(calibrated, idempotent_noise)

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | "Record" >> beam.ParDo(self._make).with_output_types(bytes)


class _MakeRecord(DrawsNoise):
    def __init__(self, calibrated: Calibration | Counting, idempotent_noise: IdempotentNoise | None) -> None:
        super().__init__(idempotent_noise)
        self._calibrated = calibrated

    def process(self, element: bytes) -> Iterator[bytes]:
        yield spent_record(self.run().spent_alone(self._calibrated, element))


def run_input(
    elements: beam.PCollection,
    declared: ReleaseSpec,
    plan: WindowPlan,
    calibrated: Calibration | Counting,
    idempotent_noise: IdempotentNoise | None,
    paid: beam.PCollection | None = None,
) -> dict[str, Any]:
    """Create the side input that names the run, if no secret names it, or a ledger pays.

    If the keys are chosen from the data, and may be none, this also records the run's privacy loss. `paid` names a
    run that is already drawn and paid for. Streams use only this name, because they would wait for another side input.
    """
    if not elements.is_bounded:
        return name_of(paid)
    chooses = declared.is_keyed and declared.public_keys is None and plan.terms.selection is not None
    records_spent = plan.is_global and chooses
    if paid is None and idempotent_noise is not None and not records_spent:
        return {}
    names = draw_run(elements.pipeline) if paid is None else paid
    if records_spent:
        names | "Spent" >> RecordSpent(calibrated, idempotent_noise)
    return {} if paid is None and idempotent_noise is not None else name_of(names)


def name_of(run: beam.PCollection | None) -> dict[str, Any]:
    """Create the side input of a step that reads the name of its run, if any."""
    return {} if run is None else {"run": beam.pvalue.AsSingleton(run)}


def spent_before(releases: beam.PCollection) -> list[beam.PCollection]:
    """Find the records of privacy loss from the transforms that lead to some releases."""
    composites: dict[Any, None] = {}
    for step in steps_before(releases):
        while step is not None and step not in composites:
            composites[step] = None
            step = step.parent
    inside = [part for step in composites for part in step.parts if isinstance(part.transform, RecordSpent)]
    return [output for part in inside for output in part.outputs.values()]
