"""What a folder of `run` shows: series, verdicts, and the tables of both."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.streams.soak import expected
from benchmarks.streams.soak.killer import UNDISTURBED
from benchmarks.streams.soak.monitors import JOB_MANAGER, JOB_SERVER, TASK_MANAGER, WORKER
from benchmarks.streams.soak.nearly_exact import same_counters
from benchmarks.streams.soak.picture import draw
from benchmarks.streams.soak.pipelines import BY_NORM, COUNT, PRIVATE, REPEATABLE, SECRET
from benchmarks.streams.soak.records import WINDOW, Plan
from benchmarks.streams.soak.run import EVENTS, PLAN, PUBLISHED, SAMPLES, SECRET_FILE
from benchmarks.streams.soak.verdicts import Series, flat, judge
from benchmarks.table import Bar, Table, spread

NAMES, KINDS = (COUNT, *PRIVATE), (WORKER, TASK_MANAGER, JOB_MANAGER, JOB_SERVER)
MEGABYTE = 1e6
MEMORY, STATE, DURATION = 1.1, 1.15, 1.5
"""The most that the last quarter may be over the second. Rows over time keep more, by a logarithm, as windows pass.

Beam's Flink runner before the fix of https://github.com/apache/beam/issues/27648 keeps something of each time that a
source has waited, so that whole checkpoints are not flat there.
"""
LAG = 60.0
"""Seconds from the end of a window until it is published, where nothing was killed; more means that it falls behind."""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What is in the folder of a run."""

    plan: Plan
    samples: list[dict[str, Any]]
    kills: list[tuple[float, str]]
    left: int
    published: dict[Any, expected.Published]

    @classmethod
    def read(cls, folder: Path) -> Seen:
        start, rates = json.loads((folder / PLAN).read_text())
        samples, events = (
            [json.loads(line) for line in (folder / name).read_text().splitlines()] for name in (SAMPLES, EVENTS)
        )
        kills = [(event["time"], event["killed"]) for event in events if "killed" in event]
        return cls(
            Plan(start, tuple(rates)), samples, kills, events[-1]["left"], expected.published(folder / PUBLISHED)
        )

    @property
    def undisturbed(self) -> tuple[float, float]:
        """The span of time without kills."""
        first, last = (self.plan.start + share * (self.plan.end - self.plan.start) for share in UNDISTURBED)
        return first, last

    def memory(self, kind: str) -> Series:
        """Megabytes of all processes of a kind together."""
        return [(each["time"], sum(each["memory"].get(kind, {}).values()) / MEGABYTE) for each in self.samples]

    def each(self, what: str, privacy_unit: float = 1.0) -> Series:
        """What each sample has of one thing, but for the first, which has nothing before it."""
        return [(each["time"], each[what] / privacy_unit) for each in self.samples[1:] if each[what] is not None]

    def checkpoints(self, what: str, privacy_unit: float = 1.0) -> Series:
        """What each checkpoint has of one thing, if Flink has told it."""
        found = (each for sample in self.samples for each in sample["checkpoints"])
        return [(each["time"], each[what] / privacy_unit) for each in found if what in each]

    def delays(self, name: str) -> Series:
        """Seconds from the end of each window until it was published."""
        ends = {place: self.plan.start + WINDOW * (place[1] + 1) for place in self.published if place[0] == name}
        return sorted((float(end), self.published[place].seconds - end) for place, end in ends.items())


def print_flat(seen: Seen) -> None:
    """A line for each series that has to be flat."""
    lines: dict[str, tuple[Series, float | None]]
    lines = {f"memory of {kind}, MB": (seen.memory(kind), MEMORY) for kind in KINDS}
    lines |= {
        "in use on heaps, MB": (seen.each("heap", MEGABYTE), MEMORY),
        "a checkpoint, MB": (seen.checkpoints("bytes", MEGABYTE), STATE),
        "files of checkpoints, MB": (seen.each("disk", MEGABYTE), STATE),
        "a checkpoint, seconds": (seen.checkpoints("seconds"), DURATION),
    }
    if source := seen.checkpoints("source", MEGABYTE):
        lines |= {"the source in it, MB": (source, None)}
        lines |= {"all other steps in it, MB": (seen.checkpoints("others", MEGABYTE), STATE)}
    lines |= {f"delay of {name}, s": (seen.delays(name), None) for name in NAMES}
    title = "Flat: medians of the second and of the last quarter of the time without kills"
    table = Table(title, ("", "second", "last", "growth"), (34, -10), bar=10)
    for name, (series, limit) in lines.items():
        found = flat(series, seen.undisturbed)
        table.row(
            name,
            f"{found.second:.2f}",
            f"{found.last:.2f}",
            f"{found.growth:.2f}",
            bars=[] if limit is None else [Bar(found.growth, "<=", limit)],
        )


def print_exact(seen: Seen, wanted: dict[Any, bytes]) -> None:
    """A line for each pipeline."""
    title = "Exact: what left, of all windows; what was made again after a kill was withheld"
    heads = ("", "windows", "missing", "wrong", "again", "other bytes")
    table = Table(title, heads, (34, -10, -10, -10, -10, -14), bar=10)
    for name in NAMES:
        same: Callable[[bytes, bytes], bool] = same_counters if name == BY_NORM else bytes.__eq__
        found = judge(wanted, seen.published, name, same)
        faults = found.missing + found.wrong + (found.other if name in REPEATABLE else 0)
        table.row(name, *map(str, found), bars=[Bar(faults, "<=", 0, " faults")])


def print_run(seen: Seen) -> None:
    """What happened, and how busy the machine was."""
    start, end = seen.plan.start, seen.plan.end
    inside = [each for each in seen.samples if start <= each["time"] <= end]
    counts: dict[str, int] = next((each["counts"] for each in reversed(seen.samples) if each["counts"]), {})
    table = Table("The run", ("", ""), (34, -40), bar=10)
    table.row("minutes", f"{(end - start) / 60:g}")
    table.row(
        "records a second; in all", f"{statistics.median(seen.plan.rates):,.0f}; {WINDOW * sum(seen.plan.rates):,}"
    )
    table.row("cores busy with it", spread([each["cores"] for each in inside], 2))
    table.row("cores busy with other work", spread([each["others"] for each in inside], 2))
    table.row(
        "killed, at minute", "; ".join(f"{what} {(time - start) / 60:.1f}" for time, what in seen.kills) or "nothing"
    )
    table.row(
        "checkpoints; failed; restored",
        "; ".join(str(counts.get(each, "?")) for each in ("completed", "failed", "restored")),
    )
    lags = [
        delay
        for name in NAMES
        for time, delay in seen.delays(name)
        if seen.undisturbed[0] <= time < seen.undisturbed[1]
    ]
    longest = max(lags, default=math.nan)
    table.row("longest delay without kills, s", f"{longest:.1f}", bars=[Bar(longest, "<=", LAG)])
    table.row("workers left at the end", str(seen.left), bars=[Bar(seen.left, "<=", 0)])


def report(folder: Path, picture: Path) -> None:
    """Print all tables, and draw the picture."""
    os.environ[SECRET] = (folder / SECRET_FILE).read_text()
    seen = Seen.read(folder)
    print_run(seen)
    print_flat(seen)
    print_exact(seen, expected.releases(seen.plan))
    panels = [
        ("resident memory, MB", {kind: seen.memory(kind) for kind in KINDS}),
        (
            "a checkpoint, MB",
            {"all": seen.checkpoints("bytes", MEGABYTE), "without the source": seen.checkpoints("others", MEGABYTE)},
        ),
        ("seconds", {"of a checkpoint": seen.checkpoints("seconds"), **{name: seen.delays(name) for name in NAMES}}),
        ("cores busy", {"with the stream": seen.each("cores"), "with other work": seen.each("others")}),
    ]
    draw(picture, panels, seen.kills, seen.undisturbed, seen.plan.start)
