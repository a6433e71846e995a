"""Tables that differ by one unit, and what is released of them: drawn at random, and steered towards the worst case.

Units have far more records than their bounds allow, weights beyond the largest, items that share their cells, and
several keys. The worst case of a sketch with signs is an item whose replacement is in the same cells with the opposite
sign, so items are looked for that are far apart.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AssumePublicKeys,
    AutoNorm,
    FactorizationSpec,
    FloatDomain,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    TextDomain,
    ThresholdedCounts,
    Thresholding,
    TopKSearch,
    TreeSpec,
)
from beam_dpsketch.errors import RefusalError
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.planning.kinds.metrics import Metric, Metrics
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.privacy.contributions import NeighboringRelation
from tests.helpers import norms
from tests.helpers.keyed_units import in_keys
from tests.helpers.loss_settings import SIDES
from tests.helpers.norm_reference import cells_of

Row = tuple[int, str, Any, int | None]
"""A person, a key, an item and a weight. A table has one more column, `some`: the item, or a null for one in four."""
KEYS = ["x", "y", "z"]
TOO_HEAVY, ITEMS = 9, 64
RELATIONS = (ADD_OR_REMOVE_ONE, REPLACE_ONE)
DELTA = Fraction(1, 10**8)
RHOS = (Fraction(1, 1000), Fraction(1, 300), Fraction(1, 20))
EPSILONS = (Fraction(1, 50), Fraction(1, 7), Fraction(1))
NOISES = ("gaussian", "laplace")

BOUNDS: dict[str, Any] = {
    "record": Record(),
    "record, weights": Record(max_weight=5),
    "record, signed": Record(max_weight=5, signed=True),
    "records": RecordBounds(3),
    "records, weights": RecordBounds(2, max_weight=4),
    "records, signed": RecordBounds(3, max_weight=2, signed=True),
    "records, keys": RecordBounds(2, max_keys=2),
    "records, keys, weights": RecordBounds(2, max_keys=2, max_weight=3),
    "records, keys, signed": RecordBounds(2, max_keys=2, max_weight=3, signed=True),
    "norm": NormBound(Fraction(5, 2)),
    "norm, weights": NormBound(6, max_weight=4),
    "norm, signed": NormBound(6, max_weight=4, signed=True),
    "norm, per item": NormBound(3, max_per_item=2),
    "norm, per item, signed": NormBound(6, max_weight=4, max_per_item=5, signed=True),
    "norm, few items": NormBound(4, max_distinct_items=2),
    "total": NormBound(Fraction(5, 2), norm="l1"),
    "total, signed": NormBound(6, max_weight=4, signed=True, norm="l1"),
    "total, per item": NormBound(3, max_per_item=2, norm="l1"),
    "chosen total": AutoNorm(norm="l1"),
    "chosen norm": AutoNorm(),
    "chosen norm, weights": AutoNorm(max_weight=4),
    "chosen norm, signed": AutoNorm(max_weight=4, signed=True),
}
LISTED: dict[str, Any] = {
    "none": None,
    "listed": PublicKeys(KEYS, "key"),
    "open": AssumePublicKeys("key"),
    "chosen": KeySelection(DELTA, field="key"),
    "chosen in one round": KeySelection(DELTA, field="key", method="gaussian"),
}


def _flat(kind: str) -> Callable[[random.Random], Any]:
    return lambda rng: ItemFrequencies(
        SketchSpec(kind=kind, depth=rng.randint(1, 3), width=rng.choice([2, 2, 2, 3, 4, 8, 16]), seed=rng.randrange(99))
    )


def _quantiles(rng: random.Random) -> Quantiles:
    levels = [
        (Level(2, "exact", 1, 4, Fraction(3, 4)), Level(4, "count_sketch", 1, 2, Fraction(1, 4))),
        (Level(3, "count_sketch", 1, 2, Fraction(1, 3)), Level(3, "count_sketch", 2, 2, Fraction(2, 3))),
        (
            Level(1, "exact", 1, 2, Fraction(1, 7)),
            Level(2, "count_min", 2, 2, Fraction(2, 7)),
            Level(3, "count_sketch", 1, 3, Fraction(4, 7)),
        ),
    ]
    domain = IntegerDomain(0, ITEMS - 1)
    return Quantiles(TreeSpec(domain=domain, levels=rng.choice(levels), seed=rng.randrange(99)))


def _ranks(domain: IntegerDomain) -> Callable[[random.Random], Any]:
    """Return quantiles by rows, which are never a histogram's counters."""
    return lambda rng: Quantiles(FactorizationSpec(domain))


def _ranks_above_a_sketch(rng: random.Random) -> Quantiles:
    levels = Level(4, "factor", 1, ITEMS >> 2, Fraction(3, 4)), Level(2, "count_sketch", 1, 2, Fraction(1, 4))
    return Quantiles(TreeSpec(domain=IntegerDomain(0, ITEMS - 1), levels=levels, seed=rng.randrange(99)))


def _top_k(rng: random.Random) -> TopKSearch:
    levels = Level(3, "exact", 1, 8, Fraction(1, 2)), Level(3, "count_sketch", 2, 3, Fraction(1, 2))
    return TopKSearch(TreeSpec(domain=IntegerDomain(0, ITEMS - 1), levels=levels, seed=rng.randrange(99)), 3)


def _numbers(rng: random.Random) -> IntegerDomain | FloatDomain:
    integers = IntegerDomain(rng.randint(0, ITEMS // 2), ITEMS + rng.randint(-9, 9))
    return rng.choice([integers, FloatDomain(0.5, ITEMS - 0.5, 0.01), FloatDomain(-9.0, ITEMS - 1.0, 1e-9)])


def _metrics(*others: Callable[[random.Random], Any]) -> Callable[[random.Random], Metrics]:
    """Return metrics of listed items, of these and of numbers; every second one has no item where `some` has none."""

    def made(rng: random.Random) -> Metrics:
        numbers = Statistics(IntegerDomain(rng.randint(0, 9), rng.randint(30, ITEMS - 1)))
        kinds = [ItemFrequencies(ListedItems(range(ITEMS))), *(other(rng) for other in others), numbers]
        parts = [rng.randint(1, 5) for _ in kinds]
        named = zip(kinds, (Fraction(part, sum(parts)) for part in parts), strict=True)
        return Metrics(
            {f"m{place}": Metric(kind, ("item", "some")[place % 2], share) for place, (kind, share) in enumerate(named)}
        )

    return made


COUNTS: dict[str, Callable[[random.Random], Any]] = {
    "count_sketch": _flat("count_sketch"),
    "count_min": _flat("count_min"),
    "listed": lambda rng: ItemFrequencies(ListedItems(range(rng.randint(2, 12)))),
    "quantiles": _quantiles,
    "ranks": _ranks(IntegerDomain(0, ITEMS - 1)),
    "ranks above a sketch": _ranks_above_a_sketch,
    "top_k": _top_k,
    "groups": lambda rng: ThresholdedCounts(TextDomain(2), 3, Thresholding(DELTA)),
    "statistics": lambda rng: Statistics(_numbers(rng)),
    "variance": lambda rng: Statistics(_numbers(rng), variance=True),
    "metrics": _metrics(_quantiles),
    "metrics, bytes": _metrics(_flat("count_sketch"), _quantiles),
    "metrics, no tree": _metrics(),
    "metrics, ranks": _metrics(_ranks(IntegerDomain(0, ITEMS - 1)), _ranks(IntegerDomain(0, ITEMS // 2 - 1))),
}
WITH_LAPLACE = ("count_sketch", "count_min", "listed", "groups", "statistics", "variance", "metrics, no tree")


class Setting(NamedTuple):
    """The kind of a release, the name of its bounds, and its keys; the rest is drawn, or what is given."""

    kind: str
    bounds: str
    keys: str
    relation: NeighboringRelation
    noise: str = "gaussian"
    sides: str | None = None
    seed: int = 0


class Case(NamedTuple):
    """What is released, the records of common units, and units that are added to them, one in each table."""

    setting: Setting
    declared: ReleaseSpec
    common: list[Row]
    units: list[list[Row]]

    def tables(self, *, is_keyed: bool) -> list[pa.Table]:
        """Return the table of common units, then one with each unit: in any order, or that of the records."""
        rng = random.Random(self.setting.seed)
        found = []
        for privacy_unit in ([], *self.units):
            rows = self.common + privacy_unit
            if is_keyed:
                rng.shuffle(rows)
            table = self._to_table(rows)
            cut = rng.randint(0, len(rows)) if is_keyed else 0
            found.append(pa.concat_tables([table.slice(0, cut), table.slice(cut)]))
        return found

    def _to_table(self, rows: list[Row]) -> pa.Table:
        person, key, item, weight = zip(*rows, strict=True)
        item_type = pa.string() if isinstance(self.common[0][2], str) else pa.int64()
        some = [each if isinstance(each, int) and each % 4 != 1 else None for each in item]
        columns = [pa.array(person), pa.array(key), pa.array(item, item_type), pa.array(weight, pa.int64())]
        return pa.table([*columns, pa.array(some, pa.int64())], ["person", "key", "item", "n", "some"])


def all_cases() -> Iterator[Case]:
    """Yield cases without end, kinds and relations in turn, the same in every run; first those that cost all."""
    strata = [_cases(kind, relation, "gaussian") for kind, relation in itertools.product(COUNTS, RELATIONS)]
    strata += [_cases(kind, relation, "laplace") for kind, relation in itertools.product(WITH_LAPLACE, RELATIONS)]
    while True:
        yield from map(next, strata)


def steered_cases() -> Iterator[Case]:
    """Yield a case of each bounds, and of each way to keys, that can cost all of what is claimed."""
    wanted = [("listed", bounds, "listed") for bounds in BOUNDS]
    wanted += [("listed", "records, keys", keys) for keys in ("open", "chosen", "chosen in one round")]
    for (kind, bounds, keys), relation, noise, seed in itertools.product(wanted, RELATIONS, NOISES, range(4)):
        yield from filter(None, [case_of(Setting(kind, bounds, keys, relation, noise, "none", seed))])


def _cases(kind: str, relation: NeighboringRelation, noise: str) -> Iterator[Case]:
    every = [Setting(kind, bounds, keys, relation, noise) for bounds, keys in itertools.product(BOUNDS, LISTED)]
    random.Random(f"{kind} {relation}").shuffle(every)
    worst = Setting(kind, "records", "none", relation, noise, "none")
    for seed, setting in enumerate(itertools.chain([worst], itertools.cycle(every))):
        if (case := case_of(setting._replace(seed=seed))) is not None:
            yield case


def case_of(setting: Setting) -> Case | None:
    """Return the inputs of a setting; `None` if the package refuses it."""
    rng = random.Random(repr(setting))
    sides = rng.choice([*SIDES]) if setting.sides is None else setting.sides
    spent: dict[str, Any] = {"rho": rng.choice(RHOS)}
    if setting.noise == "laplace":
        spent = {"epsilon": rng.choice(EPSILONS), "delta": 1e-3, "noise": "laplace"}
    privacy = PrivacySpec(**spent, relation=setting.relation, summary_counts=SIDES[sides])
    bounds, keys = BOUNDS[setting.bounds], LISTED[setting.keys]
    if isinstance(bounds, (AutoNorm, NormBound)) and (setting.keys.startswith("chosen") or setting.kind == "groups"):
        bounds = dataclasses.replace(bounds, max_keys=2)
    privacy_unit = bounds if isinstance(bounds, Record) else PrivacyId("person", bounds)
    privacy_unit = in_keys(privacy_unit, "items" if setting.kind == "groups" else keys)
    weight = "n" if privacy_unit.bounds.says_max_weight else None
    try:
        count = COUNTS[setting.kind](rng)
        declared = ReleaseSpec(count, privacy, privacy_unit, None if count.name == "metrics" else "item", weight, keys)
        declared.resolved  # noqa: B018  # refuses what cannot work
    except RefusalError:
        return None
    items = _items(declared, rng)
    return Case(setting, declared, _common(declared, items, rng), list(_units(declared, items, rng)))


def _items(declared: ReleaseSpec, rng: random.Random) -> list[Any]:
    """Return an item, the one that is furthest from it in the sketch, and others."""
    spec = declared.spec
    names: list[Any] = list(range(len(spec.items))) if spec.is_listed else list(range(ITEMS))
    if not spec.is_listed and isinstance(spec.domain, TextDomain):
        names = [f"{a}{b}" for a, b in itertools.product("abcdefgh", "ijklmnop")]
    rng.shuffle(names)
    if declared.count.name == "statistics":
        return [-9 * ITEMS, 9 * ITEMS, *names[:10]]  # outside the value range
    if declared.count.by_item:
        return names[:6]
    if declared.count.name == "metrics" or spec.has_factor:
        return [0, ITEMS - 1, *(each for each in names[:10] if 0 < each < ITEMS - 1)]  # at both ends, in all

    def distance(first: Any, second: Any) -> Fraction:
        total, signs, amounts = Fraction(0), norms.has_signs(spec), norms.amounts_of(spec)
        for table, (cells, share) in enumerate(norms.tables_of(spec)):
            one, other = cells_of(spec, first)[table], cells_of(spec, second)[table]
            squares = sum((one.get(cell, 0) - other.get(cell, 0)) ** 2 for cell in {*one, *other})
            total += share / cells * squares / amounts[table] ** 2 / (4 if signs[table] else 2)
        return total

    best = max(itertools.product(names[:4], names[4:] or names), key=lambda pair: distance(*pair))
    return [*best, *(each for each in names if each not in best)][:12]


def _common(declared: ReleaseSpec, items: list[Any], rng: random.Random) -> list[Row]:
    """Return records of people who are in all keys, and in all items if each item is counted for itself."""
    places = itertools.product(KEYS, items if declared.count.by_item else items[:1])
    rows: list[Row] = [(number, key, item, 1) for number, (key, item) in enumerate(places, 1000)]
    for person in range(2000, 2000 + rng.randint(2, 6)):
        rows += _at_random(declared, items, rng, person, rng.choice([1, 4, 20]))
    return rows


def _at_random(declared: ReleaseSpec, items: list[Any], rng: random.Random, person: int, size: int) -> list[Row]:
    most = declared.privacy_unit.bounds.max_weight
    weights = [None, 0, -1, -most, most, TOO_HEAVY * most, *range(1, 1 + most)]
    few = items[: rng.randint(1, len(items))]
    return [
        (person, rng.choice(KEYS), rng.choice([None, *few * 3]), rng.choice(weights))
        for _ in range(rng.randint(1, size))
    ]


def _units(declared: ReleaseSpec, items: list[Any], rng: random.Random) -> Iterator[list[Row]]:
    """Yield units: of one heavy item, one far from it, one that opposes it or is elsewhere, and others."""
    bounds, person = declared.privacy_unit.bounds, rng.choice([0, 10**6])
    few = bounds.kept_keys or rng.randint(1, len(KEYS))
    keys, other_keys = KEYS[:few], KEYS[-few:]
    most = bounds.max_weight * (rng.choice([1, TOO_HEAVY]) if bounds.says_max_weight and not bounds.signed else 1)
    if isinstance(declared.privacy_unit, Record):
        yield [(person, KEYS[0], items[0], most)]
        yield [(person, KEYS[0], items[1], most)]
        yield [(person, KEYS[0], items[0], -TOO_HEAVY * most) if bounds.signed else (person, KEYS[1], items[1], most)]
        for _ in range(2):
            yield _at_random(declared, items, rng, person, 1)
        yield [(person, KEYS[0], None, most)]
        return
    size = bounds.size
    copies = 120 if size is None else int(4 * size) + 1
    yield [(person, key, items[0], most) for key in keys for _ in range(copies)]
    yield [(person, key, items[1], most) for key in keys for _ in range(copies)]
    if bounds.signed:
        yield [(person, key, items[0], -most) for key in keys for _ in range(copies)]
    else:
        yield [(person, key, items[1], most) for key in other_keys for _ in range(copies)]
    yield _at_random(declared, items, rng, person, 60)
    yield [(person, key, item, bounds.max_weight) for key in KEYS for item in items for _ in range(rng.randint(1, 3))]
    yield [(person, KEYS[0], None, most)]
