"""Writes the files of `docs/releases` that do not exist yet; never changes one that does.

python -m tests.cli.sample_files
"""

from __future__ import annotations

import pathlib
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    CountSketch,
    DyadicCountSketch,
    Horizon,
    IntegerDomain,
    PrivacySpec,
    Record,
    RecordBounds,
    ReleaseSpec,
    ReleaseTerms,
    SketchSpec,
    TextDomain,
    ThresholdedCounts,
    TreeSpec,
    release_frame,
)
from beam_dpsketch.answers.release_file import RecordWriter, to_record
from beam_dpsketch.by_hand import release_part
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.summary_counts import BINS, UNITS, LostIn
from beam_dpsketch.statement.release_id import part_name
from beam_dpsketch.transforms import window_file
from tests.helpers.timeline_rows import released_rows

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "releases"
HORIZON = Horizon(1_714_521_600, 3600, 6)  # from 2024-05-01T00:00Z on
PEOPLE = {"bounds": RecordBounds(10), "privacy_unit": PrivacyUnit.PRIVACY_ID}
PER_KEY = {
    "bounds": RecordBounds(10, max_keys=2),
    "privacy_unit": PrivacyUnit.PRIVACY_ID,
    "output_cells": 2,
    "lost_in": LostIn.NOWHERE,
}
LOST = (550, 270, 34)
"""People who lost 1 to 3, 4 to 15, and 16 to 63 records, of the release of delays."""


def write(path: pathlib.Path, elements: Sequence[Any]) -> None:
    """Write a file of releases as the transforms do."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = RecordWriter(path.open("wb"))
    for element in elements:
        writer.write(to_record(element))
    writer.close()


def side(terms: ReleaseTerms, people: int, records: int) -> np.ndarray:
    """The exact summary counts of a release, and how many people lost how much, if it tells that."""
    counts = [people if UNITS in counter.names else records for counter in terms.counters]
    lost = [] if terms.lost is None else [*LOST, *[0] * (BINS - len(LOST))]
    return np.array(counts + lost)


def delays() -> list[Any]:
    """A tree over the delays of 20,000 flights, with 2,000 people protected."""
    usual = [0] * 8 + [20] * 5 + [-5] * 3 + [45] * 2
    values = [(usual + [i % 97] * 2)[i % 20] for i in range(20_000)]
    terms = ReleaseTerms(PrivacySpec(epsilon=2, delta=1e-6, relation=ADD_OR_REMOVE_ONE), **PEOPLE)
    spec = TreeSpec.for_memory(IntegerDomain(-120, 1500), 8192)
    return [release_part(DyadicCountSketch(spec).accumulate(values), side(terms, 2000, 20_000), terms)]


def cities() -> list[Any]:
    """Two sketches of one run, for two countries."""
    visits = {"Italy": ["Rome"] * 3000 + ["Milan"] * 1500, "Norway": ["Oslo"] * 2000 + ["Bergen"] * 700}
    terms = ReleaseTerms(PrivacySpec(epsilon=2, delta=1e-6), **PER_KEY)
    run, found = secrets.token_bytes(16), []
    for key, items in visits.items():
        raw = CountSketch(SketchSpec(width=128)).accumulate(items)
        name = part_name(("key", key), 0, 1)
        counts = side(terms, len(items) // 5, len(items))
        found.append((key, release_part(raw, counts, terms, run=run, part=name)))
    return found


def words() -> list[Any]:
    """Frequent words with their counts."""
    counted = ["privacy"] * 2500 + ["noise"] * 1500 + ["sketch"] * 1200 + [f"w{i}" for i in range(500)]
    privacy, count = PrivacySpec(epsilon=2, delta=1e-6), ThresholdedCounts(TextDomain(8), 3)
    return [release_frame(pa.table({"word": counted}), ReleaseSpec(count, privacy, Record(), "word"))]


def rides() -> dict[pathlib.Path, list[Any]]:
    """The rows over time of six hours, with one file for each hour."""
    counts = [300, 500, 800, 1200, 900, 400]
    leaves = [
        CountSketch(SketchSpec(width=32)).accumulate(["Oslo"] * (2 * count // 3) + ["Rome"] * (count // 3))
        for count in counts
    ]
    files: dict[pathlib.Path, list[Any]] = {}
    for row in released_rows(leaves, HORIZON, records=counts):
        start, end = (micros / 1_000_000 for micros in HORIZON.edges(row.window))
        files.setdefault(pathlib.Path(window_file(str(FOLDER / "rides" / "hour"), start, end)), []).append(row)
    return files


def main() -> None:
    """Write what is missing."""
    for name, make in (("delays", delays), ("cities", cities), ("words", words)):
        write(FOLDER / f"{name}.dpsketch", make())
    if not (FOLDER / "rides").exists():
        for path, rows in rides().items():
            write(path, rows)


if __name__ == "__main__":
    main()
