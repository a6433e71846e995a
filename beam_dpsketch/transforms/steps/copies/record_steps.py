"""What a step before the transform does with records: hand them on, or make new ones.

A record is what a function of the user's returned last: one that `Map`, `FlatMap`, `ParDo` or a combiner calls. Any
other step is taken to hand records on, also in pairs, lists and groups. So a step of Beam that is not known here leads
to a refusal, and not to a copy.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

import apache_beam as beam

_AROUND = ("Map.", "MapTuple.", "FlatMapTuple.")  # functions of Beam that call one of the user's and return its result
_HOLDING = ("_fn", "combinefn", "_combine_fn")  # where objects of Beam keep such a function
_GLOBAL_COMBINER = "CombineGlobally.expand.<locals>.inject_default"
_ONE_OUTPUT_EACH = (
    "Partition.ApplyPartitionFnFn",
    "_Partition.<locals>.split",  # of Beam YAML
    "_CombinePerKeyWithHotKeyFanout.expand.<locals>.SplitHotCold",
)


class Origin(NamedTuple):
    """Where the elements of a collection come from.

    Attributes:
      step: the applied transform; `None` if the pipeline does not show it.
      mains: the collections whose elements it takes one by one.
      sides: the side inputs whose elements it may hand on.
      is_new: whether a function of the user's made the elements.
      is_part: whether the other outputs of the step have no record in common with this one, as in `Partition`.
    """

    step: Any
    mains: tuple[beam.PCollection, ...] = ()
    sides: tuple[beam.PCollection, ...] = ()
    is_new: bool = False
    is_part: bool = False


def origin_of(collection: beam.PCollection) -> Origin:
    """Return where the elements of a collection come from."""
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
    """Return whether Beam made the elements, of those for which the user's function raised."""
    tag = getattr(collection.producer.transform.fn, "_dead_letter_tag", None)
    return collection.tag is not None and collection.tag == tag


def _innermost(function: Any) -> Any:
    """Return the function that decides what comes out, without what Beam wraps around it."""
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
