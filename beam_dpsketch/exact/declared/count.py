"""Base class of all kinds of releases, and argument checks shared by them."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.declared.public import Keys, TimeColumn, TimeRange
from beam_dpsketch.exact.declared.units import PrivacyId, Unit, check_max_keys, check_unit_type
from beam_dpsketch.exact.domains.spelling import Spelling
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.items import WeightedItems
from beam_dpsketch.exact.reading.selectors import Items, Selector, check_selector
from beam_dpsketch.privacy.budget import PrivacySpec
from beam_dpsketch.privacy.contributions import ContributionLimit
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.privacy.thresholded_counts import ThresholdRule

USUAL_TARGET_ERROR = Fraction(1, 100)
USUAL_QUANTILES = (0.5, 0.95, 0.99)


class Guess(NamedTuple):
    """Assumed distribution of values for a plan of quantiles, and the quantiles whose errors the plan reports.

    Values are log-normal with this median and 99 % quantile, or normal if the median is not positive.
    """

    median: float
    high: float
    quantiles: tuple[float, ...]

    @classmethod
    def of(cls, typical: Any, quantiles: Iterable[float]) -> Guess | None:
        """Create a guess, validated except for the domain. `None` without `typical`."""
        if typical is None:
            return None
        quantiles = tuple(quantiles)
        for each in quantiles:
            _validate.open_unit_interval(quantiles=each)
        try:
            median, high = map(float, typical)
        except (TypeError, ValueError):
            median = high = math.nan
        if not -math.inf < median < high < math.inf:
            raise ArgumentError(
                "typical",
                "must be two finite numbers: the approximate median and a larger 99th percentile, such as (120, 900)",
                "E117",
            )
        return cls(median, high, quantiles)

    @property
    def shape(self) -> str:
        return "log-normal" if self.median > 0 else "normal"

    def values(self, shares: np.ndarray) -> np.ndarray:
        """Compute the quantiles of the assumed distribution at these shares."""
        scores = np.array(list(map(NormalDist().inv_cdf, shares.tolist()))) / NormalDist().inv_cdf(0.99)
        if self.median > 0:
            return self.median * np.exp(scores * math.log(self.high / self.median))
        return self.median + scores * (self.high - self.median)


def refuse_guess(guess: Guess | None) -> None:
    """Raise if a plan without errors of values is given a guess."""
    if guess is not None:
        words = "is supported only for quantiles with $plan_n, and not in continual release. Remove it"
        raise ArgumentError("typical", words, "E118")


def check_size(n: int | None, terms: ReleaseTerms) -> None:
    """Raise if counters could wrap around at this number of records. Scaled counters have less room."""
    if n is not None:
        _validate.whole(low=1, high=1 << min(50, 62 - terms.scale_bits), n=n)


def refuse_item_limit(privacy_unit: Unit, words: str) -> None:
    """Raise if `max_per_item` is set for a kind whose counters are not per item, described by these words."""
    if privacy_unit.bounds.as_dict().get("max_per_item") is not None:
        raise ArgumentError("max_per_item", f"is not supported for {words}. Remove it", "E320")


def check_keys_type(keys: Any) -> None:
    """Check the type of `keys`."""
    if not isinstance(keys, (Keys, type(None))):
        raise ArgumentTypeError(
            "keys",
            f"must be PublicKeys([...]), KeySelection(delta=1e-8) or AssumePublicKeys(), got {type(keys).__name__}. "
            "Keys read from the data would reveal who is in it",
            "E301",
        )


def check_keys(keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
    """Raise if keys are incompatible with the unit or the windows, or if `max_keys` is useless."""
    check_max_keys(privacy_unit, is_keyed=keys is not None)
    chosen, bounds = keys is not None and keys.chosen_by_data, privacy_unit.bounds
    if bounds.has_norm and bounds.max_keys is not None and not chosen:
        raise ArgumentError(
            "max_keys",
            "is supported only with $KeySelection, because the norm limits all other keys together. Remove it",
            "E306",
        )
    if keys is not None:
        keys.check(privacy_unit, windows)


def check_types(
    privacy: Any, privacy_unit: Any, item: Any, weight: Any, keys: Any, windows: Any, time: Any = None, csv: Any = None
) -> None:
    """Check the types of a release's arguments. All wrong types raise together."""
    with AllAtOnce() as checks:
        checks.do(_validate.instance, PrivacySpec, privacy=privacy)
        checks.do(check_unit_type, privacy_unit)
        checks.do(check_selector, item=item, weight=weight)
        checks.do(check_keys_type, keys)
        if windows is not None:
            checks.do(_validate.instance, TimeRange, Horizon, windows=windows)
        if time is not None:
            checks.do(_validate.instance, TimeColumn, time=time)
        if csv is not None:
            checks.do(_validate.instance, Spelling, csv=csv)


class Calibrated(Protocol):
    """Results computed before the data: the noise, and the rule for keys or items."""

    @property
    def terms(self) -> ReleaseTerms:
        """Terms per release, or for all timeline rows."""

    @property
    def scaled_units(self) -> Fraction | None:
        """Target number of units above the norm. `None` if the norm is not chosen from the data."""

    def with_terms(self, terms: ReleaseTerms) -> Calibrated:
        """Replace the terms by terms that have the same noise."""


class Count(abc.ABC):
    """Kind of a release: its counters, how they are bounded, and its calibration before the data.

    Attributes:
      spec: the layout of the counters.
      name: kind name in settings.
      by_item: whether each item is bounded and counted separately, like an output key, without summary counts.
      is_search: whether the release is searched for the most frequent values.
      is_ranked: whether the release answers quantiles rather than item weights.
      is_summed: whether the release answers sums and means. The spec then computes exact answers with `exactly`.
      keys_alone: whether the release contains only keys.
      longest_list: largest number of items in all keys for which a chosen norm is an L1 norm. At epsilon 1 and delta
        1e-6, Laplace noise is a third of Gaussian noise. Errors under an L1 norm are a third for people with a single
        item, and sqrt(items) / 3 times, at most 2.7, for people who use all items evenly.
    """

    spec: Any
    name: ClassVar[str] = "sketch"
    by_item: ClassVar[bool] = False
    is_search: ClassVar[bool] = False
    is_ranked: ClassVar[bool] = False
    is_summed: ClassVar[bool] = False
    keys_alone: ClassVar[bool] = False
    longest_list: ClassVar[int] = 64

    @property
    def list_size(self) -> int | None:
        """Number of items in each key that are counted without collisions under an L1 norm. `None` without a list."""
        return None

    @property
    def wanted(self) -> int | None:
        """Number of values to search for. `None` for kinds without a search."""
        return None

    def selected(self, item: Selector, every: Selector) -> Items:
        """Convert the declared `item` to the selector of an element's items. `every` selects a value in each record."""
        return item

    def summarized(self, privacy: PrivacySpec) -> PrivacySpec:
        """Choose the summary counts."""
        return privacy

    def alone(self, item: Selector) -> Mapping[str, tuple[Count, Selector]]:
        """List each metric's kind and item by name. A kind without metrics has one entry with an empty name."""
        return {"": (self, item)}

    def split(self, items: WeightedItems) -> Mapping[str, WeightedItems]:
        """Split items by the name of the metric that counts them."""
        return {"": items}

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        """Choose the noise distribution from public settings. Most kinds only support Gaussian noise."""
        return terms

    @abc.abstractmethod
    def calibrate(self, terms: ReleaseTerms) -> Calibrated:
        """Compute the noise and the rule for keys or items. Raise if the terms cannot work."""

    @abc.abstractmethod
    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        """Name the error of answers, and compute its size for noise with these parameters alone."""

    def width(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
        """Compute the width of answers for noise with these parameters alone, by which the noise is chosen."""
        return self.error(terms, parameters)[1]

    @abc.abstractmethod
    def plan(
        self,
        calibrated: Any,
        n: int | None,
        *,
        keys: int | None,
        target_error: Fraction | float,
        guess: Guess | None = None,
    ) -> Any:
        """Plan a release from the result of `calibrate`. The other arguments are documented in `plan`."""

    def check(self, keys: Keys | None, privacy_unit: Unit, windows: TimeRange | None) -> None:
        """Raise if keys and bounds are incompatible."""
        check_keys(keys, privacy_unit, windows)

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Count:
        """Choose a layout for these terms and timeline rows. Raise if there is none."""
        return self

    def completed(self, privacy_unit: Unit, privacy: PrivacySpec, keys: Keys | None) -> Unit:
        """Fill in the unit's missing bounds with this kind's defaults."""
        if not isinstance(privacy_unit, PrivacyId):
            return privacy_unit
        return dataclasses.replace(privacy_unit, bounds=self.completed_bounds(privacy_unit.bounds, privacy, keys))

    def completed_bounds(self, bounds: ContributionLimit, privacy: PrivacySpec, keys: Keys | None) -> ContributionLimit:
        """Fill in missing bounds of a privacy id with this kind's defaults."""
        items = (self.list_size or 0) * (1 if keys is None else len(keys.listed or ()))
        if not 0 < items <= self.longest_list or privacy.pure is None or privacy.noise is Noise.GAUSSIAN:
            return bounds
        return bounds.suiting(items)

    def select(
        self, keys: Keys | None, bounds: ContributionLimit, privacy: PrivacySpec
    ) -> SelectionRule | ThresholdRule | None:
        """Create the rule that selects keys or items. `None` if they are not selected from the data."""
        return None if keys is None else keys.rule(bounds.max_keys or 1)

    def limit(self, bounds: ContributionLimit) -> ContributionLimit:
        """Choose the bounds that reading enforces."""
        return bounds

    def display_data(self) -> dict[str, Any]:
        """List the public settings of this kind."""
        return {}
