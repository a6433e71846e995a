"""What people gain from one norm each, beside a number of records each: ``python -m benchmarks.people [part ...]``.

All releases protect a person, at epsilon 2 and delta 1e-6, with all of rho in the counters. `RecordBounds` keep some
records of each person, at random. A `NormBound` scales what each person adds to all counters down to a length. Each
rule has the bound that suits it best in each column, chosen with other releases. Bounds, sketches and noise are
those of the package. They are fed with tables, without a pipeline. Parts:
  frequencies  error of the true top 10 and top 100: flights, a web log, a text, ports of a trace
  keys         the same over (origin, destination), with a sketch for each origin
  trees        error of distribution functions: delays, distances, delays by origin, addresses of a trace
  listed       people for each page of a known list
  cost         time to bound a record, one shard; `benchmarks.bounding_cost` and `benchmarks.throughput` run pipelines
Takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from beam_dpsketch import IntegerDomain, IPv4Domain, SketchSpec, TreeSpec
from benchmarks.measuring import environment
from benchmarks.people import best, bounded, cost, data, frequencies, listed, trees
from benchmarks.people.best import Effort
from benchmarks.people.frequencies import Grids

PARTS = ("frequencies", "keys", "trees", "listed", "cost")
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
    people = data.flights_by("dest", by_origin=True)
    frequencies.measure(people, grids, Effort(20, 100), centred=False, bars="keys")


def measure_trees(trace: Path | None) -> None:
    """Print a table for each data set."""
    rules = (best.records(1, 512, 2), best.norms(1, 512, 2))
    effort = Effort(20, 40)
    trees.measure(data.flights_by("arr_delay"), DELAYS, rules, effort)
    trees.measure(data.flights_by("distance"), DISTANCES, rules, effort)
    by_origin = (best.records(4, 512, 2, (1, 2, 3)), best.norms(4, 512, 2))
    people = data.flights_by("arr_delay", by_origin=True)
    trees.measure(people, DELAYS, by_origin, effort, trees.LARGEST_ERROR_BY_ORIGIN)
    if trace is not None:
        wide = (best.records(8, 256, 2), best.norms(8, 256, 2))
        trees.measure(data.trace_addresses(trace), IPv4Domain(), wide, Effort(8, 40))


def measure_cost(trace: Path | None) -> None:
    """Print the table of one shard."""
    flat = SketchSpec(depth=5, width=2048)
    shards = [
        (data.flights_by("dest"), flat, 120),
        (data.web_log(), flat, 4),
        (data.web_log(), flat, 30),
        (data.flights_by("arr_delay"), TreeSpec.for_memory(DELAYS), 16),
    ]
    if trace is not None:
        shards.append((data.trace_addresses(trace), TreeSpec.for_memory(IPv4Domain()), 64))
    cost.measure(shards, repetitions=7)


def main() -> None:
    """Print the tables of the parts that were named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS) + " (default: all)")
    parser.add_argument("--trace", type=Path, help="a Parquet file with time, sensor, source_ip and destination_port")
    parser.add_argument("--text", type=Path, help="a text file")
    known = parser.parse_args()
    unknown = set(known.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; one of {', '.join(PARTS)}")
    parts = known.parts or PARTS
    print(environment("numpy", "pyarrow", "beam-dpsketch"))
    print(
        f"epsilon = {bounded.EPSILON:g}, delta = {bounded.DELTA:g}, all of rho in the counters. Mean (range), and the"
    )
    print("bound: RecordBounds(n), with max_partitions if above 1, or NormBound(n). Noise from the operating system.")
    if "frequencies" in parts:
        measure_frequencies(known.trace, known.text)
    if "keys" in parts:
        measure_keys()
    if "trees" in parts:
        measure_trees(known.trace)
    if "listed" in parts:
        listed.measure(data.web_log(), releases=20)
    if "cost" in parts:
        measure_cost(known.trace)


if __name__ == "__main__":
    main()
