"""The guard of `Record`: refuse, while the pipeline is built, steps of Beam that make copies of a record.

Guarantee: where `check_no_copies` returns, no `WindowInto`, `Flatten` or trigger before the transform makes several
elements of one, which would count several times under the noise for one. The walk goes through every step, also through
`GroupByKey`: groups that are taken apart again, `Distinct` and joins pass the copies on. What a user's own function
makes of an element is out of sight: its outputs are the records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.transforms import window
from apache_beam.transforms.trigger import AccumulationMode

from beam_dpsketch.errors import WindowingError
from beam_dpsketch.transforms.windows.guard import fires_once

_ONE_EACH = {window.GlobalWindows, window.FixedWindows, window.Sessions}
_KEEPING = (beam.Flatten, beam.WindowInto, beam.Reshuffle)
_WAY_OUT = "which would count several times with unit=Record(); {}, or protect ids with PrivacyId"


def check_no_copies(elements: beam.PCollection) -> None:
    """Refuse overlapping windows under others, groups that fire again in full, and one collection flattened twice."""
    waiting, seen = [(elements, False)], set()
    while waiting:
        collection, windowed_again = waiting.pop()
        producer = collection.producer
        if producer is None or (producer, windowed_again) in seen:
            continue
        seen.add((producer, windowed_again))
        if isinstance(producer.transform, beam.WindowInto):
            if windowed_again:
                _check_windows(collection.windowing)
            windowed_again = True
        elif isinstance(producer.transform, beam.GroupByKey):
            _check_firings(producer.inputs[0].windowing)
        elif isinstance(producer.transform, beam.Flatten):
            _check_inputs(collection)
        waiting.extend((source, windowed_again) for source in producer.inputs)


def _check_windows(windowing: Any) -> None:
    """Refuse windows that may overlap: another WindowInto makes an element for each that one was in."""
    assigned = type(windowing.windowfn)
    if assigned not in _ONE_EACH:
        raise WindowingError(
            f"{assigned.__name__} before another WindowInto make several records of each one, "
            + _WAY_OUT.format("remove the first WindowInto")
        )


def _check_firings(windowing: Any) -> None:
    """Refuse groups that may fire again with what they held before."""
    again = not fires_once(windowing.triggerfn) or windowing.allowed_lateness != 0
    if again and windowing.accumulation_mode == AccumulationMode.ACCUMULATING:
        raise WindowingError(
            "accumulation_mode=ACCUMULATING before a GroupByKey makes another record of each one at every firing, "
            + _WAY_OUT.format("choose AccumulationMode.DISCARDING")
        )


def _check_inputs(flattened: beam.PCollection) -> None:
    """Refuse one collection that comes in twice."""
    sources = list(_unchanged_sources(flattened))
    if len(set(sources)) < len(sources):
        raise WindowingError(
            "Flatten gets one collection twice, so there are two records of each one, "
            + _WAY_OUT.format("pass it once")
        )


def _unchanged_sources(collection: beam.PCollection) -> Iterator[beam.PCollection]:
    """Yield the collections whose elements these are, before steps that only join, move or window them."""
    step = collection.producer
    while step is not None and not isinstance(step.transform, _KEEPING):
        enclosing = step.parent
        step = enclosing if enclosing is not None and collection in enclosing.outputs.values() else None
    if step is None:
        yield collection
        return
    for source in step.inputs:
        yield from _unchanged_sources(source)
