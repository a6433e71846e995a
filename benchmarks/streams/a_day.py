"""What windows of a stream can have at epsilon 1 a day: ``python -m benchmarks.streams.a_day``.

A person is protected in all windows of a day, with one record in each. Items are listed. A cell is the margin of error
of a count (95 %, noise alone), in % of the people who are in one window. It is computed from the plan, in a second.
"""

from __future__ import annotations

import re

from beam_dpsketch import ListedItems, NormBound, PrivacyId, PrivacySpec
from beam_dpsketch.transforms import PrivateFrequencies
from benchmarks.command import Command
from benchmarks.table import Table

WINDOWS = {"1 day": 1, "1 hour": 24, "5 minutes": 288, "1 minute": 1440}
PEOPLE = (100, 1_000, 10_000, 100_000)


def margin(windows: int) -> float:
    """Margin of error of each count, in people."""
    users = PrivacyId("user", NormBound(1), max_windows=windows, period=86_400)
    spent = PrivacySpec(epsilon=1, delta=1e-6)
    plan = PrivateFrequencies(ListedItems(["maps", "news"]), spent, privacy_unit=users, item="query").explain()
    return float(re.findall(r"noise only +±([\d.,]+)", plan)[0].replace(",", ""))


def percent(of_all: float, people: int) -> str:
    share = 100 * of_all / people
    return f"{share:.0f}" if share >= 100 else f"{share:.2g}"


def main() -> None:
    command = Command(__file__, __doc__, "beam-dpsketch")
    with command.writing(command.parse_args(), "epsilon 1 a day, delta 1e-6"):
        heads = ("windows of", "a day", "margin", *(f"{people:,}" for people in PEOPLE))
        table = Table("Margin of error, in people, and in % of the people in one window", heads, (10, -6, *[-9] * 5))
        for length, windows in WINDOWS.items():
            of_all = margin(windows)
            table.row(length, f"{windows:,}", f"{of_all:.3g}", *(percent(of_all, people) for people in PEOPLE))


if __name__ == "__main__":
    main()
