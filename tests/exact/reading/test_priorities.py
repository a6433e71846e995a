"""Bounding by a keyed hash: a function of the records alone, uniform over release ids, as safe as the random one."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter, defaultdict
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import window
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beam_dpsketch import Horizon, PrivacyId, PrivacySpec, PublicKeys, RecordBounds, WindowingError
from beam_dpsketch.encodings import encode
from beam_dpsketch.exact.bounding.record_rule import KeyedPriorities, RandomPriorities, RecordRule
from beam_dpsketch.exact.reading.codec import concat_tables
from beam_dpsketch.exact.reading.reading import total_weights
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies
from beam_dpsketch.transforms.steps.idempotent_noise import IdempotentNoise
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import BUNDLE_BASED, SPEC, run, seen_by_sink

VARIABLE = "DPSKETCH_TEST_SECRET"
TERMS = {"release_id": "r", "secret": EnvironmentSecret(VARIABLE)}
PRIVACY = PrivacySpec(rho=0.1)


@pytest.fixture(autouse=True, scope="module")
def secret() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, "planted-secret-4711-4711-4711-4711-4711")
        yield


def priorities(release_id: str = "r") -> KeyedPriorities:
    return KeyedPriorities(IdempotentNoise(release_id, TERMS["secret"]).resolve_secret)


def table(rows: list[tuple[str, str, int, int]]) -> pa.Table:
    """Records (unit, key, item, weight) as the steps hold them."""
    units, keys, items, weights = zip(*rows, strict=True) if rows else ((),) * 4
    return pa.table(
        {
            "unit": pa.array(list(map(encode, units)), pa.large_binary()),
            "key": pa.array(list(map(encode, keys)), pa.large_binary()),
            "item": pa.array(items, pa.uint64()),
            "weight": pa.array(weights, pa.int64()),
        }
    )


def kept(bound: RecordRule, parts: list[pa.Table]) -> Counter[tuple[Any, ...]]:
    """What is kept of records that come in parts, each bounded alone first."""
    gathered = concat_tables([bound.prune(part) for part in parts])
    selected = bound.select(bound.prune(gathered))
    copies = selected["copies"].to_numpy() if "copies" in selected.column_names else np.ones(len(selected), dtype=int)
    rows = zip(*(selected[name].to_pylist() for name in ("unit", "key", "item", "weight")), strict=True)
    found: Counter[tuple[Any, ...]] = Counter()
    for row, times in zip(rows, copies.tolist(), strict=True):
        found[row] += times
    return found


records = st.lists(
    st.tuples(st.sampled_from("ABC"), st.sampled_from("xyz"), st.integers(0, 3), st.integers(1, 2)), max_size=40
)


@given(rows=records, signed=st.booleans(), data=st.data())
def test_what_is_kept_does_not_depend_on_order_and_parts(rows: list[Any], signed: bool, data: st.DataObject) -> None:
    bounds = RecordBounds(max_records=2, max_keys=2, max_weight=3, signed=signed)
    if signed:
        rows = [(unit, key, item, weight if item else -weight) for unit, key, item, weight in rows]
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    whole, parts = (
        kept(RecordRule(bounds, priorities()), each)
        for each in ([table(rows)], [table(shuffled[:cut]), table(shuffled[cut:])])
    )
    assert whole == parts
    for unit in {row[0] for row in whole}:
        partitions = Counter(key for (who, key, _, _), times in whole.items() if who == unit for _ in range(times))
        assert len(partitions) <= 2
        assert max(partitions.values()) <= 2


def test_copies_of_net_weights_are_kept_as_if_each_were_a_record() -> None:
    """Of 4 + 1 + 2 pieces of each unit 5 are kept: chi-square at a nominal 1e-10, 140 expected or more.

    It can fail: if the words do not depend on the unit, all units keep the same.
    """
    bounds = RecordBounds(max_records=5, max_weight=2, signed=True)
    pieces, units = [(0, 2)] * 4 + [(0, 1)] + [(1, -2)] * 2, 3000
    rows = [(f"unit {unit}", "x", *net) for unit in range(units) for net in ((0, 9), (1, -4))]
    choices = Counter(tuple(sorted(chosen)) for chosen in itertools.combinations(pieces, 5))
    expected = [units * times / choices.total() for times in choices.values()]
    assert min(expected) >= 140

    def p_value(bound: RecordRule) -> float:
        kept_of: dict[bytes, list[Any]] = defaultdict(list)
        for (unit, _, *piece), times in kept(bound, [table(rows)]).items():
            kept_of[unit] += [tuple(piece)] * times
        counts = Counter(tuple(sorted(found)) for found in kept_of.values())
        assert set(counts) <= set(choices)
        return float(stats.chisquare([counts[choice] for choice in choices], expected).pvalue)

    assert p_value(RecordRule(bounds, priorities())) > 1e-10
    same = priorities()
    same._hash_records = lambda records: KeyedPriorities._hash_records(same, records.drop_columns(["unit"]))  # type: ignore[method-assign]
    assert p_value(RecordRule(bounds, same)) < 1e-10


@pytest.mark.slow
def test_over_release_ids_every_record_is_as_likely() -> None:
    """Chi-square at a nominal 1e-10, an approximation that is good here to a factor of a few."""
    bounds = RecordBounds(max_records=2)
    rows = [("A", "x", 0, 1)] * 6 + [("A", "x", item, 1) for item in range(1, 5)]
    counts: Counter[int] = Counter()
    trials = 3000
    for trial in range(trials):
        for (_, _, item, _), times in kept(RecordRule(bounds, priorities(f"release {trial}")), [table(rows)]).items():
            counts[item] += times
    expected = [2 * trials * share for share in (0.6, 0.1, 0.1, 0.1, 0.1)]
    assert stats.chisquare([counts[item] for item in range(5)], expected).pvalue > 1e-10
    whole_groups = [2 * trials * share for share in (1 / 5,) * 5]
    assert stats.chisquare([counts[item] for item in range(5)], whole_groups).pvalue < 1e-10


def test_equal_records_are_counted_and_not_held() -> None:
    bound = RecordRule(RecordBounds(1), priorities())
    assert len(bound.prune(table([("A", "x", 0, 1)] * 1000))) == 1


@given(rows=st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1, max_size=40), data=st.data())
def test_numbers_as_ids_are_bounded_as_their_canonical_bytes(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    bound = RecordRule(RecordBounds(max_records=2), priorities())

    def part(rows: list[tuple[int, int]], as_numbers: bool) -> pa.Table:
        units, items = [unit for unit, _ in rows], pa.array([item for _, item in rows], pa.uint64())
        ids = pa.array(units, pa.int64()) if as_numbers else pa.array(list(map(encode, units)), pa.large_binary())
        return pa.table({"unit": ids, "item": items, "weight": pa.array([1] * len(rows))})

    cut = data.draw(st.integers(0, len(rows)))
    first, second = part(rows[:cut], as_numbers=True), part(rows[cut:], data.draw(st.booleans()))
    whole = bound.select(part(rows, as_numbers=False))
    for parts in ([first, second], [bound.prune(first), second], [first, bound.prune(second)]):
        kept = bound.select(concat_tables(parts))
        assert Counter(map(str, kept.to_pylist())) == Counter(map(str, whole.to_pylist()))


@pytest.mark.parametrize("chosen", [RandomPriorities(), priorities()], ids=["random", "keyed"])
@pytest.mark.parametrize("units", [20, 1])
def test_signed_bounds_take_memory_for_records_only(units: int, chosen: Any) -> None:
    """Twenty heavy records; written out, what is kept would be a million rows for each unit."""
    bounds = RecordBounds(max_records=1_000_000, max_weight=2, signed=True)
    rows = [(f"unit {item % units}", "x", item, 2_000_001 * (-1) ** item) for item in range(20)]
    bound = RecordRule(bounds, chosen)
    selected = bound.select(concat_tables([bound.prune(table(rows[:9])), bound.prune(table(rows[9:]))]))
    assert 0 < len(selected) <= 2 * len(rows)
    assert selected.nbytes < 100 * 2 * len(rows)
    assert sum(selected["copies"].to_pylist()) == 1_000_000 * units
    weights = total_weights(selected, bounds)
    assert 2_000_000 * units - 20 <= np.abs(weights).sum() <= 2_000_000 * units


def test_what_is_made_of_the_secret_is_not_pickled() -> None:
    used = priorities()
    assert used.salt == priorities().salt
    assert pickle.loads(pickle.dumps(used))._salt is None


HOT = [{"user": f"u{number % 5}", "item": number % 11, "key": "ab"[number % 2]} for number in range(300)]
USER = PrivacyId("user", RecordBounds(3))


def stamped(row: Any) -> Any:
    return window.TimestampedValue(row, row["item"] * 10)


class Windowed(beam.PTransform):
    """Rows to windows of 20 seconds, to a transform."""

    def __init__(self, transform: beam.PTransform) -> None:
        super().__init__()
        self._transform = transform

    def expand(self, pcoll: beam.PCollection) -> beam.PCollection:
        return pcoll | beam.Map(stamped) | beam.WindowInto(window.FixedWindows(20)) | self._transform


AB = PublicKeys(["a", "b"], "key")
PIPELINES = {
    "globally": PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=USER),
    "per key": PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=in_keys(USER, AB), keys=AB),
    "windows": PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=USER),
    "over windows": PrivateFrequencies(
        SPEC, PRIVACY, item="item", privacy_unit=PrivacyId("user", USER.bounds, max_windows=2)
    ),
}


def released_bytes(rows: list[Any], name: str, runner: str) -> list[bytes]:
    transform: Any = PIPELINES[name].with_idempotent_noise(**TERMS)
    transform = Windowed(transform) if "windows" in name else transform
    outputs = run(rows, transform, runner=runner)
    return sorted((output[1] if type(output) is tuple else output).to_bytes() for output in outputs)


@pytest.mark.one_fast_case
@pytest.mark.pipeline
@pytest.mark.parametrize("name", PIPELINES)
def test_running_again_releases_identical_bytes(name: str) -> None:
    again = np.random.default_rng(3).permutation(np.array(HOT, dtype=object)).tolist()
    first, second = released_bytes(HOT, name, "FnApiRunner"), released_bytes(again, name, BUNDLE_BASED)
    assert first == second
    assert len(first) == {"globally": 1, "per key": 2, "windows": 6, "over windows": 5}[name]


def test_first_windows_of_a_stream_are_no_function_of_the_secret() -> None:
    in_periods = PrivacyId("user", USER.bounds, max_windows=2, period=100)
    limited = PrivateFrequencies(SPEC, PRIVACY, item="item", privacy_unit=in_periods)
    of_horizon = PrivacyId("user", USER.bounds, max_windows=2)
    continual = PrivateFrequencies(SPEC, PRIVACY, windows=Horizon(0, 10, 4), item="item", privacy_unit=of_horizon)
    for transform, windows in ((limited, window.FixedWindows(20)), (continual, window.GlobalWindows())):

        def build(pipeline: beam.Pipeline, transform: Any = transform, windows: Any = windows) -> beam.PCollection:
            elements = pipeline | beam.Create(HOT)
            elements.is_bounded = False
            windowed = elements | beam.WindowInto(windows)
            windowed.is_bounded = False
            return windowed | transform.with_idempotent_noise(**TERMS)

        with pytest.raises(WindowingError, match=r"with_idempotent_noise .* Use bounded input"):
            seen_by_sink(build)
