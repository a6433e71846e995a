"""Sketch releases: frequencies, quantiles, and searches for the most frequent values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.declared.count import Count, Guess
from beam_dpsketch.exact.domains import BytesDomain, Domain
from beam_dpsketch.exact.sketches import raw_type
from beam_dpsketch.exact.sketches.listed_items import ListedItems
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.planning.advice import measured
from beam_dpsketch.planning.kinds.layouts import (
    Purpose,
    RankedLayout,
    even_records,
    layout_in_words,
    layout_of,
    search_in_words,
    search_layout,
    why_tree,
)
from beam_dpsketch.planning.plan import Plan
from beam_dpsketch.planning.sketch_plan import plan_sketch
from beam_dpsketch.planning.suiting import decided, norm_units
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.terms import ReleaseTerms

Searchable: TypeAlias = "Domain | TreeSpec"
MAX_K = 1 << 31
_SHORT_HISTOGRAM = 8


@dataclasses.dataclass(frozen=True)
class AnySketch(Count):
    """A sketch release, for any question."""

    spec: Any

    def __post_init__(self) -> None:
        raw_type(self.spec)  # raises an error for other objects

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        return decided(self.spec, terms)

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Count:
        if over_time and self.spec.has_factor:
            raise ArgumentError(
                "domain",
                "must not have a square-root factorization with a Horizon: timeline rows would count each record 2**42 "
                "times, which 64-bit counters cannot represent. Use a domain or $tree",
                "E432",
            )
        return self

    def calibrate(self, terms: ReleaseTerms) -> Calibration:
        return calibrated(self.spec, terms)

    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        return measured(self.spec, terms, parameters, search=self.is_search)

    def plan(
        self,
        calibrated: Calibration,
        n: int | None,
        *,
        keys: int | None,
        target_error: Fraction | float,
        guess: Guess | None = None,
    ) -> Plan:
        return plan_sketch(
            calibrated,
            n,
            keys=keys,
            search=self.is_search,
            target_error=target_error,
            guess=guess,
            layout=self.layout_in_words(calibrated.terms),
            even_records=self.even_records(calibrated.terms.asked),
        )

    def layout_in_words(self, terms: ReleaseTerms) -> str:
        """Reason for the chosen layout, for a plan. Empty if the layout was given."""
        return ""

    def even_records(self, bounds: ContributionLimit) -> int | None:
        """Count the records per person that count in full if spread evenly. `None` except for ranks under a norm."""
        return None


@dataclasses.dataclass(frozen=True)
class ItemFrequencies(AnySketch):
    """Item frequencies.

    Args:
      spec: the sketch, or `ListedItems` for exact counts of listed items.
    """

    spec: SketchSpec | ListedItems

    name: ClassVar[str] = "frequencies"

    def __post_init__(self) -> None:
        _validate.instance(SketchSpec, ListedItems, spec=self.spec)

    @property
    def list_size(self) -> int | None:
        return self.spec.cells if self.spec.is_listed else None


@dataclasses.dataclass(frozen=True)
class Quantiles(AnySketch):
    """The distribution of ordered values.

    Args:
      domain: the possible values, or a layout over them: a `FactorizationSpec` or a `TreeSpec`.
      optimize_for: "ranks" for quantiles, "ranges", or "values" for frequencies of single values. A domain has the
        layout with the least predicted error, and the plan names it and the others.
    """

    domain: Domain | RankedLayout
    optimize_for: Purpose = "ranks"
    spec: RankedLayout = dataclasses.field(init=False, repr=False, compare=False)
    why_tree: str = dataclasses.field(default="", init=False, repr=False, compare=False)
    """Reason why bounds or timeline rows need a tree, in words."""
    terms: ReleaseTerms | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    """Terms for the choice of layout, possibly without a noise distribution. `None` over time."""

    name: ClassVar[str] = "quantiles"
    is_ranked: ClassVar[bool] = True
    longest_list: ClassVar[int] = 16

    def __post_init__(self) -> None:
        object.__setattr__(self, "spec", layout_of(self.domain, self.optimize_for))

    @property
    def list_size(self) -> int | None:
        """Size up to 8 values, because for more values the chosen norm is farther from the best norm for ranks."""
        size = self.domain.size if isinstance(self.domain, Domain) else self.spec.cells
        alone = isinstance(self.domain, Domain) or self.spec.is_histogram
        return size if alone and size <= _SHORT_HISTOGRAM else None

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Count:
        if not isinstance(self.domain, Domain):
            return super().suited(terms, over_time=over_time)
        found, why = Quantiles(self.domain, self.optimize_for), why_tree(terms.bounds, over_time=over_time)
        known = None if over_time else terms
        spec = layout_of(self.domain, self.optimize_for, needs_tree=bool(why), terms=known)
        for name, value in (("why_tree", why), ("terms", known), ("spec", spec)):
            object.__setattr__(found, name, value)
        return found

    def layout_in_words(self, terms: ReleaseTerms) -> str:
        if self.spec is self.domain:
            return ""
        return layout_in_words(self.spec, self.optimize_for, self.why_tree, self.terms)

    def even_records(self, bounds: ContributionLimit) -> int | None:
        if isinstance(bounds, NormBound) and not bounds.is_l1:
            return even_records(self.spec, Fraction(bounds.max_norm))
        return None


@dataclasses.dataclass(frozen=True)
class TopKSearch(AnySketch):
    """The most frequent values in an ordered domain, by a histogram or a tree.

    `ThresholdedCounts` finds text and bytes.

    Args:
      domain: the possible values, or a layout over them. Up to 2^17 values have a histogram, more have a tree from
        `TreeSpec.for_search`.
      k: how many values to release.
    """

    domain: Searchable
    k: int
    spec: TreeSpec = dataclasses.field(init=False, repr=False, compare=False)
    terms: ReleaseTerms | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    """Release terms, possibly without a noise distribution."""

    name: ClassVar[str] = "top_k"
    is_search: ClassVar[bool] = True

    def __post_init__(self) -> None:
        with AllAtOnce() as checks:
            checks.do(_validate.whole_fields, self, "k", low=1, high=MAX_K)
            object.__setattr__(self, "spec", checks.do(_search_spec, self.domain))

    @property
    def wanted(self) -> int:
        return self.k

    @property
    def list_size(self) -> int | None:
        return self.spec.cells if self.spec.is_histogram else None

    def layout_in_words(self, terms: ReleaseTerms) -> str:
        return "" if self.spec is self.domain else search_in_words(self.spec, self.terms or terms)

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Count:
        if over_time:
            raise search_over_time()
        found = TopKSearch(self.domain, self.k)
        object.__setattr__(found, "terms", terms)
        return found


def calibrated(spec: Any, terms: ReleaseTerms) -> Calibration:
    """Calibrate the noise. Reject terms under which the noise or the private norm is impossible."""
    return dataclasses.replace(Calibration.of(spec, terms), scaled_units=norm_units(spec, terms))


def search_over_time() -> ArgumentError:
    """Build the error for a search over a horizon."""
    return ArgumentError(
        "windows",
        "must not be a horizon, because this release searches for frequent values. Use $frequencies over time, "
        "and ask top_k with candidates",
        "E426",
    )


def _search_spec(domain: Searchable) -> TreeSpec:
    if isinstance(domain, BytesDomain):
        words = (
            f"must be a Domain or a TreeSpec, got {type(domain).__name__}. For text and bytes, use ThresholdedCounts"
        )
        raise ArgumentTypeError("domain", words, "E315")
    return domain if isinstance(domain, TreeSpec) else search_layout(domain)
