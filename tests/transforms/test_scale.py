"""Work is parted by the expected size, and no release depends on it, to the last byte."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest

from beam_dpsketch import (
    AutoNorm,
    IntegerDomain,
    KeySelection,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    Scale,
    SketchSpec,
    TextDomain,
    Thresholding,
)
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.bounding import parts as module
from beam_dpsketch.transforms import EnvironmentSecret, PrivateFrequencies, PrivateQuantiles, PrivateTopK, SelectKeys
from beam_dpsketch.transforms.steps import bounding
from tests.helpers import laws
from tests.helpers.pipelines import run

PRIVACY, SPEC = PrivacySpec(rho=1), SketchSpec(depth=2, width=8)
CHOSEN = KeySelection(1e-7, "city")
CITIES = PublicKeys(["Oslo", "Rome", "absent"], "city")
ROWS = [
    {"person": n % 23, "city": ("Oslo", "Rome")[n % 2], "value": n * n % 40, "word": "ab"[n % 2]} for n in range(300)
]
FIVE = PrivacyId("person", RecordBounds(5))
FIVE_OF_A_KEY = PrivacyId("person", RecordBounds(5, max_keys=1))
CASES: dict[str, Callable[[], Any]] = {
    "records": lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=Record(), item="value"),
    "bounds": lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=FIVE, item="value"),
    "a norm": lambda: PrivateFrequencies(SPEC, PRIVACY, privacy_unit=PrivacyId("person", NormBound(2)), item="value"),
    "a chosen norm": lambda: PrivateFrequencies(
        SPEC, PRIVACY, privacy_unit=PrivacyId("person", AutoNorm()), item="value"
    ),
    "listed keys": lambda: PrivateQuantiles(
        IntegerDomain(0, 39),
        PRIVACY,
        privacy_unit=PrivacyId("person", RecordBounds(2, max_keys=2)),
        item="value",
        keys=CITIES,
    ),
    "chosen keys": lambda: PrivateFrequencies(
        SPEC, PrivacySpec(rho=20), privacy_unit=FIVE_OF_A_KEY, item="value", keys=CHOSEN
    ),
    "keys alone": lambda: SelectKeys(PrivacySpec(rho=20), privacy_unit=FIVE_OF_A_KEY, keys=CHOSEN),
    "grouped counts": lambda: PrivateTopK(
        TextDomain(2), PrivacySpec(rho=20), privacy_unit=FIVE_OF_A_KEY, item="word", k=2, method=Thresholding(1e-7)
    ),
}
HUGE = Scale(rows=10**12)


def outputs_of(transform: Any) -> list[Any]:
    secret = EnvironmentSecret("DPSKETCH_TEST_SECRET")
    found = run(ROWS, transform.with_idempotent_noise(release_id="one", secret=secret))
    return sorted(map(repr, map(in_bytes, found)))


def in_bytes(output: Any) -> Any:
    if isinstance(output, tuple) and len(output) == 2:
        return output[0], in_bytes(output[1])
    released = getattr(output, "release", output)
    return released.to_bytes() if hasattr(released, "to_bytes") else released


@pytest.mark.one_fast_case
@pytest.mark.parametrize("case", CASES)
def test_releases_are_the_same_in_any_parts(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPSKETCH_TEST_SECRET", "planted-secret-4711-4711-4711-4711-4711")
    monkeypatch.setattr(module, "_MOST_SHARDS", 1024)
    assert outputs_of(CASES[case]().with_size_hint(HUGE)) == outputs_of(CASES[case]())


def test_more_rows_have_more_parts_and_a_step_between() -> None:
    small, large = Scale(rows=1000), Scale(rows=10**10)
    assert (bounding.shards_for(None), bounding.shards_for(small)) == (256, 256)
    assert bounding.shards_for(large) == 4096
    assert bounding.shards_for(HUGE) == bounding.shards_for(Scale(rows=1 << 60)) == 1 << 14
    assert [each.fanout(None) for each in (small, large, HUGE)] == [1, 316, 3162]
    assert [each.fanout(bounding.shards_for(each)) for each in (small, large, HUGE)] == [1, 64, 128]
    assert Scale(rows=10**10, keys=1000).sums(None) == Scale(rows=10**10).sums(None) == 100_000
    assert Scale(rows=10**10, keys=10**7).sums(None) == 1000


def steps_of(transform: Any) -> set[str]:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(ROWS) | transform
    found: set[str] = set()

    class Visitor(beam.pipeline.PipelineVisitor):
        def visit_transform(self, node: Any) -> None:
            found.add(node.full_label)

        def enter_composite_transform(self, node: Any) -> None:
            found.add(node.full_label)

    pipeline.visit(Visitor())
    return found


@pytest.mark.parametrize("case", ["records", "bounds", "listed keys"])
def test_huge_sums_are_added_up_in_two_steps(case: str) -> None:
    step = "AddUpFirst" if case == "listed keys" else "PreCombineFn"
    for made, in_two in ((CASES[case](), False), (CASES[case]().with_size_hint(HUGE), True)):
        assert any(step in label for label in steps_of(made)) == in_two


def test_the_words_tell_what_travels_and_who_holds_most() -> None:
    words = CASES["a norm"]().with_size_hint(HUGE).explain()
    assert "Scale: about 50 TB of records travel to 16,384 shards of privacy ids. One worker bounds the 61," in words
    assert " records of a shard, in 64 part(s); all of them wait, in about 3.3 GB of memory." in words
    assert (
        "Scale: 128 workers add up the sums of each release, and the last worker adds up about 128 sum(s) of" in words
    )
    assert "sum(s)" not in CASES["grouped counts"]().with_size_hint(HUGE).explain()
    assert "Scale" not in CASES["a norm"]().explain()
    assert "shards" not in CASES["records"]().with_size_hint(HUGE).explain()


@pytest.mark.parametrize("norm", [NormBound(2), AutoNorm()])
def test_a_norm_that_keeps_all_is_advised_or_refused(norm: Any) -> None:
    made = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=PrivacyId("person", norm), item="value")
    limited = dataclasses.replace(norm, max_distinct_items=1000)
    with_limit = PrivateFrequencies(SPEC, PRIVACY, privacy_unit=PrivacyId("person", limited), item="value")
    large, too_large = Scale(rows=2 * 10**12), Scale(rows=10**14)
    assert "max_distinct_items" in made.with_size_hint(large).explain()
    assert "max_distinct_items" not in made.with_size_hint(HUGE).explain()
    assert "give the norm a" not in with_limit.with_size_hint(large).explain()
    with pytest.raises(ArgumentError, match=r"max_distinct_items is required for about 100,000,000,000,000 rows"):
        made.with_size_hint(too_large)
    for each in (with_limit, CASES["bounds"](), CASES["records"]()):
        each.with_size_hint(too_large)


def test_more_keys_have_more_parts() -> None:
    cells = 5 * 4096
    assert (Scale(rows=1).key_shards(cells), Scale(rows=1, keys=10**5).key_shards(cells)) == (256, 256)
    assert Scale(rows=1, keys=10**6).key_shards(cells) == 4096
    assert Scale(rows=1, keys=1 << 60).key_shards(cells) == 1 << 14
    words = CASES["chosen keys"]().with_size_hint(Scale(rows=10**9, keys=10**6)).explain()
    assert "Scale: keys go to 256 shards. One worker adds up 3,907 keys of a shard at once" in words
    assert "Scale: keys" not in CASES["chosen keys"]().with_size_hint(HUGE).explain()


def check_shards() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPSKETCH_TEST_SECRET", "planted-secret-4711-4711-4711-4711-4711")
        assert outputs_of(CASES["bounds"]().with_size_hint(HUGE)) == outputs_of(CASES["bounds"]()), "other records"


def of_the_place(exact: Any, values: Any) -> Any:
    """The shard depends on where a record is, so those of one id do not meet."""
    hashes = exact(values)
    hashes += (1 << 13) * (len(hashes) > 1)
    hashes[::2] += 1 << 12
    return hashes


test_ids_that_do_not_meet_would_be_found = laws.mutants(
    {"shards by place": laws.around(bounding, "shard_hash", of_the_place, "other records")}, check_shards, intact=True
)
