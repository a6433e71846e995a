"""What every kind of release does alike in pipelines: exact counters, keys, one release of each, files and types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    FactorizationSpec,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    Metric,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    RecordCount,
    TextDomain,
    Thresholding,
    TreeSpec,
    read_releases,
)
from beam_dpsketch.answers.counts import ReleasedCounts, ReleasedListedItems
from beam_dpsketch.answers.factor import ReleasedFactorization
from beam_dpsketch.answers.flat import ReleasedCountMin, ReleasedCountSketch
from beam_dpsketch.answers.statistics import ReleasedStatistics
from beam_dpsketch.answers.tree import ReleasedDyadicCountSketch
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import (
    PrivateFrequencies,
    PrivateMetrics,
    PrivateQuantiles,
    PrivateStatistics,
    PrivateTopK,
    ReadReleases,
    WriteReleases,
)
from tests.helpers.keyed_units import in_keys
from tests.helpers.metric_visits import FORMS, VISITS, Visit
from tests.helpers.pipelines import BUNDLE_BASED, COUNT_MIN, FN_API, SPEC, seen_by_sink
from tests.helpers.tree_pipelines import ExactVectors

PRIVACY = PrivacySpec(rho=0.1, summary_counts=None)
MINUTES, WIDE = IntegerDomain(-10, 60), IntegerDomain(-(1 << 40), 1 << 40)
RANKS, TREE, SEARCHED = FactorizationSpec(MINUTES), TreeSpec.for_memory(MINUTES), TreeSpec.for_search(MINUTES, 4096)
PAGES = ListedItems(["a", "", "absent", "3", "ä", "a"])


class Kind(NamedTuple):
    """A transform, the column that it counts, the type of its releases, and that of its outputs where it is another."""

    make: Callable[..., Any]
    item: str
    released: type
    hint: str = ""


KINDS = {
    "count sketch": Kind(lambda **given: PrivateFrequencies(SPEC, PRIVACY, **given), "page", ReleasedCountSketch),
    "Count-Min": Kind(lambda **given: PrivateFrequencies(COUNT_MIN, PRIVACY, **given), "page", ReleasedCountMin),
    "listed items": Kind(lambda **given: PrivateFrequencies(PAGES, PRIVACY, **given), "page", ReleasedListedItems),
    "ranks": Kind(lambda **given: PrivateQuantiles(RANKS, PRIVACY, **given), "minutes", ReleasedFactorization),
    "tree": Kind(lambda **given: PrivateQuantiles(TREE, PRIVACY, **given), "minutes", ReleasedDyadicCountSketch),
    "wide tree": Kind(lambda **given: PrivateQuantiles(WIDE, PRIVACY, **given), "minutes", ReleasedDyadicCountSketch),
    "search": Kind(
        lambda **given: PrivateTopK(SEARCHED, PRIVACY, k=2, **given), "minutes", ReleasedDyadicCountSketch, "TopK"
    ),
    "numbers": Kind(
        lambda **given: PrivateStatistics(MINUTES, PRIVACY, variance=True, **given), "minutes", ReleasedStatistics
    ),
}
COUNTS = Kind(
    lambda **given: PrivateTopK(TextDomain(4), PrivacySpec(rho=25), k=2, method=Thresholding(1e-8), **given),
    "page",
    ReleasedCounts,
    "TopK",
)
"""Text that is counted item by item, and has no exact counters until its items are chosen; two records are enough."""
UNITS: dict[str, Any] = {
    "record": Record(max_weight=3),
    "privacy id": PrivacyId("person", RecordBounds(1000, max_keys=3, max_weight=3, signed=True)),
}
COUNTRIES = ["NO", "IT", "FR"]
KEYS = {"none": None, "listed": PublicKeys(COUNTRIES, "country"), "of the data": AssumePublicKeys("country")}


def by_hand(kind: Kind, visits: list[Visit]) -> list[int]:
    """The counters of a raw sketch of the visits that have an item and a weight."""
    counted = [visit for visit in visits if getattr(visit, kind.item) is not None and visit.amount is not None]
    spec = kind.make(privacy_unit=UNITS["record"])._declared.spec
    items = [getattr(visit, kind.item) for visit in counted]
    weights = [visit.amount or 0 for visit in counted]
    if spec is PAGES:
        return [sum(w for item, w in zip(items, weights, strict=True) if item == listed) for listed in PAGES.items]
    vector: list[int] = raw_type(spec)(spec).accumulate(items, weights).to_vector().tolist()
    return vector


def expected(privacy_unit: str, times: int = 1) -> dict[Any, list[int]]:
    """The counters of each kind, with which keys, and key; keys without data are those that are listed.

    Weights of records are clamped. Those of a person are netted by item, and are more records than one where they are
    above the largest weight, so that all of them counts.
    """
    visits = [visit for visit in VISITS if privacy_unit == "record" or visit.person is not None] * times
    if privacy_unit == "record":
        visits = [visit._replace(amount=visit.amount and max(0, min(visit.amount, 3))) for visit in visits]
    found = {}
    for name, kind in KINDS.items():
        found[name, "none", None] = by_hand(kind, visits)
        for key in ("NO", "IT", "FR", "unlisted"):
            of_key = by_hand(kind, [visit for visit in visits if visit.country == key])
            found |= {(name, "listed", key): of_key} if key in COUNTRIES else {}
            found |= {(name, "of the data", key): of_key} if key != "FR" else {}
    return found


def each_kind(
    elements: beam.PCollection,
    keys: list[str],
    made: Callable[[Any], Any],
    privacy_unit: Any,
    kinds: Any = None,
    **given: Any,
) -> beam.PCollection:
    """What is made of the transform of each kind with each choice of keys, as ((kind, keys, key), output)."""
    outputs = []
    for name, kind in (kinds or KINDS).items():
        for choice in keys:
            transform = kind.make(
                privacy_unit=in_keys(privacy_unit, KEYS[choice]), item=kind.item, keys=KEYS[choice], **given
            )
            output = elements | f"{name}, {choice}" >> made(transform)
            outputs.append(output | f"Name {name}, {choice}" >> beam.Map(_named, name, choice))
    return outputs | beam.Flatten()


def _named(output: Any, name: str, choice: str) -> Any:
    key, output = (None, output) if choice == "none" else output
    return (name, choice, key), output


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", UNITS)
@pytest.mark.parametrize("form", [*FORMS, "all forms"])
def test_every_form_of_element_gives_the_counters_by_hand(form: str, privacy_unit: str) -> None:
    """Values outside the domain are moved to its ends; visits without an item, a weight or a person are dropped."""
    forms = FORMS if form == "all forms" else {form: FORMS[form]}

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = [pipeline | f"Create {name}" >> beam.Create(made()) for name, made in forms.items()]
        return each_kind(
            elements | "Forms" >> beam.Flatten(), [*KEYS], ExactVectors, UNITS[privacy_unit], weight="amount"
        )

    seen = seen_by_sink(build)
    wanted = expected(privacy_unit, len(forms))
    assert len(seen) == len(wanted)
    assert dict(seen) == wanted


@pytest.mark.parametrize("form", ["rows", "a batch"])
def test_records_without_an_item_make_no_key(form: str) -> None:
    """An ignored record that makes a release of its key has an effect."""
    rows = [{"country": "NO", "page": "a"}, {"country": "IT", "page": None}]
    elements = rows if form == "rows" else [pa.Table.from_pylist(rows)]
    made = KINDS["count sketch"].make(privacy_unit=Record(), item="page", keys=KEYS["of the data"])
    assert [key for key, _ in seen_by_sink(lambda pipeline: pipeline | beam.Create(elements) | made)] == ["NO"]


@pytest.mark.parametrize("form", ["dicts", "tables"])
def test_metrics_of_single_records_are_released_for_each_key(form: str) -> None:
    """A count reads any column, and its reader is a function that Beam cannot pickle with the sums of a batch."""
    counted = {"visits": Metric(RecordCount()), "pages": Metric(ItemFrequencies(SPEC), "page")}
    metrics = PrivateMetrics(counted, PRIVACY, privacy_unit=Record(), keys=KEYS["listed"])
    seen = seen_by_sink(lambda pipeline: pipeline | beam.Create(FORMS[form]()) | metrics)
    assert {key: [*released.parts] for key, released in seen} == {key: ["visits", "pages"] for key in COUNTRIES}


@pytest.mark.parametrize("privacy_unit", [Record(), PrivacyId(str, RecordBounds(50, max_keys=2))], ids=UNITS)
def test_pairs_give_the_counters_by_hand(privacy_unit: Any) -> None:
    """What a kind cannot count is dropped."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        outputs = []
        for name, kind in KINDS.items():
            pairs = [(visit.country, getattr(visit, kind.item)) for visit in VISITS]
            elements = pipeline | f"Create {name}" >> beam.Create([*pairs, ("NO", 2.5), ("IT", None)])
            listed = ExactVectors(kind.make(privacy_unit=privacy_unit, keys=PublicKeys(["NO", "IT"])))
            outputs.append(elements | name >> listed | f"Name {name}" >> beam.Map(_named, name, "listed"))
        return outputs | beam.Flatten()

    once = [visit._replace(amount=1) for visit in VISITS]
    assert dict(seen_by_sink(build)) == {
        (name, "listed", key): by_hand(kind, [visit for visit in once if visit.country == key])
        for name, kind in KINDS.items()
        for key in ("NO", "IT")
    }


def test_what_was_deleted_might_never_have_been_there() -> None:
    """What is deleted again uses up none of the few records that count of each person, in any form of elements."""
    kept = [visit._replace(person=number, amount=1) for number, visit in enumerate(VISITS)]
    gone = [visit._replace(amount=sign * (1 + visit.number % 3)) for sign in (1, -1) for visit in kept]
    few = PrivacyId("person", RecordBounds(1, max_keys=1, max_weight=1, signed=True))
    rows = [visit._asdict() for visit in gone + kept]
    for elements in (rows, [pa.Table.from_pylist(rows[::-1])]):
        seen = seen_by_sink(
            lambda pipeline, read=elements: each_kind(
                pipeline | beam.Create(read), ["none", "listed"], ExactVectors, few, weight="amount"
            )
        )
        assert dict(seen) == {
            (name, keys, key): by_hand(kind, [visit for visit in kept if key in (None, visit.country)])
            for name, kind in KINDS.items()
            for keys, key in (("none", None), *(("listed", key) for key in COUNTRIES))
        }


def test_each_key_has_one_release_of_its_kind_and_files_hold_it(tmp_path: Path) -> None:
    """Of bundles that run again a sink sees one release; listed keys are there without data, and not disclosed."""
    kinds = KINDS | {"counts": COUNTS}

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | beam.Create(FORMS["rows"]())
        released = each_kind(elements, ["listed", "of the data"], lambda made: made, Record(), kinds)
        _ = released | WriteReleases(str(tmp_path / "out"))
        return released

    seen = defaultdict(set)
    for place, output in seen_by_sink(build, "--direct_runner_bundle_repeat=3"):
        seen[place].add(getattr(output, "release", output))
    assert seen.keys() == {
        (name, choice, key)
        for name in kinds
        for choice, keys in (("listed", COUNTRIES), ("of the data", ["NO", "IT", "unlisted"]))
        for key in keys
    }
    for (name, choice, _), (release,) in seen.items():
        assert type(release) is kinds[name].released
        hidden = choice == "listed" or name == "counts"  # a key of counts shows with an item alone
        assert release.privacy.disclosed is (Disclosure.NONE if hidden else Disclosure.KEYS)
    by_place = {place: release for place, (release,) in seen.items()}
    pattern = str(tmp_path / "out*")
    assert dict(seen_by_sink(lambda pipeline: pipeline | ReadReleases(pattern))) == by_place
    assert {place: each.to_bytes() for place, each in read_releases(pattern)} == {
        place: each.to_bytes() for place, each in by_place.items()
    }


@pytest.mark.parametrize("runner", [FN_API, BUNDLE_BASED])
def test_no_data_give_one_release_or_those_of_listed_keys(runner: str) -> None:
    kinds = KINDS | {"counts": COUNTS}
    seen = seen_by_sink(
        lambda pipeline: each_kind(pipeline | beam.Create([]), [*KEYS], lambda made: made, Record(), kinds),
        runner=runner,
    )
    places = [("none", None), *(("listed", key) for key in COUNTRIES)]
    assert sorted(map(str, dict(seen))) == sorted(str((name, *place)) for name in kinds for place in places)
    assert len(seen) == len(dict(seen))


@pytest.mark.parametrize("name", [*KINDS, "counts"])
@pytest.mark.parametrize("keys", ["none", "of the data"])
def test_outputs_have_type_hints_and_may_have_labels(name: str, keys: str) -> None:
    kind = (KINDS | {"counts": COUNTS})[name]
    rows = beam.Pipeline(runner=FN_API) | beam.Create(FORMS["rows"]())
    transform = kind.make(privacy_unit=Record(), item=kind.item, keys=KEYS[keys])
    for output in (rows | "One" >> transform, rows | "Two" >> transform):
        assert (kind.hint or kind.released.__name__) in str(output.element_type)
        assert str(output.element_type).startswith("Tuple") is (keys != "none")


@pytest.mark.parametrize("privacy_unit", UNITS)
def test_counters_differ_so_that_a_mix_up_would_show(privacy_unit: str) -> None:
    vectors = [str(vector) for (_, keys, _), vector in expected(privacy_unit).items() if keys != "listed"]
    assert len(vectors) == 4 * len(KINDS)
    assert len(set(vectors)) == len(vectors)
