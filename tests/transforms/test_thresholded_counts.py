"""`PrivateTopK` with `method=Thresholding(delta)`: from elements to released counts.

Most tests take the noise away, so that what is released is known: the exact counts at or above the threshold.
"""

from __future__ import annotations

import datetime
import functools
from collections import Counter
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import window
from hypothesis import given
from hypothesis import strategies as st

from beam_dpsketch import (
    AssumePublicKeys,
    BudgetExceededError,
    BytesDomain,
    FloatDomain,
    IntegerDomain,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    TextDomain,
    Thresholding,
    TimeRange,
    TimestampDomain,
)
from beam_dpsketch.answers.counts import ReleasedCounts
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.base import short_keys
from beam_dpsketch.exact.reading.groups import join_pairs, split_pair, sum_by_pair
from beam_dpsketch.exact.reading.items import SketchInput
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.noise.counting import Counting
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.transforms import EnvironmentSecret, PrivateTopK
from beam_dpsketch.transforms.steps.whole_runs import WrappingSum
from tests.helpers import noise
from tests.helpers.pipelines import BUNDLE_BASED, FN_API, run, seen_by_sink
from tests.helpers.streams import stepped
from tests.helpers.timed import at_times

PRIVACY, METHOD, TEXT = PrivacySpec(rho=1.0), Thresholding(1e-8), TextDomain(5)
WORDS = ["to"] * 400 + ["tea"] * 300 + ["longer words"] * 50 + ["longest"] * 7 + [""] * 40 + ["rare"] * 3 + ["once"]
KEPT = {"to": 400, "tea": 300, "longe": 57, "": 40}


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are released as they are, if they reach the threshold."""
    noise.without_noise(monkeypatch)


def globally(privacy_unit: Any = Record(), domain: Any = TEXT, **more: Any) -> PrivateTopK:  # noqa: B008
    return PrivateTopK(domain, more.pop("privacy", PRIVACY), k=9, privacy_unit=privacy_unit, method=METHOD, **more)


def per_key(keys: Any, privacy_unit: Any = Record(), domain: Any = TEXT, **more: Any) -> PrivateTopK:  # noqa: B008
    return PrivateTopK(domain, PRIVACY, k=9, privacy_unit=privacy_unit, keys=keys, method=METHOD, **more)


def counts(top: Any) -> dict[Any, float]:
    release = top.release
    assert isinstance(release, ReleasedCounts)
    assert release.top_k(9) == top
    return dict(zip(release.items, release.counters.tolist(), strict=True))


@pytest.mark.usefixtures("no_noise")
def test_words_are_cut_as_trees_cut_them_and_rare_ones_leave_no_trace() -> None:
    (top,) = run([*WORDS, None, 5, b"to"], globally())
    assert counts(top) == KEPT
    assert list(top.item) == ["to", "tea", "longe", ""]
    assert top.truncated == {"longe"}
    privacy = top.release.privacy
    assert (privacy.rho, privacy.delta, privacy.sigma_squared) == (1, Fraction(1, 10**8), Fraction(1, 2))
    assert (privacy.keys.threshold, privacy.keys.max_items, privacy.side) == (10176, 1, ())
    assert privacy.disclosed is Disclosure.NONE
    assert "Items         released if the noisy count reaches 4.9688 (" in str(privacy)
    assert "rare" not in repr(top.release.to_bytes())


@pytest.mark.usefixtures("no_noise")
@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "privacy_unit", [Record(), PrivacyId("user", RecordBounds(1, max_keys=1))], ids=["record", "privacy id"]
)
def test_rows_batches_and_pairs_have_equal_counts(privacy_unit: Any) -> None:
    rows = [{"key": f"k{n % 2}", "word": word, "user": str(n)} for n, word in enumerate(WORDS)]
    rows += [{"key": "k0", "word": None, "user": "x"}, {"key": "other", "word": "to", "user": "y"}]
    table = pa.Table.from_pylist(rows)
    listed = per_key(PublicKeys(["k0", "k1", "absent"], "key"), privacy_unit, item="word")
    expected = {
        key: {word[:5]: n for word, n in Counter(r["word"][:5] for r in rows[:-2] if r["key"] == key).items() if n > 5}
        for key in ("k0", "k1", "absent")
    }
    for elements in (rows, [table], table.to_batches(max_chunksize=100), [table.to_pandas()]):
        found = {key: counts(top) for key, top in run(elements, listed)}
        assert found == expected
    if privacy_unit == Record():
        pairs = [(row["key"], row["word"]) for row in rows]
        found = {key: counts(top) for key, top in run(pairs, per_key(AssumePublicKeys()))}
        assert found == {key: each for key, each in expected.items() if each}


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize(
    ("domain", "items", "expected"),
    [
        (IntegerDomain(0, 9), [5] * 10 + [99] * 20 + [-3] * 7, {9: 20, 5: 10, 0: 7}),
        (FloatDomain(0, 1, 0.5), [0.2] * 10 + [7.0] * 9, {0.0: 10, 1.0: 9}),
        (BytesDomain(3), [b"\0"] * 9 + [b"\0\0"] * 8 + [b"a\0"] * 7, {b"\0": 9, b"\0\0": 8, b"a\0": 7}),
        (TextDomain(4), ["a\u00e9z"] * 9 + ["abc\u00e9"] * 8 + ["abc"] * 7, {"a\u00e9z": 9, "abc": 7}),
    ],
    ids=["integers", "floats", "bytes", "text"],
)
def test_items_of_every_domain_come_out_as_values(domain: Any, items: list[Any], expected: Any) -> None:
    """A text that is cut within a character has the name of a whole one, which stays."""
    (top,) = run(items, globally(domain=domain))
    assert counts(top) == expected
    assert ReleasedCounts.from_bytes(top.release.to_bytes()) == top.release


@pytest.mark.usefixtures("no_noise")
def test_each_id_counts_for_max_keys_items_and_so_often_for_each() -> None:
    rows = [{"user": user, "word": f"w{word}"} for user in range(100) for word in range(5) for _ in range(4)]
    (top,) = run(rows, globally(PrivacyId("user", RecordBounds(2, max_keys=3)), item="word"))
    found = counts(top)
    assert sum(found.values()) == 100 * 3 * 2
    assert len(found) == 5
    assert top.release.privacy.sigma_squared == Fraction(3 * 4, 2) / Fraction(3, 4)  # votes have the rest of rho
    assert top.release.privacy.keys.max_items == 3


@pytest.mark.usefixtures("no_noise")
def test_a_norm_scales_what_is_kept_of_max_keys_items() -> None:
    """Three of five words count of each person, and of their 3 x 4 records 3 x 2.5."""
    rows = [{"user": user, "word": f"w{word}"} for user in range(100) for word in range(5) for _ in range(4)]
    norm = Fraction(433, 100)  # 2.5 sqrt(3)
    (top,) = run(rows, globally(PrivacyId("user", NormBound(norm, max_keys=3)), item="word"))
    assert sum(counts(top).values()) == pytest.approx(100 * 3 * 2.5, rel=1e-3)
    (once,) = run(rows, globally(PrivacyId("user", NormBound(norm, max_keys=3, max_per_item=1)), item="word"))
    assert sum(counts(once).values()) == 100 * 3
    assert once.release.privacy.keys.threshold < top.release.privacy.keys.threshold
    assert once.release.privacy.bounds == NormBound(norm, max_keys=3, max_per_item=1)


@pytest.mark.usefixtures("no_noise")
def test_weights_are_clamped_and_the_threshold_grows_with_them() -> None:
    rows = [("a", 3)] * 10 + [("b", 99)] * 10 + [("c", -5)] * 99 + [("d", 0)] * 99 + [("e", 1)] * 9
    (top,) = run(rows, globally(Record(max_weight=3), item=_first, weight=_second))
    assert counts(top) == {"a": 30, "b": 30}
    assert top.release.privacy.keys.threshold > 9
    assert top.release.privacy.sigma_squared == Fraction(9, 2)


def _first(row: Any) -> Any:
    return row[0]


def _second(row: Any) -> Any:
    return row[1]


@pytest.mark.usefixtures("no_noise")
@pytest.mark.one_fast_case
@pytest.mark.parametrize(("weight", "windows"), [(1, 1), (3, 2)])
def test_empty_input_gives_an_empty_release_in_the_global_window_alone(weight: int, windows: int) -> None:
    (top,) = run([], globally(Record(max_weight=weight)))
    assert (counts(top), top.release.top_k(3).to_rows()) == ({}, [])
    empty = run([], per_key(PublicKeys(["a", "b"]), Record(max_weight=weight)))
    assert {key: counts(each) for key, each in empty} == {"a": {}, "b": {}}
    assert run([], per_key(AssumePublicKeys())) == []
    found = seen_by_sink(lambda p: at_times(p, [("rare", 5.0)], window.FixedWindows(60)) | globally())
    assert found == []


TIMED = [(word, 1.0 + 60 * minute) for minute, size in ((0, 20), (2, 30)) for word in ["to"] * size + ["rare"]]


class WithStart(beam.DoFn):
    def process(self, element: Any, where: Any = beam.DoFn.WindowParam) -> Any:
        yield float(where.start), element


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_windows_show_only_with_a_released_item_or_a_declared_range() -> None:
    def found(transform: beam.PTransform, timed: Any, windows: Any) -> dict[Any, Any]:
        outputs = seen_by_sink(lambda p: at_times(p, timed, windows) | transform | beam.ParDo(WithStart()))
        return {
            (start, *each[:1]) if isinstance(each, tuple) else start: counts(
                each[1] if isinstance(each, tuple) else each
            )
            for start, each in outputs
        }

    fixed, day = window.FixedWindows(60), TimeRange(0, 240)
    assert found(globally(), TIMED, fixed) == {0: {"to": 20}, 120: {"to": 30}}
    assert found(globally(windows=day), TIMED, fixed) == {0: {"to": 20}, 60: {}, 120: {"to": 30}, 180: {}}
    pairs = [(("a", word), time) for word, time in TIMED]
    listed = found(per_key(PublicKeys(["a", "b"]), windows=TimeRange(0, 120)), pairs, fixed)
    assert listed == {(0, "a"): {"to": 20}, (0, "b"): {}, (60, "a"): {}, (60, "b"): {}}
    assert found(per_key(PublicKeys(["a", "b"])), pairs, fixed) == {(0, "a"): {"to": 20}, (120, "a"): {"to": 30}}
    sliding = found(globally(), TIMED, window.SlidingWindows(120, 60))
    assert sliding == {-60: {"to": 20}, 0: {"to": 20}, 60: {"to": 30}, 120: {"to": 30}}


@pytest.mark.slow
@pytest.mark.usefixtures("no_noise")
def test_rho_and_delta_cover_the_windows_of_a_unit() -> None:
    rows = [({"user": n % 200, "word": "to"}, 1.0 + 60 * (n // 200)) for n in range(600)]
    privacy_unit = PrivacyId("user", RecordBounds(2, max_keys=2), max_windows=2)
    outputs = seen_by_sink(lambda p: at_times(p, rows, window.FixedWindows(60)) | globally(privacy_unit, item="word"))
    assert sum(sum(counts(top).values()) for top in outputs) == 400
    (privacy,) = {(each.release.privacy.sigma_squared, each.release.privacy.keys.threshold) for each in outputs}
    assert privacy[0] == Fraction(2 * 2 * 4, 2) / Fraction(3, 4)  # votes have the rest of rho
    alone = Counting.of(
        outputs[0].release.spec, globally(PrivacyId("user", RecordBounds(2, max_keys=2)))._declared.terms
    )
    assert privacy[1] > alone.note.threshold
    assert {each.release.privacy.privacy_unit for each in outputs} == {PrivacyUnit.PRIVACY_ID}
    norm = PrivacyId("user", NormBound(2, max_keys=2))  # two pairs of word and window each, in all windows together
    outputs = seen_by_sink(lambda p: at_times(p, rows, window.FixedWindows(60)) | globally(norm, item="word"))
    assert sum(sum(counts(top).values()) for top in outputs) == 400


@pytest.mark.usefixtures("no_noise")
@pytest.mark.one_fast_case
@pytest.mark.parametrize("max_keys", [None, 1, 2], ids=["records", "ids", "ids that vote"])
def test_a_stream_releases_each_window_once(max_keys: int | None) -> None:
    """Votes have one round there."""
    timed = [({"user": n, "word": word}, time) for n, (word, time) in enumerate(TIMED)]
    privacy_unit = PrivacyId("user", RecordBounds(2, max_keys=max_keys)) if max_keys else Record()

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        elements = pipeline | stepped(timed, 60, 240, bundle=7) | beam.WindowInto(window.FixedWindows(60))
        return elements | globally(privacy_unit, item="word") | beam.ParDo(WithStart())

    outputs = seen_by_sink(build, "--streaming", runner=BUNDLE_BASED)
    assert sorted((start, counts(top)) for start, top in outputs) == [(0, {"to": 20}), (120, {"to": 30})]
    votes = {each.release.privacy.keys.votes for _, each in outputs}
    assert {each and each.method for each in votes} == {"gaussian" if max_keys == 2 else None}


@pytest.mark.slow
def test_idempotent_replays_release_equal_bytes_and_other_counts_other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two unrelated draws of 60 counts with sigma 3 agree with a probability below 1e-60."""
    monkeypatch.setenv("OF_TESTS", "0123456789abcdef" * 4)
    privacy = PrivacySpec(rho=0.05)
    words = [f"w{n}" for n in range(60) for _ in range(50 + n)]

    def made(words: list[str], release_id: str = "r", privacy_unit: Any = None, **more: Any) -> ReleasedCounts:
        transform = globally(privacy_unit or Record(), privacy=privacy, **more)
        secret = EnvironmentSecret("OF_TESTS")
        (top,) = run(words, transform.with_idempotent_noise(release_id=release_id, secret=secret))
        return top.release

    first = made(words)
    assert made(words[::-1]).to_bytes() == first.to_bytes()
    exact = Counter(words)

    def noise(release: ReleasedCounts) -> dict[str, float]:
        return {item: release.estimate(item) - exact[item] for item in release.items}

    assert len(first) == 60
    assert len(set(noise(first).values())) > 5
    one_more = made([*words, "w0"])
    assert noise(one_more) != noise(first)
    assert {item: n for item, n in noise(one_more).items() if item != "w0"} == {
        item: n for item, n in noise(first).items() if item != "w0"
    }
    for other in (
        made(words, "another"),
        made(words, privacy_unit=Record(max_weight=2)),
        made(words, domain=TextDomain(6)),
    ):
        assert noise(other) != noise(first)
        assert other.privacy.release_ids != first.privacy.release_ids


@pytest.mark.slow
def test_each_bundle_draws_noise_of_its_own() -> None:
    """100 counts of two windows with sigma 3: equal noise has a probability below 1e-90."""
    timed = [(f"w{n}", time) for n in range(100) for time in (1.0, 61.0) for _ in range(50)]
    transform = globally(privacy=PrivacySpec(rho=0.05))
    outputs = seen_by_sink(lambda p: at_times(p, timed, window.FixedWindows(60)) | transform)
    first, second = (each.release.estimate([f"w{n}" for n in range(100)]).tolist() for each in outputs)
    assert first != second
    assert len(set(first)) > 5
    runs = {each.release.privacy.release_ids[0][:16] for each in outputs}
    assert len(runs) == 1
    combined = outputs[0].release.combine(outputs[1].release)
    assert (combined.privacy.rho, combined.privacy.delta) == (Fraction(1, 20), Fraction(1, 10**8))


def test_a_budget_pays_rho_and_delta_once() -> None:
    budget = PrivacyBudget(rho=1, keys_delta=1e-8)
    transform = globally(privacy=budget.spend(rho=1))
    with beam.Pipeline(runner=FN_API) as pipeline:
        words = pipeline | beam.Create(["to"])
        words | "first" >> transform
        assert budget.remaining.rho == budget.remaining.keys_delta == 0
        with pytest.raises(BudgetExceededError):
            words | "second" >> transform
    with pytest.raises(BudgetExceededError, match="keys_delta"), beam.Pipeline(runner=FN_API) as pipeline:
        pipeline | beam.Create(["to"]) | globally(privacy=PrivacyBudget(rho=1).spend(rho=1))


def test_epsilon_and_delta_hold_for_all_of_it() -> None:
    given = PrivacySpec(epsilon=1, delta=1e-6, noise="gaussian")
    (top,) = run([], globally(privacy=given))
    assert top.release.privacy.rho < given.rho
    assert top.release.privacy.reported_epsilon <= 1


def test_explain_says_noise_threshold_and_bounds() -> None:
    words = " ".join(globally(PrivacyId("user", RecordBounds(2, max_keys=10))).explain(1000).split())
    assert "sigma = 5.164 on each count; budget share: 3/4 of rho" in words
    assert " Votes 25 % of rho; probability 1/2 also with 31 privacy ids that are in 10 items each" in words
    assert "There are two rounds of votes. They need two more shuffles" in words
    assert "up to 2 records per privacy id in each of up to 10 item counts; the rest are dropped at random" in words
    assert " Items released if the noisy count reaches " in words
    assert "\nCounts        a count for each item of " in str(globally().check(["to"]).explain())


def test_days_are_items_too() -> None:
    start = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    domain = TimestampDomain(start, start + datetime.timedelta(days=9), datetime.timedelta(days=1))
    (top,) = run([start + datetime.timedelta(days=2)] * 50, globally(domain=domain))
    assert list(top.item) == [start + datetime.timedelta(days=2)]


@pytest.mark.usefixtures("no_noise")
def test_items_beyond_max_keys_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault leaves `max_keys` to the statement alone."""
    rows = [{"user": user, "word": f"w{word}"} for user in range(100) for word in range(4)]
    transform = globally(PrivacyId("user", NormBound(2, max_keys=2)), item="word")
    (top,) = run(rows, transform)
    assert sum(counts(top).values()) == 200
    unlimited = SketchInput(ThresholdedItems(TEXT), transform._declared.privacy_unit.bounds)
    monkeypatch.setattr(ReleaseSpec, "sketch_input", unlimited)
    (more,) = run(rows, globally(PrivacyId("user", NormBound(2, max_keys=2)), item="word"))
    assert sum(counts(more).values()) == 400


@pytest.mark.parametrize("rows", [[], [("k", "a", 1)], [("k", "a", 2), ("", "ka", 3), ("k", "b", 1), ("k", "a", 5)]])
def test_pairs_of_key_and_item_come_apart_again(rows: list[tuple[str, str, int]]) -> None:
    """A key and an item never run into each other."""
    keys, items = [encode(key) for key, _, _ in rows], TEXT.index([item for _, item, _ in rows])[0].tolist()
    columns = {"key": pa.array(keys, pa.large_binary()), "item": pa.array(items, pa.large_binary())}
    weights = pa.array([weight for *_, weight in rows], pa.int64())
    joined = join_pairs(pa.table({"unit": pa.array(range(len(rows)), pa.uint64()), **columns, "weight": weights}))
    assert joined["unit"].to_pylist() == list(range(len(rows)))
    sums = {
        tuple(split_pair(pair, per_key=True)): count
        for pair, (count,) in sum_by_pair(joined["key"], weights.to_numpy()[:, np.newaxis])
    }
    expected: Counter[tuple[bytes, bytes]] = Counter()
    for (_, _, weight), key, item in zip(rows, keys, short_keys(items), strict=True):
        expected[key, item] += weight
    assert sums == dict(expected)


@given(numbers=st.lists(st.integers(-(1 << 63), (1 << 63) - 1)), split=st.integers(0, 5))
def test_sums_wrap_around_like_counters(numbers: list[int], split: int) -> None:
    fn = WrappingSum()
    rows = [(number, -1) for number in numbers]
    parts = [functools.reduce(fn.add_input, part, fn.create_accumulator()) for part in (rows[:split], rows[split:])]
    with np.errstate(over="ignore"):
        total = np.array(numbers, dtype=np.int64).sum()
    assert fn.extract_output(fn.merge_accumulators(parts)) == ((total, -len(numbers)) if numbers else ())
