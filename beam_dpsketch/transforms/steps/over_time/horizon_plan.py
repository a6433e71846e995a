"""What a horizon means for releases over time: its windows, its terms, and how windows become rows."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_dpsketch.domains.times import MILLISECOND
from beam_dpsketch.errors import WindowingError
from beam_dpsketch.privacy.auto_norm import AutoNorm
from beam_dpsketch.privacy.contributions import PrivacyUnit, RecordBounds
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.over_time.terms import RowTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.public import KeySelection, PublicKeys, max_keys
from beam_dpsketch.records.units import PrivacyId
from beam_dpsketch.records.window_rows import WindowRows
from beam_dpsketch.release.over_time.horizon import Horizon
from beam_dpsketch.transforms.windows.time_range import MAX_RELEASES
from beam_dpsketch.transforms.windows.window_plan import WindowPlan, check_norm, what_shows


def windows_of(horizon: Horizon, size: int = 1) -> FixedWindows:
    """Return windows as long as `size` windows of the horizon, from its start on."""
    return FixedWindows(Duration(micros=horizon.size_micros * size), Timestamp(micros=horizon.start_micros))


def check_horizon(declaration: Declaration, horizon: Horizon) -> None:
    """Refuse a unit that cannot be bounded over a horizon."""
    limit = declaration.privacy_id
    if isinstance(declaration.unit.bounds, AutoNorm):
        raise ValueError(
            "bounds must not be AutoNorm() in continual release: take the norm of an earlier release, "
            "released.privacy.bounds"
        )
    if limit is None:
        return
    if limit.period is not None:
        raise ValueError("period must be left out in continual release: a privacy id is bounded over the whole horizon")
    if isinstance(limit.bounds, RecordBounds) and limit.max_windows is None:
        raise ValueError(
            "max_windows must be given with RecordBounds in continual release, as in PrivacyId('user', "
            f"RecordBounds(10), max_windows=30): in how many of the {horizon.windows} windows a privacy id counts"
        )


def row_terms(declaration: Declaration, mechanism: RowMechanism, *, is_bounded: bool) -> RowTerms:
    """Return what all rows promise together.

    Of norms, `is_bounded` says whether one covers all windows; otherwise each window is bounded alone.
    """
    terms, limit = declaration.terms(), declaration.privacy_id
    cells, selection = terms.output_cells, terms.selection
    if declaration.unit.bounds.has_norm and is_bounded and cells is not None:
        cells *= mechanism.windows
    if isinstance(declaration.keys, KeySelection):
        selection = declaration.keys.rule(_keys_of_unit(declaration, limit))
    record = PrivacyUnit.RECORD_OVER_HORIZON
    return RowTerms(
        terms.privacy,
        terms.bounds,
        unit=record if limit is None else PrivacyUnit.PRIVACY_ID_OVER_HORIZON,
        window_count=terms.window_count,
        output_cells=cells,
        disclosed=what_shows(declaration, windows_are_public=True),
        selection=selection,
        mechanism=mechanism,
    )


def _keys_of_unit(declaration: Declaration, limit: PrivacyId | None) -> int:
    """Return for how many keys one unit votes over all windows."""
    keys = max_keys(declaration.unit.bounds) or 1
    in_each_window = limit is not None and not limit.has_norm
    return keys * (limit.max_windows or 1) if limit is not None and in_each_window else keys


def horizon_plan(elements: beam.PCollection, declaration: Declaration, horizon: Horizon) -> WindowPlan:
    """Return the plan of the windows: their one period is the horizon."""
    limit, mechanism = declaration.privacy_id, horizon.rows
    if limit is not None and limit.has_norm:
        check_norm(limit, elements)
    if not elements.is_bounded and declaration.is_keyed and not isinstance(declaration.keys, PublicKeys):
        raise WindowingError(
            "keys must be PublicKeys over time on unbounded input, where rows come out before all keys are there: "
            "choose keys once from earlier data with SelectKeys, and list them"
        )
    keys = len(declaration.public_keys or [None])
    if mechanism.row_count * keys > MAX_RELEASES:
        raise WindowingError(
            f"the horizon would make {mechanism.row_count * keys} rows, {mechanism.row_count} for each of {keys} keys, "
            f"more than {MAX_RELEASES}; declare longer windows or fewer keys"
        )
    terms = row_terms(declaration, mechanism, is_bounded=elements.is_bounded)
    rows = WindowRows(
        mechanism, (horizon.start_micros + horizon.size_micros) // MILLISECOND - 1, horizon.size_micros // MILLISECOND
    )
    starts = range(horizon.start_micros, horizon.end_micros, horizon.size_micros)
    return WindowPlan(terms, starts, windows_of(horizon, horizon.windows), False, terms.window_count, rows)
