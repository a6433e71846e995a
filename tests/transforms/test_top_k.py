"""`PrivateTopK` as its users see it: addresses, numbers, text and bytes, with and without keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    BytesDomain,
    DyadicCountSketch,
    IPv4Domain,
    PrefixSpec,
    PrefixTree,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleasedDyadicCountSketch,
    ReleasedPrefixTree,
    SketchSpec,
    TextDomain,
    TreeSpec,
)
from beam_dpsketch.transforms import PrivateTopK, ReadReleases, WriteReleases
from tests.helpers.pipelines import run, seen_by_sink
from tests.helpers.tree_pipelines import exact_vectors

PRIVACY = PrivacySpec(rho=1.0)
WORDS = ["to"] * 4000 + ["tea"] * 3000 + ["", "ten"] * 2000 + ["t"] * 1000
ADDRESSES = ["10.0.0.1"] * 4000 + ["10.0.0.2"] * 3000 + ["9.9.9.9"] * 2000


def found(top: Any) -> list[Any]:
    return [row.item for row in top]


def prefix_vector(domain: BytesDomain, items: Any, weights: Any = None) -> np.ndarray:
    return PrefixTree(PrefixSpec.for_memory(domain)).accumulate(items, weights).to_vector()


def test_the_heaviest_addresses_are_found() -> None:
    (top,) = run(ADDRESSES, PrivateTopK(IPv4Domain(), PRIVACY, k=2, unit=Record()))
    assert found(top) == ["10.0.0.1", "10.0.0.2"]
    assert isinstance(top.release, ReleasedDyadicCountSketch)
    spec = top.release.spec
    assert spec == TreeSpec.for_memory(IPv4Domain(), arity=16, leaf_share=Fraction(1, 2))
    assert top.release.top_k(2) == top
    assert top.to_rows() == top.release.top_k(2).to_rows()
    assert top.release.privacy.rho == 1


def test_the_most_frequent_words_are_found_short_ones_too() -> None:
    """Counts differ by 1,000 and more, at 10 for the detection limit: a miss has probability < 1e-9."""
    (top,) = run(WORDS, PrivateTopK(TextDomain(5), PRIVACY, k=5, unit=Record()))
    assert isinstance(top.release, ReleasedPrefixTree)
    assert found(top)[:2] == ["to", "tea"]
    assert set(found(top)) == {"to", "tea", "", "ten", "t"}
    assert top.truncated == frozenset()


@pytest.mark.one_fast_case
@pytest.mark.parametrize(
    "unit", [Record(), PrivacyId("user", RecordBounds(1, max_keys=1))], ids=["record", "privacy id"]
)
def test_rows_pairs_and_batches_of_words_have_the_same_counters(unit: Any) -> None:
    rows = [{"key": f"k{number % 2}", "word": word, "user": str(number)} for number, word in enumerate(WORDS[::50])]
    rows += [{"key": "k0", "word": None, "user": "x"}, {"key": "other", "word": "to", "user": "x"}]
    keyed = PrivateTopK(
        TextDomain(5), PRIVACY, k=3, item="word", unit=unit, keys=PublicKeys(["k0", "k1", "absent"], "key")
    )
    table = pa.Table.from_pylist(rows)
    expected = {
        key: prefix_vector(
            TextDomain(5), [row["word"] for row in rows if row["key"] == key and row["word"] is not None]
        )
        for key in ("k0", "k1", "absent")
    }
    for elements in (rows, [table], table.to_batches(max_chunksize=100), [table.to_pandas()]):
        vectors = exact_vectors(elements, keyed)
        assert set(vectors) == set(expected)
        for key, vector in vectors.items():
            np.testing.assert_array_equal(vector, expected[key])
    if unit == Record():
        pairs = [(row["key"], row["word"]) for row in rows]
        paired = PrivateTopK(TextDomain(5), PRIVACY, k=3, unit=Record(), keys=PublicKeys(["k0", "k1", "absent"]))
        for key, vector in exact_vectors(pairs, paired).items():
            np.testing.assert_array_equal(vector, expected[key])


BYTES = [b"", b"\0", b"\0\0", b"a\0", b"a", b"\xff\xfe", b"longer than that", b"long"]


@pytest.mark.one_fast_case
@pytest.mark.parametrize("signed", [False, True])
def test_the_bounded_path_keeps_every_byte_of_strange_items(signed: bool) -> None:
    """Zero bytes at the end are what arrays of fixed-size bytes lose."""
    rows = [{"user": number, "item": item} for number, item in enumerate(BYTES)]
    bounds = RecordBounds(1, signed=signed)
    transform = PrivateTopK(BytesDomain(4), PRIVACY, k=1, item="item", unit=PrivacyId("user", bounds))
    expected = prefix_vector(BytesDomain(4), BYTES)
    for elements in (rows, [pa.Table.from_pylist(rows)]):
        np.testing.assert_array_equal(exact_vectors(elements, transform), expected)


def test_deleted_words_might_never_have_been_there() -> None:
    """Netting is by what the tree sees: a long word and another of the same beginning are one item."""
    bounds = RecordBounds(max_per_key=2, max_weight=5, signed=True)
    rows = [("u", "kept", 3), ("u", "gone", 5), ("u", "gone", -5), ("v", "longest", 4), ("v", "longer", -4)]
    transform = PrivateTopK(TextDomain(4), PRIVACY, k=1, item=second, weight=third, unit=PrivacyId(first, bounds))
    np.testing.assert_array_equal(exact_vectors(rows, transform), prefix_vector(TextDomain(4), ["kept"], [3]))


def first(row: Any) -> Any:
    return row[0]


def second(row: Any) -> Any:
    return row[1]


def third(row: Any) -> Any:
    return row[2]


def test_each_privacy_id_counts_as_often_as_allowed() -> None:
    rows = [("one", f"w{number}") for number in range(100)] + [("two", "x")]
    bounds = RecordBounds(max_per_key=3)
    transform = PrivateTopK(TextDomain(4), PRIVACY, k=1, item=second, unit=PrivacyId(first, bounds))
    tree = PrefixTree.from_vector(PrefixSpec.for_memory(TextDomain(4)), exact_vectors(rows, transform))
    # All words of "one" share their first byte; "x" may share its column in a row.
    rows_of_first_level = np.abs(tree.levels[0].counters).sum(axis=1)
    assert set(rows_of_first_level.tolist()) <= {2, 4}


@pytest.mark.slow
def test_keys_get_a_list_each_absent_ones_too() -> None:
    pairs = [("a", word) for word in WORDS] + [("b", "other")] * 2000
    transform = PrivateTopK(TextDomain(5), PRIVACY, k=1, unit=Record(), keys=PublicKeys(["a", "absent"]))
    outputs = dict(run(pairs, transform))
    assert set(outputs) == {"a", "absent"}
    assert found(outputs["a"]) == ["to"]


@pytest.mark.slow
def test_dyadic_exact_counters_are_those_of_the_raw_tree() -> None:
    transform = PrivateTopK(IPv4Domain(), PRIVACY, k=3, unit=Record())
    spec = TreeSpec.for_memory(IPv4Domain(), arity=16, leaf_share=Fraction(1, 2))
    np.testing.assert_array_equal(
        exact_vectors(ADDRESSES, transform), DyadicCountSketch(spec).accumulate(ADDRESSES).to_vector()
    )


def test_replayed_bundles_show_the_sink_one_list() -> None:
    transform = PrivateTopK(TextDomain(5), PRIVACY, k=3, unit=Record())
    seen = seen_by_sink(
        lambda pipeline: pipeline | beam.Create(WORDS[::100]) | transform, "--direct_runner_bundle_repeat=3"
    )
    assert len({top.release.to_bytes() for top in seen}) == 1


@pytest.mark.slow
def test_lists_are_written_as_their_releases_and_come_back(tmp_path: Path) -> None:
    transform = PrivateTopK(TextDomain(5), PRIVACY, k=3, unit=Record(), keys=PublicKeys(["a", "b"]))

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        lists = pipeline | beam.Create([("a", word) for word in WORDS]) | transform
        lists | WriteReleases(str(tmp_path / "top"))
        return lists

    lists = dict(seen_by_sink(build))
    read = dict(seen_by_sink(lambda pipeline: pipeline | ReadReleases(str(tmp_path / "top*"))))
    assert set(read) == set(lists) == {"a", "b"}
    assert {key: (tree, tree.top_k(3)) for key, tree in read.items()} == {
        key: (top.release, top) for key, top in lists.items()
    }
    assert [row["item"] for row in lists["a"].to_rows()][:2] == ["to", "tea"]


@pytest.mark.parametrize("domain", [TextDomain(5), IPv4Domain()])
def test_explain_says_what_will_be_found_and_never_refuses(domain: Any) -> None:
    keyed = PrivateTopK(domain, PRIVACY, k=3, unit=Record(), keys=AssumePublicKeys())
    for transform in (globally(domain, unit=Record()), keyed):
        assert "Found: with 95 % probability, values with" in transform.explain()
        assert "n adds what about n records would give" in transform.explain()
        assert re.search(r"on 10,000 records .* of the values are that frequent", transform.explain(10_000))
        assert "much noise" in transform.explain(1)


def globally(domain: Any = TextDomain(5), k: Any = 3, unit: Any = Record(), **arguments: Any) -> Any:  # noqa: B008
    return PrivateTopK(domain, PRIVACY, k=k, unit=unit, **arguments)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no unit": (lambda: globally(unit=None), r"unit must be PrivacyId\(.*, or Record\(\), .* got NoneType"),
    "a word as unit": (lambda: globally(unit="record"), r"unit must be PrivacyId\(.*, or Record\(\), .* got str"),
    "no values": (lambda: globally(k=0), "k must be between 1 and"),
    "fewer": (lambda: globally(k=-3), "k must be between 1 and"),
    "a float": (lambda: globally(k=2.0), "k must be a whole number, got float"),
    "little memory for words": (
        lambda: globally(PrefixSpec.for_memory(TextDomain(5), 100)),
        "memory must be at least 1600 bytes for 5 levels of 5 rows",
    ),
    "little memory for addresses": (
        lambda: globally(TreeSpec.for_search(IPv4Domain(), 100)),
        "memory must be at least 2560 bytes",
    ),
    "a type as domain": (lambda: globally(str), "domain must be a Domain, got"),
    "a flat sketch": (lambda: globally(SketchSpec()), "domain must be a Domain, got SketchSpec"),
    "keys that decide nothing": (
        lambda: PrivateTopK(TextDomain(5), PRIVACY, k=1, unit=Record(), keys=["a"]),
        r"keys must be PublicKeys\(\[...\]\), KeySelection\(delta=1e-8\) or AssumePublicKeys\(\): .*; got list",
    ),
    "no values of keys": (
        lambda: PrivateTopK(TextDomain(5), PRIVACY, k=0, unit=Record(), keys=AssumePublicKeys()),
        "k must be between 1 and",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_settings_are_refused_while_the_pipeline_is_built(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        build()


@pytest.mark.slow
def test_any_layout_of_a_tree_can_be_searched() -> None:
    for spec in (PrefixSpec.for_memory(TextDomain(5), 50_000), TreeSpec.for_memory(IPv4Domain(), arity=4)):
        values = WORDS if isinstance(spec, PrefixSpec) else ADDRESSES
        (top,) = run(values, globally(spec, k=1))
        assert top.release.spec == spec
        assert found(top) == values[:1]


@pytest.mark.parametrize("unit", [Record(), PrivacyId("user", RecordBounds(1))], ids=["record", "privacy id"])
def test_a_column_none_of_whose_values_could_count_is_an_error(unit: Any) -> None:
    table = pa.table({"word": [b"bytes"], "user": [1]})
    with pytest.raises(Exception, match=r"item='word' must hold text \(TextDomain\), got binary"):
        run([table], globally(item="word", unit=unit))
