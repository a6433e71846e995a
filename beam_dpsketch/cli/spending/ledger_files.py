"""Files of a ledger: its entries as a table, and pictures of what was spent."""

from __future__ import annotations

import argparse
from typing import Any

from beam_dpsketch._showing import float_above
from beam_dpsketch.cli.output import (
    add_escape_formulas,
    add_output_options,
    as_csv,
    as_json,
    csv_spelling,
    one_line,
    output_kind,
    write_output,
)
from beam_dpsketch.cli.text import AnswerError, note
from beam_dpsketch.errors import UsageError
from beam_dpsketch.ledger.entries import ACCOUNT, SPEND, LedgerEntry
from beam_dpsketch.ledger.ledger import Ledger
from beam_dpsketch.plots.drawing import add_common_legend, panel_grid, text, to_bytes
from beam_dpsketch.plots.ledger import draw_account
from beam_dpsketch.privacy.loss.events import event_fields

TABLES, PICTURES = ("csv", "json"), ("png", "svg", "pdf")
_MAX_PANELS = 12
_SIZE = (8.0, 3.6)


def declare_export(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `export`."""
    add_output_options(parser, TABLES)
    add_escape_formulas(parser)


def export(ledger: Ledger, arguments: argparse.Namespace) -> None:
    """Write all entries, one row each, with the events of `dp_accounting`."""
    kind = output_kind(arguments, TABLES)
    spell = csv_spelling(arguments, kind)
    rows = [_row(each) for each in ledger.entries()]
    if kind == "csv":
        rows = [{**row, **{name: one_line(row[name]) for name in ("what", "dp_event") if row[name]}} for row in rows]
    data = as_csv(rows, spell) if kind == "csv" else as_json(rows)
    write_output(arguments, data.encode("utf-8", "backslashreplace"), [ledger.address])
    note(f"wrote {len(rows)} entries to {arguments.output}")


def declare_plot(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `plot`."""
    parser.add_argument("--account", action="append", metavar="ACCOUNT", help="one of them; else all, a panel each")
    add_output_options(parser, PICTURES)


def plot(ledger: Ledger, arguments: argparse.Namespace) -> None:
    """Draw what was spent of each account over time, against its limit."""
    kind = output_kind(arguments, PICTURES)
    entries = ledger.entries()
    names = arguments.account or [each.account for each in entries if each.kind == ACCOUNT]
    accounts = [ledger.account(name) for name in dict.fromkeys(names)]
    if not 0 < len(accounts) <= _MAX_PANELS:
        raise AnswerError(f"a picture has 1 to {_MAX_PANELS} panels, and there are {len(accounts)} accounts: --account")
    try:
        figure, grid = panel_grid(len(accounts), 1, _SIZE)
    except ImportError as error:
        raise UsageError.of(error) from None
    for axes, account in zip(grid, accounts, strict=True):
        draw_account(account, [each for each in entries if each.account == account.name], axes)
        axes.set_title(text(account.name), fontsize=11)
    add_common_legend(figure, grid, ())
    write_output(arguments, to_bytes(figure, kind), [ledger.address])


def _row(each: LedgerEntry) -> dict[str, Any]:
    event: dict[str, Any] | None = dict([event_fields(each.loss)]) if each.kind == SPEND else None
    if event and each.loss.delta:
        event["and_delta"] = float_above(each.loss.delta)
    return {
        "entry": each.number,
        "kind": each.kind,
        "time": each.time,
        "who": each.who,
        "account": each.account or None,
        "period": each.period or None,
        "payment": each.payment or None,
        **{name: float_above(getattr(each.loss, name)) for name in ("rho", "delta", "pure")},
        **{f"total_{name}": float_above(getattr(each.total, name)) for name in ("rho", "delta", "pure")},
        "what": dict(each.what),
        "dp_event": event,
        "digest": each.digest,
    }
