"""Released sketches with counters of our choice, so that every answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch import PrivacyStatement, RecordBounds, SketchSpec
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.answers.flat import ReleasedCountMin, ReleasedCountSketch
from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.exact.sketches import CountMin, CountSketch, LinearSketch, RawSketch
from beam_dpsketch.exact.sketches.factor import FactorHistogram
from beam_dpsketch.exact.sketches.metrics import JoinedSketches, MetricsSpec
from beam_dpsketch.exact.sketches.statistics import NumberSums
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.noise.drawing import round_off
from beam_dpsketch.privacy.over_time.binned import BinnedRoot
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.statement.notes import RowNote
from beam_dpsketch.statement.summary_notes import SummaryNote
from tests.helpers.raw import of_kind

RELEASED: dict[type[LinearSketch], type[ReleasedSketch]] = {
    CountMin: ReleasedCountMin,
    CountSketch: ReleasedCountSketch,
}


def statement(**changes: Any) -> PrivacyStatement:
    """A privacy statement with these fields and ordinary others."""
    fields: dict[str, Any] = {
        "rho": Fraction(1, 2),
        "sigma_squared_per_level": (Fraction(9),),
        "relation": NeighboringRelation.REPLACE_ONE,
        "privacy_unit": PrivacyUnit.PRIVACY_ID,
        "bounds": RecordBounds(max_records=3),
        "release_ids": (bytes(range(48)),),
    }
    return PrivacyStatement(**fields | changes)


def note(
    names: str | tuple[str, ...],
    share: Fraction = Fraction(1, 50),
    squared_limit: Fraction = Fraction(1),
    sigma_squared: Fraction = Fraction(25),
    value: int = 0,
    scale_bits: int = 0,
) -> SummaryNote:
    """What a release says of one summary count."""
    return SummaryNote(
        names=(names,) if isinstance(names, str) else names,
        share=share,
        squared_limit=squared_limit,
        sigma_squared=sigma_squared,
        value=value,
        scale_bits=scale_bits,
    )


def released(
    kind: type[LinearSketch], spec: SketchSpec, counters: Any, *, scale_bits: int = 0, **changes: Any
) -> ReleasedSketch:
    """A release with exactly these counters, in units of 2**-scale_bits."""
    exact = np.array(counters, dtype=np.int64)
    return RELEASED[kind](of_kind(kind, spec), exact, statement(**changes), scale_bits)


def without_noise(sketch: LinearSketch, **changes: Any) -> ReleasedSketch:
    """The counters of a raw sketch as if they had been released."""
    return RELEASED[type(sketch)](sketch.spec, sketch.counters, statement(**changes))


def numbers(
    raw: NumberSums, *, parameter: Fraction = Fraction(9), scale_bits: int = 0, **changes: Any
) -> ReleasedStatistics:
    """Return the counters of raw sums as if they had been released, with noise of this parameter on each."""
    said = statement(sigma_squared_per_level=(parameter,), **changes)
    return ReleasedStatistics(raw.spec, raw.counters, said, max(scale_bits, raw.scale_bits))


def factor(raw: FactorHistogram, *, scale_bits: int = 0, **changes: Any) -> ReleasedFactorization:
    """Return the rows of a raw histogram as if they had been released, in units of 2**-scale_bits of a record."""
    (rows,) = raw.tables_to_release(scale_bits)
    rows = round_off(rows << np.int64(scale_bits), raw.spec.factor.dropped_bits)
    return ReleasedFactorization(raw.spec, rows, statement(**changes), scale_bits)


def metrics(spec: MetricsSpec, records: Sequence[Any], *, scale_bits: int = 0, **changes: Any) -> ReleasedMetrics:
    """Return the exact counters of some records as if they had been released, with other noise on each table."""
    raw = JoinedSketches(spec).accumulate(records)
    noise = tuple(Fraction(number + 1, 3) for number in range(len(JoinedSketches.tables(spec))))
    said = statement(**{"sigma_squared_per_level": noise, **changes})
    return ReleasedMetrics(spec, counters_of(raw), said, scale_bits)


def counters_of(raw: RawSketch) -> np.ndarray:
    """Return all numbers of a release without noise."""
    tables = zip(raw.tables_to_release(0), raw.tables(raw.spec), strict=True)
    return np.concatenate([round_off(cells.ravel(), table.dropped_bits) for cells, table in tables])


SKETCH = released(CountSketch, SketchSpec(depth=1, width=3), [[5, 0, -1]])
COUNTS = released(CountMin, SketchSpec(depth=1, width=3), [[7, 8, 9]])


def row(number: int = 5, mechanism: RowMechanism = BinnedRoot(9), **changes: Any) -> TimelineRow:  # noqa: B008
    """A row over time with ordinary counters."""
    over_time = {
        "privacy_unit": PrivacyUnit.RECORD_OVER_HORIZON,
        "bounds": RecordBounds(1),
        "over_time": RowNote(mechanism, number, dropped_bits=3),
    }
    counters = np.array([7, -300, 0], dtype=np.int64)
    return TimelineRow(COUNTS.spec, counters, statement(**over_time | changes))


ROW = row()
