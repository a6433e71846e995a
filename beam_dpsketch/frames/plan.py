"""What a release of a table needs to know before its rows are read; mistakes of the caller are errors here."""

from __future__ import annotations

import decimal
import difflib
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from beam_dpsketch.config.paths import refusal
from beam_dpsketch.config.release import read_release
from beam_dpsketch.errors import AllAtOnce, ArgumentTypeError
from beam_dpsketch.frames.tables import TableParts, open_table
from beam_dpsketch.records.columns import TIMES, batch_column, is_numpy_float, readable_of
from beam_dpsketch.records.count import USUAL_QUANTILES, USUAL_WANTED_ERROR
from beam_dpsketch.records.release_spec import ReleaseSpec, ResolvedRelease
from beam_dpsketch.records.selectors import is_pandas_frame
from beam_dpsketch.records.unused import effect
from beam_dpsketch.records.windows import WindowPlan, plan_windows, windowing_of_table

_PATHS = {"privacy_id": "unit.privacy_id", "key": "keys.field", "time": "time.field"}
SOME_FRACTIONS = "has some values with a fraction, which are dropped"
MOST_FRACTIONS = 0.01
"""Which share of a column may have a fraction where whole numbers are read: more is a mistake."""


def path_of(argument: str) -> str:
    """Return where the settings name the column of an argument."""
    return _PATHS.get(argument, argument)


def plan_of_table(declared: ReleaseSpec) -> WindowPlan:
    """Return the windows of a table; refuse those of a table without times."""
    _refuse_windows(declared)
    return plan_windows(declared, windowing_of_table(declared))


def resolve(declared: ReleaseSpec) -> tuple[ResolvedRelease, WindowPlan]:
    """Return the release of a table, and its windows."""
    plan = plan_of_table(declared)
    return declared.resolved.under(plan.terms), plan


def plan_release(
    declared: ReleaseSpec,
    n: int | None = None,
    *,
    wanted_error: Fraction | float = USUAL_WANTED_ERROR,
    typical: tuple[float, float] | None = None,
    quantiles: Iterable[float] = USUAL_QUANTILES,
) -> Any:
    """Do as `ReleaseSpec.plan`; of a table with declared times, for all windows that one bound covers."""
    resolved = declared.resolved if declared.time is None else resolve(declared)[0]
    return resolved.plan(n, wanted_error=wanted_error, typical=typical, quantiles=quantiles)


def read_declared(settings: Any) -> ReleaseSpec:
    """Return what settings declare: a `ReleaseSpec` itself, or what `config.read_release` reads."""
    return settings if isinstance(settings, ReleaseSpec) else read_release(settings)


def open_checked(table: Any, declared: ReleaseSpec) -> tuple[TableParts, list[str]]:
    """Return a table in parts, and what is to be warned of; refuse one whose columns cannot be used."""
    opened = open_table(table, columns_of(declared).values())
    check_columns(declared, opened)
    return opened, check_fractions(declared, table) if is_pandas_frame(type(table)) else []


def check_columns(declared: ReleaseSpec, table: TableParts) -> None:
    """Refuse columns that are missing, or of a type that cannot be used."""
    columns = columns_of(declared)
    with AllAtOnce() as checks:
        for argument, name in columns.items():
            if name not in table.names:
                words = f"{_shown(name)} is not a column of the table{nearest(name, table.names, columns)}"
                checks.refuse(refusal(path_of(argument), words, "E810"))
    declared.reader.read_batch(table.empty, declared.sketch_input)
    if declared.time is not None:
        batch_column(table.empty, "time", declared.time.field, TIMES)


def check_fractions(declared: ReleaseSpec, table: Any) -> list[str]:
    """Refuse numbers of pandas with many fractions where whole numbers are read; return warnings of some.

    Their type does not tell: pandas makes integers floats where one is missing, and decimals are objects. Here the
    caller holds the table.
    """
    warned = []
    for argument, name in columns_of(declared).items():
        readable, column = readable_of(argument, declared.sketch_input.readables), table[name]
        if readable.is_whole and (is_numpy_float(column.dtype) or column.dtype == object):
            numbers = np.array([*map(_number, column)]) if column.dtype == object else column.to_numpy(dtype=float)
            present = numbers[np.isfinite(numbers)]
            fractions = np.count_nonzero(np.floor(present) != present)
            if fractions > MOST_FRACTIONS * len(present):
                words = f"must hold {readable.description}, and many of its values have a fraction; {readable.rounding}"
                raise ArgumentTypeError(f"{argument}={name!r}", words, "E608")
            warned += [f"{argument}={name!r} {SOME_FRACTIONS}; {readable.rounding}"] * bool(fractions)
    return warned


def _number(value: Any) -> float:
    """Return a float or a decimal as a float, and anything else as no number."""
    return float(value) if isinstance(value, (float, decimal.Decimal)) else math.nan


def unused_words(declared: ReleaseSpec, table: TableParts, argument: str) -> str:
    """Return what is said of an argument that drops all rows."""
    name = columns_of(declared)[argument]
    column, readable = table.empty[name], readable_of(argument, declared.sketch_input.readables)
    lists = {name: spec.is_listed for name, spec in declared.spec.fields.items()}
    lists["key"] = declared.public_keys is not None
    listed = " that are listed" if lists.get(argument) else ""
    return (
        f"{argument}={name!r}: no row of the table has a value that can be used, "
        f"{effect(argument, declared.selectors)}; it must hold {readable.description}{listed}, and the column is of "
        f"type {getattr(column, 'dtype', None) or column.type}"
    )


def negative_words(name: Any) -> str:
    """Return what is said of negative weights."""
    return (
        f"weight={name!r} has values below 0, which count as 0; where they stand for deletions, the bounds must be "
        "signed; else take a column without them"
    )


def time_words(name: str, *, unread: bool, unused: bool) -> str:
    """Return what is said of times that cannot be read, or of a table without a row in any window."""
    if unread and unused:
        return (
            f"time={name!r}: no row of the table is in a declared window, so all were dropped; some have no time that "
            "can be read: write 2024-01-31 or 2024-01-31T08:00:00; or look at start and end"
        )
    if unused:
        return f"time={name!r}: no row of the table is in a declared window, so all were dropped; look at start and end"
    return f"time={name!r}: some rows have no time that can be read, so they are in no window, and were dropped"


def columns_of(declared: ReleaseSpec) -> dict[str, str]:
    """Return the column of each argument; refuse what is not a name."""
    given = declared.selectors.given
    columns = {argument: field for argument, field in given.items() if isinstance(field, str)}
    for argument in given.keys() - columns.keys():
        raise refusal(path_of(argument), "must be the name of a column of the table, got a callable")
    return columns if declared.time is None else {**columns, "time": declared.time.field}


def _refuse_windows(declared: ReleaseSpec) -> None:
    if declared.time is not None:
        return
    given: dict[str, Any] = {"windows": declared.time_range, "horizon": declared.horizon}
    given |= {f"unit.{name}": getattr(declared.unit, name, None) for name in ("max_windows", "period")}
    for path, value in given.items():
        if value is not None:
            raise refusal(
                path,
                "a table is released as a whole, because nothing says when its rows were; say which column does, as "
                "time: {field: day, every: 1d}, or --time day --every 1d in the shell, or leave this out",
                "E811",
            )


def _shown(name: str) -> str:
    return repr(name) if len(name) <= 40 else "a long name"


def nearest(name: str, names: Iterable[Any], columns: dict[str, str]) -> str:
    """Return a hint to a column of nearly this name, if the table has another wanted one.

    Else the names may be values: those of the first record of a file without a header.
    """
    known = [each for each in names if isinstance(each, str)]
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near and not {*columns.values()}.isdisjoint(known) else ""
