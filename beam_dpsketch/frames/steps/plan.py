"""Plan a table's release, and report the caller's mistakes, before its rows are read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import AllAtOnce, ConfigError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec, ResolvedRelease
from beam_dpsketch.exact.declared.windows import WindowPlan, plan_windows, windowing_of_table
from beam_dpsketch.exact.reading.columns import TIMES, batch_column
from beam_dpsketch.exact.reading.unreadable import Tally
from beam_dpsketch.frames.steps.tables import TableParts, open_table

_PATHS = {"privacy_id": "privacy_unit.privacy_id", "key": "keys.field", "time": "time.field"}


def path_of(argument: str) -> str:
    """Look up the settings path of an argument's column."""
    return _PATHS.get(argument.partition("[")[0], argument)


def plan_of_table(declared: ReleaseSpec) -> WindowPlan:
    """Plan a table's windows. Raise if windows are declared without times."""
    _refuse_windows(declared)
    return plan_windows(declared, windowing_of_table(declared))


def resolve(declared: ReleaseSpec) -> tuple[ResolvedRelease, WindowPlan]:
    """Resolve a table's release, and plan its windows."""
    plan = plan_of_table(declared)
    return declared.resolved.under(plan.terms), plan


def open_checked(table: Any, declared: ReleaseSpec) -> TableParts:
    """Open a table in parts. Raise if a column is unusable."""
    opened = open_table(table, columns_of(declared).values())
    check_columns(declared, opened)
    return opened


def tally_of(declared: ReleaseSpec, table: TableParts) -> Tally:
    """Create the tally of a table's readable values."""
    times = None if declared.time is None else declared.time.field
    return declared.reader.tally(declared.sketch_input, time=times, door=table.door, spelling=table.spelling)


def check_columns(declared: ReleaseSpec, table: TableParts) -> None:
    """Raise if columns are missing or have an unusable type."""
    columns = columns_of(declared)
    with AllAtOnce() as checks:
        for argument, name in reported(columns).items():
            if name not in table.names:
                words = f"{_shown(name)} is not a column of the table{nearest(name, table.names, columns)}"
                checks.refuse(ConfigError(path_of(argument), words, "E810"))
        if declared.csv is not None and table.spelling is None:
            words = "is supported only for CSV files. Remove it, and convert text columns before"
            checks.refuse(ConfigError("csv", words))
    tally = tally_of(declared, table)
    declared.reader.read_batch(table.empty, declared.sketch_input, tally)
    if declared.time is not None:
        batch_column(table.empty, "time", declared.time.field, TIMES, tally)


def reported(columns: dict[str, str]) -> dict[str, str]:
    """Select each argument's column, without items that repeat the privacy id, as metrics that count ids do."""
    return {each: name for each, name in columns.items() if each == "privacy_id" or name != columns.get("privacy_id")}


def columns_of(declared: ReleaseSpec) -> dict[str, str]:
    """Look up each argument's column. Raise if an argument is a callable."""
    columns: dict[str, Any] = declared.selectors.columns
    for argument in (argument for argument, field in columns.items() if callable(field)):
        raise ConfigError(path_of(argument), "must be the name of a table column, got a callable")
    return columns if declared.time is None else {**columns, "time": declared.time.field}


def _refuse_windows(declared: ReleaseSpec) -> None:
    if declared.time is not None:
        return
    given: dict[str, Any] = {"windows": declared.time_range, "horizon": declared.horizon}
    given |= {f"privacy_unit.{name}": getattr(declared.privacy_unit, name, None) for name in ("max_windows", "period")}
    for path, value in given.items():
        if value is not None:
            raise ConfigError(
                path,
                "requires a time column. Set time: {field: day, every: 1d}, or --time day --every 1d in the shell. "
                "To release the whole table, remove this setting",
                "E811",
            )


def _shown(name: str) -> str:
    return repr(name) if len(name) <= 40 else "a long name"


def nearest(name: str, names: Iterable[Any], columns: dict[str, str]) -> str:
    """Write a hint about a column with a similar name, if the table has another required column.

    Otherwise the names may be values: the first record in a file without a header.
    """
    known = [each for each in names if isinstance(each, str)]
    return _validate.did_you_mean(None if {*columns.values()}.isdisjoint(known) else _validate.nearest(name, known))
