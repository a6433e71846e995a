"""Guards before a run: record copies under `Record`, runners that may repeat a release, and budgets.

Guarantee: if `check_no_copies` returns, no step before the transform makes several elements from one, which would count
several times under the noise for a single element. A record is the last value returned by a function of the user that
`Map`, `FlatMap`, `ParDo` or a combiner calls. Any other step is assumed to pass records on, including in pairs, lists
and groups. Therefore, an unknown Beam step causes a refusal, and not a copy.

Three causes make copies: windows assigned again, groups that fire again, and a record that arrives by two ways. The
walk visits every step, including steps before user functions and their side inputs, because earlier copies persist.

Limits: the guard cannot see the number of elements that a function returns for one, at once or in a list that is
flattened later, and their windows if these are `WindowedValue`s. It cannot see one record's influence on others, as
when it replaces them in a sample.

Other guards warn about runners while the pipeline is built, and refuse to run it twice for one budget. A share of a
`PrivacyBudget` pays for one release, and each run makes one. Beam calls the error handlers of a pipeline each time that
`Pipeline.run` begins, before all other work, and an error handler can count runs. It misses runs by other means: a
template, a notebook, a service, or a runner that is called directly.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.runners.direct.direct_runner import SwitchingDirectRunner
from apache_beam.transforms import window
from apache_beam.transforms.core import WindowIntoFn
from apache_beam.transforms.trigger import AccumulationMode

from beam_dpsketch.errors import BudgetExceededError, LedgerError, WindowingError
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from beam_dpsketch.transforms.steps.windows import fires_once

_ONE_EACH = {window.GlobalWindows, window.FixedWindows, window.Sessions}
_WAY_OUT = "$privacy_unit_Record would protect each copy separately. {}, or protect privacy ids with $PrivacyId"
_AROUND = ("Map.", "MapTuple.", "FlatMapTuple.")  # functions of Beam that call a user function and return its result
_HOLDING = ("_fn", "combinefn", "_combine_fn")  # attributes of Beam objects with such a function
_GLOBAL_COMBINER = "CombineGlobally.expand.<locals>.inject_default"
_ONE_OUTPUT_EACH = (
    "Partition.ApplyPartitionFnFn",
    "_Partition.<locals>.split",  # from Beam YAML
    "_CombinePerKeyWithHotKeyFanout.expand.<locals>.SplitHotCold",
)


def check_no_copies(elements: beam.PCollection) -> None:
    """Raise if reassigned windows may overlap, groups may fire again in full, or records take two paths."""
    find_origin = functools.cache(origin_of)
    _check_one_way(elements, find_origin)
    waiting, seen = [(elements, False)], set()
    while waiting:
        collection, windowed_again = waiting.pop()
        origin = find_origin(collection)
        if origin.step is None or (collection, windowed_again) in seen:
            continue
        seen.add((collection, windowed_again))
        _check_own_windows(collection, origin)
        if isinstance(origin.step.transform, beam.WindowInto):
            if windowed_again:
                _check_windows(collection.windowing)
            windowed_again = True
        elif isinstance(origin.step.transform, beam.GroupByKey):
            _check_firings(origin.mains[0].windowing)
        waiting.extend((source, windowed_again) for source in origin.mains)
        waiting.extend((source, False) for source in origin.sides)  # read window by window
        if origin.is_new:
            for source in (*origin.mains, *origin.sides):
                _check_one_way(source, find_origin)


def _check_own_windows(collection: beam.PCollection, origin: Origin) -> None:
    """Raise if a step other than `WindowInto` changes windows, because it may put an element into several."""
    if _has_own_windows(collection, origin):
        raise WindowingError(
            "",
            f'Step "{origin.step.full_label}" assigns windows and may copy records. '
            + _WAY_OUT.format("Use beam.WindowInto"),
            "E424",
        )


def _has_own_windows(collection: beam.PCollection, origin: Origin) -> bool:
    transform = origin.step.transform
    if isinstance(transform, beam.WindowInto):
        return collection.windowing.windowfn != transform.windowing.windowfn
    if isinstance(transform, beam.ParDo) and isinstance(transform.fn, WindowIntoFn):
        return True
    if not origin.mains or (type(transform) is beam.ParDo and not origin.is_new):
        return False  # Beam's `Reshuffle` removes windows and restores them
    return collection.windowing.windowfn != origin.mains[0].windowing.windowfn


def _check_windows(windowing: Any) -> None:
    """Raise if windows may overlap, because another WindowInto makes an element for each window."""
    assigned = type(windowing.windowfn)
    if assigned not in _ONE_EACH:
        raise WindowingError(
            "",
            f"{assigned.__name__} before another WindowInto may copy records. "
            + _WAY_OUT.format("Remove the first WindowInto"),
            "E424",
        )


def _check_firings(windowing: Any) -> None:
    """Raise if groups may fire again with their earlier contents."""
    again = not fires_once(windowing.triggerfn) or windowing.allowed_lateness != 0
    if again and windowing.accumulation_mode == AccumulationMode.ACCUMULATING:
        raise WindowingError(
            "",
            "accumulation_mode=ACCUMULATING before a GroupByKey may copy records at every firing. "
            + _WAY_OUT.format("Use AccumulationMode.DISCARDING"),
            "E424",
        )


def _check_one_way(elements: beam.PCollection, find_origin: Callable[[beam.PCollection], Origin]) -> None:
    """Raise if records arrive by two ways from their source.

    Outputs of a `Partition` are disjoint, and ways that part there may meet again.
    """
    waiting, passed, read_by = [elements], set(), dict[beam.PCollection, Any]()
    while waiting:
        origin = find_origin(waiting.pop())
        if origin.is_new or (origin.is_part and origin.step in passed):
            continue
        passed.add(origin.step)
        for source in (*origin.mains, *origin.sides):
            if source in read_by:
                raise WindowingError("", _two_ways(source, read_by[source], origin.step), "E424")
            read_by[source] = origin.step
            waiting.append(source)


def _two_ways(source: beam.PCollection, *steps: Any) -> str:
    ways = " and ".join(sorted({f'"{step.full_label}"' for step in steps}))
    outermost = source.producer
    while outermost.parent is not None and source in outermost.parent.outputs.values():
        outermost = outermost.parent
    return f'Records of "{outermost.full_label}" arrive twice, through {ways}. ' + _WAY_OUT.format(
        "Pass them on once, or split them with beam.Partition"
    )


class Origin(NamedTuple):
    """Origin of a collection's elements.

    Attributes:
      step: the applied transform. `None` if the pipeline does not show it.
      mains: collections that it processes element by element.
      sides: side inputs whose elements it may pass on.
      is_new: whether a user function created the elements.
      is_part: whether outputs of the step are disjoint, as in `Partition`.
    """

    step: Any
    mains: tuple[beam.PCollection, ...] = ()
    sides: tuple[beam.PCollection, ...] = ()
    is_new: bool = False
    is_part: bool = False


def origin_of(collection: beam.PCollection) -> Origin:
    """Find the origin of a collection's elements."""
    step = collection.producer
    if step is None:
        return Origin(None, is_new=True)
    mains = tuple(each for each in step.inputs if isinstance(each, beam.PCollection))
    if not isinstance(step.transform, beam.ParDo) or isinstance(step.transform, beam.WindowInto):
        return Origin(step, mains)
    function = _innermost(step.transform.fn)
    is_new = not _is_of_beam(function) and not _is_dead_letter(collection)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    sides = tuple(each.pvalue for each in step.side_inputs) if is_new or name == _GLOBAL_COMBINER else ()
    return Origin(step, mains, sides, is_new, _is_of_beam(function) and name in _ONE_OUTPUT_EACH)


def _is_dead_letter(collection: beam.PCollection) -> bool:
    """Whether Beam created the elements from inputs for which the user function raised."""
    tag = getattr(collection.producer.transform.fn, "_dead_letter_tag", None)
    return collection.tag is not None and collection.tag == tag


def _innermost(function: Any) -> Any:
    """Unwrap the function that decides the output from Beam's wrappers."""
    while _is_of_beam(function):
        held = next((getattr(function, name) for name in _HOLDING if getattr(function, name, None) is not None), None)
        if held is None and isinstance(function, FunctionType) and function.__qualname__.startswith(_AROUND):
            cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
            held = cells["fn"].cell_contents if "fn" in cells else None
        if held is None:
            return function
        function = held
    return function


def _is_of_beam(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).split(".")[0] == "apache_beam"


_REMOTE = ("DataflowRunner", "FlinkRunner", "SparkRunner")
_REPLAYING = ("FlinkRunner", "SparkRunner")
_MAY_BE_FLINK = ("FlinkRunner", "PortableRunner")


def check_runner(elements: beam.PCollection, idempotent_noise: IdempotentNoise | None) -> None:
    """Warn about releases that the runner may repeat or lose."""
    options = elements.pipeline.options
    runner = type(elements.pipeline.runner).__name__
    served = _is_served(elements.pipeline)
    if idempotent_noise is None and (runner in _REPLAYING or served):
        warnings.warn(
            f"{runner} may draw new noise after a failure for a window that is already published, which would be a "
            "second release of the same data. Add .with_idempotent_noise(...), or write to a transactional sink",
            stacklevel=3,
        )
    if idempotent_noise is None and isinstance(elements.pipeline.runner, SwitchingDirectRunner):
        warnings.warn(
            "DirectRunner, Beam's default, may rerun a failed pipeline on another runner. A rerun draws new noise, "
            'which may publish a second release. Name a runner: beam.Pipeline(runner="FnApiRunner"), or '
            'runner="BundleBasedDirectRunner" for a TestStream',
            stacklevel=3,
        )
    given = options.get_all_options(retain_unknown_options=True)
    if runner in _MAY_BE_FLINK and not elements.is_bounded and _drops_what_waits(given):
        warnings.warn(
            "On Flink, records held back for a checkpoint arrive late and are dropped. Add "
            "--finish_bundle_before_checkpointing",
            stacklevel=3,
        )


def check_reach(pipeline: beam.Pipeline, bill: Any) -> None:
    """Warn about a ledger in a file if workers may have separate disks."""
    runner = type(pipeline.runner).__name__
    if "://" not in bill.payer.address and (runner in _REMOTE or _is_served(pipeline)):
        warnings.warn(
            f"The ledger is a file, but workers or containers of {runner} may have separate disks, on which this file "
            "differs or is missing. Use PostgreSQL, such as postgresql://user@host/database",
            stacklevel=3,
        )


def _is_served(pipeline: beam.Pipeline) -> bool:
    """Whether another process runs the pipeline."""
    endpoint = pipeline.options.view_as(PortableOptions).job_endpoint
    return type(pipeline.runner).__name__ == "PortableRunner" and endpoint not in (None, "embed")


def _drops_what_waits(options: dict[str, object]) -> bool:
    """Whether checkpoints occur within bundles."""
    takes_checkpoints = int(str(options.get("checkpointing_interval") or -1)) > 0
    return takes_checkpoints and not options.get("finish_bundle_before_checkpointing")


class OneRun:
    """Guard against a second run of a pipeline, as a Beam error handler that handles no errors."""

    def __init__(self) -> None:
        self._ran = False

    def verify_closed(self) -> None:
        """Raise if this is a second run."""
        if self._ran:
            raise BudgetExceededError(
                "",
                "This pipeline has already run, and its budget covers one run. Build a new pipeline with its own "
                "budget",
                "E106",
            )
        self._ran = True


class BillsChecked:
    """Check at the start of a run that a ledger could pay, as a Beam error handler that handles no errors."""

    def __init__(self) -> None:
        self.bills: dict[str, Any] = {}

    def verify_closed(self) -> None:
        """Raise if the run could not be paid for. Ignore an unreachable ledger, which workers may reach."""
        try:
            first, *others = self.bills.values()
            first.check_with(others)
        except LedgerError as error:
            if not error.is_unreachable:
                raise


_CHECKED: weakref.WeakKeyDictionary[beam.Pipeline, BillsChecked] = weakref.WeakKeyDictionary()


def check_before_runs(pipeline: beam.Pipeline, path: str, bill: Any) -> None:
    """Check the bill of a transform whenever a run begins, together with the other bills of the pipeline."""
    if pipeline not in _CHECKED:
        _CHECKED[pipeline] = BillsChecked()
        pipeline._register_error_handler(_CHECKED[pipeline])
    _CHECKED[pipeline].bills[path] = bill


def allow_one_run(pipeline: beam.Pipeline) -> None:
    """Raise if the pipeline runs twice."""
    pipeline._register_error_handler(OneRun())
