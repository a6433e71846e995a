"""What a horizon means for releases over time: its windows, its terms, and how windows become rows."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch.domains.timestamps import MILLISECOND
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.privacy.over_time.horizon import Horizon
from beam_dpsketch.records.release_spec import ReleaseSpec
from beam_dpsketch.records.window_rows import WindowRows
from beam_dpsketch.transforms.windows.time_range import MAX_RELEASES
from beam_dpsketch.transforms.windows.window_plan import WindowPlan, check_norm


def windows_of(horizon: Horizon, size: int = 1) -> FixedWindows:
    """Return windows as long as `size` windows of the horizon, from its start on."""
    return FixedWindows(Duration(micros=horizon.size_micros * size), Timestamp(micros=horizon.start_micros))


def horizon_plan(elements: beam.PCollection, declared: ReleaseSpec, horizon: Horizon) -> WindowPlan:
    """Return the plan of the windows: their one period is the horizon."""
    limit, mechanism = declared.privacy_id, horizon.rows
    if limit is not None and limit.has_norm:
        check_norm(limit, elements)
    if not elements.is_bounded and declared.is_keyed and declared.public_keys is None:
        raise WindowingError(
            "keys",
            "must be $PublicKeys over time on unbounded input, where rows come out before all keys are "
            "there: choose keys once from earlier data with SelectKeys, and list them",
            "E319",
        )
    keys = len(declared.public_keys or [None])
    if mechanism.row_count * keys > MAX_RELEASES:
        raise WindowingError(
            "",
            f"the horizon would make {mechanism.row_count * keys} rows, {mechanism.row_count} for each of "
            f"{keys} keys, more than {MAX_RELEASES}; declare longer windows or fewer keys",
            "E414",
        )
    terms = declared.row_terms(is_bounded=elements.is_bounded)
    rows = WindowRows(
        mechanism, (horizon.start_micros + horizon.size_micros) // MILLISECOND - 1, horizon.size_micros // MILLISECOND
    )
    starts = range(horizon.start_micros, horizon.end_micros, horizon.size_micros)
    return WindowPlan(terms, starts, windows_of(horizon, horizon.windows), False, terms.window_count, rows)
