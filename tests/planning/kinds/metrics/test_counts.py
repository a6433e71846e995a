"""Counts of records and of privacy ids as metrics: what they count, and what changes when one person comes or goes."""

from __future__ import annotations

import datetime
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ArgumentError,
    Calendar,
    IntegerDomain,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacyIdCount,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    RecordCount,
    Released,
    ReleaseSpec,
    Statistics,
    SummaryCounts,
    release_frame,
)
from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.answers.notes import codes
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.noise.tables import aside, counters
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import UNITS
from tests.helpers import by_hand
from tests.helpers.side_releases import no_noise

KEYS = ["a", "b", "c"]
SHARES = {"visits": Metric(RecordCount(), share=1 / 4), "people": Metric(PrivacyIdCount(), share=1 / 2)}
METRICS = Metrics({**SHARES, "mean": Metric(Statistics(IntegerDomain(0, 9)), "n", 1 / 4)})
BOUNDS = [RecordBounds(2, max_keys=2), NormBound(2), NormBound(2, norm="l1")]


def declared(bounds: Any, metrics: Any = METRICS, rho: Any = 1, **spent: Any) -> ReleaseSpec:
    spec = PrivacySpec(rho=rho, **spent)
    return ReleaseSpec(metrics, spec, PrivacyId("person", bounds), keys=PublicKeys(KEYS, "key"))


def table_of(*people: tuple[int, ...]) -> pa.Table:
    """A table in which each person has these numbers of records for each key."""
    rows = [
        (who, key, 3) for who, many in enumerate(people) for key, n in zip(KEYS, many, strict=True) for _ in range(n)
    ]
    names = ("person", "key", "n")
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    types = (pa.int64(), pa.string(), pa.int64())
    return pa.table({name: pa.array(each, kind) for name, each, kind in zip(names, columns, types, strict=True)})


@pytest.mark.parametrize("summary_counts", [SummaryCounts(), None])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_shares_of_rho_sum_to_it_and_each_is_what_was_asked(bounds: Any, summary_counts: Any) -> None:
    terms = declared(bounds, summary_counts=summary_counts).terms
    tables, spec = counters(METRICS.spec, terms, terms.share_left), METRICS.spec
    of_units = next(each for each in aside(terms) if UNITS in each.names)
    assert sum(each.cost for each in tables) + of_units.cost == terms.privacy.rho * (of_units.share + terms.share_left)
    assert of_units.share == (of_units.share + terms.share_left) / 2
    assert tables[0].share == tables[1].share == of_units.share / 2
    assert (spec.cells, [part.name for part in spec.counted]) == (
        1 + METRICS.metrics["mean"].count.spec.cells,
        ["visits", "mean"],
    )


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_largest_change_by_one_person_is_what_noise_pays_for(bounds: Any) -> None:
    """By brute force: all people with up to 3 records for each of 3 keys, without noise."""
    release = declared(bounds)
    of_units = next(each for each in aside(release.terms) if UNITS in each.names)
    nothing = release_frame(table_of((0, 0, 0)), release)
    largest = dict.fromkeys(("people", "visits"), 0.0)
    for many in itertools.product(range(4), repeat=3):
        if any(many):
            found = release_frame(table_of(many), release)
            for name in largest:
                change = [found[key][name].count().estimate - nothing[key][name].count().estimate for key in KEYS]
                assert max(change) <= max(many) + 0.1
                largest[name] = max(largest[name], float(np.square(change).sum()))
    assert largest["people"] == pytest.approx(float(of_units.change.squared), abs=0.1)
    part = METRICS.spec.counted[0]
    assert largest["visits"] * float(part.share) <= float(bounds.squared_length)  # a norm limits the sum of all parts


LIMITS: list[tuple[Any, str]] = [
    (NormBound(2), ""),
    (NormBound(4, norm="l1"), ""),
    (NormBound(2, norm="l1"), "A privacy id in more than 2 keys and windows together counts for less than 1 in each."),
    (NormBound(1), "A privacy id in more than 1 key or window counts for less than 1 in each."),
    (NormBound(2, max_distinct_items=1), "and with more than 1 item it may not count in all."),
    (RecordBounds(2, max_keys=2), "A privacy id counts in up to 2 keys."),
]


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize(("bounds", "limit"), LIMITS)
def test_the_number_of_privacy_ids_has_its_own_clipping(bounds: Any, limit: str) -> None:
    """By brute force, without noise: the number is exact for all tables if and only if nothing can be clipped."""
    is_exact = True
    for many in itertools.product((0, 1, 5), repeat=3):
        found = release_frame(table_of(many), declared(bounds))
        numbers = [found[key]["people"].count().estimate for key in KEYS]
        is_exact &= numbers == pytest.approx([min(each, 1) for each in many], abs=0.01)
        people, visits, whole = (each.clipping() for each in (found["a"]["people"], found["a"]["visits"], found["a"]))
        assert people.can_happen == math.isnan(people.estimate) == bool(limit)
        assert limit in str(people)
        assert visits.total == whole.total == "total count of records over all keys and windows"
    assert is_exact != bool(limit)


@pytest.mark.usefixtures(no_noise.__name__)
def test_without_keys_every_privacy_id_counts_in_full() -> None:
    release = ReleaseSpec(METRICS, PrivacySpec(rho=1), PrivacyId("person", NormBound(1)))
    found = release_frame(table_of((9, 0, 0), (1, 2, 3)), release)
    assert found["people"].count().estimate == pytest.approx(2, abs=0.01)
    assert str(found["people"].clipping()) == "Clipping: none; every privacy id counts in full."
    assert not found.combine(release_frame(table_of((1, 0, 0)), release))["people"].clipping().can_happen


def test_a_wide_norm_does_not_hide_the_limit_of_another_release() -> None:
    small, large = (release_frame(table_of((1, 1, 1)), declared(NormBound(norm)))["a"] for norm in (1, 5))
    assert not large["people"].clipping().can_happen
    assert small.combine(large)["people"].clipping().can_happen


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("bounds", [RecordBounds(9, max_keys=3), NormBound(9)])
def test_all_doors_count_the_same(bounds: Any) -> None:
    people = [(1, 0, 2), (3, 1, 0), (0, 0, 0), (2, 2, 2)]
    found = release_frame(table_of(*people), declared(bounds))
    for place, key in enumerate(KEYS):
        released = Released.from_bytes(found[key].to_bytes())
        numbers = [each[place] for each in people]
        assert released["visits"].count().estimate == pytest.approx(sum(numbers), abs=0.1)
        assert released["people"].count() == pytest.approx(tuple(released.privacy_units()), abs=0.1)
        assert Ask("count", metric="people").answer(released).rows[0]["estimate"] == pytest.approx(
            sum(each > 0 for each in numbers), abs=0.1
        )
        assert "privacy ids" in repr(released["people"])
    both = found["a"].combine(release_frame(table_of(*people), declared(bounds))["a"])
    assert both["people"].count().estimate == pytest.approx(6, abs=0.1)


@pytest.mark.parametrize("noise", [Noise.GAUSSIAN, Noise.LAPLACE])
def test_a_count_of_noise_alone_exceeds_it_in_one_of_a_thousand_releases(noise: Noise) -> None:
    """The two-sided quantiles of the noise are planted as counts."""
    counted, parameter = Metrics({"visits": Metric(RecordCount())}).spec, Fraction(2 * 10**6)
    pure = {"pure": Fraction(1), "pure_rho": Fraction(1, 2)} if noise is Noise.LAPLACE else {}
    said = by_hand.statement(sigma_squared_per_level=(parameter,), noise=noise, **pure)
    for share, is_empty in ((0.99, True), (0.999, True), (0.9998, False)):
        reach = np.array([math.ceil(noise.margin(parameter, share, said.weight_bits))])
        assert ("may_be_empty" in codes(ReleasedMetrics(counted, reach, said).notes)) == is_empty, share


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "no privacy id": (
        Record(),
        lambda: Metrics({"n": Metric(Statistics(IntegerDomain(0, 9)), "n"), "p": Metric(PrivacyIdCount())}),
        "must not count privacy ids if records are protected",
    ),
    "alone": (
        PrivacyId("p", NormBound(2)),
        lambda: Metrics({"p": Metric(PrivacyIdCount())}),
        "must have at most one count of privacy ids",
    ),
    "no keys": (Record(), lambda: Metrics({"n": Metric(RecordCount())}), "must have keys or a privacy id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_counted_is_refused(name: str) -> None:
    privacy_unit, metrics, words = REFUSED[name]
    with pytest.raises(ArgumentError, match=words) as caught:
        ReleaseSpec(metrics(), PrivacySpec(rho=1), privacy_unit)
    assert caught.value.code == "E513"


@pytest.mark.usefixtures(no_noise.__name__)
@pytest.mark.parametrize("privacy_unit", [Record(), PrivacyId("person", NormBound(9))], ids=["records", "ids"])
def test_records_are_counted_for_a_key_of_several_columns(privacy_unit: Any) -> None:
    """Single records have no other field with a value in each record than those of the key."""
    days = Calendar("at", "day", start="2026-11-16", end="2026-11-17")
    table = table_of((2, 1, 0)).append_column("at", pa.array([datetime.datetime(2026, 11, 16)] * 3))
    for keys in (PublicKeys([("a", 3)], ["key", "n"]), PublicKeys(field=days), PublicKeys(["a"], [days, "key"])):
        spec = ReleaseSpec(Metrics({"visits": Metric(RecordCount())}), PrivacySpec(rho=1), privacy_unit, keys=keys)
        ((key, found),) = release_frame(table, spec).items()
        assert found["visits"].count().estimate == (3 if key == "2026-11-16" else 2)


def test_a_share_of_a_budget_is_stated_and_a_combination_of_runs_drops_it() -> None:
    settings: Any = {
        "kind": "frequencies",
        "item": "key",
        "listed_items": KEYS,
        "privacy_unit": {"privacy_id": "person", "norm": {"max_norm": 2}},
        "privacy": {"epsilon": 1, "delta": 1e-6, "share": "1/3"},
    }
    found = release_frame(table_of((1, 2, 3)), settings)
    assert found.privacy.part_of.share == Fraction(1, 3)
    for each in (found, Released.from_bytes(found.to_bytes())):
        assert "1/3 of epsilon = 1, delta = 1e-06; rho" in each.privacy.details()
        assert each.privacy.as_dict()["part_of"] == "1/3 of epsilon = 1, delta = 1e-06"
    other = release_frame(table_of((1, 0, 0)), settings)
    assert found.combine(other).privacy.as_dict()["part_of"] is None
    assert 3 * found.privacy.rho == PrivacySpec(epsilon=1, delta=1e-6).rho
