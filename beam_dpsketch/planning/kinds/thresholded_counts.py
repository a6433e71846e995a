"""Thresholded counts: a count for each item, released by votes or above a threshold, and their plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.declared.count import Count, Guess, refuse_guess
from beam_dpsketch.exact.declared.public import Keys, TimeRange
from beam_dpsketch.exact.declared.units import Record, Unit
from beam_dpsketch.exact.domains import BytesDomain, Domain
from beam_dpsketch.exact.sketches.listed_items import ThresholdedItems
from beam_dpsketch.exact.sketches.trees import TreeSpec
from beam_dpsketch.noise.counting import Counting, note_of
from beam_dpsketch.noise.keys import sketch_share
from beam_dpsketch.planning.advice import errors_by_bound
from beam_dpsketch.planning.kinds.sketched import MAX_K, Searchable, TopKSearch, search_over_time
from beam_dpsketch.planning.plan import (
    Line,
    Plan,
    alternatives,
    bound_in_words,
    in_digits,
    in_table,
    numbered,
    order_line,
    paid_in_words,
    under_norm,
)
from beam_dpsketch.planning.suiting import crossover, decided, norm_units
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.privacy.norm.bounds import NormLimit
from beam_dpsketch.privacy.summary_counts import SummaryCounts
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule
from beam_dpsketch.statement.statement_text import selection_in_words
from beam_dpsketch.words import shown_plainly

USUAL_MAX_KEYS = 128
"""Default `max_keys` under a norm: a smaller limit drops more items, a larger one raises the threshold and the norm."""


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Thresholding:
    """Count each item exactly, and release it by votes or above a noisy threshold: a method for `PrivateTopK`.

    Guarantee: the release is delta-approximate rho-zCDP, as `privacy.thresholded_counts` proves. Any item from
    a single privacy unit is released with probability at most delta, for all its items, keys and windows together.

    Beam groups the records by item, and items do not collide. If a unit counts for several items and noise is Gaussian,
    it votes for each of them: in two rounds for a quarter of rho, or in one round for 15 % on unbounded input and under
    `REPLACE_ONE` with `RecordBounds`. An item is released with its noisy count if it has enough votes or if that count
    reaches a threshold. Each test has half the delta. Otherwise, and if a unit counts once for each of at most 15
    items, counts alone decide, with all of rho and delta.

    A key in the bounds is an item (with keys, a (key, item) pair): `RecordBounds(2, max_keys=100)` counts 2 records for
    each of 100 items per person. `NormBound(20, max_keys=100)` counts 100 items, scaled down to that norm. A norm
    without max_keys counts 128. Further items are dropped. Signed weights are rejected, and units, records and weight
    have no summary counts.

    Args:
      delta: the probability that an item of one person alone is released, between 0 and 1. A float means its decimal
        spelling. Choose less than 1 over the number of people, such as 1e-8. The default `None` is half the delta of a
        `PrivacySpec` with epsilon and delta. With rho, or with a budget share, delta is required.
    """

    delta: Fraction | float | None = None

    def __post_init__(self) -> None:
        if self.delta is not None:
            _validate.open_unit_interval(delta=self.delta)
            object.__setattr__(self, "delta", ThresholdRule(delta=_validate.exact(delta=self.delta), max_items=1).delta)

    def rule(self, max_items: int, privacy: PrivacySpec) -> ThresholdRule:
        """Build the threshold rule for this many items per unit. Delta defaults to half the delta of the promise."""
        if self.delta is not None:
            return ThresholdRule(delta=_validate.exact(delta=self.delta), max_items=max_items)
        if privacy.pure is None or privacy.part_of is not None:
            raise ArgumentError(
                "method",
                "must have a delta for item selection, because rho or a budget share pays for thresholded counts. Use "
                "$threshold_of_delta",
                "E316",
            )
        return ThresholdRule(delta=Fraction(repr(privacy.reported_delta)) / 2, max_items=max_items)


@dataclasses.dataclass(frozen=True)
class ThresholdedCounts(Count):
    """The k most frequent values, each with its own count.

    Args:
      domain: the possible values.
      k: how many values to release.
      method: the delta for item selection.
    """

    domain: Domain | BytesDomain
    k: int
    method: Thresholding = Thresholding()
    spec: ThresholdedItems = dataclasses.field(init=False, repr=False, compare=False)

    name: ClassVar[str] = "top_k"
    is_search: ClassVar[bool] = True
    by_item: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "k", low=1, high=MAX_K)
        _validate.instance(Thresholding, method=self.method)
        if isinstance(self.domain, TreeSpec):
            raise ArgumentTypeError(
                "domain",
                f"must be a domain with $method_Thresholding, got {type(self.domain).__name__}. Use "
                f"{self.domain.domain}",
                "E315",
            )
        _validate.instance(Domain, BytesDomain, domain=self.domain)
        object.__setattr__(self, "spec", ThresholdedItems(self.domain))

    @property
    def wanted(self) -> int:
        return self.k

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        return decided(self.spec, terms, _least_with_interval)

    def calibrate(self, terms: ReleaseTerms) -> Counting:
        return Counting.of(self.spec, terms)._replace(scaled_units=norm_units(self.spec, terms))

    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        return "smallest released count, with its interval,", _least_with_interval(terms, parameters)

    def plan(
        self, calibrated: Counting, n: int | None, *, keys: int | None, target_error: Any, guess: Guess | None = None
    ) -> Plan:
        refuse_guess(guess)
        terms = calibrated.declared
        what = f"a count for each item of {self.domain}; items do not collide, and memory grows with the data"
        return Plan(
            spec=self.spec,
            terms=terms,
            n=n,
            keys=keys,
            sigma_squared=calibrated.per_table,
            warnings=terms.warnings(),
            about=(Line(what, fields={"kind": "thresholded_counts"}, label="Counts"),),
            noisy=f"each count{under_norm(terms)}; {paid_in_words(terms, sketch_share(self.spec, terms))}",
            promised=tuple(_items(calibrated)),
            expected=tuple(_expected(calibrated, n)),
        )

    def check(self, keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
        """Reject keys from the data, bounds without `max_keys`, and deletions."""
        bounds = privacy_unit.bounds
        if keys is not None and keys.chosen_by_data:
            raise ArgumentError(
                "keys",
                "must be $PublicKeys or $AssumePublicKeys for thresholded counts, which select (key, item) pairs by "
                "count. With $AssumePublicKeys, only keys with a released item appear",
                "E314",
            )
        if bounds.max_keys is None and not bounds.has_norm and not isinstance(privacy_unit, Record):
            raise ArgumentError(
                "max_keys",
                "is required for thresholded counts: the number of items that each privacy id can support. Example: "
                "$records_of_2_keys",
                "E305",
            )
        if bounds.signed:
            raise ArgumentError(
                "signed",
                "is not supported for thresholded counts: a deletion could hide that an item belongs to one person. "
                "Use $frequencies, which counts deletions, and ask top_k with candidates",
                "E307",
            )

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Count:
        if over_time:
            raise search_over_time()
        return self

    def completed_bounds(self, bounds: ContributionLimit, privacy: PrivacySpec, keys: Keys | None) -> ContributionLimit:
        """Set the default `max_keys` in a norm without it, because the norm's noise does not grow with more items."""
        if not isinstance(bounds, NormLimit) or bounds.max_keys is not None:
            return bounds
        limited: Any = dataclasses.replace(bounds, max_keys=bounds.max_distinct_items or USUAL_MAX_KEYS)  # type: ignore[type-var]
        return limited

    def summarized(self, privacy: PrivacySpec) -> PrivacySpec:
        """Remove the default summary counts, because item counts spend all of rho. Reject others."""
        if privacy.summary_counts not in (None, SummaryCounts()):
            words = "is not supported for thresholded counts, because the items spend all of rho. Remove it"
            raise ArgumentError("summary_counts", words, "E322")
        return privacy.with_summary_counts()

    def select(self, keys: Keys | None, bounds: ContributionLimit, privacy: PrivacySpec) -> ThresholdRule:
        return self.method.rule(bounds.max_keys or 1, privacy)

    def limit(self, bounds: ContributionLimit) -> ContributionLimit:
        return bounds.within_max_keys()


def top_k(
    domain: Searchable | BytesDomain, k: int, method: Thresholding | None = None
) -> TopKSearch | ThresholdedCounts:
    """Select the kind that finds the most frequent values: exact counts for text and bytes, a search for numbers."""
    if method is None and not isinstance(domain, BytesDomain):
        return TopKSearch(domain, k)
    return ThresholdedCounts(domain, k, method or Thresholding())  # type: ignore[arg-type]


def _least_with_interval(terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
    """Compute the count at which an item is released without votes, plus its 95 % interval width."""
    (parameter,) = parameters
    note = note_of(terms, parameter)
    return note.least_count + 2 * terms.noise.margin(parameter, 0.95, note.scale_bits)


def _items(counting: Counting) -> Iterator[Line]:
    note, terms = counting.note, counting.declared
    counts = "" if terms.norm is None else "; counts are for a norm of 1 and proportional to the norm"
    yield numbered("items", note, f"{selection_in_words(note, terms.delta, terms)}{counts}", "Items")
    if (votes := note.votes) is not None:
        more = votes.of_several(terms.privacy_unit.noun, "item")
        yield Line(f"{float(100 * votes.share):.4g} % of rho; probability 1/2 also with {more}", label="Votes")


def _expected(counting: Counting, n: int | None) -> Iterator[Line]:
    terms, note = counting.declared, counting.note

    def likely(at: ReleaseTerms) -> float:
        return (counting if at == terms else Counting.of(counting.spec, at)).note.likely_count

    half_width = counting.terms.noise.margin(counting.items.parameter, 0.95, note.scale_bits)
    heading = f"Expected margin of error of a count (95 %{under_norm(terms)})"
    yield numbered("half_width", half_width, in_table(heading, [("noise only", f"±{in_digits(half_width)}")]))
    if n is not None:
        share = min(1.0, note.likely_count / n)
        words = f"An item with at least {100 * share:.2g} % of {n:,} records is released with probability 99 %"
        yield numbered("likely_share", share, f"{words}{under_norm(terms)}, if none of its records are clipped")
    by_bound = errors_by_bound(terms, likely)
    by_counts = "" if note.votes is None else " by its count alone"
    heading = f"Count of an item that is released{by_counts} with probability 99 %, at other settings"
    words = alternatives("", {bound_in_words(terms): by_bound}, heading)
    fields = [{"bound": float(each.setting), "likely": each.error} for each in by_bound]
    yield Line(words if by_bound else "", "by_bound", by_bound, {"by_bound": fields})
    ratio = crossover(counting.spec, terms, _least_with_interval)
    yield numbered("crossover", ratio, "" if ratio is None else order_line(terms, ratio))
