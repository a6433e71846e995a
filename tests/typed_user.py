"""What a user's typed file may say; `make lint` checks it strictly, with mypy and pyright, as a user's editor would."""

from __future__ import annotations

from typing import Any

import beam_dpsketch
from beam_dpsketch import (
    AutoNorm,
    CountMin,
    CountSketch,
    DyadicCountSketch,
    FloatDomain,
    Horizon,
    IntegerDomain,
    Interval,
    KeySelection,
    ListedItems,
    Metric,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    Released,
    ReleaseTerms,
    SketchSpec,
    SketchTimeline,
    Statistics,
    TextDomain,
    Thresholding,
    TimeRange,
    TreeSpec,
    __version__,
    plan,
    read_releases,
    release,
    transforms,
)
from beam_dpsketch.answers.counts import ReleasedListedItems
from beam_dpsketch.answers.difference import Difference
from beam_dpsketch.answers.flat import Decoded, ReleasedCountMin, ReleasedCountSketch, ReleasedFrequencies
from beam_dpsketch.answers.item_answers import Changes
from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch, ReleasedRanks
from beam_dpsketch.exact.sketches.listed_items import ListedHistogram
from beam_dpsketch.transforms import (
    PrivateFrequencies,
    PrivateMetrics,
    PrivateQuantiles,
    PrivateStatistics,
    PrivateTopK,
    SelectKeys,
    TopK,
)

PRIVACY = PrivacySpec(epsilon=1, delta=1e-6)
PEOPLE = PrivacyId("person", RecordBounds(10, max_keys=2), max_windows=3, period=86_400)
DAY = Horizon(start=0, window_size=3600, windows=24)


def of_found_keys() -> tuple[PrivateFrequencies[tuple[Any, ReleasedSketch]], SelectKeys]:
    """Return transforms whose keys nobody lists."""
    found = KeySelection(1e-8, "city", share=0.25, min_units=10)
    transform = PrivateFrequencies(SketchSpec(), PRIVACY, privacy_unit=PEOPLE, keys=found, item="shop")
    return transform, SelectKeys(PRIVACY, privacy_unit=PEOPLE, keys=KeySelection(1e-8, "city"))


def of_people() -> PrivateFrequencies[tuple[Any, ReleasedSketch]]:
    """Return a checked transform, which is of its own type."""
    keys, hours = PublicKeys(["Oslo", "Bern"], "city"), TimeRange(0, 7200)
    transform = PrivateFrequencies(SketchSpec(), PRIVACY, privacy_unit=PEOPLE, keys=keys, item="shop", windows=hours)
    return transform.check([{"city": "Bern", "person": "someone", "shop": "a"}])


def others() -> list[object]:
    """Return one transform of each other kind, which says what comes out of it."""
    in_hours, by_tree = PrivacyId("person", RecordBounds(10), max_windows=3), Horizon(0, 3600, 24, mechanism="tree")
    number, oslo = FloatDomain(0, 9, 0.1), PublicKeys(["Oslo"])
    one: PrivateFrequencies[ReleasedSketch] = PrivateFrequencies(
        ListedItems(["Oslo", 1]), PRIVACY, privacy_unit=Record()
    )
    rows: PrivateFrequencies[TimelineRow] = PrivateFrequencies(
        SketchSpec(), PRIVACY, windows=DAY, privacy_unit=Record()
    )
    by_key: PrivateFrequencies[tuple[Any, TimelineRow]]
    by_key = PrivateFrequencies(SketchSpec(), PRIVACY, windows=by_tree, privacy_unit=in_hours, keys=oslo)
    tree: PrivateQuantiles[ReleasedRanks]
    tree = PrivateQuantiles(number, PRIVACY, privacy_unit=Record(), item="minutes")
    trees: PrivateQuantiles[tuple[Any, ReleasedRanks]]
    trees = PrivateQuantiles(number, PRIVACY, privacy_unit=Record(), keys=oslo)
    tree_rows: PrivateQuantiles[TimelineRow] = PrivateQuantiles(number, PRIVACY, privacy_unit=Record(), windows=DAY)
    top: PrivateTopK[TopK]
    top = PrivateTopK(TextDomain(12), PRIVACY, k=5, privacy_unit=Record(max_weight=3), weight=lambda row: row["n"])
    tops: PrivateTopK[tuple[Any, TopK]] = PrivateTopK(
        TextDomain(12), PRIVACY, k=5, privacy_unit=Record(), keys=oslo, method=Thresholding(1e-8)
    )
    mean: PrivateStatistics[ReleasedStatistics] = PrivateStatistics(
        number, PRIVACY, privacy_unit=Record(), variance=True
    )
    means: PrivateStatistics[tuple[Any, ReleasedStatistics]]
    means = PrivateStatistics(IntegerDomain(0, 9), PRIVACY, privacy_unit=in_hours, keys=oslo, item="minutes")
    mean_rows: PrivateStatistics[TimelineRow] = PrivateStatistics(number, PRIVACY, privacy_unit=Record(), windows=DAY)
    several = {"hours": Metric(Quantiles(number), "hour", share=0.5), "sums": Metric(Statistics(number), "n", 0.5)}
    metrics: PrivateMetrics[ReleasedMetrics] = PrivateMetrics(several, PRIVACY, privacy_unit=Record())
    of_keys: PrivateMetrics[tuple[Any, ReleasedMetrics]] = PrivateMetrics(
        several, PRIVACY, privacy_unit=in_hours, keys=oslo
    )
    metric_rows: PrivateMetrics[TimelineRow] = PrivateMetrics(several, PRIVACY, privacy_unit=Record(), windows=DAY)
    others = [metrics, of_keys, metric_rows]
    return [one, rows, by_key, tree, trees, tree_rows, top, tops, mean, means, mean_rows, *others]


def of_metrics(released: ReleasedMetrics) -> list[Released]:
    """Ask for the releases in one: their kind is known to the caller alone."""
    sums = released["sums"]
    assert isinstance(sums, ReleasedStatistics)
    known: float = sums.total().estimate
    return [*released.values(), *released.combine(released).values()] if known else []


def mistakes() -> list[object]:
    """Say what type checkers find: an unused ignore is an error too."""
    return [
        PrivateFrequencies(SketchSpec(), PRIVACY, privacy_unit="user"),  # type: ignore[call-overload]
        PrivateFrequencies(SketchSpec(), PRIVACY, privacy_unit=Record(), keys=["a"]),  # type: ignore[call-overload]
        PrivateQuantiles(TextDomain(3), PRIVACY, privacy_unit=Record()),  # type: ignore[call-overload]
        PrivateFrequencies(["Oslo"], PRIVACY, privacy_unit=Record()),  # type: ignore[call-overload]
        PrivateTopK(TextDomain(3), PRIVACY, k=1, privacy_unit=Record(), windows=DAY),  # type: ignore[call-overload]
        PrivateStatistics(TextDomain(3), PRIVACY, privacy_unit=Record()),  # type: ignore[call-overload]
        release(CountSketch(SketchSpec()), ReleaseTerms(PRIVACY, AutoNorm())),  # type: ignore[arg-type]
        beam_dpsketch.ReleaseSpecs,  # type: ignore[attr-defined]
    ]


def made_by_hand() -> str:
    """Make, read and query a release of each kind."""
    terms = ReleaseTerms(PRIVACY)
    numbers = IntegerDomain(0, 99)
    signed: ReleasedCountSketch = release(CountSketch(SketchSpec()).accumulate(["a"]), terms)
    lifted: ReleasedCountMin = release(CountMin(SketchSpec(kind="count_min")), terms)
    tree: ReleasedRanks = release(DyadicCountSketch(TreeSpec.for_memory(numbers)), terms)
    listed: ReleasedListedItems = release(ListedHistogram(ListedItems(["a", "b"])).accumulate(["a"]), terms)
    again: ReleasedRanks = ReleasedRanks.from_bytes(tree.to_bytes())
    total: float = lifted.minimum("a") + lifted.minimum(["a"], 0.1)[0] + lifted.interval("a").upper
    tops = [signed.top_k(1, ["a"]), lifted.top_k(1, ["a"]), tree.top_k(1)]
    tops.append(listed.top_k(1))
    rows = [row.estimate + row.upper for top in tops for row in top]
    decoded: Decoded = signed.decode(["a", "b"])
    known: list[Decoded] = [decoded, lifted.decode(["a"]), listed.decode(), listed.decode(["a"])]
    total += decoded.estimate("a") + decoded.shrunk(["a"])[0] + decoded.interval("a").upper + len(known)
    tops += [decoded.top_k(1), decoded.interval(["a", "b"])]
    return f"{again.quantile([0.5])} {tree.rank_interval(3).lower} {sum(rows) + total} {tops[0].to_rows()}"


def of_numbers(released: ReleasedStatistics) -> float:
    """Ask about numbers: a mean may not be known, a sum is."""
    unsure = released.mean().estimate + 1  # type: ignore[operator]
    found: float | None = released.std(0.9).estimate
    known: float = released.total().estimate + released.count().lower + released.mean().upper
    return known + unsure + (0.0 if found is None else found)


def compared(before: ReleasedRanks, after: ReleasedRanks) -> float:
    """Ask about two releases."""
    answers: list[Interval] = [after.distance(before), after.inner_product(before)]
    difference: Difference = after.minus(before)
    rows: Changes = after.movers(before, k=5, confidence=0.99)
    change: float = difference.estimate(3) + float(difference.estimate([3, 4])[0]) + rows[0].change
    return change + sum(answer.upper for answer in answers)


def over_time(rows: list[TimelineRow], pairs: list[tuple[str, TimelineRow]]) -> float:
    """Ask timelines, and about their differences."""
    line = SketchTimeline(rows, DAY)
    line.add(rows[:0])
    difference: Difference = line.minus(5, (0, 4))
    distance: Interval = line.distance((3, 5), (0, 2), confidence=0.9)
    changes: Changes = line.movers(5, 4, k=3, candidates=["a", "b"])
    of_cities: dict[str, SketchTimeline] = SketchTimeline.by_key(pairs, DAY)
    held = sum(each.between(0, 3).records().estimate for each in of_cities.values())
    return held + difference.estimate("a") + distance.upper + changes[0].change + line.available + line.window_of(7200)


def read_back(data: bytes, rows: list[TimelineRow]) -> str:
    """Query what was read."""
    released = ReleasedSketch.from_bytes(data)
    if isinstance(released, ReleasedFrequencies):
        return f"{released.estimate(['a'])[0]:.1f}, {released.top_k(2, ['a', 'b'])[0].item}"
    line = SketchTimeline(rows, DAY).prefix(3)
    return f"{__version__}: {released.privacy} {line.privacy} {plan(SketchSpec(), ReleaseTerms(PRIVACY), 1000)}"


def from_files() -> float:
    """Read releases of one class, rows over time, and pairs with any item as key."""
    (delays,) = read_releases("out/delays.dpsketch", ReleasedDyadicCountSketch)
    rows: list[TimelineRow] = transforms.read_releases("gs://bucket/rows-*", TimelineRow)
    pairs = transforms.read_releases("gs://bucket/cities-*", ReleasedCountSketch, keyed=True)
    cities: dict[str, float] = {key: sketch.estimate(["a"])[0] for key, sketch in pairs if isinstance(key, str)}
    return delays.quantile(0.5).estimate + len(rows) + sum(cities.values())


def from_unknown_files() -> list[bytes]:
    """Read what may be any of three."""
    found: list[bytes] = []
    for each in read_releases("out/*"):
        if isinstance(each, (Released, TimelineRow)):
            found.append(each.to_bytes())
        else:
            found.append(each[1].to_bytes())
    read_releases("out/*", str)  # type: ignore[type-var]
    return found
