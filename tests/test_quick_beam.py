"""What tests remember of Beam is what Beam finds out anew."""

from __future__ import annotations

import bz2
import functools
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import DebugOptions, GoogleCloudOptions, PipelineOptions, StandardOptions
from apache_beam.transforms import core, userstate

from tests.helpers import quick_beam

FLAGS = [], ["--streaming"], ["--experiments=a", "--experiments=b", "--unknown=1"], ["--runner=FnApiRunner"]
KINDS = PipelineOptions, *PipelineOptions.__subclasses__()


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_views_are_those_of_beam(flags: list[str]) -> None:
    remembered, anew = PipelineOptions(flags, job_name="said"), PipelineOptions(flags, job_name="said")
    for _ in range(2):
        for kind in KINDS:
            view, expected = quick_beam.view_as(remembered, kind), quick_beam.parsed_anew(anew, kind)
            assert type(view) is kind
            assert view.get_all_options() == expected.get_all_options()
            assert {name: getattr(view, name) for name in view._visible_option_list()} == {
                name: getattr(expected, name) for name in expected._visible_option_list()
            }
    assert remembered._all_options == anew._all_options


def test_views_share_what_is_changed_and_other_options_do_not() -> None:
    first, second = PipelineOptions(["--experiments=a"]), PipelineOptions(["--experiments=a"])
    quick_beam.view_as(first, DebugOptions).add_experiment("b")
    quick_beam.view_as(first, StandardOptions).streaming = True
    assert quick_beam.view_as(first, DebugOptions).experiments == ["a", "b"]
    assert quick_beam.view_as(first, StandardOptions).streaming
    assert quick_beam.view_as(second, DebugOptions).experiments == ["a"]
    assert not quick_beam.view_as(second, StandardOptions).streaming
    with pytest.raises(AttributeError):
        quick_beam.view_as(first, GoogleCloudOptions).streaming  # noqa: B018


class Stateful(beam.DoFn):
    STATE = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)

    def process(self, element: tuple[str, int], *more: Any, state: Any = beam.DoFn.StateParam(STATE)) -> Any:  # noqa: B008
        yield element, state


def plain(first: int, second: str = "none") -> list[str]:
    return [second] * first


FUNCTIONS = {
    "function": plain,
    "of a class": Stateful.process,
    "bound": Stateful().process,
    "class": Stateful,
    "partial": functools.partial(plain, 1),
    "built in": len,
    "of a built-in class": str.strip,
    "bound, built in": "a".strip,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signatures_are_those_of_beam(name: str) -> None:
    for _ in range(2):
        assert quick_beam.get_signature(FUNCTIONS[name]) == quick_beam.signature_anew(FUNCTIONS[name])


class Timed(beam.DoFn):
    TIMER = beam.transforms.userstate.TimerSpec("end", beam.TimeDomain.WATERMARK)

    def process(self, element: Any, timer: Any = beam.DoFn.TimerParam(TIMER)) -> Any:  # noqa: B008
        yield element

    @beam.transforms.userstate.on_timer(TIMER)
    def at_the_end(self, sums: Any = beam.DoFn.StateParam(Stateful.STATE)) -> Any:  # noqa: B008
        yield sums


DO_FNS = {
    "stateful": Stateful(),
    "timed": Timed(),
    "none": beam.DoFn(),
    "function": beam.Map(plain).fn,
    "another function": beam.FlatMap(lambda element, at=beam.DoFn.TimestampParam: [at]).fn,
    "bound": beam.FlatMap(Timed().at_the_end).fn,
}


@pytest.mark.parametrize("name", DO_FNS)
def test_state_and_timers_are_those_of_beam(name: str) -> None:
    for _ in range(2):
        found = quick_beam.get_dofn_specs(DO_FNS[name])
        assert found == quick_beam.specs_anew(DO_FNS[name])
        for each in found:
            each.clear()


def test_the_fast_tests_use_them(pytestconfig: pytest.Config) -> None:
    remembered = not pytestconfig.getoption("plain_beam")
    assert (PipelineOptions.view_as is quick_beam.view_as) == remembered
    assert (core.get_signature is quick_beam.get_signature) == remembered
    assert (userstate.get_dofn_specs is quick_beam.get_dofn_specs) == remembered
    assert (cloudpickle_pickler.bz2 is not bz2) == remembered
