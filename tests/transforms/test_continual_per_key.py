"""Continual release per key: every key has all rows, and keys that the data choose have all or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    Horizon,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    SketchSpec,
    SketchTimeline,
    WindowingError,
)
from beam_dpsketch.exact.horizon import MECHANISMS, Mechanism
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.statement.release_id import timeline
from beam_dpsketch.transforms import EnvironmentSecret
from beam_dpsketch.transforms.outputs import key_and_release
from tests.helpers import tolerances
from tests.helpers.by_hand import ROW
from tests.helpers.continual import (
    HORIZON,
    SIZE,
    START,
    VISITS,
    WINDOWS,
    Rows,
    Visit,
    bounded,
    exact,
    expected,
    frequencies,
    live,
    of_each,
    per_key,
    released,
    same,
    streamed,
    sums,
)
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, seen_by_sink

LISTED = PublicKeys(["ann", "bob", "absent"], "who")
WIDE = RecordBounds(9, max_keys=3)
UNITS = {
    "record": Record(),
    "records of an id": PrivacyId("item", WIDE, max_windows=WINDOWS),
    "norm": PrivacyId("item", NormBound(20)),
}
SECRET = "a secret of the tests, of 32 bytes or more, 1"


def of_keys(keys: Any, visits: list[Visit] = VISITS, mechanism: Mechanism = "binned") -> Rows:
    """What the rows of people are: the visits of each."""
    return of_each(keys, lambda key: expected([each for each in visits if each.who == key], mechanism=mechanism))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize("privacy_unit", UNITS.values(), ids=UNITS)
def test_public_keys_have_all_rows(privacy_unit: Any, which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those without data too; nobody of "early" is in the horizon, and it is not in the list either."""
    rows = sums(monkeypatch, bounded(per_key(LISTED, privacy_unit=privacy_unit, mechanism=which)))
    assert same(rows, of_keys(["ann", "bob", "absent"], mechanism=which))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("which", MECHANISMS)
@pytest.mark.parametrize("privacy_unit", UNITS.values(), ids=UNITS)
def test_keys_with_data_have_all_rows(privacy_unit: Any, which: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sums(monkeypatch, bounded(per_key(AssumePublicKeys("who"), privacy_unit=privacy_unit, mechanism=which)))
    assert same(rows, of_keys(["ann", "bob"], mechanism=which))


@pytest.mark.one_fast_case
@pytest.mark.parametrize("step", [1, 4])
def test_public_keys_of_a_stream(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    build = streamed(per_key(LISTED), live(step=step))
    rows = sums(monkeypatch, build, "--streaming", runner=BUNDLE_BASED)
    assert same(rows, of_keys(["ann", "bob", "absent"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "privacy_unit",
    [PrivacyId("item", WIDE, max_windows=WINDOWS), PrivacyId("item", NormBound(20), max_windows=WINDOWS)],
    ids=["records of an id", "norm"],
)
def test_ids_and_public_keys_of_a_stream(privacy_unit: PrivacyId, monkeypatch: pytest.MonkeyPatch) -> None:
    build = streamed(per_key(LISTED, privacy_unit=privacy_unit), live(step=3))
    rows = sums(monkeypatch, build, "--streaming", runner=BUNDLE_BASED)
    assert same(rows, of_keys(["ann", "bob", "absent"]))


@pytest.mark.parametrize("options", [(), ("--streaming",)], ids=["batch", "streaming"])
def test_no_row_of_a_key_that_begins_late_is_late(options: tuple[str, ...]) -> None:
    """All data are in the last windows; what is grouped downstream has every row of each key all the same."""
    visits = [Visit("ann", "a", START + 81.0), Visit("bob", "b", START + 101.0)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = bounded(per_key(AssumePublicKeys("who")), visits)(pipeline)
        numbered = rows | beam.MapTuple(lambda key, row: ((key, row.number), row.window))
        return numbered | beam.GroupByKey() | beam.MapTuple(lambda place, windows: (place, list(windows)))

    seen = seen_by_sink(build, *options, runner=BUNDLE_BASED)
    assert sorted(seen) == [((key, number), [number]) for key in ("ann", "bob") for number in range(WINDOWS)]


def test_timelines_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = exact(monkeypatch, bounded(per_key(LISTED, privacy_unit=PrivacyId("item", NormBound(20)))))
    lines = SketchTimeline.by_key(pairs, HORIZON)
    assert lines.keys() == {"ann", "bob", "absent"}
    for key, line in lines.items():
        within = sum(visit.who == key and visit.time < START + 5 * SIZE for visit in VISITS)
        assert line.available == WINDOWS
        assert abs(line.prefix(4).total_weight().estimate - within) < 0.01


CHOICE, LOSSY = KeySelection(0.2, "who"), PrivacySpec(rho=0.9, delta=0.5)
CROWD = [
    *(Visit("many", f"voter {voter}", START + SIZE * (voter % WINDOWS) + 1.0) for voter in range(60)),
    *(Visit(f"few {key}", f"{key} voter {voter}", START + 99.0 - key) for key in range(12) for voter in range(1 + key)),
    Visit("outside", "voter 1", START - 1.0),
    Visit("outside", "voter 2", START + SIZE * WINDOWS),
]
CHOOSING = {
    "records of an id": PrivacyId("item", RecordBounds(4, max_keys=1), max_windows=1),
    "norm": PrivacyId("item", NormBound(30, max_keys=1)),
    "record": Record(),
}


@pytest.mark.one_fast_case
@pytest.mark.parametrize("privacy_unit", CHOOSING.values(), ids=CHOOSING)
def test_keys_are_chosen_once_for_all_windows(privacy_unit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is one by which some keys with few voters are in, and others are not: each has all rows, or none."""
    monkeypatch.setenv("OF_TESTS", SECRET)
    transform = per_key(CHOICE, privacy=LOSSY, privacy_unit=privacy_unit)
    transform = transform.with_idempotent_noise(release_id="crowd", secret=EnvironmentSecret("OF_TESTS"))
    rows = sums(monkeypatch, bounded(transform, CROWD))
    chosen = {key for key, _ in rows}
    assert "many" in chosen
    assert 1 < len(chosen) < 13
    assert "outside" not in chosen
    assert same(rows, of_keys(chosen, CROWD))


@pytest.mark.slow
def test_a_key_without_votes_never_appears() -> None:
    """Its records are in no window; in a horizon without data no key is released."""
    for _ in range(5):
        assert released(per_key(CHOICE, privacy=LOSSY, privacy_unit=CHOOSING["norm"]), CROWD[-2:]) == []


@pytest.mark.slow
def test_a_voter_in_many_windows_is_one_voter(monkeypatch: pytest.MonkeyPatch) -> None:
    """One id in all windows of a key is not enough for a key that needs two."""
    alone = [Visit("alone", "voter 1", START + SIZE * index) for index in range(WINDOWS)]
    keys = KeySelection(0.2, "who", min_units=2)
    for privacy_unit in (CHOOSING["norm"], CHOOSING["records of an id"]):
        assert released(per_key(keys, privacy=LOSSY, privacy_unit=privacy_unit), alone) == []


def test_statements_say_whether_keys_are_shown() -> None:
    shown = [
        {row.privacy.disclosed for _, row in released(per_key(keys), CROWD)}
        for keys in (PublicKeys(["many"], "who"), AssumePublicKeys("who"))
    ]
    assert shown == [{Disclosure.NONE}, {Disclosure.KEYS}]


def test_names_of_rows_are_those_of_their_key() -> None:
    """The run is one, and the timeline of each key is its own, so that none can mix keys; all ids differ."""
    pairs = released(per_key(LISTED))
    timelines = {(key, timeline(row.privacy.release_ids[0])) for key, row in pairs}
    assert len(timelines) == len({name for _, name in timelines}) == 3
    assert len({name[:16] for _, name in timelines}) == 1
    assert len({row.privacy.release_ids for _, row in pairs}) == len(pairs) == 3 * WINDOWS
    with pytest.raises(ValueError, match="run"):
        SketchTimeline([pairs[0][1], pairs[WINDOWS + 1][1]], HORIZON)


@pytest.mark.parametrize("keys", [AssumePublicKeys("who"), KeySelection(0.2, "who")], ids=["assumed", "selected"])
def test_found_keys_of_a_stream_are_refused(keys: Any) -> None:
    elements = beam.Pipeline(runner=FN_API) | beam.Create(VISITS)
    elements.is_bounded = False
    privacy_unit = PrivacyId(
        "item", NormBound(3, max_keys=2 if isinstance(keys, KeySelection) else None), max_windows=2
    )
    with pytest.raises(WindowingError, match=r"keys must be PublicKeys with a horizon on unbounded input.* SelectKeys"):
        elements | per_key(keys, privacy=LOSSY, privacy_unit=privacy_unit)


IDEMPOTENT: dict[str, Any] = {
    "the same": lambda: frequencies(),
    "mechanism": lambda: frequencies(mechanism="tree"),
    "key": lambda: per_key(PublicKeys(["a", "b"], "item")),
}


def bytes_of(transform: Any, release_id: str = "visits", visits: list[Visit] = VISITS) -> dict[Any, bytes]:
    """The bytes of each row under idempotent noise."""
    noisy = transform.with_idempotent_noise(release_id=release_id, secret=EnvironmentSecret("OF_TESTS"))
    outputs = released(noisy, visits)
    return {
        (each[0], each[1].number) if isinstance(each, tuple) else each.number: (
            each[1] if isinstance(each, tuple) else each
        ).to_bytes()
        for each in outputs
    }


@pytest.mark.slow
@pytest.mark.one_fast_case
@pytest.mark.parametrize("name", IDEMPOTENT)
def test_idempotent_rows_are_the_same_bytes_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TESTS", SECRET)
    first, second = (bytes_of(IDEMPOTENT[name]()) for _ in range(2))
    assert first == second
    assert len(set(first.values())) == len(first)
    monkeypatch.setenv("OF_TESTS", "another" + SECRET)
    assert not {*first.values()} & {*bytes_of(IDEMPOTENT[name]()).values()}


WIDER = SketchSpec(depth=4, width=512)
TREE, TWICE = PrivacySpec(rho=1.0, summary_counts=None), PublicKeys(["a", "b"], "item")
OTHERS: dict[str, Callable[[], beam.PTransform]] = {
    "horizon": lambda: frequencies(WIDER, TREE, Horizon(START, SIZE, WINDOWS + 1), mechanism="tree"),
    "start": lambda: frequencies(WIDER, TREE, Horizon(START + SIZE, SIZE, WINDOWS), mechanism="tree"),
    "mechanism": lambda: frequencies(WIDER, TREE),
    "seed": lambda: frequencies(dataclasses.replace(WIDER, seed=7), TREE, mechanism="tree"),
    "rho": lambda: frequencies(WIDER, PrivacySpec(rho=1.01, summary_counts=None), mechanism="tree"),
    "keys": lambda: per_key(TWICE, WIDER, TREE, mechanism="tree"),
}


def noise_of(transform: Any, release_id: str = "one") -> dict[Any, np.ndarray]:
    """The noise of each row over time of no data, in standard deviations, by key and number."""
    noisy = transform.with_idempotent_noise(release_id=release_id, secret=EnvironmentSecret("OF_TESTS"))
    found = {}
    for each in released(noisy, []):
        key, row = each if isinstance(each, tuple) else (None, each)
        variance = row.privacy.sigma_squared * row.mechanism.squared_length
        found[key, row.number] = row.counters / float(variance) ** 0.5
    return found


def is_related(first: dict[Any, np.ndarray], second: dict[Any, np.ndarray]) -> bool:
    """Whether rows of one number are correlated, in all their cells together; 1e-9 for noise that is unrelated."""
    pairs = [(a, b) for (_, i), a in first.items() for (_, j), b in second.items() if i == j]
    one, other = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return bool(abs(one @ other) > tolerances.product_sum_limit(len(one), 1e-9))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_settings_have_unrelated_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under one release id and secret, of one input. Each of two checks fails on right code with probability 1e-9."""
    monkeypatch.setenv("OF_TESTS", SECRET)
    first, second = noise_of(frequencies(WIDER, TREE, mechanism="tree")), noise_of(OTHERS[name]())
    assert is_related(first, first)
    assert not is_related(first, second)


@pytest.mark.slow
def test_keys_and_rows_have_unrelated_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TESTS", SECRET)
    rows = noise_of(per_key(TWICE, WIDER, TREE, mechanism="tree"))
    by_key = [{place: row for place, row in rows.items() if place[0] == key} for key in "ab"]
    assert not is_related(*by_key)
    later = {(key, (number + 1) % len(by_key[0])): row for (key, number), row in by_key[0].items()}
    assert not is_related(by_key[0], later)
    assert not is_related(by_key[0], noise_of(frequencies(WIDER, TREE, mechanism="tree"), "another"))


def test_more_rows_than_a_pipeline_can_make_are_refused() -> None:
    keys = PublicKeys(range(1001), "who")
    visits = beam.Pipeline(runner=FN_API) | beam.Create(VISITS)
    with pytest.raises(
        WindowingError, match=r"The horizon would produce 1001000 rows \(1000 for each of 1001 keys\), more"
    ):
        visits | per_key(keys, horizon=Horizon(START, SIZE, 1000))


def test_a_row_is_not_asked_by_itself() -> None:
    with pytest.raises(TypeError, match=r"A timeline row cannot answer questions by itself. Read all rows"):
        key_and_release(("ann", ROW))
