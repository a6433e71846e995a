"""What decoding a dictionary gains over reading each item alone: ``python -m benchmarks.accuracy.decoding``.

CountSketches of 5 x 7,372 counters (147 KB at 4 bytes a counter) under REPLACE_ONE, a record protected, all of rho in
the sketch. Other shapes are named. The dictionary has the items that occur, the whole universe with those that do not,
or a part: the 100 most frequent items and random others. For each it prints:
  ARE         mean over the asked items that occur of |answer - f| / f, of: the median over rows ("median"), `estimate`
              of the release ("Huber"), `estimate` of what is decoded ("decoded"), and its `shrunk`
  RMSE        root mean square error over all that are asked, of the same; decoded also as a share of the median's
  width       mean width of 95 % intervals, of the release and decoded, beside that of noise alone ("floor")
  coverage    share of decoded intervals that hold the truth: of all, of f < 5, and of f >= 20
  bars        the decoded RMSE is at most 1.02 times the median's, and 93 to 97 % of decoded intervals hold; the
              first row limits the shrunk ARE, and the decoded width over the width of noise alone
Noise alone is the least that any decoder leaves. The rest is the price of intervals that hold for each class of
weights: what is subtracted in a row is decided by the other rows. The narrowest sketch, 5 x 850, has about as many
counters as there are items. No constant was chosen on these seeds, on flights or on the trace. A list of the items that
occur is not private: it serves to measure only. Takes about three minutes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from beam_dpsketch import REPLACE_ONE, CountMin, CountSketch, PrivacySpec, ReleaseTerms, SketchSpec
from beam_dpsketch import release as release_sketch
from beam_dpsketch.answers.flat import ReleasedFrequencies
from beam_dpsketch.exact.hashing import cells
from benchmarks import ordered_data
from benchmarks.command import Command
from benchmarks.measuring import seconds
from benchmarks.people.data import flights_by
from benchmarks.readings import mean_relative_error
from benchmarks.table import Bar, Table, spread

ITEMS, FIRST_SEED, MOST_LISTED = 100_000, 100, 100
SHAPE, NARROW, NARROWEST = (5, 7372), (5, 2048), (5, 850)
RHOS = (0.1, 1.0)
FLOOR = 2 * 1.96
MOST_LOSS = 1.02
# The largest shrunk ARE, and the largest decoded width over the floor, of Zipf items that occur, by rho.
BARS = {0.1: (0.65, 1.15), 1.0: (0.45, 1.15)}


OCCURS, PART = "items that occur", "partial list"
CASES = (
    ("Zipf", OCCURS, SHAPE, CountSketch),
    ("Zipf", "universe", SHAPE, CountSketch),
    ("Zipf", PART, SHAPE, CountSketch),
    ("Zipf", OCCURS, NARROW, CountSketch),
    ("log-uniform", OCCURS, SHAPE, CountSketch),
    ("log-uniform", PART, SHAPE, CountSketch),
    ("log-uniform", OCCURS, NARROW, CountSketch),
    ("log-uniform", OCCURS, NARROWEST, CountSketch),
    ("uniform", OCCURS, SHAPE, CountSketch),
    ("uniform", PART, SHAPE, CountSketch),
    ("one heavy", OCCURS, SHAPE, CountSketch),
    ("one heavy", "which is not listed", SHAPE, CountSketch),
    ("Zipf", OCCURS, SHAPE, CountMin),
    ("Zipf", PART, SHAPE, CountMin),
    ("log-uniform", OCCURS, SHAPE, CountMin),
)


class Asked(NamedTuple):
    """What is counted, and the dictionary with its true weights."""

    items: np.ndarray
    counts: np.ndarray
    dictionary: np.ndarray
    truth: np.ndarray


class Measured(NamedTuple):
    """What one release achieved."""

    errors: tuple[float, ...]
    squares: tuple[float, ...]
    widths: tuple[float, ...]
    coverage: tuple[float, ...]


Kind = type[CountSketch] | type[CountMin]
Cases = Callable[[], Iterator[Asked]]


def zipf(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Items of Zipf's law on 1 to 65,535, with their counts."""
    return np.unique(ordered_data.zipf(np.random.default_rng(seed), ITEMS), return_counts=True)


def uniform(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Items that are equally likely."""
    return np.unique(ordered_data.uniform(np.random.default_rng(seed), ITEMS), return_counts=True)


def log_uniform(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """4,000 items, each power of two up to 2,000 as likely as the others."""
    counts = np.exp(np.random.default_rng(seed).uniform(0, np.log(2000), 4000))
    return np.arange(1, 4001, dtype=np.uint64), counts.astype(np.int64)


def one_heavy(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Half of all records are of one item, the last; the others are uniform."""
    values = ordered_data.uniform(np.random.default_rng(seed), ITEMS // 2)
    items, counts = np.unique(values, return_counts=True)
    return np.append(items, np.uint64(1 << 16)), np.append(counts, ITEMS - len(values))


def occurring(items: np.ndarray, counts: np.ndarray, seed: int) -> Asked:
    """Ask for the items that occur."""
    return Asked(items, counts, items, counts)


def universe(items: np.ndarray, counts: np.ndarray, seed: int) -> Asked:
    """Ask for all 65,535 items of Zipf's law."""
    every = np.arange(1, 1 << 16, dtype=np.uint64)
    truth = np.zeros(1 << 16, dtype=np.int64)
    truth[items.astype(np.int64)] = counts
    return Asked(items, counts, every, truth[1:])


def partial(items: np.ndarray, counts: np.ndarray, seed: int) -> Asked:
    """Ask for the 100 most frequent items and a random tenth of the others, 1,000 or more."""
    order = np.argsort(-counts, kind="stable")
    others = order[MOST_LISTED:]
    chosen = np.random.default_rng(seed).permutation(others)[: max(1000, len(others) // 10)]
    places = np.append(order[:MOST_LISTED], chosen)
    return Asked(items, counts, items[places], counts[places])


def without_heaviest(items: np.ndarray, counts: np.ndarray, seed: int) -> Asked:
    """Ask for all items but the heaviest."""
    places = np.delete(np.arange(len(items)), np.argmax(counts))
    return Asked(items, counts, items[places], counts[places])


def with_absent(items: np.ndarray, counts: np.ndarray, seed: int) -> Asked:
    """Ask for the items that occur and as many addresses that do not."""
    absent = np.setdiff1d(np.random.default_rng(seed).integers(0, 1 << 32, len(items)).astype(np.uint64), items)
    return Asked(items, counts, np.append(items, absent), np.append(counts, np.zeros(len(absent), dtype=np.int64)))


def measured(asked: Asked, rho: float, shape: tuple[int, int], kind: Kind, seed: int) -> Measured:
    """One release, read in all ways."""
    spec = SketchSpec(kind=kind.name, depth=shape[0], width=shape[1], seed=seed)
    raw = kind(spec).accumulate(np.repeat(asked.items, asked.counts))
    terms = ReleaseTerms(PrivacySpec(rho=rho, relation=REPLACE_ONE, summary_counts=None))
    released = release_sketch(raw, terms)
    assert isinstance(released, ReleasedFrequencies)
    signs = kind is CountSketch
    table = released.counters if signs else released.counters - np.median(released.counters, axis=1, keepdims=True)
    keys = raw.keys(spec, asked.dictionary)
    median = np.median(cells.read_rows(table, keys, seed=seed, has_signs=signs), axis=0)
    before = released.interval(asked.dictionary)
    decoded = released.decode(asked.dictionary)
    after = decoded.interval(asked.dictionary)
    occurs, held = asked.truth > 0, (after.lower <= asked.truth) & (asked.truth <= after.upper)
    answers = (median, before.estimate, after.estimate, decoded.shrunk(asked.dictionary))
    floor = FLOOR * float(released.privacy.sigma_squared / spec.depth) ** 0.5
    classes = (occurs | ~occurs, asked.truth < 5, asked.truth >= 20)
    return Measured(
        tuple(mean_relative_error(each[occurs], asked.truth[occurs]) for each in answers),
        tuple(float(np.mean((each - asked.truth) ** 2)) for each in answers),
        (*(float(np.mean(each.upper - each.lower)) for each in (before, after)), floor),
        tuple(float(np.mean(held[each])) if each.any() else np.nan for each in classes),
    )


def print_case(
    table: Table,
    title: str,
    cases: Cases,
    shape: tuple[int, int] = SHAPE,
    kind: Kind = CountSketch,
    bars: dict[float, tuple[float, float]] | None = None,
) -> None:
    """One line for each rho."""
    for rho in RHOS:
        runs = [measured(asked, rho, shape, kind, FIRST_SEED + number) for number, asked in enumerate(cases())]
        errors, squares, widths, coverage = (np.mean(column, axis=0) for column in zip(*runs, strict=True))
        roots = np.sqrt(squares)
        share = roots[2] / roots[0]
        table.row(
            f"{title}, rho {rho:g}",
            *(f"{each:.2f}" for each in (*errors, *roots)),
            f"{share:.3f}",
            *(f"{each:.1f}" for each in widths),
            *(f"{each:.3f}" for each in coverage),
            bars=[Bar(share, "<=", MOST_LOSS), Bar(coverage[0], ">=", 0.93), Bar(coverage[0], "<=", 0.97)],
        )
        demanded = zip(("ARE shrunk", "width over floor"), (errors[3], widths[1] / widths[2]), strict=True)
        for (name, value), bar in zip(demanded, (bars or {}).get(rho, ()), strict=False):
            table.row(f"  {name}, rho {rho:g}", f"{value:.3f}", bars=[Bar(value, "<=", bar)])


def generated(draw: Callable[[int], tuple[np.ndarray, np.ndarray]], ask: Callable[..., Asked], seeds: int) -> Cases:
    """Data sets of a law, from the first seed on."""
    return lambda: (ask(*draw(seed), seed) for seed in range(FIRST_SEED, FIRST_SEED + seeds))


def sliced(slices: list[np.ndarray], ask: Callable[..., Asked]) -> Cases:
    """Data sets of records."""
    counted = (np.unique(values, return_counts=True) for values in slices)
    known = [(items.astype(np.uint64), counts) for items, counts in counted]
    return lambda: (ask(*each, seed) for seed, each in enumerate(known))


def print_time(repetitions: int = 7) -> None:
    """How long 65,535 items take."""
    asked = universe(*zipf(FIRST_SEED), FIRST_SEED)
    raw = CountSketch(SketchSpec(depth=SHAPE[0], width=SHAPE[1])).accumulate(np.repeat(asked.items, asked.counts))
    released = release_sketch(raw, ReleaseTerms(PrivacySpec(rho=1, relation=REPLACE_ONE, summary_counts=None)))
    times = [seconds(lambda: released.decode(asked.dictionary)) for _ in range(repetitions)]
    name, bar = f"to decode {len(asked.dictionary):,} items", Bar(statistics.median(times), "<", 2)
    Table(f"Time: median (range) of {repetitions}", ("", "processor seconds"), (50, 30)).row(
        name, spread(times, 2), bars=[bar]
    )


def main() -> None:
    """Print one line per data set, dictionary and rho."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--seeds", 10, "data sets of each law")
    command.trace()
    arguments = command.parse_args()
    seeds = arguments.seeds
    laws = {"Zipf": zipf, "log-uniform": log_uniform, "uniform": uniform, "one heavy": one_heavy}
    lists = {
        "items that occur": occurring,
        "universe": universe,
        "partial list": partial,
        "which is not listed": without_heaviest,
    }
    with command.writing(
        arguments,
        f"N = {ITEMS:,}, {SHAPE[0]} x {SHAPE[1]:,} counters, REPLACE_ONE, unit: a record, summary_counts=None",
        f"Seeds: {FIRST_SEED} to {FIRST_SEED + seeds - 1} for data and hash; noise from the operating system. "
        "Means over seeds.",
        f"{'':<50}{'ARE':<36}{'RMSE':<45}{'width':<27}coverage",
    ):
        readings = ("median", "Huber", "decoded", "shrunk")
        heads = ("", *readings, *readings, "/ med.", "before", "decoded", "floor", "all", "f < 5", ">= 20")
        table = Table(None, heads, (49, -9), bar=24)
        for law, listed, shape, kind in CASES:
            more = "" if shape is SHAPE else f", {shape[0]} x {shape[1]:,}"
            more += "" if kind is CountSketch else ", Count-Min"
            bars = BARS if (law, listed, shape, kind) == CASES[0] else None
            cases = generated(laws[law], lists[listed], seeds)
            print_case(table, f"{law}, {listed}{more}", cases, shape, kind, bars)
        flights = sliced([flights_by("tailnum").units] * seeds, occurring)
        print_case(table, "flights by aircraft, all, 5 x 2,048", flights, NARROW)
        if arguments.trace:
            slices = [*ordered_data.trace_slices(arguments.trace, arguments.column, ITEMS, seeds)]
            for name, ask in (
                ("items that occur", occurring),
                ("and as many absent", with_absent),
                ("partial list", partial),
            ):
                print_case(table, f"IPv4 trace, {name}", sliced(slices, ask))
        print_time()


if __name__ == "__main__":
    main()
