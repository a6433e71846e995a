"""Beam that remembers what it finds out again and again while pipelines are built.

Pipelines of tests are many and small. Half of their time was Beam's, in questions whose answers do not change:

* which options a list of flags gives: each step parses the flags many times, each time with a new parser;
* which arguments a function has: each step asks for those of all its methods, about ten times;
* which state and timers a `DoFn` has: the same, about eight times for each step;
* how a pickle looks when it is compressed: each step compresses its own several times.

The slow tests and those of other runners leave Beam as it is.
"""

from __future__ import annotations

import bz2
import copy
import functools
import types
import weakref
from typing import Any

import apache_beam as beam
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct import transform_evaluator
from apache_beam.transforms import core, ptransform, userstate, util
from apache_beam.typehints import decorators

parsed_anew = PipelineOptions.view_as
signature_anew = decorators.get_signature
specs_anew = userstate.get_dofn_specs


@functools.cache
def _parsed(kind: type[PipelineOptions], flags: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    view = kind([*flags])
    return view._visible_options, tuple(view._visible_option_list())


def view_as(options: PipelineOptions, kind: type[PipelineOptions]) -> Any:
    """Do what `PipelineOptions.view_as` does, and parse flags once for each kind of options."""
    if options._flags is None:
        return parsed_anew(options, kind)
    parsed, names = _parsed(kind, tuple(options._flags))
    for name in names:
        if name not in options._all_options:
            options._all_options[name] = copy.deepcopy(getattr(parsed, name))
    view = kind.__new__(kind)
    view._flags, view._visible_options, view._all_options = options._flags, parsed, options._all_options
    return view


_signatures: weakref.WeakKeyDictionary[Any, dict[bool, Any]] = weakref.WeakKeyDictionary()


def get_signature(function: Any) -> Any:
    """Do what Beam's `get_signature` does, once for each function and for each one bound to an object."""
    is_bound = isinstance(function, types.MethodType)
    plain = function.__func__ if is_bound else function
    if not isinstance(plain, types.FunctionType):
        return signature_anew(function)
    known = _signatures.setdefault(plain, {})
    if is_bound not in known:
        known[is_bound] = signature_anew(function)
    return known[is_bound]


_specs: weakref.WeakKeyDictionary[Any, tuple[set[Any], set[Any]]] = weakref.WeakKeyDictionary()


def get_dofn_specs(dofn: beam.DoFn) -> tuple[set[Any], set[Any]]:
    """Do what Beam's `get_dofn_specs` does, once for each class, or for each function in one of Beam's own."""
    asked: Any = dofn._fn if type(dofn) is core.CallableWrapperDoFn else type(dofn)
    if not isinstance(asked, (type, types.FunctionType)) or hasattr(asked, "_inspect_process"):
        return specs_anew(dofn)
    if asked not in _specs:
        _specs[asked] = specs_anew(dofn)
    states, timers = _specs[asked]
    return {*states}, {*timers}


compress = functools.lru_cache(maxsize=512)(bz2.compress)


def remember() -> None:
    """Let Beam ask these functions in this process."""
    PipelineOptions.view_as = view_as  # type: ignore[method-assign]
    for module in (userstate, transform_evaluator):
        module.get_dofn_specs = get_dofn_specs
    cloudpickle_pickler.bz2 = types.SimpleNamespace(compress=compress, decompress=bz2.decompress)
    for module in (decorators, core, ptransform, util):
        module.get_signature = get_signature
