"""What a stream keeps in state until its window ends: ``python -m benchmarks.streams.state``.

The private transforms as they are, driven bundle by bundle as a streaming runner does it, with state cells that count
their encoded bytes (`state_cells.py`). All elements are in one window. Two cases: Record(), one key of
`PrivateFrequencies`; and a PrivacyId with a fixed number of ids, all 256 shards of `PrivateFrequencies`
together. Beside it what a GroupByKey would keep instead: the elements, or what the bundles make of them.
The state of the record is largest while the sketch is not yet smaller than a list of its items. Both units hold what
waits to be merged, at most as much again. Takes a minute or two.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from apache_beam.coders import FastPrimitivesCoder

from beam_dpsketch import REPLACE_ONE, AssumePublicKeys, PrivacyId, PrivacySpec, Record, RecordBounds, SketchSpec
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks import sources
from benchmarks.command import Command
from benchmarks.table import Bar, Table
from tests.helpers.state_cells import Driven

SPEC = SketchSpec(depth=5, width=2048)
PRIVACY = PrivacySpec(rho=1.0, relation=REPLACE_ONE)
SIZES = (10_000, 100_000, 1_000_000)
BUNDLE = 1_000
IDS, KEEP = 1_000, 5
KEY = "one key"
SEED = 1
BAR = 8 * SPEC.cells  # the sketch as 64-bit counters in memory
GROWTH = 1.5  # of the state of all ids, which have more records than are kept from the first size on
TRANSFORMS = {
    "record": lambda: PrivateFrequencies(SPEC, PRIVACY, item="page", privacy_unit=Record(), keys=AssumePublicKeys()),
    "privacy id": lambda: PrivateFrequencies(
        SPEC, PRIVACY, item="page", privacy_unit=PrivacyId("user", RecordBounds(max_records=KEEP))
    ),
}


class Measured(NamedTuple):
    """Bytes after so many elements."""

    elements: int
    raw: int
    delivered: int
    state: int
    peak: int


def measured(privacy_unit: str, sizes: tuple[int, ...], bundle: int = BUNDLE) -> Iterator[Measured]:
    """Bytes at each of the sizes of one stream, and the most that they were until then."""
    driven, coder = Driven(TRANSFORMS[privacy_unit]()), FastPrimitivesCoder()
    users, pages = sources.columns(max(sizes), max(1, max(sizes) // IDS), SEED)
    raw = peak = 0
    for start in range(0, max(sizes), bundle):
        elements: list[Any] = list(map(sources.Visit, users[start : start + bundle], pages[start : start + bundle]))
        raw += sum(len(coder.encode(tuple(element))) for element in elements)
        driven.bundle([(KEY, element) for element in elements] if privacy_unit == "record" else elements)
        state = driven.state.size
        peak = max(peak, state)
        if start + bundle in sizes:
            yield Measured(start + bundle, raw, driven.state.delivered, state, peak)


def main() -> None:
    """Print one line per case and size."""
    command = Command(__file__, __doc__, "apache-beam", "numpy", "pyarrow", "beam-dpsketch")
    command.number("--sizes", list(SIZES), "elements", type=int, nargs="+")
    arguments = command.parse_args()
    with command.writing(
        arguments,
        f"{SPEC.depth} x {SPEC.width:,} CountSketch ({BAR:,} bytes as 64-bit counters); bundles of {BUNDLE:,};",
        f"one window; data seed {SEED}. Privacy ids: {IDS:,}, at most {KEEP} records kept of each. Bytes.",
    ):
        heads = ("unit", "elements", "as elements", "as bundles", "state", "largest")
        table = Table(None, heads, (12, -12, -14))
        for privacy_unit in TRANSFORMS:
            limit: float = BAR
            for row in measured(privacy_unit, tuple(arguments.sizes)):
                if privacy_unit != "record" and row.elements == min(arguments.sizes):
                    limit = GROWTH * row.peak
                table.row(privacy_unit, *(f"{value:,}" for value in row), bars=[Bar(row.peak, "<=", limit)])


if __name__ == "__main__":
    main()
