"""Transforms with plain settings, for Beam YAML, Java, Go and SQL: rows in, rows with a schema out.

Settings are read by `beam_dpsketch.config` and listed in `docs/settings.md`. A block is a dict, a row, a named tuple or
JSON text. `docs/beam_yaml.md` lists the output columns.

>>> import apache_beam as beam
>>> from beam_dpsketch.rows import PrivateTopK
>>> with beam.Pipeline("FnApiRunner") as pipeline:
...     visits = pipeline | beam.Create([beam.Row(person=n, page="home") for n in range(500)])
...     found = visits | PrivateTopK(
...         item="page",
...         domain={"type": "text", "max_bytes": 8},
...         k=1,
...         privacy={"epsilon": 2, "delta": 1e-6},
...         privacy_unit={"privacy_id": "person", "norm": {"max_norm": 1}},
...     )
...     _ = found | beam.Map(lambda row: print(row.place, row.item))
1 home

Guarantee: same as for the transform with the same name in `beam_dpsketch.transforms`. There is no error output, because
an error about a record would reveal the record.
"""

from beam_dpsketch.rows.files import ReadParquetBatches, ReadReleases, WriteReleases
from beam_dpsketch.rows.private import (
    PrivateContinualFrequencies,
    PrivateContinualQuantiles,
    PrivateContinualStatistics,
    PrivateFrequencies,
    PrivateMetrics,
    PrivateQuantiles,
    PrivateStatistics,
    PrivateTopK,
)
from beam_dpsketch.rows.queries import QueryReleaseRows as QueryReleases
from beam_dpsketch.rows.queries import QueryTimeline

# fmt: off
__all__ = [
    "PrivateContinualFrequencies", "PrivateContinualQuantiles", "PrivateContinualStatistics", "PrivateFrequencies",
    "PrivateMetrics", "PrivateQuantiles", "PrivateStatistics", "PrivateTopK", "QueryReleases", "QueryTimeline",
    "ReadParquetBatches", "ReadReleases", "WriteReleases",
]
# fmt: on
