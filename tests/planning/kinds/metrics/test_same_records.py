"""All metrics count the same records, with the same weights, whatever elements are and however they are bounded.

One metric counts the numbers of records, each for itself. So its counters say which records count, and how much. The
counters of the others must be those of exactly these records, alone.
"""

from __future__ import annotations

import itertools
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_dpsketch import (
    AssumePublicKeys,
    AutoNorm,
    FloatDomain,
    IntegerDomain,
    ItemFrequencies,
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
    ReleaseSpec,
    SketchSpec,
)
from beam_dpsketch.exact.bounding.norm_rule import NormRule
from beam_dpsketch.exact.sketches.metrics import JoinedSketches, MetricsSpec
from beam_dpsketch.frames.steps.plan import columns_of, resolve, tally_of
from beam_dpsketch.frames.steps.sums import ExactSums
from beam_dpsketch.frames.steps.tables import open_table
from beam_dpsketch.frames.steps.windows import windows_of
from beam_dpsketch.planning.kinds.statistics import Statistics
from beam_dpsketch.transforms import PrivateMetrics
from tests.helpers import laws
from tests.helpers.keyed_units import in_keys
from tests.helpers.metric_visits import FORMS, TABLE, VISITS
from tests.helpers.pipelines import ExactCounters, numbers_by_key, seen_by_sink

SKETCH = SketchSpec(depth=3, width=16, seed=3)
WHICH = {"which": Metric(ItemFrequencies(ListedItems(range(len(VISITS)))), "number")}
OF_MINUTES = {
    "minutes": Metric(Quantiles(IntegerDomain(-10, 60)), "minutes"),
    "mean": Metric(Statistics(FloatDomain(0, 60, 1e-3), variance=True), "minutes"),
}
OF_PAGES = {"pages": Metric(ItemFrequencies(SKETCH), "page")}
METRICS: dict[str, dict[str, Metric]] = {
    "one number": {**WHICH, **OF_MINUTES},
    "bytes": {**WHICH, **OF_PAGES, **OF_MINUTES},
}
UNITS: dict[str, Any] = {
    "record": Record(),
    "record, weights": Record(max_weight=3),
    "record, signed": Record(max_weight=3, signed=True),
    **{
        name: PrivacyId("person", bounds)
        for name, bounds in {
            "records": RecordBounds(2),
            "records, weights": RecordBounds(3, max_weight=3),
            "records, signed": RecordBounds(3, max_weight=3, signed=True),
            "norm": NormBound(1000),
            "norm, signed": NormBound(1000, max_weight=3, signed=True, max_distinct_items=9),
            "total": NormBound(3, norm="l1"),
        }.items()
    },
}
SCALED: dict[str, Any] = {
    name: PrivacyId("person", bounds) for name, bounds in {"scaled": NormBound(3), "chosen norm": AutoNorm()}.items()
}
"""Each metric has a factor of its own there."""
KEYS: dict[str, Any] = {
    "none": None,
    "listed": PublicKeys(["NO", "IT", "FR"], "country"),
    "open": AssumePublicKeys("country"),
}
CASES = [*itertools.product(UNITS, KEYS)]
MANY = 10
"""Fewer records than count anywhere. Where bounds draw them, 30 count with a deviation of 2: below 1e-20."""


def declared(metrics: str, privacy_unit: str, keys: str = "none") -> ReleaseSpec:
    declared_unit = in_keys((UNITS | SCALED)[privacy_unit], KEYS[keys])
    weight = "amount" if declared_unit.bounds.says_max_weight else None
    privacy = PrivacySpec(rho=1)
    return ReleaseSpec(Metrics(METRICS[metrics]), privacy, declared_unit, weight=weight, keys=KEYS[keys])


def check_same_records(spec: MetricsSpec, vector: list[int]) -> int:
    """Raise unless all metrics count the records that the first one does; return how many these are."""
    ends = np.cumsum([part.spec.cells for part in spec.parts])[:-1]
    weights, *others = np.split(np.array(vector), ends)
    for part, found in zip(spec.parts[1:], others, strict=True):
        column = "page" if part.name in OF_PAGES else "minutes"
        keys, usable = part.kind.usable_keys(part.spec, TABLE[column].to_pylist())
        counted = usable & (weights != 0)
        raw = part.kind(part.spec).accumulate_keys(keys[counted], weights[counted])
        assert raw.to_vector().tolist() == found.tolist(), "another record counts"
    return int(np.count_nonzero(weights))


def counters_of_frame(release: ReleaseSpec, table: Any) -> dict[Any, list[int]]:
    opened = open_table(table, columns_of(release).values())
    (resolved, plan), parts = resolve(release), [opened.empty, *opened.parts]
    sums = ExactSums(resolved, plan, windows_of(release, plan), parts, tally_of(release, opened), lambda: None)
    ((_, found),) = sums.by_window(sums.contributed()).items()
    return {key: each[: release.spec.cells].tolist() for key, each in numbers_by_key(found).items()}


@pytest.mark.parametrize(("privacy_unit", "keys"), CASES)
@pytest.mark.parametrize("metrics", METRICS)
def test_metrics_of_a_table_count_the_same_records(metrics: str, privacy_unit: str, keys: str) -> None:
    release = declared(metrics, privacy_unit, keys)
    for table in (TABLE, TABLE.to_pandas(), TABLE.slice(0, 0)):
        counted = [check_same_records(release.spec, vector) for vector in counters_of_frame(release, table).values()]
        assert (sum(counted) > MANY) == (len(table) > 0)


def check_a_norm() -> None:
    """Raise if a metric keeps less of a record under a norm than in a release of its own; the first one lists them."""
    weights = {}
    for name, metrics in (("alone", WHICH), ("together", METRICS["bytes"])):
        release = ReleaseSpec(Metrics(metrics), PrivacySpec(rho=1), SCALED["scaled"])
        ((_, vector),) = counters_of_frame(release, TABLE).items()
        weights[name] = np.array(vector[: len(VISITS)])
    alone, together = weights["alone"], weights["together"]
    assert np.all(together >= alone - 1), "another record counts"


def test_without_a_bound_that_matters_all_records_count_that_have_any_item() -> None:
    """A release of the other metrics alone drops those records that have none of their items."""
    rest = {name: metric for name, metric in METRICS["bytes"].items() if name != "which"}
    wide = PrivacyId("person", RecordBounds(1000))
    ((_, whole),) = counters_of_frame(ReleaseSpec(Metrics(rest), PrivacySpec(rho=1), wide), TABLE).items()
    place = 0
    for name, metric in rest.items():
        alone = ReleaseSpec(metric.count, PrivacySpec(rho=1), wide, metric.item)
        ((_, vector),) = counters_of_frame(alone, TABLE).items()
        assert whole[place : place + len(vector)] == vector, name
        place += len(vector)
    assert place == len(whole)


def read_vector(accumulator: Any) -> list[int]:
    return accumulator.to_sketch().to_vector().tolist()


def of_pipeline(cases: list[tuple[str, str, str, str]], *, reshuffled: bool) -> dict[Any, list[list[int]]]:
    """The exact counters of (form, metrics, unit, keys)."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        outputs, read = [], {}
        for case in cases:
            form, *settings = case
            if form not in read:
                read[form] = pipeline | f"Create {form}" >> beam.Create(FORMS[form]())
                if reshuffled:
                    read[form] |= f"Shuffle {form}" >> beam.Reshuffle()
            made = PrivateMetrics.of(declared(*settings))
            counted = read[form] | f"Sums {case}" >> ExactCounters(made, read_vector)
            outputs.append(counted | f"Name {case}" >> beam.Map(lambda found, case: (case, found), case))
        return outputs | beam.Flatten()

    found: dict[Any, list[list[int]]] = {case: [] for case in cases}
    for case, counters in seen_by_sink(build):
        found[case].append(counters[1] if isinstance(counters, tuple) else counters)
    return found


FAST = {
    "one number": [("records", "none")],
    "bytes": [("norm, signed", "none"), ("record, weights", "listed"), ("scaled", "none")],
}


def check_pipelines(metrics: str, some: list[tuple[str, str]]) -> None:
    cases = [(form, metrics, *case) for form, case in itertools.product(FORMS, some)]
    for reshuffled in (False, True):
        found = of_pipeline(cases, reshuffled=reshuffled)
        for form, of_metrics, privacy_unit, keys in cases:
            vectors = found[form, of_metrics, privacy_unit, keys]
            if privacy_unit not in SCALED:
                counted = [
                    check_same_records(declared(of_metrics, privacy_unit, keys).spec, vector) for vector in vectors
                ]
                assert sum(counted) > MANY
            if privacy_unit.startswith(("norm", "total", "record,", "scaled")):  # nothing is drawn there
                wanted = counters_of_frame(declared(of_metrics, privacy_unit, keys), TABLE)
                assert sorted(vectors) == sorted(wanted.values())


@pytest.mark.pipeline
@pytest.mark.one_fast_case
@pytest.mark.parametrize("metrics", METRICS)
def test_metrics_of_a_pipeline_count_the_same_records(metrics: str) -> None:
    check_pipelines(metrics, FAST[metrics])


@pytest.mark.slow
@pytest.mark.pipeline
@pytest.mark.parametrize("metrics", METRICS)
def test_metrics_of_all_pipelines_count_the_same_records(metrics: str) -> None:
    check_pipelines(metrics, [case for case in [*CASES, ("scaled", "open")] if case[1] != "listed"])


def everything_counts(exact: Any, spec: MetricsSpec, keys: np.ndarray) -> Any:
    """A record without an item counts as the first one."""
    for part, own, has in exact(spec, keys):
        yield part, own, np.ones_like(has)


def of_another_part(exact: Any, spec: MetricsSpec, keys: np.ndarray) -> Any:
    found = [*exact(spec, keys)]
    *_, (_, _, last) = found
    yield from ((part, own, last) for part, own, _ in found)


def unweighted(exact: Any, self: JoinedSketches, keys: np.ndarray, weights: np.ndarray | None) -> Any:
    """Only the first metric is weighted."""
    first, *others = self._sketches
    (_, own, has), *rest = self._spec.split(keys)
    first.accumulate_keys(own[has], None if weights is None else weights[has])
    for sketch, (_, of_other, present) in zip(others, rest, strict=True):
        sketch.accumulate_keys(of_other[present], None)
    return self


def one_factor(exact: Any, rule: NormRule, *records: Any) -> np.ndarray:
    factors = exact(rule, *records)
    return np.broadcast_to(factors.min(axis=0), factors.shape)


FAULTS = {
    "missing items counted": laws.around(MetricsSpec, "split", everything_counts),
    "items of another metric missing": laws.around(MetricsSpec, "split", of_another_part),
    "weights left out": laws.around(JoinedSketches, "accumulate_keys", unweighted),
}


def check_a_table() -> None:
    for metrics in METRICS:
        release = declared(metrics, "record, weights")
        for vector in counters_of_frame(release, TABLE).values():
            check_same_records(release.spec, vector)


test_no_metric_keeps_less_under_a_norm = laws.mutants(
    {"one factor": laws.around(NormRule, "_factors", one_factor)}, check_a_norm, words="another", intact=True
)
test_a_planted_fault_is_found = laws.mutants(FAULTS, check_a_table, words="another record counts", intact=True)
