"""What is declared of several metrics: their shares, the noise that suits them all, and the plan."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    ArgumentError,
    BytesDomain,
    IntegerDomain,
    ItemFrequencies,
    ListedItems,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    Quantiles,
    Record,
    RecordBounds,
    ReleaseSpec,
    SketchSpec,
    Thresholding,
)
from beam_dpsketch.exact.sketches.metrics import MAX_METRICS, MAX_NAME
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.planning.kinds.thresholded_counts import ThresholdedCounts
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.transforms import PrivateMetrics

DOMAIN = IntegerDomain(0, 100)
NUMBERS, LISTED = Statistics(DOMAIN), ItemFrequencies(ListedItems([*"abc"]))
NO_TREES = {
    "numbers": NUMBERS,
    "variance": Statistics(DOMAIN, variance=True),
    "listed": LISTED,
    "count_min": ItemFrequencies(SketchSpec(kind="count_min", depth=2, width=64)),
}


def declared(count: Any, epsilon: float = 1, bound: int = 1, **spent: Any) -> ReleaseSpec:
    privacy_unit, item = PrivacyId("user", RecordBounds(bound)), None if isinstance(count, Metrics) else "item"
    return ReleaseSpec(count, PrivacySpec(epsilon=epsilon, delta=1e-6, **spent), privacy_unit, item)


def equal(*counts: Any) -> Metrics:
    return Metrics({f"m{place}": Metric(count, "item") for place, count in enumerate(counts)})


def errors(release: ReleaseSpec) -> dict[str, float]:
    return {name: error for name, (_, error) in release.plan().errors.items()}


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("kind", NO_TREES)
def test_one_metric_has_the_noise_that_it_has_alone(kind: str, epsilon: float, relation: Any) -> None:
    for bound in (1, 5, 50):
        counts, spent = (NO_TREES[kind], equal(NO_TREES[kind])), {"relation": relation, "summary_counts": None}
        alone, one = (declared(each, epsilon, bound, **spent) for each in counts)
        assert one.terms == alone.terms
        assert one.resolved.calibrated.per_table == alone.resolved.calibrated.per_table


def test_noise_suits_what_the_shares_leave() -> None:
    """Laplace noise grows with the number of metrics, and Gaussian noise with its root."""
    noises = []
    for number in range(1, 12):
        metrics = equal(*[NUMBERS] * number)
        chosen, gaussian, laplace = (
            declared(metrics, **spent) for spent in ({}, {"noise": "gaussian"}, {"noise": "laplace"})
        )
        noises.append(chosen.terms.noise)
        assert errors(chosen)["m0"] <= 1.2 * min(errors(gaussian)["m0"], errors(laplace)["m0"])
    assert noises == sorted(noises, key=[Noise.LAPLACE, Noise.GAUSSIAN].index)
    assert {*noises} == {Noise.LAPLACE, Noise.GAUSSIAN}


def test_one_metric_with_a_small_share_makes_all_noise_gaussian() -> None:
    small, large = Metric(LISTED, "item", Fraction(1, 100)), Metric(NUMBERS, "item", Fraction(99, 100))
    assert declared(Metrics({"large": large, "small": small})).terms.noise is Noise.GAUSSIAN
    assert declared(equal(NUMBERS, LISTED)).terms.noise is Noise.LAPLACE
    assert declared(equal(NUMBERS, Quantiles(DOMAIN))).terms.noise is Noise.GAUSSIAN


@pytest.mark.parametrize(
    "shares",
    [
        [1 / 3] * 3,
        [1 / 7] * 7,
        [0.1] * 10,
        [1 / 3, 2 / 3],
        [0.5, "1/2"],
        [Fraction(1, 10**20), 1 - Fraction(1, 10**20)],
    ],
    ids=str,
)
def test_shares_are_read_as_what_they_stand_for(shares: list[Any]) -> None:
    given = [Fraction(each) if isinstance(each, str) else each for each in shares]
    metrics = Metrics({f"m{place}": Metric(NUMBERS, "item", share) for place, share in enumerate(given)})
    assert sum(part.share for part in metrics.spec.parts) == 1


@pytest.mark.parametrize("count", [NUMBERS, equal(NUMBERS, LISTED)], ids=["statistics", "metrics"])
@pytest.mark.parametrize("n", [0, -1, 1 << 51])
def test_no_plan_is_of_a_number_of_records_that_cannot_be(count: Any, n: int) -> None:
    with pytest.raises(ValueError, match="n must be between 1 and"):
        declared(count).plan(n)


A_NAME, TO_ONE = "metrics must have names with 1 to 64 letters", ".*sum to 1"
ONE = Metric(NUMBERS, "item")
REFUSED: dict[str, tuple[Any, str]] = {
    "none": ({}, "metrics must contain 1 to"),
    "too many": ({f"m{place}": ONE for place in range(MAX_METRICS + 1)}, "metrics must contain 1 to"),
    "a list": ([], "metrics must be a Mapping"),
    "a text": ("pages", "metrics must be a Mapping"),
    "nothing": (None, "metrics must be a Mapping"),
    "no metric": ({"mean": NUMBERS}, "metrics must be a Metric, got Statistics"),
    **{
        f"the name {name!r:.9}": ({name: ONE}, A_NAME)
        for name in (3, None, "", "1st", "a.b", "ä", "m\n", "a" * (MAX_NAME + 1))
    },
    "metrics": ({"m": Metric(equal(NUMBERS))}, "metrics must not contain metrics or thresholded"),
    "groups": (
        {"m": Metric(ThresholdedCounts(BytesDomain(4), 3, Thresholding(1e-8)))},
        "metrics must not contain metrics or thresholded",
    ),
    **{
        f"shares of {shares}": ({f"m{n}": Metric(NUMBERS, "item", share) for n, share in enumerate(shares)}, TO_ONE)
        for shares in (
            [1 / 3, 0.3333],
            [0.5, 0.5000001],
            [0.5, None],
            [1, None],
            [1 / 3, 1 / 3],
            [0.5, 0.4],
            [0.5, 0.6],
        )
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_are_no_metrics_is_refused_in_words(name: str) -> None:
    """Where a transform is made, too, with all else that is wrong with it."""
    metrics, words = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=f"^{words}"):
        Metrics(metrics)
    with pytest.raises((ValueError, TypeError), match=words):
        PrivateMetrics(metrics, PrivacySpec(rho=1), privacy_unit=Record())
    with pytest.raises((ValueError, TypeError), match=f"{words}(.|\n)*unit must be"):
        PrivateMetrics(metrics, PrivacySpec(rho=1), privacy_unit=5)  # type: ignore[call-overload]


def test_names_at_their_limits_are_taken() -> None:
    for name in ("a", "_", "A1", "a" * MAX_NAME):
        assert Metrics({name: ONE}).spec.parts[0].share == 1


@pytest.mark.parametrize("share", [0, -1, 2, "half", float("nan")])
def test_a_share_that_is_none_is_refused(share: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Metrics({"a": Metric(NUMBERS, share=share)})


@pytest.mark.parametrize("item", [3, "", ["item"]])
def test_an_item_that_is_no_selector_is_refused_at_once(item: Any) -> None:
    with pytest.raises(TypeError, match="item must be a field name, a callable or None"):
        Metric(NUMBERS, item)


def test_a_limit_for_one_item_is_refused_because_an_item_has_all_fields() -> None:
    metrics = {"pages": Metric(ItemFrequencies(ListedItems(["a"])), "page")}
    privacy_unit = PrivacyId("person", NormBound(3, max_per_item=1))
    with pytest.raises(ArgumentError, match="max_per_item is not supported for metrics"):
        ReleaseSpec(Metrics(metrics), PrivacySpec(rho=1), privacy_unit)
