"""What all releases share: one set of questions, types that are checked, and short reprs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    CountMin,
    CountSketch,
    DyadicCountSketch,
    FormatError,
    Frequencies,
    Frequency,
    IncompatibleSketchError,
    IntegerDomain,
    PrivacySpec,
    ReleasedCountMin,
    ReleasedCountSketch,
    ReleasedDyadicCountSketch,
    ReleasedFrequencies,
    ReleasedSketch,
    ReleaseTerms,
    SketchSpec,
    TreeSpec,
    release,
)
from tests.helpers.raw import raw_of

FLAT, TREE = SketchSpec(depth=5, width=256), TreeSpec.for_memory(IntegerDomain(0, 63))
RAW: dict[type[ReleasedSketch], Any] = {
    ReleasedCountMin: lambda: raw_of(CountMin, FLAT).accumulate([7] * 900 + [9] * 300),
    ReleasedCountSketch: lambda: CountSketch(FLAT).accumulate([7] * 900 + [9] * 300),
    ReleasedDyadicCountSketch: lambda: DyadicCountSketch(TREE).accumulate([7] * 900 + [9] * 300),
}
KINDS = list(RAW)
BASES = {
    ReleasedSketch: set(KINDS),
    ReleasedFrequencies: {ReleasedCountMin, ReleasedCountSketch},
    **{kind: {kind} for kind in KINDS},
}


@functools.cache
def released(kind: type[ReleasedSketch]) -> ReleasedSketch:
    return release(RAW[kind](), ReleaseTerms(PrivacySpec(rho=1.0)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_release_answers_the_same_questions_in_the_same_shapes(kind: type[ReleasedSketch]) -> None:
    """Errors have sd < 40 (Count-Min: less than 100 above): 7 sd and more have a probability below 1e-10."""
    it, asked = released(kind), [9, 8, 7]
    many = it.estimate(asked)
    assert (many.dtype, many.shape) == (np.float64, (3,))
    assert many == pytest.approx([300, 0, 900], abs=290)
    assert [it.estimate(item) for item in asked] == many.tolist()
    rows = it.interval(asked, 0.9)
    assert type(rows) is Frequencies
    assert [it.interval(item, 0.9) for item in asked] == list(rows)
    assert type(it.interval(asked[0])) is Frequency
    assert it.as_rows(asked, 0.9) == rows.to_rows()
    top = it.top_k(2, asked, 0.9)
    assert type(top) is Frequencies
    assert list(top) == [rows[2], rows[0]]
    assert len(it.estimate([])) == len(it.interval([])) == len(it.as_rows([])) == len(it.top_k(1, [])) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_trees_search_and_flat_sketches_need_candidates(kind: type[ReleasedSketch]) -> None:
    if kind in BASES[ReleasedFrequencies]:
        with pytest.raises(ValueError, match="candidates must be given, because this release stores no items"):
            released(kind).top_k(2)
    else:
        found = released(kind).top_k(2)
        assert found.item == (7, 9)
        assert found.detection_limit is not None


@pytest.mark.parametrize("kind", KINDS)
def test_no_type_but_its_own_reads_a_release(kind: type[ReleasedSketch]) -> None:
    data = released(kind).to_bytes()
    for base, kinds in BASES.items():
        if kind in kinds:
            assert type(base.from_bytes(data)) is kind
        else:
            message = f"not a {base.__name__} but a {kind.__name__}; Released.from_bytes reads every kind"
            with pytest.raises(FormatError, match=message):
                base.from_bytes(data)


@pytest.mark.parametrize("kind", KINDS)
def test_reprs_are_short_and_html_is_escaped(kind: type[ReleasedSketch]) -> None:
    it = released(kind)
    size = "5 x 256 counters" if kind in BASES[ReleasedFrequencies] else f"{it.spec.cells} counters"
    assert repr(it).startswith(f"<{kind.__name__} of ")
    assert f"{size}, rho=1" in repr(it)
    assert [len(line) < 150 for line in repr(it).splitlines()] == [True, True]
    assert size in it._repr_html_()
    assert "How well: rho = 1 zCDP" in it._repr_html_()
    assert "<Released" not in it._repr_html_()


def test_what_differs_is_named_where_releases_do_not_fit() -> None:
    flat = released(ReleasedCountSketch)
    other = release(CountSketch(SketchSpec(depth=5, width=64, seed=3)), ReleaseTerms(PrivacySpec(rho=1.0)))
    with pytest.raises(IncompatibleSketchError, match=r"these differ in width, seed \[dpsketch-E705\]$"):
        flat.combine(other)
    with pytest.raises(IncompatibleSketchError, match=r"these differ in kind \[dpsketch-E705\]$"):
        flat.combine(released(ReleasedCountMin))
