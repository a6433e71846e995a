"""Several metrics in one release, and their plan."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.declared.count import Count, Guess, check_size, refuse_guess, refuse_item_limit
from beam_dpsketch.exact.declared.public import Keys, TimeRange
from beam_dpsketch.exact.declared.units import PrivacyId, Unit
from beam_dpsketch.exact.reading.items import WeightedItems
from beam_dpsketch.exact.reading.selectors import Items, Selector, check_selector
from beam_dpsketch.exact.sketches.listed_items import CountSpec
from beam_dpsketch.exact.sketches.metrics import MetricPart, MetricsSpec, argument_of
from beam_dpsketch.noise.calibration import Calibration, calibrate
from beam_dpsketch.noise.tables import NoisyTable, aside
from beam_dpsketch.planning.advice import errors_by_bound
from beam_dpsketch.planning.expected_error import CONFIDENCE
from beam_dpsketch.planning.kinds.sketched import AnySketch, calibrated
from beam_dpsketch.planning.plan import (
    Line,
    Plan,
    alternatives,
    bound_in_words,
    copies_in_words,
    in_digits,
    in_table,
    paid_in_words,
    under_norm,
)
from beam_dpsketch.planning.suiting import decided
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.summary_counts import UNITS, SummaryCounts
from beam_dpsketch.privacy.terms import ReleaseTerms


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric in a release over the same records.

    Args:
      count: the kind of release: `ItemFrequencies`, `Quantiles`, `TopKSearch`, `Statistics`, `RecordCount` or
        `PrivacyIdCount`.
      item: the counted value: a field name, a callable, or `None` for the element itself.
      share: share of rho, such as 1/2. The shares of all metrics sum to 1, and `None` for all makes equal shares. A
        float means the simple ratio that it represents: 1/3 is a third.
    """

    count: Count
    item: Selector = None
    share: Fraction | float | None = None

    def __post_init__(self) -> None:
        _validate.instance(Count, count=self.count)
        check_selector(item=self.item)
        if self.share is not None:
            object.__setattr__(self, "share", _validate.ratio(share=self.share))


@dataclasses.dataclass(frozen=True)
class RecordCount(AnySketch):
    """The number of records, or their total weight, for each key. It needs no item."""

    spec: CountSpec = dataclasses.field(default=CountSpec(), init=False, repr=False)

    name: ClassVar[str] = "count"
    is_summed: ClassVar[bool] = True

    def selected(self, item: Selector, every: Selector) -> Items:
        return every if item is None else item

    def check(self, keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
        super().check(keys, privacy_unit, windows)
        if keys is None and not isinstance(privacy_unit, PrivacyId):
            words = "must have keys or a privacy id for a count of records. Without both, use another metric"
            raise ArgumentError("metrics", words, "E513")


@dataclasses.dataclass(frozen=True)
class PrivacyIdCount(RecordCount):
    """The number of privacy ids for each key, as a metric next to others.

    The metric is the summary count of units with this metric's share. `privacy.summary_counts` proves its sensitivity:
    an id with K keys adds 1 to each of them, where `RecordBounds` keep max_keys of K. Under a norm b, the numbers of an
    id with more than b^2 keys (b under L1) are scaled down.
    """

    spec: CountSpec = dataclasses.field(default=CountSpec(counts_privacy_ids=True), init=False, repr=False)

    name: ClassVar[str] = "privacy_ids"

    def check(self, keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
        if not isinstance(privacy_unit, PrivacyId):
            raise ArgumentError(
                "metrics", "must not count privacy ids if records are protected. Use a $PrivacyId", "E513"
            )


@dataclasses.dataclass(frozen=True)
class Metrics(Count):
    """Several metrics over the same records, in one release.

    Records are clipped once, and keys selected once, for all metrics together. Under an L2 norm, a
    unit's squared length is its squared length in each metric times the metric's share of rho, summed over metrics, and
    each metric has its own scaling factor. Under an L1 norm, a single factor scales all metrics. A record whose item is
    null in one metric counts for the others. A `PrivacyIdCount` with share s has s of what the other summary counts
    leave, and the other metrics divide the rest.

    Args:
      metrics: the metrics by name.
    """

    metrics: Mapping[str, Metric]
    spec: MetricsSpec = dataclasses.field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "metrics"

    def __post_init__(self) -> None:
        _validate.instance(Mapping, metrics=self.metrics)
        for metric in self.metrics.values():
            _validate.instance(Metric, metrics=metric)
        metrics = dict(self.metrics)
        are_equal = all(each.share is None for each in metrics.values())
        otherwise = Fraction(1, max(len(metrics), 1)) if are_equal else Fraction(0)
        parts = [MetricPart(name, each.count.spec, Fraction(each.share or otherwise)) for name, each in metrics.items()]
        object.__setattr__(self, "metrics", metrics)
        object.__setattr__(self, "spec", MetricsSpec(tuple(parts)))

    def selected(self, item: Selector, every: Selector) -> Items:
        if item is not None:
            raise ArgumentError("item", "must be left out with metrics. Set the item of each Metric", "E513")
        selected = {name: each.count.selected(each.item, every) for name, each in self._counted.items()}
        return tuple((argument_of(name), each) for name, each in selected.items())  # type: ignore[misc]

    @property
    def _counted(self) -> dict[str, Metric]:
        """Metrics with counters."""
        return {part.name: self.metrics[part.name] for part in self.spec.counted}

    def summarized(self, privacy: PrivacySpec) -> PrivacySpec:
        share = next((part.share for part in self.spec.parts if part.spec.counts_privacy_ids), None)
        if share is None:
            return privacy
        others = privacy.summary_counts or SummaryCounts(units=None, weight=None, clipping=None)
        return privacy.with_summary_counts(others.with_units(share))

    def alone(self, item: Selector) -> Mapping[str, tuple[Count, Selector]]:
        return {name: (each.count, each.item) for name, each in self._counted.items()}

    def split(self, items: WeightedItems) -> Mapping[str, WeightedItems]:
        found = self.spec.split(items.keys)
        return {part.name: items._replace(keys=keys[has], weights=items.weights[has]) for part, keys, has in found}

    def check(self, keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
        refuse_item_limit(privacy_unit, "metrics. An item would be all fields together")
        for metric in self.metrics.values():
            metric.count.check(keys, privacy_unit, windows)

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Metrics:
        if terms.privacy.noise is None:  # metrics share a noise distribution, chosen after the layouts
            terms = terms.with_noise(Noise.GAUSSIAN)
        found = {name: each.count.suited(terms, over_time=over_time) for name, each in self.metrics.items()}
        return Metrics({name: dataclasses.replace(each, count=found[name]) for name, each in self.metrics.items()})

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        """Select Laplace noise if it suits each metric with its share of the privacy loss."""
        each = [decided(self.spec, terms, functools.partial(_width, *part)) for part in self._with_tables]
        return next((found for found in each if found.noise is Noise.GAUSSIAN), each[0])

    def calibrate(self, terms: ReleaseTerms) -> Calibration:
        return calibrated(self.spec, terms)

    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        return next(iter(self.errors(terms, parameters).values()))

    def errors(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> dict[str, tuple[str, float]]:
        """Name and compute each metric's error from noise with these parameters alone."""
        found = zip(self._counted, self._with_tables, strict=True)
        errors = {name: count.error(terms, parameters[tables]) for name, (count, tables) in found}
        units = [table for table in aside(terms) if UNITS in table.names]
        return {name: errors[name] if name in errors else _error_of(*units) for name in self.metrics}

    @property
    def _with_tables(self) -> list[tuple[Count, slice]]:
        ends = [0, *itertools.accumulate(part.tables for part in self.spec.counted)]
        return [
            (metric.count, slice(*own))
            for metric, own in zip(self._counted.values(), itertools.pairwise(ends), strict=True)
        ]

    def display_data(self) -> dict[str, Any]:
        return {f"metrics.{part.name}": f"{part.spec.kind}, {part.share} of rho" for part in self.spec.parts}

    def plan(
        self, calibrated: Calibration, n: int | None, *, keys: int | None, target_error: Any, guess: Guess | None = None
    ) -> Plan:
        refuse_guess(guess)
        check_size(n, calibrated.terms)
        terms, names = calibrated.terms, f"{', '.join(self.metrics)}{copies_in_words(keys)}"
        return Plan(
            spec=self.spec,
            terms=terms,
            n=n,
            keys=keys,
            sigma_squared=calibrated.per_table,
            warnings=terms.warnings(),
            about=(Line(f"{names}, of the same records", fields={"kind": "metrics", "keys": keys}, label="Metrics"),),
            noisy=f"each counter{under_norm(terms)}; {paid_in_words(terms)}",
            expected=(
                _expected(calibrated, self.errors(terms.under(1), calibrated.per_table)),
                self._by_bound(calibrated),
            ),
        )

    def _by_bound(self, calibrated: Calibration) -> Line:
        terms, given = calibrated.terms, calibrated.per_table
        errors = functools.cache(lambda at: self.errors(at, given if at == terms else calibrate(self.spec, at)))

        def error(name: str, at: ReleaseTerms) -> float:
            return errors(at)[name][1]

        by_bound = {name: errors_by_bound(terms, functools.partial(error, name)) for name in self.metrics}
        words = alternatives("", by_bound, f"What would change these errors (noise only), by {bound_in_words(terms)}")
        fields = {name: [each.as_dict("bound") for each in row] for name, row in by_bound.items()}
        is_shown = any(by_bound.values()) and not terms.privacy_unit.over_horizon
        return Line(words if is_shown else "", "by_bound", by_bound, {"by_bound": fields})


def _error_of(units: NoisyTable) -> tuple[str, float]:
    return "margin of error", units.noise.margin(units.parameter, CONFIDENCE, units.grid_bits)


def _width(count: Count, tables: slice, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
    return count.width(terms, parameters[tables])


def _expected(calibrated: Calibration, errors: dict[str, tuple[str, float]]) -> Line:
    terms, fields, rows = calibrated.terms, {}, []
    for part, (name, (measure, error)) in zip(calibrated.spec.parts, errors.items(), strict=True):
        fields[name] = {"share": float(part.share), "measure": measure, "error": error}
        sign = "±" if measure.startswith("margin") else ""
        rows.append((f"{part.name} ({part.share} of the share)", f"{measure} {sign}{in_digits(error)}"))
    words = in_table(f"Expected errors (noise only{under_norm(terms)})", rows)
    return Line("" if terms.privacy_unit.over_horizon else words, "errors", errors, {"metrics": fields})
