"""Releases with Laplace noise from outside: which noise is taken, what is refused, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import apache_beam as beam
import dp_accounting
import pyarrow as pa
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    AutoNorm,
    BudgetExceededError,
    Horizon,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    NormBound,
    PrivacyBudget,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    TextDomain,
    Thresholding,
    release_frame,
)
from beam_dpsketch.answers.released_sketch import ReleasedSketch
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.transforms import PrivateFrequencies, PrivateQuantiles, PrivateTopK
from tests.helpers.keyed_units import in_keys
from tests.helpers.pipelines import run

LISTED, SKETCH = ListedItems(range(30)), SketchSpec(width=64)
BOTH, PURE = PrivacySpec(epsilon=1, delta=1e-6), PrivacySpec(epsilon=1)
PERSON = PrivacyId("person", RecordBounds(1))
IN_KEYS = in_keys(PERSON, "key")
ROWS = [{"person": f"p{number}", "item": number % 7, "key": "xy"[number % 2]} for number in range(500)]


def declared(counted: Any, privacy: PrivacySpec, privacy_unit: Any = None, **others: Any) -> ReleaseSpec:
    return ReleaseSpec(ItemFrequencies(counted), privacy, privacy_unit or Record(), "item", **others)


def half_width(counted: Any, privacy: PrivacySpec, privacy_unit: Any) -> float:
    return float(declared(counted, privacy, privacy_unit).plan().half_width)


# Which noise


@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize("keys", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("counted", [LISTED, SKETCH], ids=lambda spec: spec.kind)
def test_the_noise_with_the_narrower_intervals_is_taken(counted: Any, keys: int, epsilon: float) -> None:
    privacy_unit = PrivacyId("person", RecordBounds(2, max_keys=keys))
    others = {"keys": PublicKeys(range(64), "key")}
    plans = {
        noise: declared(counted, PrivacySpec(epsilon=epsilon, delta=1e-6, noise=noise), privacy_unit, **others).plan()
        for noise in ("gaussian", "laplace", None)
    }
    least = min(plans["gaussian"].half_width, plans["laplace"].half_width)
    assert plans[None].half_width == least
    assert plans[None].terms.noise.name.lower() in [name for name, plan in plans.items() if plan.half_width == least]


def test_each_noise_is_taken_somewhere() -> None:
    few, many = (PrivacyId("person", RecordBounds(1, max_keys=keys)) for keys in (1, 64))
    keys = PublicKeys(range(64), "key")
    assert declared(LISTED, BOTH, few, keys=keys).terms.noise is Noise.LAPLACE
    assert declared(LISTED, BOTH, many, keys=keys).terms.noise is Noise.GAUSSIAN
    assert declared(LISTED, PrivacySpec(rho=1), few, keys=keys).terms.noise is Noise.GAUSSIAN
    assert declared(LISTED, BOTH, PrivacyId("person", NormBound(5))).terms.noise is Noise.GAUSSIAN
    assert declared(LISTED, BOTH, PrivacyId("person", NormBound(5, norm="l1"))).terms.noise is Noise.LAPLACE


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a tree": (
        lambda: PrivateQuantiles(IntegerDomain(0, 999), PURE, privacy_unit=Record(), item="item").explain(),
        "delta is required with epsilon, .* ranks and searches combine many counters",
    ),
    "text": (
        lambda: PrivateTopK(TextDomain(4), PURE, k=2, privacy_unit=Record()).explain(),
        "delta is required with epsilon, because the selection of keys or items",
    ),
    "rows over time": (
        lambda: PrivateFrequencies(SKETCH, PURE, privacy_unit=Record(), windows=Horizon(0, 60, 4)).explain(),
        "delta is required with epsilon, .* timeline rows",
    ),
    "chosen keys": (
        lambda: PrivateFrequencies(
            SKETCH, PURE, privacy_unit=IN_KEYS, keys=KeySelection(1e-8, "key"), item="item"
        ).explain(),
        "delta is required with epsilon, because the selection of keys or items",
    ),
    "chosen keys, with a delta": (
        lambda: PrivateFrequencies(
            SKETCH,
            PrivacySpec(epsilon=1, delta=1e-6, noise="laplace"),
            privacy_unit=IN_KEYS,
            keys=KeySelection(1e-8, "key"),
            item="item",
        ).explain(),
        "keys are selected from the data",
    ),
    "groups": (
        lambda: PrivateTopK(
            TextDomain(4), PURE, k=2, privacy_unit=IN_KEYS, item="item", method=Thresholding(1e-8)
        ).explain(),
        "delta is required with epsilon, because the selection of keys or items",
    ),
    "an L2 norm": (
        lambda: PrivateFrequencies(SKETCH, PURE, privacy_unit=PrivacyId("person", NormBound(5)), item="item").explain(),
        r'delta is missing. An L2 norm uses Gaussian noise.* NormBound\(20, norm="l1"\)',
    ),
    "a chosen L2 norm": (
        lambda: PrivateFrequencies(SKETCH, PURE, privacy_unit=PrivacyId("person", AutoNorm()), item="item").explain(),
        "delta is missing. An L2 norm uses Gaussian noise",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_pure_promise_is_refused_where_there_is_gaussian_noise_alone(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


# Through a pipeline, and together with others


@pytest.mark.pipeline
@pytest.mark.one_fast_case
@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
@pytest.mark.parametrize("bounds", [RecordBounds(2), NormBound(3, norm="l1"), AutoNorm(norm="l1")], ids=repr)
def test_a_pipeline_releases_with_laplace_noise(bounds: Any, relation: Any) -> None:
    privacy = PrivacySpec(epsilon=9, relation=relation)
    keys = PublicKeys(["x", "y"], "key")
    ways = PrivateFrequencies(
        LISTED, privacy, privacy_unit=in_keys(PrivacyId("person", bounds), keys), keys=keys, item="item"
    )
    released = dict(run(ROWS, beam.Map(lambda row: beam.Row(**row)) | ways))
    for key, release in released.items():
        assert release.privacy.noise is Noise.LAPLACE
        assert (release.privacy.pure, release.privacy.delta, release.privacy.rho) == (9, 0, Fraction(81, 2))
        true = sum(row["key"] == key and row["item"] == 3 for row in ROWS)
        assert (
            abs(release.estimate(3) - true) < 30
        )  # a scale of at most 2 records: false alarm below 1e-6 without a fault
        assert ReleasedSketch.from_bytes(release.to_bytes()) == release
        words = release.privacy.facts
        assert words["Guarantee"].startswith("epsilon = 9 (pure differential privacy), for ")
        assert "epsilon = 9 by Laplace noise, and epsilons of several releases add up" in words["Accounting"]
        assert "Budget split" in words
    both = released["x"].combine(released["y"])
    assert (both.privacy.pure, both.privacy.noise) == (9, Noise.SUM)


def test_sums_with_a_gaussian_add_the_pure_epsilon() -> None:
    table = pa.Table.from_pylist(ROWS)
    pure, normal = (
        release_frame(table, declared(LISTED, privacy)) for privacy in (PURE, PrivacySpec(rho=Fraction(1, 50)))
    )
    both = pure.combine(normal)
    assert both.privacy.pure == 1
    assert both.privacy.rho == Fraction(1, 2) + Fraction(1, 50)
    alone = normal.privacy.epsilon(1e-6)
    assert both.privacy.epsilon(1e-6) == pytest.approx(1 + alone, rel=1e-12)
    assert both.interval(3).upper - both.interval(3).lower > normal.interval(3).upper - normal.interval(3).lower


def test_the_event_of_an_accountant_covers_the_release() -> None:
    released = release_frame(pa.Table.from_pylist(ROWS), declared(LISTED, PURE))
    assert released.privacy.to_dp_event() == dp_accounting.ZCDpEvent(rho=0.5)
    assert released.privacy.epsilon(1e-12) == released.privacy.reported_epsilon == 1
    assert released.privacy.as_dict()["delta"] == 0


def test_budgets_of_epsilon_are_shared_out_linearly() -> None:
    budget = PrivacyBudget(epsilon=1)
    quarter, half = budget.spend(share=1 / 4), budget.spend(share=1 / 2)
    assert (quarter.pure, half.pure, half.rho) == (Fraction(1, 4), Fraction(1, 2), Fraction(1, 8))
    assert repr(budget.remaining) == "<epsilon = 0.25, by Laplace noise>"
    with pytest.raises(BudgetExceededError, match=r"epsilon = 0\.25 left of 1; this release needs 0\.5"):
        budget.spend(share=1 / 2)
    with pytest.raises(ValueError, match="rho is not supported for a budget with Laplace noise"):
        budget.spend(rho=0.01)
    (rest,) = budget.split(1)
    assert declared(LISTED, rest).terms.noise is Noise.LAPLACE
    parts = PrivacyBudget(epsilon=1, delta=1e-6).split(2)
    assert {declared(LISTED, part).terms.noise for part in parts} == {Noise.GAUSSIAN}
    with_delta = PrivacyBudget(epsilon=1, delta=1e-6, noise="laplace", keys_delta=1e-7)
    groups = PrivateTopK(
        TextDomain(4), with_delta.spend(share=1), k=2, privacy_unit=IN_KEYS, item="item", method=Thresholding(1e-7)
    )
    assert "discrete Laplace, scale = " in groups.explain()
