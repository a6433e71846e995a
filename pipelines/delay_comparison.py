"""Comparison of private and exact arrival delays for the demo: a table and plot data."""

import numpy as np

from beam_dpsketch.answers.tree import ReleasedRanks
from pipelines.delay_quantiles import LATE, SHARES, later, percent
from pipelines.exact import ExactDelays
from pipelines.plots import Shares
from pipelines.running import minutes

DRAWN = np.arange(-60, 181)  # minutes, 1 % of flights arrive later


def print_delays(released: dict[str, ReleasedRanks], exact: dict[str, ExactDelays], bound: int) -> None:
    print(f"\nArrival delays in minutes (negative: early), the norm of each aircraft at most {bound} flights")
    for airport, delays in exact.items():
        print(f"  {airport:10}{'exact':>8}{'bounded':>9}   private (95 % interval)")
        for share in SHARES:
            true, kept = delays.flights.quantile(share), delays.kept.quantile(share)
            print(f"    {share:6.0%}  {true:8}{kept:9}   {minutes(released[airport].quantile(share))}")
        late = np.array([LATE])
        true, kept = (1 - each.cdf(late)[0] for each in delays)
        print(f"    >{LATE} min {true:8.1%}{kept:9.1%}   {percent(later(released[airport].cdf_interval(LATE)))}")
        dropped = 1 - delays.kept.cumulated[-1] / delays.flights.cumulated[-1]
        print(f"    Bounding takes {dropped:.0%} of the weight of {len(delays.flights.values):,} arrivals.")
    print("Intervals are for the bounded figures. One that ends at 1500, the end of the declared domain, says that")
    print("there are fewer flights above than noise. Delays keep their shares where each aircraft is scaled down as a")
    print("whole, so a low bound serves here, where counting needed a high one.")


def shares(released: ReleasedRanks, exact: ExactDelays) -> Shares:
    return Shares(released.cdf_interval(DRAWN), exact.flights.cdf(DRAWN), exact.kept.cdf(DRAWN))
