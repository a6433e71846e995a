"""The set-ups in which Beam tests its own runners give the exact counters of this package, for every kind of element.

Beam runs one suite with and without gRPC, caches and fusion, with bundles repeated, with several workers, in threads
and in processes. Here its classes of tests make the pipelines, and the graphs are ours.
"""

from __future__ import annotations

import importlib
import pickle
import tempfile
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.helpers.every_kind import KINDS, branches, expected
from tests.helpers.pipelines import Sink

SETUPS = [
    *(
        f"fn_api_runner.fn_runner_test.FnApiRunnerTest{setup}"
        for setup in (
            "",
            "WithBundleRepeat",
            "WithBundleRepeatAndMultiWorkers",
            "WithDisabledCaching",
            "WithGrpc",
            "WithGrpcAndMultiWorkers",
            "WithMultiWorkers",
        )
    ),
    *(
        f"portable_runner_test.PortableRunner{setup}"
        for setup in ("OptimizedWithoutFusion", "Test", "TestWithExternalEnv", "TestWithSubprocesses")
    ),
]


@pytest.mark.engine
@pytest.mark.parametrize("name", SETUPS)
def test_exact_counters_in_a_setup_of_beam(name: str) -> None:
    """Each kind of element has the counters that sketches without Beam have; repeated bundles write them again."""
    module, setup = name.rsplit(".", 1)
    tests: Any = getattr(importlib.import_module(f"apache_beam.runners.portability.{module}"), setup)
    tests.setUpClass()
    try:
        with tempfile.TemporaryDirectory() as directory:
            with tests("create_pipeline").create_pipeline() as pipeline:
                branches(KINDS, pipeline) | "Sink" >> beam.ParDo(Sink(directory))
            seen = [pickle.loads(path.read_bytes()) for path in Path(directory).iterdir()]
    finally:
        tests.tearDownClass()
    wanted = expected(KINDS)
    assert {kind for kind, _ in seen} == wanted.keys()
    assert all(counters == wanted[kind] for kind, counters in seen)
    assert len(seen) == len(wanted) or "Repeat" in name
