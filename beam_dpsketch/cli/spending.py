"""Commands `dpsketch spent`, which composes privacy losses, and `dpsketch ledger`, which manages accounts."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable
from typing import Any

from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.cli import output
from beam_dpsketch.cli.options import read_settings_file
from beam_dpsketch.cli.stored import DELTA_DIGITS, RHO_DIGITS, add_files, read_all, rounded_delta, rounded_epsilon
from beam_dpsketch.cli.text import DONE, WRONG_USAGE, AnswerError, in_words_of, note, read_open_share, write
from beam_dpsketch.config import read_release
from beam_dpsketch.config.forms import read_exact
from beam_dpsketch.errors import ArgumentError, FormatError, LedgerError, RefusalError, UsageError
from beam_dpsketch.errors import together as all_of
from beam_dpsketch.frames.steps.plan import resolve
from beam_dpsketch.ledger.entries import (
    ACCOUNT,
    ACCOUNT_UNITS,
    PERIODS,
    RECORDED,
    SPEND,
    WRITE_OFF,
    Account,
    LedgerEntry,
)
from beam_dpsketch.ledger.ledger import Ledger, payer_of
from beam_dpsketch.ledger.limits import MAX_COUNT, LossLimit
from beam_dpsketch.ledger.paying import check_together
from beam_dpsketch.ledger.postgres import SCHEMA, USUAL_SCHEMA
from beam_dpsketch.ledger.sums import Balance, largest, together
from beam_dpsketch.plots.drawing import add_common_legend, panel_grid, text, to_bytes
from beam_dpsketch.plots.ledger import draw_account
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.loss.composition import event_fields
from beam_dpsketch.statement.accounting import Spent, add_up
from beam_dpsketch.statement.release_id import RUN_BYTES, runs
from beam_dpsketch.words import float_above, round_up

_RELATIONS = {relation.name.lower(): relation for relation in NeighboringRelation}
_LEDGER = "a file, or postgresql://user@host/database"
_PERIOD = "the paying period, such as 2026-11 (the current period)"
_TABLES = ("csv", "json")
_SIZE = (8.0, 3.6)


def declare_spent(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `spent`."""
    add_files(parser)
    output.add_format(parser)
    parser.add_argument(
        "--delta",
        type=read_open_share,
        help="the delta at which epsilon is shown (the smallest delta at which a release shows its own epsilon)",
    )


def show_spent(arguments: argparse.Namespace) -> int:
    """Run `dpsketch spent`.

    Each combination of privacy unit and relation has its own line.
    """
    stored, nothing, damaged = read_all(arguments.files)
    for error in damaged:
        note(FormatError(f"{error.message}. Its privacy loss is not in these sums"))
    spent = add_up((each.released.privacy for each in stored), [each.spent.privacy for each in nothing])
    output.print_rows([_spent_row(each, arguments.delta) for each in spent], arguments)
    if public := [each for each in stored if not each.released.privacy.is_private]:
        note(f"{len(public)} release(s) are NOT PRIVATE: the seed of their noise is public")
    note(
        "composed over these files and rounded up, on the assumption that all are about the same people. The result "
        "can be less than the sum. Other releases about these people add to it."
    )
    if len(spent) > 1:
        words = "lines with different privacy units or relations are different guarantees, and cannot be added up"
        if {each.privacy_unit.is_one_record for each in spent} == {True, False}:
            words += (
                ". A release of single records without keys_delta costs a person with k records up to k^2 times its "
                "rho, or k times its epsilon if delta is 0"
            )
        note(words)
    return WRONG_USAGE if damaged else DONE


def _spent_row(spent: Spent, delta: float | None) -> dict[str, Any]:
    if delta is None:
        epsilon, delta = spent.reported_epsilon, spent.loss.shown(spent.reported_delta)[1]
    else:
        epsilon = spent.epsilon(delta)
    return {
        "releases": spent.release_count,
        "runs": spent.run_count,
        "rho": round_up(spent.rho, RHO_DIGITS),
        "epsilon": rounded_epsilon(epsilon),
        "delta": round_up(delta, DELTA_DIGITS),
        "attack_accuracy": round_up(spent.attack_accuracy, 3),
        "keys_delta": rounded_delta(spent.lost),
        "relation": spent.relation.name,
        "protected": spent.privacy_unit.value,
        "period_seconds": spent.period_micros / 1_000_000 or None,
    }


def declare_ledger(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands of `ledger`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="ledger_command")
    for name, (words, declare, run) in _COMMANDS.items():
        command = commands.add_parser(name, help=words, description=f"{words.capitalize()}.", allow_abbrev=False)
        command.add_argument("ledger", metavar="LEDGER", help=_LEDGER)
        declare(command)
        command.set_defaults(ask=run)


def use_ledger(arguments: argparse.Namespace) -> int:
    """Run `dpsketch ledger`.

    Refusals by the ledger are reported as wrong usage.
    """
    with in_words_of(UsageError, RefusalError):
        arguments.ask(Ledger(arguments.ledger), arguments)
    return DONE


def _declare_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("account", metavar="ACCOUNT", help="a name for the account")
    parser.add_argument("--epsilon", metavar="E", type=_number, help="the limit, for all releases together")
    parser.add_argument("--delta", metavar="D", type=_number, help="with epsilon; without it, only pure releases")
    parser.add_argument("--rho", metavar="R", type=_number, help="in place of epsilon")
    parser.add_argument("--period", choices=[*PERIODS], default="none", help="when the limit is renewed (none)")
    parser.add_argument(
        "--privacy-unit", choices=[*ACCOUNT_UNITS], default="privacy_id", help="the privacy unit (privacy_id)"
    )
    parser.add_argument("--relation", choices=[*_RELATIONS], default="add_or_remove_one", help="(add_or_remove_one)")
    parser.add_argument("--data-set", metavar="TEXT", default="", help="the data behind the releases, as free text")
    parser.add_argument("--who", metavar="TEXT", help="the author of the entry (the user)")


def _create(ledger: Ledger, arguments: argparse.Namespace) -> None:
    if arguments.rho is None and arguments.epsilon is None:
        raise UsageError("--epsilon or --rho is missing. Set the limit for all releases together")
    account = Account(
        name=arguments.account,
        limit=LossLimit(rho=arguments.rho, epsilon=arguments.epsilon, delta=arguments.delta),
        data_set=arguments.data_set,
        privacy_unit=arguments.privacy_unit,
        relation=_RELATIONS[arguments.relation],
        period=arguments.period,
    )
    ledger.create(account, who=arguments.who)
    schema = f", schema {USUAL_SCHEMA}," * ("://" in ledger.address and f"{SCHEMA}=" not in ledger.address)
    note(f"account {account.name!r} of {arguments.ledger}{schema} has a limit of {_limit(account)}")


def _list(ledger: Ledger, arguments: argparse.Namespace) -> None:
    output.print_rows([_balance(each) for each in ledger.balances()], arguments)


def _declare_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("account", metavar="ACCOUNT", help="the account")
    parser.add_argument("--period", metavar="P", help="a period of the account, such as 2026-11 (all periods)")
    output.add_format(parser)


def _show(ledger: Ledger, arguments: argparse.Namespace) -> None:
    account = ledger.account(arguments.account)
    wanted = None if arguments.period is None else account.checked_period(arguments.period)
    entries = [each for each in ledger.entries() if each.account == account.name and wanted in (None, each.period)]
    output.print_rows([_entry(account, each) for each in entries if each.kind in (SPEND, WRITE_OFF)], arguments)
    found = [each for each in ledger.balances() if each.account == account and wanted in (None, each.period)]
    limit = account.limit
    for each in found:
        of_period = f" in {each.period}" if each.period else ""
        left = f"left for one release: {limit.left_words(each.spent)}{_like(each.left_like_last, 'the last one')}"
        note(f"{account.name}{of_period}: {limit.words(each.spent)} of {limit.words()} is spent; {left}")
    if len(found) > 1:
        everywhere, within = limit.words(together(found)), limit.words(largest(found))
        note(
            f"all periods together: {everywhere} for a privacy unit in every period, and {within} for a privacy unit "
            "in a single period, if every release reads only the records of its own period"
        )


def _declare_ask(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("account", metavar="ACCOUNT", help="the account")
    ways = parser.add_mutually_exclusive_group(required=True)
    ways.add_argument("--config", metavar="FILE", help="settings of the release")
    ways.add_argument("--epsilon", metavar="E", type=_number, help="epsilon of the release, in place of settings")
    ways.add_argument("--rho", metavar="R", type=_number, help="in place of epsilon")
    parser.add_argument("--delta", metavar="D", type=_number, help="with epsilon; without it, for Laplace noise alone")
    parser.add_argument("--period", metavar="P", help=_PERIOD)


def _ask(ledger: Ledger, arguments: argparse.Namespace) -> None:
    account = ledger.account(arguments.account)
    if arguments.config is None:
        spec = PrivacySpec(epsilon=arguments.epsilon, delta=arguments.delta, rho=arguments.rho)
        loss, unit, relation = spec.loss(), ACCOUNT_UNITS[account.privacy_unit][0], account.relation
    elif arguments.delta is not None:
        raise UsageError("--config and --delta cannot be combined. Set delta in the file")
    else:
        terms = resolve(read_release(read_settings_file(arguments.config)))[0].terms
        loss, unit, relation = terms.loss, terms.privacy_unit, terms.privacy.relation
    payer = payer_of(ledger.address, account.name, period=arguments.period)
    (total,) = check_together([payer.bill(loss, {"privacy_unit": unit, "relation": relation}, {})])
    limit = account.limit
    left = f"{limit.left_words(total)}{_like(limit.count(total, loss), 'this one')}"
    laplace = " (Laplace noise alone; otherwise, set --delta)" * (arguments.config is None and loss.is_pure)
    note(
        f"account {account.name!r} can pay for this release: {limit.words(loss)}{laplace}. Left for one release after "
        f"it: {left}. Nothing was spent"
    )


def _declare_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("account", metavar="ACCOUNT", help="the account that pays")
    add_files(parser)
    parser.add_argument("--period", metavar="P", help=_PERIOD)
    parser.add_argument("--who", metavar="TEXT", help="the author of the entry (the user)")


def _record(ledger: Ledger, arguments: argparse.Namespace) -> None:
    """Pay for each run in the files, with the loss in its statements, or for none of them."""
    stored, nothing, damaged = read_all(arguments.files)
    if damaged:
        raise all_of(damaged)
    found = [(each.path, each.released.privacy, each.released.spec.kind) for each in stored]
    found += [(each.path, each.spent.privacy, "no key chosen") for each in nothing]
    if any(len(runs(statement.release_ids)) > 1 for _, statement, _ in found):
        raise UsageError("a file contains a combination of several runs. Record the files of its runs instead")
    if not all(statement.is_private for _, statement, _ in found):
        words = "a release is NOT PRIVATE, because the seed of its noise is public, so no payment covers it"
        raise UsageError(f"{words}. Record the other files alone")
    account = ledger.account(arguments.account)
    for path, statement, _ in found:
        with in_words_of(UsageError, ArgumentError, place=f"{path}: "):
            account.check_terms(statement.privacy_unit, statement.relation)
    payer = payer_of(ledger.address, arguments.account, who=arguments.who, period=arguments.period)
    bills, paid = [], []
    for run, of_run in itertools.groupby(sorted(found, key=_run_of), _run_of):
        paths, statements, (kind, *_) = zip(*of_run, strict=True)
        for spent in add_up(statements):
            terms = {"privacy_unit": spent.privacy_unit, "relation": spent.relation}
            bill = payer.bill(spent.loss, terms, {"kind": kind, RECORDED: True})
            try:
                bill.check_unpaid(run)
            except LedgerError as error:
                paid.append(LedgerError("", f"{', '.join(dict.fromkeys(paths))}: {error.message}", error.code))
            bills.append((run, bill))
    if paid:
        raise all_of(paid)
    check_together(bill for _, bill in bills)
    for run, bill in bills:
        bill.pay(run)
        note(f"payment {run.hex()} of account {arguments.account!r} is entered: {account.limit.words(bill.loss)}")


def _run_of(found: tuple[str, PrivacyStatement, str]) -> bytes:
    return found[1].release_ids[0][:RUN_BYTES]


def _like(count: int | None, other: str) -> str:
    if count is None:
        return ""
    return f", that is {count:,}{' or more' * (count == MAX_COUNT)} release{'s' * (count != 1)} like {other}"


def _declare_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--head", metavar="DIGEST", help="an earlier head, which the ledger must still contain")


def _verify(ledger: Ledger, arguments: argparse.Namespace) -> None:
    verified = ledger.verify(arguments.head and arguments.head.lower())
    write(sys.stdout, f"{verified.entries} entries, all sums are right\nhead {verified.head}\n")
    if arguments.head:
        note("the ledger contains the given head")
    note("store the head outside the ledger, because a writer could recompute all digests. To compare it, use --head")


def _declare_write_off(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("payment", metavar="PAYMENT", help="its name in dpsketch ledger show")
    parser.add_argument(
        "--reason", required=True, metavar="TEXT", help="why no person has seen any part of the release"
    )
    parser.add_argument("--who", metavar="TEXT", help="the author of the entry (the user)")


def _write_off(ledger: Ledger, arguments: argparse.Namespace) -> None:
    entry = ledger.write_off(arguments.payment, arguments.reason, who=arguments.who)
    note(f"entry {entry.number} writes off payment {entry.payment} of account {entry.account!r}; both stay visible")


def _declare_export(parser: argparse.ArgumentParser) -> None:
    output.add_output_options(parser, _TABLES)
    output.add_escape_formulas(parser)


def _export(ledger: Ledger, arguments: argparse.Namespace) -> None:
    """Write a row per entry, with the events for `dp_accounting`."""
    kind = output.output_kind(arguments, _TABLES)
    spell = output.csv_spelling(arguments, kind)
    rows = [_exported(each) for each in ledger.entries()]
    if kind == "csv":
        rows = [
            {**row, **{name: output.one_line(row[name]) for name in ("what", "dp_event") if row[name]}} for row in rows
        ]
    data = output.as_csv(rows, spell) if kind == "csv" else output.as_json(rows)
    output.write_output(arguments, data.encode("utf-8", "backslashreplace"), [ledger.address])
    note(f"wrote {len(rows)} entries to {arguments.output}")


def _declare_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--account", action="append", metavar="ACCOUNT", help="an account to draw, in a separate panel (all)"
    )
    output.add_output_options(parser, output.PICTURES)


def _plot(ledger: Ledger, arguments: argparse.Namespace) -> None:
    kind = output.output_kind(arguments, output.PICTURES)
    entries = ledger.entries()
    names = arguments.account or [each.account for each in entries if each.kind == ACCOUNT]
    accounts = [ledger.account(name) for name in dict.fromkeys(names)]
    if not 0 < len(accounts) <= output.MAX_PANELS:
        raise AnswerError(
            f"a picture can show 1 to {output.MAX_PANELS} accounts, got {len(accounts)}. Select accounts with --account"
        )
    with in_words_of(UsageError, ImportError):
        figure, grid = panel_grid(len(accounts), 1, _SIZE)
    for axes, account in zip(grid, accounts, strict=True):
        draw_account(account, [each for each in entries if each.account == account.name], axes)
        axes.set_title(text(account.name), fontsize=11)
    add_common_legend(figure, grid, ())
    output.write_output(arguments, to_bytes(figure, kind), [ledger.address])


def _exported(each: LedgerEntry) -> dict[str, Any]:
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


def _balance(each: Balance) -> dict[str, Any]:
    account = each.account
    return {
        "account": account.name,
        "period": each.period or None,
        "limit": account.limit.words(),
        "spent": account.limit.words(each.spent),
        "share": each.share,
        "left_for_one": account.limit.left_words(each.spent),
        "left_like_last": each.left_like_last,
        "payments": each.payments,
        "written_off": each.written_off,
        "protected": ACCOUNT_UNITS[account.privacy_unit][0].value,
        "relation": account.relation.name,
        "renewed": None if account.period == "none" else f"each {account.period}",
        "data_set": account.data_set or None,
    }


def _entry(account: Account, each: LedgerEntry) -> dict[str, Any]:
    what = each.what.get("reason") if each.kind == WRITE_OFF else each.what.get("kind")
    return {
        "entry": each.number,
        "time": each.time.replace(microsecond=0),
        "period": each.period or None,
        "what": f"written off: {what}" if each.kind == WRITE_OFF else what,
        "cost": ("-" * (each.kind == WRITE_OFF)) + account.limit.words(each.loss),
        "spent": account.limit.words(each.total),
        "who": each.who,
        "payment": each.payment,
    }


def _limit(account: Account) -> str:
    return account.limit.words() + ("" if account.period == "none" else f", renewed each {account.period}")


def _number(text: str) -> Any:
    try:
        return read_exact(text, "")
    except RefusalError as error:
        raise argparse.ArgumentTypeError(error.words) from None


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[Ledger, Any], None]]] = {
    "create": ("add an account, and create the ledger if necessary", _declare_create, _create),
    "list": ("show the spent and the remaining budget of each account", output.add_format, _list),
    "show": ("show all payments of an account", _declare_show, _show),
    "ask": ("check whether an account can pay for a release, without paying", _declare_ask, _ask),
    "record": ("pay for releases that exist, but that no account has paid for", _declare_record, _record),
    "plot": ("draw the spent budget over time", _declare_plot, _plot),
    "export": ("write all entries to a table", _declare_export, _export),
    "verify": ("add up all entries again, and print the head of their chain", _declare_verify, _verify),
    "write-off": ("refund the payment for a release that was not made", _declare_write_off, _write_off),
}
