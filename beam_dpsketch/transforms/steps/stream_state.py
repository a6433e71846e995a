"""State of streams: merge payloads of a window as they arrive, and emit the result at the window's end.

Guarantee: the state of a key and window is a merged payload, the last payload, and bytes waiting to be merged: at most
as many as are merged, or `MIN_WAITING` if that is more. The state is deleted when the window has ended. Each payload is
in exactly one output of its key and window. A runner that admits late data produces several outputs, so a `GroupByKey`
must follow, which fires once and drops the late outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.options.pipeline_options import DebugOptions, PortableOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner, SwitchingDirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer

MIN_WAITING = 1 << 12
_KEY, _WINDOW = beam.DoFn.KeyParam, beam.DoFn.WindowParam
_LOSE_TIMERS = (BundleBasedDirectRunner, SwitchingDirectRunner, FnApiRunner)


def keeps_state(elements: beam.PCollection) -> bool:
    """Whether to merge data from these elements in state: on streams, if the runner supports it."""
    return not elements.is_bounded and not loses_timers(elements.pipeline)


def loses_timers(pipeline: beam.Pipeline) -> bool:
    """Whether the runner may lose timer outputs.

    `BundleBasedDirectRunner`, which `DirectRunner` may choose, does not hold back the watermark for timers: if the
    watermark jumps over the end of a window, it drops their outputs as late. `FnApiRunner`, even as an embedded job
    server, fires only one of several fused stateful steps, if their timers have the same name.
    """
    embedded = pipeline.options.view_as(PortableOptions).job_endpoint == "embed"
    return embedded or isinstance(pipeline.runner, _LOSE_TIMERS)


def keep_keys_together(pipeline: beam.Pipeline) -> None:
    """Disable bundle splitting in Prism, as any step with state requires. Other runners ignore the option.

    Prism splits a slow bundle even between two elements of one key. Two bundles then have the state of that key at the
    same time, and writes of one are lost: a sum, or a window used by a privacy id.
    """
    pipeline.options.view_as(DebugOptions).add_experiment("prism_disable_sdf_split")


class MergedInState(beam.PTransform):
    """Merge (key, payload), both bytes, to (key, merged payload) at each window's end.

    Args:
      merge: merges payloads, associatively and commutatively.
    """

    def __init__(self, merge: Callable[[Iterable[bytes]], bytes]) -> None:
        super().__init__()
        self._merge = merge

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        keep_keys_together(pcoll.pipeline)
        return pcoll | "Merge" >> beam.ParDo(MergeInState(self._merge)).with_output_types(tuple[bytes, bytes])


class MergeInState(beam.DoFn):
    """State that merges the payloads of a key and window."""

    PAYLOADS = BagStateSpec("payloads", coders.BytesCoder())
    SIZES = ReadModifyWriteStateSpec("sizes", coders.TupleCoder((coders.VarIntCoder(), coders.VarIntCoder())))
    END = TimerSpec("end", TimeDomain.WATERMARK)
    _PAYLOADS, _SIZES, _END = beam.DoFn.StateParam(PAYLOADS), beam.DoFn.StateParam(SIZES), beam.DoFn.TimerParam(END)

    def __init__(self, merge: Callable[[Iterable[bytes]], bytes]) -> None:
        self._merge = merge

    def process(
        self,
        element: tuple[bytes, bytes],
        window: Any = _WINDOW,
        payloads: Any = _PAYLOADS,
        sizes: Any = _SIZES,
        end: Any = _END,
    ) -> None:
        _, payload = element
        known = sizes.read()
        if known is None:
            end.set(window.max_timestamp())  # not later, because runners remove the state of a window right after it
        merged, waiting = known or (0, 0)
        waiting += len(payload)
        payloads.add(payload)
        if waiting > max(merged, MIN_WAITING):
            everything = self._merge(payloads.read())
            payloads.clear()
            payloads.add(everything)
            merged, waiting = len(everything), 0
        sizes.write((merged, waiting))

    @on_timer(END)
    def at_end(self, key: Any = _KEY, payloads: Any = _PAYLOADS, sizes: Any = _SIZES) -> Iterator[tuple[bytes, bytes]]:
        """Emit the merged payload of a window that has ended."""
        yield key, self._merge(payloads.read())
        payloads.clear()
        sizes.clear()
