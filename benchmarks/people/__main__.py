"""What people gain from one norm each, beside a number of records each: ``python -m benchmarks.people [part ...]``.

All releases protect a person, at epsilon 2 and delta 1e-6, with all of rho in the counters, where a part says no other
numbers. `RecordBounds` keep some records of each person, at random. A `NormBound` scales what each person adds to all
counters down to a length. Each rule has the bound that suits it best in each column, chosen with other releases.
Bounds, sketches and noise are those of the package. They are fed with tables, without a pipeline. Parts:
  frequencies  error of the true top 10 and top 100: flights, a web log, a text, ports of a trace
  keys         the same over (origin, destination), with a sketch for each origin
  trees        error of distribution functions: delays, distances, delays by origin, addresses of a trace
  choice       a norm chosen with a twentieth of rho, compared with the best one: flights, a web log, ports, a text
  few          the same for fewer than 10,000 people: aircraft, and users of a web log
  items        the same for rarer items, with several item shares: each suits items of other frequency
  choice-keys  the same over keys and windows: destinations by origin, carrier and month; ports by sensor and month
  choice-trees the same for trees, with several item shares: none suits all data, and 0.07 is the usual one
  orders       L1 norm and 2, with the noise that suits each: aircraft over a list of airports
  short        lists of up to 64 items: error with the default L1 norm and its budget share, over that with an L2 norm
  means        counts and means of numbers by key: the usual norm, and the norm for means, over the best norm
  grouped      thresholded counts by votes or counts, over counts alone: texts, a web log, visits, flights, ports
  lost         what bounds take away, and what `clipping()` and `records()` of 100 releases say: flights, a web log,
               latencies, ports
  listed       people for each page of a known list
  cost         time to bound a record, one shard; `benchmarks.speed.bounding_cost` runs pipelines

Both rules cost the same noise. A norm gains most where the heaviest people spread their records over many items, as
aircraft do, which serve many destinations. It gains nothing for addresses that send thousands of packets to one port.
The rule that chooses a norm has one number for all data, `item_share`: 0.07. In the made-up web log 0.13 would suit,
because the heaviest people have four times as many records as their length. Noise hides these few people, so that norms
are too small there; with a larger `spend` they are closer. Takes about an hour.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from beam_dpsketch import IntegerDomain, IPv4Domain, ListedItems, TreeSpec
from benchmarks.command import Command
from benchmarks.people import (
    best,
    bounded,
    choice,
    cost,
    data,
    frequencies,
    grouped,
    listed,
    lost,
    orders,
    short_lists,
    trees,
)
from benchmarks.people.best import Effort
from benchmarks.people.bounded import SKETCH
from benchmarks.people.data import People
from benchmarks.people.frequencies import Grids
from benchmarks.people.judging import DistributionJudge, Judge, SearchJudge, TopJudge

DELAYS, DISTANCES = IntegerDomain(-120, 1500), IntegerDomain(0, 4999)
_HALF = 2**0.5


def measure_frequencies(trace: Path | None, text: Path | None) -> None:
    """Print a table for each data set."""
    flights = Grids(best.records(30, 680, _HALF), best.norms(30, 680, _HALF))
    frequencies.measure(data.flights_by("dest"), flights, Effort(40, 200), bars="flights")
    frequencies.measure(data.web_log(), Grids(best.records(64, 8192, 2), best.norms(64, 2048, 2)), Effort(4, 20))
    if text is not None:
        lines = Grids(best.records(2, 64, _HALF), best.norms(1, 32, _HALF))
        frequencies.measure(data.text_words(text, chapters=False), lines, Effort(20, 100))
        chapters = Grids(best.records(64, 2048, _HALF), best.norms(16, 512, _HALF))
        frequencies.measure(data.text_words(text, chapters=True), chapters, Effort(20, 100))
    if trace is not None:
        ports = Grids(best.records(64, 8192, 2), best.norms(32, 4096, 2))
        frequencies.measure(data.trace_ports(trace), ports, Effort(6, 40))


def measure_keys() -> None:
    """Print the table of flights by origin."""
    grids = Grids(best.records(30, 480, _HALF, (1, 2, 3)), best.norms(21, 480, _HALF))
    people = data.flights_by("dest", "origin")
    frequencies.measure(people, grids, Effort(20, 100), centred=False, bars="keys")


def measure_trees(trace: Path | None) -> None:
    """Print a table for each data set."""
    rules = (best.records(1, 512, 2), best.norms(1, 512, 2))
    effort = Effort(20, 40)
    trees.measure(data.flights_by("arr_delay"), DELAYS, rules, effort)
    trees.measure(data.flights_by("distance"), DISTANCES, rules, effort)
    by_origin = (best.records(4, 512, 2, (1, 2, 3)), best.norms(4, 512, 2))
    people = data.flights_by("arr_delay", "origin")
    trees.measure(people, DELAYS, by_origin, effort, trees.LARGEST_ERROR_BY_ORIGIN)
    if trace is not None:
        wide = (best.records(8, 256, 2), best.norms(8, 256, 2))
        trees.measure(data.trace_addresses(trace), IPv4Domain(), wide, Effort(8, 40))


def measure_choice(trace: Path | None, text: Path | None) -> None:
    """Print the table of each data set with one sketch."""
    flights, norms = data.flights_by("dest"), best.powers(8, 1024, _HALF)
    choice.measure(TopJudge(flights, SKETCH), norms)
    choice.measure(TopJudge(flights, _listed(flights)), norms)
    choice.measure(TopJudge(data.web_log(), SKETCH), best.powers(8, 8192, _HALF))
    if text is not None:
        # Lengths of lines are close together, so errors change fast from one norm to the next.
        choice.measure(TopJudge(data.text_words(text, chapters=False), SKETCH), best.powers(3, 24, _HALF**0.5))
        choice.measure(TopJudge(data.text_words(text, chapters=True), SKETCH), best.powers(24, 192, _HALF**0.5))
    if trace is not None:
        choice.measure(TopJudge(data.trace_ports(trace), SKETCH), best.powers(8, 8192, _HALF))


def measure_few() -> None:
    """Print a line for each number of people and each setting."""
    spends = [Fraction(1, 20), Fraction(1, 10), Fraction(1, 5)]
    flights = [data.some_of(data.flights_by("dest"), count) for count in (300, 1000, 3000)]
    log = [data.some_of(data.web_log(), count) for count in (300, 1000, 3000, 10_000)]
    judges = [(TopJudge(people, SKETCH), best.powers(1, 1024, _HALF)) for people in flights]
    judges += [(TopJudge(people, SKETCH), best.powers(1, 8192, _HALF)) for people in log]
    choice.measure_few(judges, spends)


def measure_items() -> None:
    """Print a line for items of each frequency."""
    flights, log, norms = data.flights_by("dest"), data.web_log(), best.powers(4, 2048, _HALF)
    judges = [(TopJudge(flights, SKETCH, ranks), norms) for ranks in (slice(10), slice(10, 50), slice(50, 104))]
    judges += [(TopJudge(log, SKETCH, ranks), norms) for ranks in (slice(10), slice(10, 100), slice(100, 1000))]
    choice.measure_shares(judges, (0.003, 0.01, 0.02, 0.04, 0.07, 0.1), releases=10)


def measure_choice_for_keys(trace: Path | None) -> None:
    """Print the table of each data set with keys; months stand for windows."""
    for by in ("origin", "carrier", "month"):
        people, norms = data.flights_by("dest", by), best.powers(8, 724, _HALF)
        for spec in (SKETCH, _listed(people)):
            choice.measure(TopJudge(people, spec), norms, choice.KEYED, releases=20, draws=40)
    if trace is not None:
        for by in ("sensor", "month"):
            judge = TopJudge(data.trace_ports(trace, by), SKETCH)
            choice.measure(judge, best.powers(16, 2048, _HALF), choice.KEYED, releases=20, draws=40)


def measure_choice_for_trees(trace: Path | None) -> None:
    """Print a table for each way to read a tree: the best item share is not the same for all data."""
    norms, wide = best.powers(1, 1024, _HALF), best.powers(1, 4096, 2)
    delays, distances = TreeSpec.for_memory(DELAYS), TreeSpec.for_memory(DISTANCES)
    judges: list[tuple[Judge, list[int]]] = [
        (DistributionJudge(data.flights_by("arr_delay"), delays), norms),
        (DistributionJudge(data.flights_by("distance"), distances), norms),
        (DistributionJudge(data.latencies(), TreeSpec.for_memory(IntegerDomain(0, 99_999))), wide),
        (DistributionJudge(data.flights_by("arr_delay", "origin"), delays), norms),
        (DistributionJudge(data.flights_by("distance", "origin"), distances), norms),
    ]
    shares = (0.02, 0.04, 0.07, 0.1, 0.2, 0.4)
    choice.measure_shares(judges, shares)
    norms = best.powers(16, 724, _HALF)
    judges = [
        (SearchJudge(data.flights_by("dest"), TreeSpec.for_search(DISTANCES)), norms),
        (SearchJudge(data.flights_by("distance"), TreeSpec.for_search(DISTANCES)), norms),
        (SearchJudge(data.web_log(), TreeSpec.for_search(IntegerDomain(0, 49_999))), best.powers(64, 4096, _HALF)),
    ]
    if trace is not None:
        ports = TreeSpec.for_search(IntegerDomain(0, 65_535))
        judges.append((SearchJudge(data.trace_ports(trace), ports), best.powers(45, 2048, _HALF)))
    choice.measure_shares(judges, shares)


def measure_orders() -> None:
    """Print the table of aircraft."""
    norms = {"l1": [180, 220, 260, 300, 340, 380], "l2": [45, 64, 90, 128, 181, 256]}
    orders.measure(data.flights_by("dest"), norms)


def measure_grouped(trace: Path | None, text: Path | None) -> None:
    """Print the tables of all data sets."""
    words = data.manual_words if text is None else functools.partial(data.text_words, text)
    sets = [data.some_of(data.web_log(), 50_000), data.purchases(), *map(data.visits, ("geometric", "lognormal"))]
    sets += [words(chapters=False), words(chapters=True)]
    sets += [data.flights_by("dest"), data.aircraft_months(), data.flight_numbers()]
    grouped.measure(sets if trace is None else [*sets, data.trace_ports(trace)], releases=5)


def _listed(people: People) -> ListedItems:
    return ListedItems(range(int(people.items.max()) + 1))


def measure_lost(trace: Path | None) -> None:
    """Print the table of each data set."""
    lost.measure(data.flights_by("dest"), [30, 75, 150], [30, 100, 300])
    lost.measure(data.web_log(), [5, 10, 20, 30, 50, 75, 150], [5, 30])
    lost.measure(data.latencies(), [2, 3, 5, 10, 20], [5])
    light = [data.flights_by("dest"), data.aircraft_months(), *map(data.visits, ("geometric", "lognormal", "poisson"))]
    lost.measure_few(light, [data.web_log(), data.latencies()])
    if trace is not None:
        lost.measure(data.trace_ports(trace), [2, 5, 10, 30, 100], [10])


def measure_cost(trace: Path | None) -> None:
    """Print the table of one shard."""
    shards = [
        (data.flights_by("dest"), SKETCH, 120),
        (data.web_log(), SKETCH, 4),
        (data.web_log(), SKETCH, 30),
        (data.flights_by("arr_delay"), TreeSpec.for_memory(DELAYS), 16),
    ]
    if trace is not None:
        shards.append((data.trace_addresses(trace), TreeSpec.for_memory(IPv4Domain()), 64))
    cost.measure(shards, repetitions=7)


def main() -> None:
    """Print the tables of the parts that were named, or of all."""
    measures: dict[str, Callable[[], None]] = {
        "frequencies": lambda: measure_frequencies(known.trace, known.text),
        "keys": measure_keys,
        "trees": lambda: measure_trees(known.trace),
        "choice": lambda: measure_choice(known.trace, known.text),
        "few": measure_few,
        "items": measure_items,
        "choice-keys": lambda: measure_choice_for_keys(known.trace),
        "choice-trees": lambda: measure_choice_for_trees(known.trace),
        "orders": measure_orders,
        "short": lambda: short_lists.measure(releases=10),
        "means": lambda: short_lists.measure_statistics(releases=10),
        "grouped": lambda: measure_grouped(known.trace, known.text),
        "lost": lambda: measure_lost(known.trace),
        "listed": lambda: listed.measure(data.web_log(), releases=20),
        "cost": lambda: measure_cost(known.trace),
    }
    command = Command(__file__, __doc__, "numpy", "pyarrow", "beam-dpsketch", parts=tuple(measures))
    command.add_argument("--trace", type=Path, help="a Parquet file with time, sensor, source_ip and destination_port")
    command.add_argument("--text", type=Path, help="a text file")
    known = command.parse_args()
    for part in known.parts or measures:
        with command.writing(
            known,
            f"epsilon = {bounded.EPSILON:g}, delta = {bounded.DELTA:g}, all of rho in the counters. Mean (range)",
            "and bound: RecordBounds(n), with max_keys if above 1, or NormBound(n). Noise: operating system.",
            part=part,
        ):
            measures[part]()


if __name__ == "__main__":
    main()
