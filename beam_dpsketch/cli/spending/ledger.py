"""`dpsketch ledger`: make accounts, look at them, write off what was not released, and count all again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from beam_dpsketch.cli.output import add_format, print_rows
from beam_dpsketch.cli.spending import ledger_files
from beam_dpsketch.cli.text import DONE, note, write
from beam_dpsketch.config.scalars import read_exact
from beam_dpsketch.errors import RefusalError, UsageError
from beam_dpsketch.ledger.accounts import PERIODS, UNITS, Account
from beam_dpsketch.ledger.entries import SPEND, WRITE_OFF, LedgerEntry
from beam_dpsketch.ledger.ledger import Ledger
from beam_dpsketch.ledger.limits import LossLimit
from beam_dpsketch.ledger.postgres import SCHEMA, USUAL_SCHEMA
from beam_dpsketch.ledger.sums import Balance, largest, together
from beam_dpsketch.privacy.contributions import NeighboringRelation

_RELATIONS = {relation.name.lower(): relation for relation in NeighboringRelation}
_LEDGER = "a file, or postgresql://user@host/database"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands of a ledger."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="ledger_command")
    for name, (words, declare, run) in _COMMANDS.items():
        command = commands.add_parser(name, help=words, description=f"{words.capitalize()}.", allow_abbrev=False)
        command.add_argument("ledger", metavar="LEDGER", help=_LEDGER)
        declare(command)
        command.set_defaults(ask=run)


def run(arguments: argparse.Namespace) -> int:
    """Run one of the commands; what the ledger refuses is wrong usage."""
    try:
        arguments.ask(Ledger(arguments.ledger), arguments)
    except RefusalError as error:
        raise UsageError.of(error) from None
    return DONE


def _declare_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("account", metavar="ACCOUNT", help="a name for the account")
    parser.add_argument("--epsilon", metavar="E", type=_number, help="the limit, for all releases together")
    parser.add_argument("--delta", metavar="D", type=_number, help="next to epsilon; without it, pure releases alone")
    parser.add_argument("--rho", metavar="R", type=_number, help="in place of epsilon")
    parser.add_argument("--period", choices=[*PERIODS], default="none", help="when the limit begins anew (none)")
    parser.add_argument("--unit", choices=[*UNITS], default="privacy_id", help="what is protected (privacy_id)")
    parser.add_argument("--relation", choices=[*_RELATIONS], default="add_or_remove_one", help="(add_or_remove_one)")
    parser.add_argument("--data-set", metavar="TEXT", default="", help="what the releases are made of, in free words")
    parser.add_argument("--who", metavar="TEXT", help="who adds it (the user)")


def _create(ledger: Ledger, arguments: argparse.Namespace) -> None:
    if arguments.rho is None and arguments.epsilon is None:
        raise UsageError("--epsilon is missing, with --delta, or --rho: the limit for all releases together")
    account = Account(
        name=arguments.account,
        limit=LossLimit(rho=arguments.rho, epsilon=arguments.epsilon, delta=arguments.delta),
        data_set=arguments.data_set,
        unit=arguments.unit,
        relation=_RELATIONS[arguments.relation],
        period=arguments.period,
    )
    ledger.create(account, who=arguments.who)
    schema = f", schema {USUAL_SCHEMA}," * ("://" in ledger.address and f"{SCHEMA}=" not in ledger.address)
    note(f"account {account.name!r} of {arguments.ledger}{schema} has a limit of {_limit(account)}")


def _list(ledger: Ledger, arguments: argparse.Namespace) -> None:
    print_rows([_balance(each) for each in ledger.balances()], arguments)


def _declare_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("account", metavar="ACCOUNT", help="the account")
    parser.add_argument("--period", metavar="P", help="one of its periods, as 2026-11; else all of them")
    add_format(parser)


def _show(ledger: Ledger, arguments: argparse.Namespace) -> None:
    account = ledger.account(arguments.account)
    wanted = None if arguments.period is None else account.checked_period(arguments.period)
    entries = [each for each in ledger.entries() if each.account == account.name and wanted in (None, each.period)]
    print_rows([_entry(account, each) for each in entries if each.kind in (SPEND, WRITE_OFF)], arguments)
    found = [each for each in ledger.balances() if each.account == account and wanted in (None, each.period)]
    limit = account.limit
    for each in found:
        of_period = f" in {each.period}" if each.period else ""
        left = f"left for one release: {limit.left_words(each.spent)}"
        note(f"{account.name}{of_period}: {limit.words(each.spent)} of {limit.words()} is spent; {left}")
    if len(found) > 1:
        everywhere, within = limit.words(together(found)), limit.words(largest(found))
        note(
            f"all periods together: {everywhere} for a person who is in each; and {within} for what is of one period "
            "alone, if every release reads the records of its own period alone"
        )


def _declare_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--head", metavar="DIGEST", help="an earlier head, which the ledger must still hold")


def _verify(ledger: Ledger, arguments: argparse.Namespace) -> None:
    verified = ledger.verify(arguments.head and arguments.head.lower())
    write(sys.stdout, f"{verified.entries} entries, all sums are right\nhead {verified.head}\n")
    if arguments.head:
        note("the ledger holds the entry of the head that was given")
    note("keep the head elsewhere: who may write to the ledger could make all digests anew; --head compares")


def _declare_write_off(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("payment", metavar="PAYMENT", help="as dpsketch ledger show names it")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why nobody has seen anything of the release")
    parser.add_argument("--who", metavar="TEXT", help="who writes it off (the user)")


def _write_off(ledger: Ledger, arguments: argparse.Namespace) -> None:
    entry = ledger.write_off(arguments.payment, arguments.reason, who=arguments.who)
    note(f"entry {entry.number} writes off payment {entry.payment} of account {entry.account!r}; both stay visible")


def _balance(each: Balance) -> dict[str, Any]:
    account = each.account
    return {
        "account": account.name,
        "period": each.period or None,
        "limit": account.limit.words(),
        "spent": account.limit.words(each.spent),
        "share": each.share,
        "left_for_one": account.limit.left_words(each.spent),
        "payments": each.payments,
        "written_off": each.written_off,
        "protected": UNITS[account.unit][0].value,
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
    return account.limit.words() + ("" if account.period == "none" else f", anew each {account.period}")


def _number(text: str) -> Any:
    try:
        return read_exact(text, "")
    except RefusalError as error:
        raise argparse.ArgumentTypeError(error.words) from None


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[Ledger, Any], None]]] = {
    "create": ("add an account, and make the ledger if there is none", _declare_create, _create),
    "list": ("show what is spent and left of each account", add_format, _list),
    "show": ("show all payments of an account", _declare_show, _show),
    "plot": ("draw what was spent over time", ledger_files.declare_plot, ledger_files.plot),
    "export": ("write all entries to a table", ledger_files.declare_export, ledger_files.export),
    "verify": ("count all again, and print the head of the chain of entries", _declare_verify, _verify),
    "write-off": ("take back what was paid for a release that was not made", _declare_write_off, _write_off),
}
