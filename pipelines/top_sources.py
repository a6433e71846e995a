"""Find the most frequent IPv4 addresses in a log, without a list of candidates.

Input: CSV or Parquet files (`--input`) with a column of IPv4 addresses (`--column`), dotted or as integers.
Output: a private tree over all 2^32 addresses, in files that begin with `--output`. It answers for any address or
range of addresses, without limit. The pipeline writes the k most frequent as text to files that begin with
`--output`-list. Then the program finds them again in the release, and prints them.

    python -m pipelines.top_sources --input=log.parquet --column=source_ip --k=10

The privacy unit is a record. With `--privacy_id`, it is all records with the same value in that column, and up to
`--max_records` count. Arguments that --help does not list are passed to Beam.
"""

from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.io.parquetio import ReadFromParquetBatched

from beam_dpsketch import Frequencies, IPv4Domain, PrivacyId, PrivacySpec, Record, RecordBounds
from beam_dpsketch.transforms import PrivateTopK, WriteReleases
from pipelines.csv_batches import ReadCsvBatches
from pipelines.running import interval, parsed, parser, read_release


class ReadColumns(beam.PTransform):
    """Read CSV files, or Parquet files by extension, into batches with the columns of addresses and privacy ids."""

    def __init__(self, file_pattern: str, column: str, privacy_id: str | None) -> None:
        super().__init__()
        self._pattern = file_pattern
        self._columns = {column: None} if privacy_id is None else {column: None, privacy_id: pa.string()}

    def expand(self, pbegin: Any) -> beam.PCollection:
        if self._pattern.endswith(".parquet"):
            return pbegin | ReadFromParquetBatched(self._pattern, columns=list(self._columns)).with_output_types(
                pa.Table
            )
        return pbegin | ReadCsvBatches(self._pattern, self._columns)


def find_sources(
    privacy: PrivacySpec, k: int, column: str, privacy_id: str | None, max_records: int
) -> PrivateTopK[Any]:
    """Build the transform from batches to a private top-K list of addresses, with its release."""
    return PrivateTopK(
        IPv4Domain(),
        privacy,
        k=k,
        item=column,
        privacy_unit=Record() if privacy_id is None else PrivacyId(privacy_id, RecordBounds(max_records)),
    )


def in_words(top: Frequencies) -> str:
    """Format the list, with its possible omissions."""
    lines = [f"  {each.item:16}{each.estimate:10,.0f}   {interval(each)}" for each in top]
    limit = f"{top.detection_limit:,.0f}"
    lines.append(f"Cut off: addresses of fewer than about {limit} records do not exceed the noise, and may be missing.")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/top_sources", data="CSV or Parquet files")
    arguments.add_argument("--column", required=True, help="the column of IPv4 addresses")
    arguments.add_argument("--k", type=int, default=10, help="how many addresses to find (%(default)s)")
    arguments.add_argument("--privacy_id", help="the column of who is protected (default: single records are)")
    arguments.add_argument("--max_records", type=int, default=1, help="kept per privacy id (%(default)s)")
    known, pipeline = parsed(arguments, argv)
    sources = find_sources(known.privacy, known.k, known.column, known.privacy_id, known.max_records)

    with pipeline:
        top = pipeline | ReadColumns(known.input, known.column, known.privacy_id) | sources
        top | WriteReleases(known.output, overwrite=known.overwrite)
        top | "InWords" >> beam.Map(in_words) | beam.io.WriteToText(f"{known.output}-list", file_name_suffix=".txt")

    released = read_release(known.output)
    found = released.top_k(known.k)
    print(f"{len(found)} most frequent of all 2^32 addresses, with 95 % intervals:")
    print(in_words(found))
    if known.privacy_id is not None:
        print("Intervals cover noise and collisions; not the records dropped by the bounds.")
    print(released.privacy)


if __name__ == "__main__":
    main()
