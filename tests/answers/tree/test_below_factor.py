"""Trees below a square-root factor: ranks of wide domains are closer than a plain tree's, and intervals hold."""

from __future__ import annotations

import functools
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from beam_dpsketch import (
    ArgumentError,
    DyadicCountSketch,
    FactorizationSpec,
    Horizon,
    IntegerDomain,
    IPv4Domain,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    Released,
    ReleaseSpec,
    ReleaseTerms,
    TreeSpec,
    release,
)
from beam_dpsketch.config import read_release
from beam_dpsketch.exact.sketches.trees import Level
from beam_dpsketch.noise.calibration import calibrate
from beam_dpsketch.planning.expected_error import noise_variances

RECORDS = 50_000
DOMAIN = IntegerDomain(0, (1 << 24) - 1)
SPEC = TreeSpec.for_ranks(DOMAIN, 100_000)
TERMS = ReleaseTerms(PrivacySpec(rho=0.1, summary_counts=None))
LITTLE_NOISE = ReleaseTerms(PrivacySpec(rho=300, summary_counts=None))


@functools.cache
def values_of(shape: str) -> np.ndarray:
    generator = np.random.default_rng(3)
    if shape == "heavy values":
        return generator.choice([7, 300_000, 300_001, DOMAIN.high - 1], RECORDS).astype(np.uint64)
    if shape == "an empty tail":
        return generator.integers(0, 1 << 18, RECORDS, dtype=np.uint64)
    if shape == "nothing":
        return np.zeros(0, dtype=np.uint64)
    return generator.integers(0, DOMAIN.size, RECORDS, dtype=np.uint64)


def released_of(shape: str, spec: TreeSpec = SPEC, terms: ReleaseTerms = TERMS) -> Any:
    return release(DyadicCountSketch(spec).accumulate_keys(values_of(shape), None), terms)


def true_ranks(shape: str, places: Any) -> np.ndarray:
    return np.searchsorted(np.sort(values_of(shape)), places, side="right")


PLACES = np.array([0, 6, 7, 5_000, 1 << 17, 300_000, 300_001, 1 << 20, 1 << 23, DOMAIN.high - 1, DOMAIN.high])


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["heavy values", "an empty tail", "nothing", "even"])
def test_intervals_hold(shape: str) -> None:
    """150 releases, of ranks and of ranges between neighbours among these places.

    If an interval holds with 0.95, it does in 0.95 +- 0.0178 of 150 releases; 7 deviations below, 1e-11. Where nothing
    is below a node, its weight is not known to be spread evenly, and intervals are wider.
    """
    true = true_ranks(shape, PLACES)
    ranges = np.diff(true)
    held, ranges_held = np.zeros(len(PLACES)), np.zeros(len(ranges))
    for _ in range(150):
        released = released_of(shape)
        found = released.rank_interval(PLACES)
        held += (found.lower <= true + 1e-6) & (true <= found.upper + 1e-6)
        between = released.range_interval(PLACES[:-1] + 1, PLACES[1:])
        ranges_held += (between.lower <= ranges + 1e-6) & (ranges <= between.upper + 1e-6)
    least = 0.95 - 7 * np.sqrt(0.95 * 0.05 / 150)
    assert np.all(held / 150 > least)
    assert np.all(ranges_held / 150 > least)


@pytest.mark.slow
def test_ranks_are_closer_than_those_of_a_plain_tree() -> None:
    """Over 120 releases each of even values: 0.84 of the error, with a deviation of 0.025. 1 is 6.4 of them: 1e-10."""
    places = np.linspace(0, DOMAIN.high, 500).astype(np.int64)
    true, errors = true_ranks("even", places), []
    for spec in (TreeSpec.for_ranks(DOMAIN), TreeSpec.for_memory(DOMAIN)):
        runs = [released_of("even", spec).rank(places) - true for _ in range(120)]
        errors.append(np.sqrt(np.mean(np.square(runs))))
    assert errors[0] < errors[1]


def test_one_release_answers_all() -> None:
    """Ranks have a deviation of 0.2 at most here: 3 is 15 of them, below 1e-40."""
    released = released_of("heavy values", terms=LITTLE_NOISE)
    np.testing.assert_allclose(released.rank(PLACES), true_ranks("heavy values", PLACES), atol=3)
    np.testing.assert_allclose(released.rank(PLACES, method="paper"), true_ranks("heavy values", PLACES), atol=3)
    assert released.quantile([0.1, 0.9]).estimate == (7, DOMAIN.high - 1)
    assert {7, 300_000, 300_001, DOMAIN.high - 1} == set(released.top_k(4).item)
    assert released.total_weight().estimate == pytest.approx(RECORDS, abs=3)
    assert released.histogram([0, 300_000, DOMAIN.high]).estimate[1] == pytest.approx(
        RECORDS - true_ranks("heavy values", 299_999), abs=4
    )
    assert released.chosen_method in ("least_squares", "residual")
    assert "level" in repr(released)


def test_a_known_total_is_taken_and_bytes_come_back() -> None:
    """Before, the interval spans about 55 records; with a total a few, unless a node weighs 16 times what it does."""
    released = released_of("even")
    known = released.with_total(RECORDS)
    assert known.rank(DOMAIN.high) == known.total_weight().estimate == RECORDS
    before, after = (each.rank_interval(DOMAIN.high - 5) for each in (released, known))
    assert after.upper - after.lower < before.upper - before.lower
    assert Released.from_bytes(released.to_bytes()) == released
    assert pickle.loads(pickle.dumps(known)).total_weight().estimate == RECORDS
    both = released.combine(released_of("heavy values"))
    # The deviation of a total is 14 in each of them: 250 is 12 deviations of their sum, below 1e-30.
    assert both.total_weight().estimate == pytest.approx(2 * RECORDS, abs=250)
    assert {7, DOMAIN.high - 1} <= set(released.movers(released_of("heavy values"), 4).item)


def test_an_empty_release_says_so_and_a_full_one_does_not() -> None:
    """The first is wrong with 1 in 10^9 at most, and the other one never: rows are 100 deviations out."""
    assert {note.code for note in released_of("nothing").notes} & {"may_be_empty", "mostly_noise"}
    assert not {note.code for note in released_of("even").notes} & {"may_be_empty", "mostly_noise"}


ID = PrivacyId("user", NormBound(3))
WIDE = IntegerDomain(0, (1 << 20) - 1)
USUAL: dict[str, tuple[Any, Any, Any]] = {
    "few values": (IntegerDomain(0, 999), {}, FactorizationSpec(IntegerDomain(0, 999))),
    "many values": (WIDE, {}, TreeSpec.for_ranks(WIDE)),
    "addresses": (IPv4Domain(), {}, TreeSpec.for_ranks(IPv4Domain())),
    "too many values": (IntegerDomain(0, 1 << 40), {}, TreeSpec.for_memory(IntegerDomain(0, 1 << 40))),
    "a norm": (WIDE, {"privacy_unit": ID}, TreeSpec.for_memory(WIDE)),
    "an L1 norm": (WIDE, {"privacy_unit": PrivacyId("user", NormBound(3, norm="l1"))}, TreeSpec.for_ranks(WIDE)),
    "records": (WIDE, {"privacy_unit": PrivacyId("user", RecordBounds(9))}, TreeSpec.for_ranks(WIDE)),
    "over time": (WIDE, {"windows": Horizon(0, 60, 4)}, TreeSpec.for_memory(WIDE)),
}


@pytest.mark.parametrize("case", USUAL)
def test_the_usual_layout(case: str) -> None:
    domain, others, layout = USUAL[case]
    assert ReleaseSpec(Quantiles(domain), TERMS.privacy, **{"privacy_unit": Record(), **others}).count.spec == layout


def test_ranks_over_time_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"E432"):
        ReleaseSpec(Quantiles(SPEC), TERMS.privacy, Record(), windows=Horizon(0, 60, 4))


def test_settings_take_a_factor_in_every_domain() -> None:
    for last, layout in ((999, FactorizationSpec), ((1 << 40) - 1, TreeSpec)):
        domain = f"{{type: integer, low: 0, high: {last}}}"
        text = (
            f"{{kind: quantiles, item: x, domain: {domain}, layout: factorization, privacy: {{rho: 1}}, "
            f"privacy_unit: record}}"
        )
        spec = read_release(text).count.spec
        assert isinstance(spec, layout)
        assert spec.has_factor


def test_plans_say_which_layout_was_chosen() -> None:
    text = " ".join(str(ReleaseSpec(Quantiles(WIDE), TERMS.privacy, Record()).plan()).split())
    assert "Layout a tree below a square-root factorization, for ranks; a plain tree has 1." in text
    assert "level 0: square-root factorization 16,384, sigma" in text
    assert "for the square-root factorization on each row" in text


def test_a_domain_of_few_values_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"domain must have at least 5 values.*E516"):
        TreeSpec.for_ranks(IntegerDomain(0, 3))


def test_a_factor_has_at_most_a_million_nodes() -> None:
    domain = IntegerDomain(0, 1 << 22)
    assert TreeSpec.for_ranks(domain, 1 << 28).levels[0].width <= 1 << 20
    levels = Level(21, "factor", 1, (1 << 20) + 1, Fraction(1, 2)), Level(2, "count_sketch", 1, 16, Fraction(1, 2))
    with pytest.raises(ArgumentError, match=r"must have at most 2\*\*20 nodes in a factor.*E507"):
        TreeSpec(domain=domain, levels=levels)


def test_plans_know_the_noise_of_nodes() -> None:
    """Of an empty release, levels tell it too; sketched ones from 3,000 counters: 10 % is 7 deviations, 1e-11."""
    deviations = np.sqrt(noise_variances(SPEC, calibrate(SPEC, TERMS)))
    np.testing.assert_allclose(deviations, released_of("nothing").level_deviations, rtol=0.1)
