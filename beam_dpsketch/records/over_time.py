"""What a declaration means where rows over time are released: which units it refuses, and the terms of all rows."""

from __future__ import annotations

from beam_dpsketch.privacy.contributions import Bounds, PrivacyUnit
from beam_dpsketch.privacy.over_time.mechanism import RowMechanism
from beam_dpsketch.privacy.terms import RowTerms
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.units import PrivacyId


def check_over_time(declaration: Declaration, windows: int) -> None:
    """Refuse a unit that cannot be bounded over a horizon of this many windows."""
    limit = declaration.privacy_id
    _given_bounds(declaration)
    if limit is None:
        return
    if limit.period is not None:
        raise ValueError("period must be left out in continual release: a privacy id is bounded over the whole horizon")
    if not limit.has_norm and limit.max_windows is None:
        raise ValueError(
            "max_windows must be given with RecordBounds in continual release, as in PrivacyId('user', "
            f"RecordBounds(10), max_windows=30): in how many of the {windows} windows a privacy id counts"
        )


def row_terms(declaration: Declaration, mechanism: RowMechanism, *, is_bounded: bool | None = None) -> RowTerms:
    """Return what all rows promise together.

    Of norms, `is_bounded` says whether one covers all windows; otherwise each window is bounded alone. `None` takes
    what `max_windows` fits: it is given where each window is bounded alone.
    """
    terms, limit, bounds = declaration.terms(), declaration.privacy_id, _given_bounds(declaration)
    if is_bounded is None:
        is_bounded = limit is None or limit.max_windows is None
    cells, selection = terms.output_cells, terms.selection
    if bounds.has_norm and is_bounded and cells is not None:
        cells *= mechanism.windows
    if declaration.keys is not None and declaration.keys.chosen_by_data:
        selection = declaration.keys.rule(_keys_of_unit(declaration, limit))
    record = PrivacyUnit.RECORD_OVER_HORIZON
    return RowTerms(
        terms.privacy,
        bounds,
        unit=record if limit is None else PrivacyUnit.PRIVACY_ID_OVER_HORIZON,
        window_count=terms.window_count,
        output_cells=cells,
        disclosed=declaration.discloses(windows_are_public=True),
        selection=selection,
        mechanism=mechanism,
    )


def _given_bounds(declaration: Declaration) -> Bounds:
    return declaration.unit.bounds.given(
        "bounds must not be AutoNorm() in continual release: take the norm of an earlier release, "
        "released.privacy.bounds"
    )


def _keys_of_unit(declaration: Declaration, limit: PrivacyId | None) -> int:
    """Return for how many keys one unit votes over all windows."""
    keys = declaration.unit.bounds.max_keys or 1
    in_each_window = limit is not None and not limit.has_norm
    return keys * (limit.max_windows or 1) if limit is not None and in_each_window else keys
