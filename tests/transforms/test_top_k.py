"""`PrivateTopK` as its users see it: addresses, numbers, text and bytes, with and without keys."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    IPv4Domain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Record,
    ReleasedCounts,
    ReleasedDyadicCountSketch,
    TextDomain,
    TreeSpec,
)
from beam_dpsketch.transforms import PrivateTopK
from tests.helpers.pipelines import run

PRIVACY = PrivacySpec(epsilon=3, delta=1e-6, noise="gaussian")
WORDS = ["to"] * 4000 + ["tea"] * 3000 + ["", "ten"] * 2000 + ["t"] * 1000
ADDRESSES = ["10.0.0.1"] * 4000 + ["10.0.0.2"] * 3000 + ["9.9.9.9"] * 2000


def found(top: Any) -> list[Any]:
    return [row.item for row in top]


def test_the_heaviest_addresses_are_found() -> None:
    (top,) = run(ADDRESSES, PrivateTopK(IPv4Domain(), PRIVACY, k=2, unit=Record()))
    assert found(top) == ["10.0.0.1", "10.0.0.2"]
    assert isinstance(top.release, ReleasedDyadicCountSketch)
    spec = top.release.spec
    assert spec == TreeSpec.for_memory(IPv4Domain(), arity=16, leaf_share=Fraction(1, 2))
    assert top.release.top_k(2) == top
    assert top.to_rows() == top.release.top_k(2).to_rows()
    assert top.release.privacy.rho == PRIVACY.rho


def test_the_most_frequent_words_are_found_short_ones_too() -> None:
    """Counts differ by 1,000 and more, at a sigma of 3: a miss has probability < 1e-9."""
    (top,) = run(WORDS, PrivateTopK(TextDomain(5), PRIVACY, k=5, unit=Record()))
    assert isinstance(top.release, ReleasedCounts)
    assert found(top)[:2] == ["to", "tea"]
    assert set(found(top)) == {"to", "tea", "", "ten", "t"}
    assert top.truncated == frozenset()


def test_explain_says_what_will_be_found_and_never_refuses() -> None:
    keyed = PrivateTopK(IPv4Domain(), PRIVACY, k=3, unit=Record(), keys=AssumePublicKeys())
    for transform in (globally(IPv4Domain()), keyed):
        assert "Found: with 95 % probability, values with" in transform.explain()
        assert "n adds what about n records would give" in transform.explain()
        assert re.search(r"Of 10,000 records .* of the values have that many", transform.explain(10_000))
        assert "much noise" in transform.explain(1)


def globally(domain: Any = TextDomain(5), k: Any = 3, unit: Any = Record(), **arguments: Any) -> Any:  # noqa: B008
    return PrivateTopK(domain, PRIVACY, k=k, unit=unit, **arguments)


@pytest.mark.slow
def test_any_layout_of_a_tree_can_be_searched() -> None:
    spec = TreeSpec.for_memory(IPv4Domain(), arity=4)
    (top,) = run(ADDRESSES, globally(spec, k=1))
    assert top.release.spec == spec
    assert found(top) == ADDRESSES[:1]


@pytest.mark.parametrize("unit", [Record(), PrivacyId("user", NormBound(1))], ids=["record", "privacy id"])
def test_a_column_none_of_whose_values_could_count_is_an_error(unit: Any) -> None:
    table = pa.table({"word": [b"bytes"], "user": [1]})
    with pytest.raises(Exception, match=r"item='word' must hold text \(TextDomain\), got binary"):
        run([table], globally(item="word", unit=unit))
