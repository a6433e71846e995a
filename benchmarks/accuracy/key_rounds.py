"""How many keys two rounds of votes release: ``python -m benchmarks.accuracy.key_rounds``.

Everything has (epsilon, delta) = (1, 1e-6), half of delta for the keys, under `ADD_OR_REMOVE_ONE`. Each unit is bounded
to k keys by the package's own rule, once for each seed. Printed is the expected number of released keys. It is exact of
one round. Of two rounds it is that of one draw of the first, by the package's own noise and its own second votes. Keys
alone are those of `SelectKeys`; inside a release, votes have the default share of 1/4. Keys alone stand beside a table
of the largest probabilities that zCDP allows in one round, which the package once had, on the same three boundings.

  words per line   of `pydoc_data.topics`; unit: a line of the manual of Python
  web log          made up: log-normal visits, a few heavy visitors, two fifths of the visits to five pages of one's own
  purchases        made up: Pareto numbers of purchases, items by 1 / rank^1.3
  Zipf             made up: log-normal numbers of keys, drawn by 1 / rank^1.05
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable

import numpy as np

from beam_dpsketch import KeySelection, PrivacyId, PrivacySpec, RecordBounds, SketchSpec
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.noise.keys import KeyChoice, choose_keys
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.transforms import SelectKeys
from benchmarks.accuracy import key_selection
from benchmarks.accuracy.key_selection import Edges, bounded, expected_keys
from benchmarks.command import Command
from benchmarks.people import data
from benchmarks.table import Bar, Table

EPSILON, DELTA, KEYS_DELTA = 1.0, 1e-6, 5e-7
ONE_ROUND, TABLE, TWO_ROUNDS = "gaussian", "table", "two_rounds"
SIZES = (16, 64)
# The expected number of keys by a table, by k, in the order of `DATA`.
OF_TABLES = {16: (176.0, 383.6, 141.4, 279.6), 64: (171.4, 381.5, 148.9, 284.2)}


def web_log(seed: int = 1, units: int = 50_000, pages: int = 30_000) -> Edges:
    """Visitors with a median of 3 visits; one of 250 has 50 to 20,000."""
    generator = np.random.default_rng(seed)
    visits = np.ceil(generator.lognormal(1.0, 1.2, units)).astype(int)
    heavy = np.flatnonzero(generator.random(units) < 1 / 250)
    visits[heavy] = np.minimum(50 * (1 + generator.pareto(0.8, len(heavy))), 20_000)
    masses = np.cumsum(1 / np.arange(1, pages + 1) ** 1.1)
    favourites = np.searchsorted(masses / masses[-1], generator.random((units, 5)))
    visitors = np.repeat(np.arange(units), visits)
    visited = np.searchsorted(masses / masses[-1], generator.random(len(visitors)))
    own = np.flatnonzero(generator.random(len(visitors)) < 2 / 5)
    visited[own] = favourites[visitors[own], generator.integers(0, 5, len(own))]
    return Edges.of(visitors, visited)


def purchases() -> Edges:
    """Buyers with 1 to 20,000 purchases of 5,000 items."""
    made = data.purchases()
    return Edges.of(made.units, made.items)


DATA: dict[str, Callable[[], Edges]] = {
    "words per line": key_selection.words_per_line,
    "web log": web_log,
    "purchases": purchases,
    "Zipf": key_selection.zipf,
}


@functools.cache
def choice(max_keys: int, method: str, *, alone: bool) -> KeyChoice:
    """The choice of `SelectKeys`, or of a release of a CountSketch, by this method."""
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    privacy = PrivacySpec(epsilon=EPSILON, delta=DELTA, relation=relation, summary_counts=None)
    privacy_unit, keys = (
        PrivacyId("unit", RecordBounds(1, max_keys=max_keys)),
        KeySelection(KEYS_DELTA, "key", method=method),
    )
    if alone:
        return SelectKeys(privacy, privacy_unit=privacy_unit, keys=keys).choice
    spec = SketchSpec()
    made = choose_keys(spec, ReleaseSpec(ItemFrequencies(spec), privacy, privacy_unit, "item", keys=keys).terms)
    assert made is not None
    return made


def keys_found(edges: Edges, max_keys: int, seeds: int, *, alone: bool) -> dict[str, float]:
    """The mean over boundings, by method; both see the same kept keys, and have their own votes for these."""
    made = {method: choice(max_keys, method, alone=alone) for method in (ONE_ROUND, TWO_ROUNDS)}
    sums = dict.fromkeys(made, 0.0)
    for seed in range(seeds):
        for method, each in made.items():
            sums[method] += expected_keys(each, bounded(edges, each, seed)) / seeds
    return sums


def print_section(made: dict[str, Edges], max_keys: int, seeds: int, *, alone: bool) -> None:
    """A line for each data set, and the geometric mean."""
    title = f"{'Keys alone' if alone else 'Inside a release, share 1/4'}, k = {max_keys}: expected number of keys"
    others = (ONE_ROUND, TABLE) if alone else (ONE_ROUND,)
    heads = (*others, TWO_ROUNDS)
    table = Table(title, ("", *heads, *(f"over {other}" for other in others)), (24, -13), bar=12)
    ratios: dict[str, list[float]] = {other: [] for other in others}
    for (name, edges), of_table in zip(made.items(), OF_TABLES[max_keys], strict=True):
        found = {**keys_found(edges, max_keys, seeds, alone=alone), TABLE: of_table}
        for other in others:
            ratios[other].append(found[TWO_ROUNDS] / found[other])
        shown = [f"{ratios[other][-1]:.2f}" for other in others]
        bars = [Bar(ratios[TABLE][-1], ">=", 1.15)] if alone else []
        table.row(name, *(f"{found[head]:.1f}" for head in heads), *shown, bars=bars)
    means = [statistics.geometric_mean(ratios[other]) for other in others]
    table.row(
        "geometric mean", *("" for _ in heads), *(f"{mean:.2f}" for mean in means), bars=[Bar(means[-1], ">=", 1.3)]
    )


def main() -> None:
    """Print a section for each number of keys, alone and inside a release."""
    command = Command(__file__, __doc__, "numpy", "beam-dpsketch")
    command.number("--seeds", 3, "random boundings")
    arguments = command.parse_args()
    edges = {name: make() for name, make in DATA.items()}
    with command.writing(
        arguments,
        f"(epsilon, delta) = ({EPSILON:g}, {DELTA:g}); mean of {arguments.seeds} random boundings, seeds from 0",
        *(f"{name}: {each}" for name, each in edges.items()),
    ):
        for alone in (True, False):
            for max_keys in SIZES:
                print_section(edges, max_keys, arguments.seeds, alone=alone)


if __name__ == "__main__":
    main()
