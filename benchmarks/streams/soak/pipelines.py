"""What the soak runs: three private transforms and Beam's own count, and faults that are planted to see them found."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindows

from beam_dpsketch import Horizon, NormBound, PrivacyId, PrivacySpec, Record, SketchSpec
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from benchmarks.streams.soak.records import MAX_WINDOWS, PERIOD, WINDOW, Plan, Visit
from benchmarks.streams.soak.source import source

SECRET = "SECRET_OF_SOAK"
SPEC, PRIVACY, NORM = SketchSpec(depth=5, width=1024), PrivacySpec(rho=0.1), 7
NEXT_TO_EXACT = PrivacySpec(rho=12_800)
"""For made up records only: a release whose noise is far below what a single record adds, so that a lost one shows."""
COUNT, WINDOWS, ROWS, BY_NORM = "Beam's count", "windows", "rows over time", "norm, max_windows"
REPEATABLE = (COUNT, WINDOWS, ROWS)
"""What is the same bytes each time that it is made; noise of `max_windows` on streams cannot be idempotent."""
Place = tuple[str, int]
"""The name of a pipeline, and the number of a window."""


def windows(plan: Plan) -> PrivateFrequencies[Any]:
    """A release of each window."""
    return PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=Record())


def rows(plan: Plan) -> PrivateFrequencies[Any]:
    """Rows over time, of all windows."""
    horizon = Horizon(plan.start, WINDOW, len(plan.rates))
    return PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=Record(), windows=horizon)


def by_norm(plan: Plan) -> PrivateFrequencies[Any]:
    """A release of each window that protects users, of whom the first windows of each period count."""
    privacy_unit = PrivacyId("user", NormBound(NORM), max_windows=MAX_WINDOWS, period=PERIOD)
    return PrivateFrequencies(SPEC, NEXT_TO_EXACT, item="page", privacy_unit=privacy_unit)


PRIVATE: dict[str, Callable[[Plan], PrivateFrequencies[Any]]] = {WINDOWS: windows, ROWS: rows, BY_NORM: by_norm}


def private(name: str, plan: Plan, *, fresh: bool = False) -> PrivateFrequencies[Any]:
    """One of them; its noise is the same each time that it is drawn, if that can be, and unless it is to be fresh."""
    transform = PRIVATE[name](plan)
    if fresh or name not in REPEATABLE:
        return transform
    return transform.with_idempotent_noise(release_id=f"soak {name}", secret=EnvironmentSecret(SECRET))


class Publish(beam.DoFn):
    """Writes the first release of a place to a file, at once and whole, and passes it on.

    What is made again, because something was killed, is withheld: a file beside it shows what it would have been.
    """

    def __init__(self, name: str, plan: Plan, folder: Path) -> None:
        self._name, self._plan, self._folder = name, plan, folder

    def process(self, release: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[bytes]:
        number = (
            release.number if isinstance(release, TimelineRow) else (int(window.start) - self._plan.start) // WINDOW
        )
        written = str(release).encode() if isinstance(release, int) else release.to_bytes()
        unfinished = self._folder.with_name(f"unfinished {uuid.uuid4().hex}")
        unfinished.write_bytes(written)
        try:
            os.link(unfinished, self._folder / f"{self._name};{number};first")
        except FileExistsError:
            unfinished.rename(self._folder / f"{self._name};{number};again {uuid.uuid4().hex}")
            return
        unfinished.unlink()
        yield written


def build(pipeline: beam.Pipeline, plan: Plan, folder: Path, planted: frozenset[str]) -> None:
    """All of them, of one source; each publishes to the folder."""
    visits = source(pipeline, plan)
    if "loss" in planted:
        visits = visits | "Lose" >> beam.ParDo(Lose()).with_output_types(Visit)
    in_windows = visits | beam.WindowInto(FixedWindows(WINDOW))
    releases = {COUNT: in_windows | beam.combiners.Count.Globally().without_defaults()}
    for name in PRIVATE:
        releases[name] = (visits if name == ROWS else in_windows) | name >> private(
            name, plan, fresh="fresh" in planted
        )
    for name, released in releases.items():
        written = released | f"Publish {name}" >> beam.ParDo(Publish(name, plan, folder)).with_output_types(bytes)
        if "leak" in planted:
            one = beam.Map(lambda each: (b"", each)).with_output_types(tuple[bytes, bytes])
            kept = written | f"Global {name}" >> beam.WindowInto(GlobalWindows()) | f"One {name}" >> one
            _ = kept | f"Leak {name}" >> beam.ParDo(Leak())


class Lose(beam.DoFn):
    """A planted fault: one record of some thousand is lost."""

    def setup(self) -> None:
        self._left = 5_000

    def process(self, visit: Visit) -> Iterator[Visit]:
        self._left -= 1
        if self._left:
            yield visit
        else:
            self.setup()


class Leak(beam.DoFn):
    """A planted fault: state and the memory of a worker keep all releases, so often that minutes show it."""

    KEPT = BagStateSpec("kept", BytesCoder())
    _KEPT = beam.DoFn.StateParam(KEPT)
    _memory: list[bytes] = []  # noqa: RUF012

    def process(self, release: tuple[bytes, bytes], kept: Any = _KEPT) -> None:
        kept.add(4 * release[1])
        self._memory.append(400 * release[1])
