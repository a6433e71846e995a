"""`release`: the statement says what was done, noise is new each time, and nothing of the raw sketch leaks."""

from __future__ import annotations

import ast
import copy
import os
import pathlib
import pickle
from fractions import Fraction

import numpy as np
import pytest

import beam_dpsketch
from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    CountMin,
    CountSketch,
    PrivacySpec,
    RecordBounds,
    ReleaseTerms,
    SketchSpec,
    release,
)
from beam_dpsketch.noise import tables
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.privacy.contributions import PrivacyUnit
from beam_dpsketch.privacy.terms import Disclosure
from tests.helpers import by_hand, strategies
from tests.helpers.raw import raw_of

SPEC = SketchSpec(depth=5, width=64)
PRIVACY = PrivacySpec(rho=0.5)
ID_BOUNDS = RecordBounds(max_records=3, max_keys=2, max_weight=4)


@pytest.mark.parametrize(
    ("kind", "relation", "squared_sensitivity"),
    [
        (CountMin, ADD_OR_REMOVE_ONE, 5 * 144 * 2),
        (CountMin, REPLACE_ONE, 2 * 5 * 144 * 2),
        (CountSketch, ADD_OR_REMOVE_ONE, 5 * 144 * 2),
        (CountSketch, REPLACE_ONE, 4 * 5 * 144 * 2),
    ],
)
def test_the_statement_says_what_was_asked_and_what_noise_that_took(kind, relation, squared_sensitivity):
    raw = raw_of(kind, SPEC).accumulate(["a"], [4])
    privacy = PrivacySpec(rho=0.1, relation=relation)
    answer = release(
        raw,
        ReleaseTerms(
            privacy, ID_BOUNDS, privacy_unit=PrivacyUnit.PRIVACY_ID, window_count=3, disclosed=Disclosure.KEYS
        ),
    )
    statement = answer.privacy
    assert type(answer) is by_hand.RELEASED[kind]
    assert answer.spec is raw.spec
    assert statement.rho == Fraction(1, 10)
    assert statement.sigma_squared == Fraction(squared_sensitivity * 3) / (2 * Fraction(1, 10))
    alone = PrivacySpec(rho=0.1, relation=relation, summary_counts=None)
    assert statement.sigma_squared_per_level == calibrate(
        raw.spec, ReleaseTerms(alone, ID_BOUNDS, privacy_unit=PrivacyUnit.PRIVACY_ID, window_count=3)
    )
    assert statement.relation is relation
    assert statement.privacy_unit is PrivacyUnit.PRIVACY_ID
    assert statement.bounds is ID_BOUNDS
    assert (statement.window_count, statement.disclosed) == (3, Disclosure.KEYS)
    assert [len(release_id) for release_id in statement.release_ids] == [48]


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_bounds_are_required_once_weights_were_given(kind):
    raw = raw_of(kind, SPEC).accumulate(["a"], [1])
    with pytest.raises(ValueError, match="bounds must set max_weight for a sketch with weights"):
        release(raw, ReleaseTerms(PRIVACY))
    with pytest.raises(ValueError, match="bounds must set max_weight"):
        release(raw_of(kind, SPEC).merge(raw), ReleaseTerms(PRIVACY))
    assert release(raw_of(kind, SPEC).accumulate(["a"]), ReleaseTerms(PRIVACY)).privacy.bounds == RecordBounds(1)


@pytest.mark.parametrize("privacy_unit", [PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_THIS_RELEASE])
def test_bounds_that_let_one_record_contribute_several_are_refused(privacy_unit):
    with pytest.raises(ValueError, match="if the privacy unit is a record"):
        release(raw_of(CountMin, SPEC), ReleaseTerms(PRIVACY, ID_BOUNDS, privacy_unit=privacy_unit))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"terms": PRIVACY}, "terms must be a ReleaseTerms, got PrivacySpec"),
        ({"raw": np.zeros((2, 2))}, "raw must be a"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused_by_name(arguments, message):
    with pytest.raises(TypeError, match=message):
        release(**{"raw": raw_of(CountMin, SPEC), "terms": ReleaseTerms(PRIVACY), **arguments})


def test_a_release_is_not_released_again():
    with pytest.raises(TypeError, match="raw must be a"):
        release(release(raw_of(CountMin, SPEC), ReleaseTerms(PRIVACY)), ReleaseTerms(PRIVACY))


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_the_raw_sketch_is_left_as_it_is(kind):
    raw = raw_of(kind, SPEC).accumulate(range(1000))
    before = raw.counters.copy()
    release(raw, ReleaseTerms(PRIVACY))
    np.testing.assert_array_equal(raw.counters, before)
    assert raw == raw_of(kind, SPEC).accumulate(range(1000))


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_two_releases_have_other_noise_and_other_ids(kind):
    raw = raw_of(kind, SPEC).accumulate(range(1000))
    first, second = release(raw, ReleaseTerms(PRIVACY)), release(raw, ReleaseTerms(PRIVACY))
    assert (first.counters != second.counters).any()
    assert first.privacy.release_ids != second.privacy.release_ids
    assert first != second


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_released_counters_are_whole_where_there_is_much_noise_and_cannot_be_changed(kind):
    answer = release(raw_of(kind, SPEC).accumulate(["a"]), ReleaseTerms(PRIVACY))
    assert answer.counters.dtype == np.float64
    assert release(raw_of(kind, SPEC), ReleaseTerms(PrivacySpec(rho=0.01))).counters.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        answer.counters[0, 0] = 1


def test_no_float_exists_between_the_input_and_the_release(monkeypatch):
    """What is handed to the sampler is an exact fraction, and counters are integers before and after."""
    from beam_dpsketch.privacy.noise import drawing

    seen = []

    def add_noise(counters, sigma_squared, *bits, **source):
        seen.append((counters.dtype, type(sigma_squared)))
        return drawing.add_noise(counters, sigma_squared, *bits, **source)

    monkeypatch.setattr(tables, "add_noise", add_noise)
    release(raw_of(CountMin, SPEC).accumulate(["a"]), ReleaseTerms(PrivacySpec(rho=0.1)))
    assert seen == [(np.dtype(np.int64), Fraction)]


@pytest.mark.parametrize("kind", strategies.KINDS)
@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy])
def test_copies_and_pickles_do_not_draw_noise_again(kind, copied, monkeypatch):
    answer = release(raw_of(kind, SPEC).accumulate(["a"]), ReleaseTerms(PRIVACY))
    monkeypatch.setattr(os, "urandom", None)
    again = copied(answer)
    assert again == answer
    assert hash(again) == hash(answer)
    assert again.privacy == answer.privacy
    np.testing.assert_array_equal(again.counters, answer.counters)


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_repr_shows_no_counters(kind):
    answer = by_hand.released(kind, SketchSpec(depth=1, width=2), [[8_675_309, -8_675_309]])
    assert "8675309" not in repr(answer) + str(answer)
    assert "rho=0.5" in repr(answer)


@pytest.mark.parametrize("kind", strategies.KINDS)
def test_a_release_cannot_accumulate_or_merge(kind):
    for name in ("accumulate", "accumulate_keys", "merge"):
        assert not hasattr(by_hand.RELEASED[kind], name)


@pytest.mark.parametrize("counters", [np.zeros((2, 3)), np.zeros((3, 3), dtype=np.int64), np.zeros(5, dtype=np.int64)])
def test_a_release_has_as_many_int64_counters_as_its_spec(counters):
    with pytest.raises(ValueError, match="counters must have"):
        by_hand.RELEASED[CountMin](SketchSpec(kind="count_min", depth=2, width=3), counters, by_hand.statement())


def test_a_flat_release_has_one_level_of_noise():
    with pytest.raises(ValueError, match="level"):
        by_hand.released(
            CountMin, SketchSpec(depth=1, width=1), [[0]], sigma_squared_per_level=(Fraction(1), Fraction(1))
        )


def importing(*names: str) -> set[str]:
    """The modules of the package that import one of these names."""
    package = pathlib.Path(beam_dpsketch.__file__).parent
    return {
        path.relative_to(package).with_suffix("").as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and any(name.name in names for name in node.names)
    }


def test_only_tables_draw_noise():
    """Nothing else in the package names it, but for the table of probabilities that chooses keys."""
    assert importing("add_noise") == {"noise/tables"}
    assert importing("KeepTable", "geometric_table") == {"noise/keys"}


def test_only_a_run_chooses_and_names_what_is_drawn():
    """Pipelines and tables ask it. Counts draw their votes. By hand and in simulations no run is needed."""
    assert importing("choose_norm", "draw_of", "release_randomness", "timeline_of_run") == {"noise/run"}
    assert importing("find_chosen") == {"noise/counting", "noise/run"}
    assert importing("release_parts") == {"by_hand", "noise/run", "planning/expected_error"}
