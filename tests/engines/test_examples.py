"""The example pipelines on real engines, with the checks that they pass on other runners."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import demo
from tests import test_changed_destinations as changed
from tests import test_delays_by_destination as selected
from tests import test_frequent_phrases as phrases
from tests import test_pipelines, test_quantile_pipelines, test_streaming_pipelines
from tests.engines.conftest import Engine
from tests.helpers import example_runs

pytest.importorskip("matplotlib")
sample = test_pipelines.sample
arrivals, flights_file, log = (getattr(test_quantile_pipelines, name) for name in ("arrivals", "flights_file", "log"))
months, flown = changed.months, selected.flown
departures, options = test_streaming_pipelines.departures, test_streaming_pipelines.options
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def on_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options for Beam; the checks take them by this name."""
    options = [f"--runner={engine.runner}", *engine.options]
    monkeypatch.setitem(example_runs.RUNNERS, "engine", options)
    return options


def test_top_destinations(sample: test_pipelines.Sample, tmp_path: Path, capsys: Capture) -> None:
    test_pipelines.test_top_destinations("engine", sample, tmp_path, capsys)


def test_cancelled_flights(sample: test_pipelines.Sample, tmp_path: Path, capsys: Capture) -> None:
    test_pipelines.test_cancelled_flights("engine", sample, tmp_path, capsys)


def test_delay_quantiles(arrivals: list, flights_file: str, tmp_path: Path, capsys: Capture) -> None:
    test_quantile_pipelines.test_delay_quantiles("engine", arrivals, flights_file, tmp_path, capsys)


def test_top_sources(log: test_quantile_pipelines.Log, tmp_path: Path, capsys: Capture) -> None:
    test_quantile_pipelines.test_top_sources_by_user("engine", log, tmp_path, capsys)


def test_changed_destinations(months: list[str], tmp_path: Path, capsys: Capture) -> None:
    changed.test_changed_destinations("engine", months, tmp_path, capsys)


def test_delays_by_destination(flown: list[str], tmp_path: Path, capsys: Capture) -> None:
    selected.test_common_destinations_are_released("engine", flown, tmp_path, capsys)


def test_frequent_phrases(tmp_path: Path, capsys: Capture) -> None:
    phrases.test_frequent_phrases("engine", tmp_path, capsys)


@pytest.mark.parametrize("streaming", [False, True])
def test_windowed_top_k(
    streaming: bool, departures: list, options: list[str], on_engine: list[str], tmp_path: Path, capsys: Capture
) -> None:
    on_engine += ["--streaming"] if streaming else []
    test_streaming_pipelines.test_windowed_top_k("engine", departures, options, tmp_path, capsys)


@pytest.mark.parametrize("streaming", [False, True])
def test_continual_delays(
    streaming: bool, departures: list, options: list[str], on_engine: list[str], tmp_path: Path, capsys: Capture
) -> None:
    on_engine += ["--streaming"] if streaming else []
    own = [*options, *on_engine]
    test_streaming_pipelines.test_continual_delays("flight", "binned", 32, departures, own, tmp_path, capsys)


def test_demo(
    sample: test_pipelines.Sample,
    on_engine: list[str],
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = demo.main
    monkeypatch.setattr(demo, "main", lambda options: main([*options, *on_engine]))
    test_pipelines.test_demo(sample, tmp_path, capsys)
