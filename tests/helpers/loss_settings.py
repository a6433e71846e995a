"""What is released, for whom, in which windows and keys: the settings whose losses are worked out."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms import window

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    BytesDomain,
    FactorizationSpec,
    FloatDomain,
    Horizon,
    IntegerDomain,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    SummaryCounts,
    Thresholding,
    TimeRange,
    TreeSpec,
)
from beam_dpsketch.errors import RefusalError
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.declared.windows import WindowPlan
from beam_dpsketch.exact.domains.base import short_keys
from beam_dpsketch.exact.horizon import MECHANISMS
from beam_dpsketch.exact.sketches.listed_items import CountSpec, ThresholdedItems
from beam_dpsketch.exact.sketches.metrics import MetricPart, MetricsSpec
from beam_dpsketch.exact.sketches.statistics import StatisticsSpec
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.planning.kinds.metrics import Metric, Metrics, PrivacyIdCount, RecordCount
from beam_dpsketch.planning.kinds.sketched import AnySketch, Quantiles
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy.contributions import NeighboringRelation
from beam_dpsketch.transforms.steps.windows import plan_of
from tests.helpers import norms
from tests.helpers.keyed_units import in_keys
from tests.helpers.pairs import Cover
from tests.helpers.pipelines import FN_API

RHO = Fraction(1, 10)
_COPIES = 13
NORM = Fraction(33, 16)
"""What an `AutoNorm` chooses here."""
KEYS = ["a", "b", "c", "d"]
DELTA = Fraction(1, 10**8)

_TREE = TreeSpec(
    domain=IntegerDomain(0, 15),
    levels=(Level(2, "exact", 1, 4, Fraction(3, 4)), Level(2, "count_sketch", 1, 1, Fraction(1, 4))),
)
_NUMBERS = StatisticsSpec(IntegerDomain(0, 15))
_RANKS = FactorizationSpec(IntegerDomain(0, 15))
_WIDE_RANKS = TreeSpec(
    domain=IntegerDomain(0, 15),
    levels=(Level(3, "factor", 1, 8, Fraction(3, 4)), Level(1, "count_sketch", 1, 1, Fraction(1, 4))),
)
SPECS: dict[str, Any] = {
    "count_min": SketchSpec(kind="count_min", depth=2, width=2, seed=1),
    "count_sketch": SketchSpec(kind="count_sketch", depth=2, width=1, seed=1),
    "listed": ListedItems(range(24)),
    "tree": _TREE,
    "groups": ThresholdedItems(BytesDomain(2)),
    "statistics": _NUMBERS,
    "ranks": _RANKS,
    "variance": StatisticsSpec(FloatDomain(-1, 4, 0.05), variance=True),
    "metrics": MetricsSpec(
        (
            MetricPart("listed", ListedItems(range(16)), Fraction(1, 2)),
            MetricPart("tree", _TREE, Fraction(1, 3)),
            MetricPart("numbers", _NUMBERS, Fraction(1, 6)),
        )
    ),
    "metrics, ranks": MetricsSpec(
        (MetricPart("ranks", _RANKS, Fraction(2, 5)), MetricPart("listed", ListedItems(range(16)), Fraction(3, 5)))
    ),
    "metrics, people": MetricsSpec(
        (
            MetricPart("records", CountSpec(), Fraction(1, 4)),
            MetricPart("people", CountSpec(counts_privacy_ids=True), Fraction(1, 2)),
            MetricPart("listed", ListedItems(range(16)), Fraction(1, 4)),
        )
    ),
    "ranks above a sketch": _WIDE_RANKS,
}


def _metrics(spec: MetricsSpec) -> Metrics:
    return Metrics(
        {part.name: Metric(COUNTS.get(part.spec.kind, AnySketch)(part.spec), "item", part.share) for part in spec.parts}
    )


COUNTS: dict[str, Callable[[Any], Any]] = {
    "groups": lambda spec: ThresholdedCounts(spec.domain, 1, Thresholding(DELTA)),
    "statistics": lambda spec: Statistics(spec.domain),
    "variance": lambda spec: Statistics(spec.domain, spec.variance),
    "ranks": Quantiles,
    "ranks above a sketch": Quantiles,
    "factor": Quantiles,
    "metrics": _metrics,
    "metrics, ranks": _metrics,
    "metrics, people": _metrics,
    "count": lambda spec: PrivacyIdCount() if spec.counts_privacy_ids else RecordCount(),
}
EPSILON, REPORTED, SHARES = Fraction(1), 1e-5, 3


def _share(*, keys_delta: Fraction = SHARES * DELTA, **whole: Any) -> PrivacySpec:
    return PrivacyBudget(**whole, keys_delta=keys_delta).spend(share=Fraction(1, SHARES))


LOSSES: dict[str, Callable[..., PrivacySpec]] = {
    "rho": functools.partial(PrivacySpec, rho=RHO),
    "epsilon and delta": functools.partial(PrivacySpec, epsilon=EPSILON, delta=REPORTED),
    "laplace": functools.partial(PrivacySpec, epsilon=EPSILON, delta=REPORTED, noise="laplace"),
    "pure": functools.partial(PrivacySpec, epsilon=EPSILON),
    "share": functools.partial(_share, rho=RHO),
    "share of epsilon and delta": functools.partial(_share, epsilon=EPSILON, delta=REPORTED),
    "pure share": functools.partial(_share, epsilon=EPSILON, keys_delta=Fraction(0)),
}
SIDES: dict[str, SummaryCounts | None] = {
    "usual": SummaryCounts(),
    "none": None,
    "lopsided": SummaryCounts(units=0.5, records=0.01, weight=0.3, clipping=None),
}


class Layout(NamedTuple):
    """The length of windows in seconds, and the keys."""

    size: int | None = None
    step: int | None = None
    declared: bool = False
    streaming: bool = False
    keys: str = "none"
    horizon: Horizon | None = None

    @property
    def end(self) -> int:
        """The end of the declared range: that of the last whole window by 240 seconds."""
        rest = self.size % self.step if self.size and self.step else 0
        return 240 - rest


class Setting(NamedTuple):
    """What is released, for whom, in which windows and keys."""

    kind: str
    privacy_unit: Any
    layout: Layout
    loss: str = "rho"

    def privacy(self, relation: NeighboringRelation, sides: SummaryCounts | None) -> PrivacySpec:
        """Return what the release may lose."""
        return LOSSES[self.loss](relation=relation, summary_counts=sides)

    def declared(self, privacy: PrivacySpec) -> ReleaseSpec:
        """Return the declaration; raise as the transforms do if it cannot be."""
        keys: Any = {
            "none": None,
            "one": PublicKeys(KEYS[:1], "key"),
            "listed": PublicKeys(KEYS, "key"),
            "open": AssumePublicKeys("key"),
            "chosen": KeySelection(DELTA, field="key", method="gaussian"),
            "chosen twice": KeySelection(DELTA, field="key", method="two_rounds"),
        }[self.layout.keys]
        weight = "n" if self.privacy_unit.bounds.says_max_weight else None
        windows = TimeRange(0, self.layout.end) if self.layout.declared else self.layout.horizon
        count, item = (
            COUNTS.get(self.kind, AnySketch)(SPECS[self.kind]),
            None if COUNTS.get(self.kind) is _metrics else "item",
        )
        return ReleaseSpec(
            count,
            privacy.with_summary_counts() if self.kind == "groups" else privacy,
            in_keys(self.privacy_unit, "items" if self.kind == "groups" else keys),
            item,
            weight,
            keys,
            windows,
        )

    def plan(self, privacy: PrivacySpec) -> WindowPlan:
        """Return the windows and terms of the transforms."""
        return plan_of(elements_of(self.layout), self.declared(privacy))

    def check(self, relation: NeighboringRelation, sides: SummaryCounts | None) -> None:
        """Raise as the transforms do if they refuse the setting."""
        privacy = self.privacy(relation, sides)
        self.declared(privacy).count.calibrate(self.plan(privacy).terms)

    def is_possible(self) -> bool:
        """Return whether the transforms accept it, under both relations, with any shares of summary counts."""
        try:
            for relation, sides in itertools.product(NeighboringRelation, SIDES.values()):
                self.check(relation, sides)
        except RefusalError:
            return False
        return True


@functools.cache
def elements_of(layout: Layout) -> beam.PCollection:
    if layout.size is None:
        windowfn: Any = window.GlobalWindows()
    elif layout.step is None:
        windowfn = window.FixedWindows(layout.size)
    else:
        windowfn = window.SlidingWindows(layout.size, layout.step)
    return beam.PCollection(_pipeline(), windowing=beam.Windowing(windowfn), is_bounded=not layout.streaming)


@functools.cache
def _pipeline() -> beam.Pipeline:
    return beam.Pipeline(runner=FN_API)


def _places(layout: Layout) -> list[list[tuple[str, float]]]:
    """Return keys and times that the records of one unit are in."""
    early, late, both, far = [5.0], [65.0], [5.0, 65.0], [125.0, 185.0]
    if layout.keys == "none":
        wanted = [(KEYS[:1], times) for times in (early, late, both, far)]
    else:
        wanted = [(KEYS[:1], times) for times in (early, late, both, far[:1])]
        if layout.keys != "one":
            wanted += [(KEYS[1:2], early), (KEYS[:2], early), (KEYS[:2], both), (KEYS[2:], early), (KEYS[2:], far)]
    if layout.size is None and layout.horizon is None:
        wanted = [(keys, times) for keys, times in wanted if times == early]
    return [list(itertools.product(keys, times)) for keys, times in wanted]


@functools.cache
def items_of(kind: str) -> tuple[Any, ...]:
    """Return an item, then one that is furthest from it in the sketch, then others."""
    if kind == "groups":
        return tuple(short_keys([b"%c" % (97 + number) for number in range(4)]))
    keys = norms.keys_of(SPECS[kind])
    first = [norms.changed_cells(SPECS[kind], key) for key in keys]

    def distance(key: Any) -> int:
        tables = zip(first[0], norms.changed_cells(SPECS[kind], key), strict=True)
        return sum((a.get(c, 0) - b.get(c, 0)) ** 2 for a, b in tables for c in {*a, *b})

    others = sorted(keys[1:], key=distance, reverse=True)
    return (keys[0], *others)


Unit = list[tuple[str, float, Any, int]]


def units_of(setting: Setting) -> Iterator[Unit]:
    """Yield units that lose weight: of one heavy item, one far from it, many items, both signs; and small ones."""
    bounds, items, places = setting.privacy_unit.bounds, items_of(setting.kind), _places(setting.layout)
    signs = (1, -1) if bounds.signed else (1,)
    if isinstance(setting.privacy_unit, Record):
        for [(key, time), *others], item, sign in itertools.product(places, items[:2], signs):
            if not others:
                yield [(key, time, item, sign * bounds.max_weight)]
                if bounds.has_weights:
                    yield [(key, time, item, sign * 9 * bounds.max_weight)]
        return
    copies = bounds.max_records if isinstance(bounds, RecordBounds) else _COPIES
    for place, (some, times), sign in itertools.product(
        places, [(items[:1], copies + 1), (items[1:2], copies + 1), (items, 1), (items[:2], copies)], signs
    ):
        yield [
            (key, time, item, sign * bounds.max_weight) for key, time in place for item in some for _ in range(times)
        ]
    rng = random.Random(re.sub(r"\w+=", "", f"Setting{setting[:3]}"))  # renamed settings draw the same
    for _ in range(4):
        drawn = [rng.choice(rng.choice(places)) for _ in range(rng.randint(1, 4))]
        yield [(*each, rng.choice(items), rng.choice(signs) * rng.randint(1, bounds.max_weight)) for each in drawn]


# All units with all limits, and all windows and keys, of which settings are made.

TWO: dict[str, Any] = {"max_keys": 2}
UNITS: list[Callable[..., Any]] = [
    lambda: Record(),
    lambda: Record(max_weight=3),
    lambda: Record(max_weight=3, signed=True),
    *(
        functools.partial(PrivacyId, "user", bounds)
        for bounds in (
            RecordBounds(1),
            RecordBounds(2, max_weight=3),
            RecordBounds(2, **TWO),
            RecordBounds(2, **TWO, max_weight=3, signed=True),
            NormBound(Fraction(3, 2), max_weight=9),
            NormBound(Fraction(3, 2), max_weight=9, signed=True),
            NormBound(2, max_per_item=1),
            NormBound(Fraction(3, 2), max_weight=9, max_keys=2),
            AutoNorm(max_weight=9, norm="l2"),
            AutoNorm(max_weight=9, signed=True, norm="l2"),
            AutoNorm(max_weight=9, max_keys=2, norm="l2"),
            NormBound(2, norm="l1"),
            NormBound(Fraction(3, 2), max_weight=9, signed=True, norm="l1"),
            NormBound(Fraction(5, 2), max_per_item=1, max_keys=2, norm="l1"),
            AutoNorm(max_weight=9, norm="l1"),
        )
    ),
]
LIMITS: list[dict[str, int]] = [
    {},
    *({"period": period} for period in (60, 120)),
    *({"max_windows": most} for most in (1, 2)),
    *({"max_windows": most, "period": period} for most, period in ((1, 60), (1, 120), (2, 120))),
]
WINDOWS = [
    Layout(),
    *(
        Layout(size, step, declared, streaming)
        for (size, step), declared, streaming in itertools.product(
            ((60, None), (120, 60), (150, 60)), (False, True), (False, True)
        )
    ),
    *(
        Layout(streaming=streaming, horizon=Horizon(0, 60, 4, mechanism))
        for streaming, mechanism in itertools.product((False, True), MECHANISMS)
    ),
]
IN_KEYS = ("none", "one", "listed", "open", "chosen", "chosen twice")
LAYOUTS = [windows._replace(keys=keys) for windows, keys in itertools.product(WINDOWS, IN_KEYS)]
DIMENSIONS: dict[str, list[Any]] = {
    "loss": [*LOSSES],
    "relation": [*NeighboringRelation],
    "sides": [*SIDES],
    "privacy_unit": UNITS,
    "limit": LIMITS,
    "windows": WINDOWS,
    "keys": [*IN_KEYS],
    "kind": [*SPECS],
}


class Row(NamedTuple):
    """A setting, with the relation and the name of the shares of summary counts."""

    setting: Setting
    relation: NeighboringRelation
    sides: str

    @classmethod
    def of(
        cls, privacy_unit: Any, limit: Any, windows: Layout, keys: str, kind: str, loss: str, relation: Any, sides: str
    ) -> Row | None:
        """Return the row of these values; `None` if the package refuses it, with a code for each reason."""
        if limit and isinstance(privacy_unit(), Record):
            return None  # single records have no limit
        try:
            setting = Setting(kind, privacy_unit(**limit), windows._replace(keys=keys), loss)
            setting.check(relation, SIDES[sides])
        except RefusalError as error:
            codes = [each.code for each in error.refusals]
        else:
            return cls(setting, relation, sides)
        assert all(codes), "a refusal has no code"
        return None


def all_pairs() -> Cover:
    """Return rows for all pairs of settings."""
    return Cover(DIMENSIONS, Row.of)
