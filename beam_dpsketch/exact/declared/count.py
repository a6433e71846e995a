"""What kind of release it is: the questions that the rooms below `kinds/` ask of a kind."""

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
from beam_dpsketch.privacy.grouped_counts import GroupRule
from beam_dpsketch.privacy.selection import SelectionRule
from beam_dpsketch.privacy.terms import ReleaseTerms

USUAL_WANTED_ERROR = Fraction(1, 100)
USUAL_QUANTILES = (0.5, 0.95, 0.99)


class Guess(NamedTuple):
    """About what the values of quantiles will be, and which quantiles a plan tells the errors of.

    Values are taken as log-normal with this median and this 99 % point, or as normal where the median is not above 0.
    """

    median: float
    high: float
    quantiles: tuple[float, ...]

    @classmethod
    def of(cls, typical: Any, quantiles: Iterable[float]) -> Guess | None:
        """Return the guess, checked but for the domain; `None` where nothing is guessed."""
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
                "typical", "must be two numbers: about the median, and the larger 99 % point, as (120, 900)", "E117"
            )
        return cls(median, high, quantiles)

    @property
    def shape(self) -> str:
        return "log-normal" if self.median > 0 else "normal"

    def values(self, shares: np.ndarray) -> np.ndarray:
        """Return the values below which these shares of all lie."""
        scores = np.array(list(map(NormalDist().inv_cdf, shares.tolist()))) / NormalDist().inv_cdf(0.99)
        if self.median > 0:
            return self.median * np.exp(scores * math.log(self.high / self.median))
        return self.median + scores * (self.high - self.median)


def refuse_guess(guess: Guess | None) -> None:
    """Refuse a guess of values where a plan tells no errors of values."""
    if guess is not None:
        raise ArgumentError("typical", "must be left out, but for quantiles that are not over time, and with n", "E118")


def check_size(n: int | None, terms: ReleaseTerms) -> None:
    """Refuse a number of records for which counters have no room: those that are scaled wrap around earlier."""
    if n is not None:
        _validate.whole(low=1, high=1 << min(50, 62 - terms.scale_bits), n=n)


def refuse_item_limit(unit: Unit, words: str) -> None:
    """Refuse a limit for one item where an item is not what is counted, as these words say."""
    if unit.bounds.as_dict().get("max_per_item") is not None:
        raise ArgumentError("max_per_item", f"must be left out for {words}", "E320")


def check_keys_type(keys: Any) -> None:
    """Check the type of `keys`."""
    if not isinstance(keys, (Keys, type(None))):
        raise ArgumentTypeError(
            "keys",
            "must be PublicKeys([...]), KeySelection(delta=1e-8) or AssumePublicKeys(): output keys taken "
            f"from the data show who is in it; got {type(keys).__name__}",
            "E301",
        )


def check_keys(keys: Keys | None, unit: Unit, windows: TimeRange | None) -> None:
    """Refuse keys that do not suit the unit or the windows, and a limit of keys in vain."""
    check_max_keys(unit, is_keyed=keys is not None)
    chosen, bounds = keys is not None and keys.chosen_by_data, unit.bounds
    if bounds.has_norm and bounds.max_keys is not None and not chosen:
        raise ArgumentError(
            "max_keys", "must be left out without $KeySelection: under a $NormBound all keys count together", "E306"
        )
    if keys is not None:
        keys.check(unit, windows)


def check_types(
    privacy: Any, unit: Any, item: Any, weight: Any, keys: Any, windows: Any, time: Any = None, csv: Any = None
) -> None:
    """Refuse arguments of a release that are of wrong types, all at once."""
    with AllAtOnce() as checks:
        checks.do(_validate.instance, PrivacySpec, privacy=privacy)
        checks.do(check_unit_type, unit)
        checks.do(check_selector, item=item, weight=weight)
        checks.do(check_keys_type, keys)
        if windows is not None:
            checks.do(_validate.instance, TimeRange, Horizon, windows=windows)
        if time is not None:
            checks.do(_validate.instance, TimeColumn, time=time)
        if csv is not None:
            checks.do(_validate.instance, Spelling, csv=csv)


class Calibrated(Protocol):
    """What is worked out of a release before there are data: its noise, and how keys or items are chosen."""

    @property
    def terms(self) -> ReleaseTerms:
        """What each release promises, or all rows over time."""

    @property
    def scaled_units(self) -> Fraction | None:
        """How many units should be longer than the norm; `None` if the data do not choose it."""

    def with_terms(self, terms: ReleaseTerms) -> Calibrated:
        """Return the same under terms that the noise does not differ under."""


class Count(abc.ABC):
    """A kind of release: which counters, how they are bounded, and what is worked out before there are data.

    Attributes:
      spec: the layout of the counters.
      name: what is released, as settings call it.
      by_item: whether each item is bounded and counted for itself, as an output key is, and nothing aside.
      is_search: whether the most frequent values are searched in the release.
      is_ranked: whether the release is asked for quantiles, and not for weights of items.
      is_summed: whether it is asked for sums and means of all numbers; then the spec tells them `exactly`.
      keys_alone: whether which keys there are is all that is released.
    """

    spec: Any
    name: ClassVar[str] = "sketch"
    by_item: ClassVar[bool] = False
    is_search: ClassVar[bool] = False
    is_ranked: ClassVar[bool] = False
    is_summed: ClassVar[bool] = False
    keys_alone: ClassVar[bool] = False

    @property
    def wanted(self) -> int | None:
        """How many values a search is to find; `None` where nothing is searched."""
        return None

    def selected(self, item: Selector) -> Items:
        """Return what is counted of an element, given the `item` of the declaration."""
        return item

    def alone(self, item: Selector) -> Mapping[str, tuple[Count, Selector]]:
        """Return each metric as a kind with its item, by its name; a kind that has no metrics is one without a name."""
        return {"": (self, item)}

    def split(self, items: WeightedItems) -> Mapping[str, WeightedItems]:
        """Return what goes into the counters of each metric, by its name."""
        return {"": items}

    def decide(self, terms: ReleaseTerms) -> ReleaseTerms:
        """Return the terms with the noise that suits, by public settings; most kinds have Gaussian noise alone."""
        return terms

    @abc.abstractmethod
    def calibrate(self, terms: ReleaseTerms) -> Calibrated:
        """Return the noise, and how keys or items are chosen; refuse terms under which that cannot work."""

    @abc.abstractmethod
    def error(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> tuple[str, float]:
        """Return what the error of answers is called, and its size from noise of these parameters alone."""

    def width(self, terms: ReleaseTerms, parameters: Sequence[Fraction]) -> float:
        """Return how wide answers are, from noise of these parameters alone; which noise there is depends on it."""
        return self.error(terms, parameters)[1]

    @abc.abstractmethod
    def plan(
        self,
        calibrated: Any,
        n: int | None,
        *,
        keys: int | None,
        wanted_error: Fraction | float,
        guess: Guess | None = None,
    ) -> Any:
        """Plan a release from the result of `calibrate`; the other arguments are those of `plan`."""

    def check(self, keys: Keys | None, unit: Unit, windows: TimeRange | None) -> None:
        """Refuse keys and bounds that do not suit."""
        check_keys(keys, unit, windows)

    def suited(self, terms: ReleaseTerms, *, over_time: bool) -> Count:
        """Return the kind with the layout that suits these terms, and rows over time; refuse one that has none."""
        return self

    def completed(self, unit: Unit, privacy: PrivacySpec, keys: Keys | None) -> Unit:
        """Return the unit with the bounds that the kind completes."""
        if not isinstance(unit, PrivacyId):
            return unit
        return dataclasses.replace(unit, bounds=self.completed_bounds(unit.bounds, privacy, keys))

    def completed_bounds(self, bounds: ContributionLimit, privacy: PrivacySpec, keys: Keys | None) -> ContributionLimit:
        """Return bounds of a privacy id with the values that are usual for the kind, where they are left out."""
        return bounds

    def select(
        self, keys: Keys | None, bounds: ContributionLimit, privacy: PrivacySpec
    ) -> SelectionRule | GroupRule | None:
        """Make the rule that chooses the keys, or the items; `None` if the data do not."""
        return None if keys is None else keys.rule(bounds.max_keys or 1)

    def limit(self, bounds: ContributionLimit) -> ContributionLimit:
        """Return the bounds that are enforced on what is read."""
        return bounds

    def display_data(self) -> dict[str, Any]:
        """Return the public settings of the kind alone."""
        return {}
