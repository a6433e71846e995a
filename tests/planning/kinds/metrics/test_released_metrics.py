"""A release of several metrics: each answers with the noise of its part, and all travel and spend as one."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    ArgumentError,
    AutoNorm,
    Horizon,
    IncompatibleSketchError,
    IntegerDomain,
    ItemFrequencies,
    KeySelection,
    ListedItems,
    Metric,
    Metrics,
    NormBound,
    PrivacyId,
    PrivacySpec,
    PublicKeys,
    Quantiles,
    Record,
    RecordBounds,
    Released,
    ReleaseSpec,
    SketchSpec,
    SketchTimeline,
    TimeRange,
    release_frame,
)
from beam_dpsketch.answers.metrics import ReleasedMetrics
from beam_dpsketch.answers.questions.ask import Ask
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.transforms import PrivateMetrics
from tests.helpers.metric_visits import TABLE
from tests.helpers.pipelines import FN_API, run, seen_by_sink

MINUTES = IntegerDomain(0, 60)
TWO = {
    "pages": Metric(ItemFrequencies(SketchSpec(depth=3, width=32)), "page", Fraction(3, 4)),
    "mean": Metric(Statistics(MINUTES), "minutes", 0.25),
}
HUGE = 500
"""A rho with which each counter of single records has a deviation below 1/4.

Where a number is compared, its limit is 20 deviations or more: a false alarm has a probability below 1e-80.
"""
EQUAL = {"numbers": Metric(Quantiles(MINUTES), "minutes"), "mean": Metric(Statistics(MINUTES), "minutes")}


def release(privacy_unit: Any = None, metrics: Any = None, rho: Any = 10, **others: Any) -> Any:
    privacy = PrivacySpec(rho=rho, summary_counts=None, relation=others.pop("relation", ADD_OR_REMOVE_ONE))
    privacy_unit = Record() if privacy_unit is None else privacy_unit
    return release_frame(TABLE, ReleaseSpec(Metrics(metrics or TWO), privacy, privacy_unit, **others))


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
@pytest.mark.parametrize("bounds", [RecordBounds(2), NormBound(3)])
def test_each_metric_has_the_noise_that_its_part_of_rho_pays_for(bounds: Any, relation: Any) -> None:
    privacy_unit = PrivacyId("person", bounds)
    together = release(privacy_unit, relation=relation)
    assert together.shares == {"pages": Fraction(3, 4), "mean": Fraction(1, 4)}
    for name, metric in TWO.items():
        privacy = PrivacySpec(rho=10 * together.shares[name], summary_counts=None, relation=relation)
        alone = release_frame(TABLE, ReleaseSpec(metric.count, privacy, privacy_unit, metric.item))
        assert type(together[name]) is type(alone)
        assert together[name].privacy.sigma_squared_per_level == alone.privacy.sigma_squared_per_level
        assert together[name].privacy.rho == together.privacy.rho == 10


def test_without_shares_all_metrics_have_the_same() -> None:
    assert release(metrics=EQUAL).shares == {"numbers": Fraction(1, 2), "mean": Fraction(1, 2)}


def test_it_is_a_mapping_from_names_to_releases() -> None:
    released = release()
    assert isinstance(released, ReleasedMetrics)
    assert [*released] == ["pages", "mean"]
    assert {*released.keys()} == {"pages", "mean"}
    assert (len(released), "mean" in released, "other" in released) == (2, True, False)
    with pytest.raises(KeyError):
        released["other"]
    cells = [each.counters.size for each in released.values()]
    assert sum(cells) == released.counters.size


def test_it_travels_as_one_release() -> None:
    released = release()
    for again in (Released.from_bytes(released.to_bytes()), pickle.loads(pickle.dumps(released))):
        assert again == released
        assert hash(again) == hash(released)
        assert again["mean"].mean() == released["mean"].mean()
    assert released != release()
    assert ReleasedMetrics.from_bytes(released.to_bytes()).shares == released.shares


def test_two_releases_combine_part_by_part_and_their_metrics_do_not() -> None:
    first, second = release(), release()
    combined = first.combine(second)
    assert combined.privacy.rho == 20
    for name in TWO:
        whole = first[name].counters + second[name].counters
        assert combined[name].counters.tolist() == whole.tolist()
    with pytest.raises(IncompatibleSketchError):
        first["mean"].combine(first["mean"])
    with pytest.raises(IncompatibleSketchError):
        first.combine(release(metrics=EQUAL))


def test_it_says_how_large_it_is_and_what_it_holds_and_names_the_metric_of_a_note() -> None:
    """At a rho of 10^-4, the noise of each of 240 records has a deviation of about 100 or more."""
    released = release(rho=Fraction(1, 10**4))
    assert "pages (3/4 of rho)" in repr(released)
    assert "mean (1/4 of rho)" in repr(released)
    assert "pages" in released._repr_html_()
    assert str(released.privacy)
    own = [note for note in released.notes if note.code == "mostly_noise"]
    assert all(note.message.startswith(("pages: ", "mean: ")) for note in own)


# How it is declared.

PRIVACY = PrivacySpec(rho=1)


def test_an_item_next_to_those_of_metrics_is_refused() -> None:
    declared = ReleaseSpec(Metrics(TWO), PRIVACY, Record(), "page")
    with pytest.raises(ArgumentError, match="E513"):
        declared.selectors  # noqa: B018


def test_laplace_noise_suits_all_metrics_or_none() -> None:
    wide = {**EQUAL, "numbers": Metric(Quantiles(IntegerDomain(0, 999)), "minutes")}
    with pytest.raises(ArgumentError, match="E102"):
        PrivateMetrics(wide, PrivacySpec(epsilon=1), privacy_unit=Record())
    sums = {"mean": EQUAL["mean"], "pages": Metric(ItemFrequencies(ListedItems(["a"])), "page")}
    for metrics in (sums, EQUAL):
        released = release_frame(TABLE, ReleaseSpec(Metrics(metrics), PrivacySpec(epsilon=1), Record()))
        assert released.privacy.noise.name == "LAPLACE"


def test_what_is_explained_and_displayed_names_each_metric() -> None:
    private = PrivateMetrics(TWO, PRIVACY, privacy_unit=PrivacyId("person", NormBound(3)))
    words = private.explain(1000)
    assert "\nMetrics       pages, mean, of the same records\n" in words
    for name, share in (("pages", "3/4"), ("mean", "1/4")):
        assert f"\n  {name} ({share} of the share) " in words
    planned = ReleaseSpec(Metrics(TWO), PRIVACY, Record()).plan(1000).as_dict()
    assert {name: each["share"] for name, each in planned["metrics"].items()} == {"pages": 0.75, "mean": 0.25}
    assert len(planned["sigma"]) == 2
    shown = private.display_data()
    assert shown["metrics.pages"] == "count_sketch, 3/4 of rho"
    assert shown["metrics.mean"] == "statistics, 1/4 of rho"


@pytest.mark.parametrize("bounds", [NormBound, RecordBounds])
def test_a_plan_lists_the_errors_at_other_bounds(bounds: Any) -> None:
    plans = {size: ReleaseSpec(Metrics(TWO), PRIVACY, PrivacyId("id", bounds(size))).plan(1000) for size in (10, 20)}
    for name, row in plans[10].by_bound.items():
        assert dict(row)[20] == plans[20].errors[name][1] > dict(row)[10] == plans[10].errors[name][1]
    assert "What would change these errors (noise only), by " in str(plans[10])
    assert "What would change" not in str(ReleaseSpec(Metrics(TWO), PRIVACY, Record()).plan(1000))


def test_the_whole_answers_what_is_counted_aside_and_a_metric_says_to_ask_it() -> None:
    released = release_frame(TABLE, ReleaseSpec(Metrics(TWO), PrivacySpec(rho=HUGE), Record()))
    (row,) = Ask("records").answer(released).rows
    assert row["estimate"] == released.records().estimate
    with pytest.raises(ArgumentError, match="For several metrics, query the whole release"):
        Ask("records", metric="pages").answer(released)


# Keys, norms and windows.


def test_keys_and_norms_are_chosen_once_for_all_metrics() -> None:
    """Noise decides nothing that is checked here."""
    chosen = KeySelection(1e-8, field="country")
    privacy_unit = PrivacyId("person", RecordBounds(1000, max_keys=4))
    found = release(privacy_unit, rho=HUGE, keys=chosen)
    assert {*found} <= {"NO", "IT", "unlisted"}
    assert all(isinstance(each, ReleasedMetrics) for each in found.values())
    normed = release(PrivacyId("person", AutoNorm()), rho=HUGE)
    assert normed.privacy.bounds.max_norm > 0
    assert {each.privacy.bounds.max_norm for each in normed.values()} == {normed.privacy.bounds.max_norm}
    listed = release(PrivacyId("person", AutoNorm()), keys=PublicKeys(["NO", "FR"], "country"))
    assert {*listed} == {"NO", "FR"}


ROWS = [{"page": "a" if place % 3 else "b", "minutes": place % 60, "time": place} for place in range(240)]


def timed(pipeline: beam.Pipeline) -> beam.PCollection:
    return pipeline | beam.Create(ROWS) | beam.Map(lambda row: beam.window.TimestampedValue(row, row["time"]))


@pytest.mark.pipeline
def test_windows_are_released_with_data_or_without() -> None:
    private = PrivateMetrics(TWO, PrivacySpec(rho=HUGE), privacy_unit=Record(), windows=TimeRange(0, 360))
    minutes = beam.WindowInto(beam.window.FixedWindows(60))
    found = seen_by_sink(lambda pipeline: timed(pipeline) | minutes | private, runner=FN_API)
    counts = sorted(each["mean"].count().estimate for each in found)
    assert counts == pytest.approx([0, 0, 60, 60, 60, 60], abs=5)
    assert all(isinstance(each, ReleasedMetrics) for each in found)


@pytest.mark.pipeline
def test_rows_over_time_answer_as_metrics() -> None:
    horizon = Horizon(0, 60, 4)
    private = PrivateMetrics(TWO, PrivacySpec(rho=HUGE), privacy_unit=Record(), windows=horizon)
    rows = seen_by_sink(lambda pipeline: timed(pipeline) | private, runner=FN_API)
    released: Any = SketchTimeline(rows, horizon).between(1, 2)
    assert isinstance(released, ReleasedMetrics)
    inside = [row["minutes"] for row in ROWS if 60 <= row["time"] < 180]
    assert released["mean"].count().estimate == pytest.approx(len(inside), abs=12)
    assert released["mean"].mean().estimate == pytest.approx(np.mean(inside), abs=10)
    assert released["pages"].estimate("a") == pytest.approx(80, abs=20)


@pytest.mark.pipeline
def test_releases_go_through_pipelines_whole() -> None:
    private = PrivateMetrics(TWO, PrivacySpec(rho=HUGE), privacy_unit=Record())
    (released,) = run(ROWS, private)
    assert isinstance(released, ReleasedMetrics)
    assert released["mean"].count().estimate == pytest.approx(240, abs=5)
