"""Privacy unit, neighboring relation and contribution bounds."""

from __future__ import annotations

import dataclasses
import enum
from fractions import Fraction
from typing import Any, ClassVar, Self

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError, IncompatibleSketchError, RefusalError
from beam_dpsketch.words import length_of_time, up_to

MAX_CONTRIBUTION = 1 << 31


class Default(int):
    """Default that differs from an equal number given by the caller."""


class DefaultFraction(Fraction):
    """Default fraction that differs from an equal fraction given by the caller."""


class NeighboringRelation(enum.Enum):
    """Relation between the two inputs that must be hard to distinguish."""

    REPLACE_ONE = "replace one"
    """The records of a unit are exchanged for any other admissible records. The number of units is public."""

    ADD_OR_REMOVE_ONE = "add or remove one"
    """The records of a unit are all present or all absent."""


class PrivacyUnit(enum.Enum):
    """Privacy unit that the guarantee protects. The value is its meaning in words."""

    RECORD = "any one record (a person with several records is protected less)"
    RECORD_IN_THIS_RELEASE = (
        "any one record, within this release only (a bare CombineFn does not check windows, triggers and repeated "
        "firings)"
    )
    PRIVACY_ID = "all records of any one privacy id"
    PRIVACY_ID_IN_WINDOW = (
        "all records of any one privacy id within one window; not across windows, where losses add up"
    )
    RECORD_OVER_HORIZON = "any one record, over all windows of the horizon"
    PRIVACY_ID_OVER_HORIZON = "all records of any one privacy id, over all windows of the horizon"
    PRIVACY_ID_IN_PERIOD = (
        "what any one privacy id contributes to the windows that end in one period; not across periods, where losses "
        "add up"
    )

    @property
    def is_one_record(self) -> bool:
        """Whether single records are protected. The bounds then keep every record."""
        return self in (PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_THIS_RELEASE, PrivacyUnit.RECORD_OVER_HORIZON)

    @property
    def noun(self) -> str:
        """Noun for the privacy unit."""
        return "record" if self.is_one_record else "privacy id"

    @property
    def span(self) -> str:
        """Time span of the protection: "window", "period", or "" if unlimited."""
        spans = {PrivacyUnit.PRIVACY_ID_IN_WINDOW: "window", PrivacyUnit.PRIVACY_ID_IN_PERIOD: "period"}
        return spans.get(self, "")

    @property
    def over_horizon(self) -> bool:
        """Whether the releases are timeline rows, or answers from them."""
        return self in (PrivacyUnit.RECORD_OVER_HORIZON, PrivacyUnit.PRIVACY_ID_OVER_HORIZON)


class ContributionLimit:
    """Contribution limit chosen by the caller: `Bounds`, or `AutoNorm`, which the data resolve."""

    has_norm: ClassVar[bool] = False
    """Whether a unit is scaled to a length. Without a norm, records are dropped."""

    max_weight: int
    signed: bool

    @property
    def size(self) -> int | Fraction | None:
        """`max_norm` or `max_records`, or `None` if it is chosen from the data."""
        raise NotImplementedError

    def bound(self, size: int | Fraction) -> Bounds:
        """Build the bounds with another size, or with the chosen size."""
        raise NotImplementedError

    @property
    def least(self) -> Bounds:
        """The bounds, or the smallest bounds that the data may choose."""
        return self.bound(1)

    max_keys: int | None = None
    """Largest number of keys or items in which a unit counts or votes, or `None` if unset."""

    @property
    def kept_keys(self) -> int | None:
        """Largest number of keys kept per unit, or `None` if all are kept."""
        return None

    @property
    def says_max_weight(self) -> bool:
        """Whether the caller set max_weight."""
        return not isinstance(self.max_weight, Default)

    @property
    def has_weights(self) -> bool:
        """Whether weights other than 0 and 1 can count."""
        return self.signed or self.max_weight > 1

    @property
    def min_weight(self) -> int:
        return -self.max_weight if self.signed else 0

    def given(self, otherwise: RefusalError) -> Bounds:
        """Get the bounds. Raise this error if the data must choose them first."""
        raise otherwise

    def suiting(self, items: int) -> Self:
        """Fill unset fields for a list with this many items, if Laplace noise is possible."""
        return self

    def within_max_keys(self) -> Self:
        """Limit each unit to `max_keys` items."""
        return self

    def as_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def words(self, of: Any, *, combined: bool = False) -> str:
        """Describe the contribution limit.

        Args:
          of: the terms of a release, or its statement.
          combined: whether they are the widest bounds of several runs.
        """
        raise NotImplementedError

    def _weights(self, words: str) -> str:
        return words.format(self.min_weight, self.max_weight) if self.has_weights else ""

    def _check_fields(self) -> None:
        with AllAtOnce() as checks:
            for field in dataclasses.fields(self):  # type: ignore[arg-type]
                value = getattr(self, field.name)
                if field.type == "bool":
                    checks.do(_validate.instance, bool, **{field.name: value})
                elif (field.type == "int" and type(value) is not Default) or (
                    field.type == "int | None" and value is not None
                ):
                    checks.do(_validate.whole_fields, self, field.name, low=1, high=MAX_CONTRIBUTION)


class Bounds(ContributionLimit):
    """Contribution bounds of each privacy unit: `NormBound` or `RecordBounds`. They determine the noise."""

    @property
    def squared_length(self) -> Fraction:
        """Squared length of the largest contribution by a unit, in records of the same item with weight 1."""
        raise NotImplementedError

    @property
    def total_weight(self) -> Fraction | None:
        """Largest total weight, without signs, of a unit over all keys, or `None` if unlimited."""
        raise NotImplementedError

    def squared_most_of_one_item(self, items: int) -> Fraction:
        """Squared largest contribution to an item by a unit with at least this many items, in records."""
        raise NotImplementedError

    @property
    def least(self) -> Bounds:
        return self

    def given(self, otherwise: RefusalError) -> Bounds:
        return self

    def union(self, other: Bounds) -> Bounds:
        """Build the tightest bounds that allow every contribution allowed by either operand."""
        if type(other) is not type(self):
            raise IncompatibleSketchError(
                "Releases with RecordBounds and with NormBound cannot be combined. Use the same type of bounds for both"
            )
        limits = {name: (mine, getattr(other, name)) for name, mine in self.as_dict().items()}
        return type(self)(**{name: self._wider(*both) for name, both in limits.items()})

    def _wider(self, *limits: Any) -> Any:
        return None if None in limits else max(limits)


@named("RecordBounds")
@dataclasses.dataclass(frozen=True)
class RecordBounds(Bounds):
    """Contribution bounds in records per privacy unit and release. The transforms enforce every bound.

    Choose numbers without looking at the data. Excess records are dropped, and noise grows with the bounds.

    Args:
      max_records: records kept per unit and key, chosen at random; without keys, per unit.
      max_keys: largest number of keys, or separately counted items, per privacy id, chosen at random, required with
        keys or such items. Text items are counted separately. Without either, each unit is in a single release, without
        this argument.
      max_weight: weights are clamped to [0, max_weight], or to [-max_weight, max_weight] if signed. Required if weights
        are read.
      signed: whether records may delete (negative weights). The records of a unit are then first netted by item, which
        cancels an insert and its delete in the same window and key. The net weight of an item is split into records of
        at most max_weight.
    """

    max_records: int
    _: dataclasses.KW_ONLY
    max_keys: int | None = None
    max_weight: int = Default(1)
    signed: bool = False

    def __post_init__(self) -> None:
        self._check_fields()
        if self.max_weight_per_key * self.kept_keys > MAX_CONTRIBUTION:
            raise ArgumentError(
                "",
                f"The bounds allow a privacy unit to contribute more than {MAX_CONTRIBUTION}. Use smaller bounds",
                "E204",
            )

    @property
    def size(self) -> int:
        return self.max_records

    def bound(self, size: int | Fraction) -> RecordBounds:
        return dataclasses.replace(self, max_records=int(size))

    @property
    def kept_keys(self) -> int:
        return self.max_keys or 1

    @property
    def max_weight_per_key(self) -> int:
        """Largest total weight, without signs, that a unit may contribute to a sketch."""
        return self.max_records * self.max_weight

    @property
    def squared_length(self) -> Fraction:
        return Fraction(self.max_weight_per_key**2 * self.kept_keys)

    @property
    def total_weight(self) -> Fraction:
        return Fraction(self.max_weight_per_key * self.kept_keys)

    def squared_most_of_one_item(self, items: int) -> Fraction:
        return Fraction(self.max_weight_per_key**2)

    def _wider(self, *limits: Any) -> Any:
        return max((each for each in limits if each is not None), default=None)  # `None` means one key

    def words(self, of: Any, *, combined: bool = False) -> str:
        if of.privacy_unit.is_one_record:
            windows = f" in each of up to {of.window_count} windows" if of.window_count > 1 else ""
            return f"each record counts{self._weights(' with a weight from {} to {}') or ' once'}{windows}"
        what, windows = "item count" if of.counts_items else "key", windows_in_words(of)
        keys = "" if self.max_keys is None else f" in {'each of ' * (self.max_keys > 1)}{up_to(self.max_keys, what)}"
        most = f"{up_to(self.max_records, 'record')} per privacy id{per_window(of)}{keys}"
        rest = f"the rest are dropped{' at random' * (not windows)}"
        return f"{most}{self._weights(', with weights from {} to {}')}{windows}; {rest}"


def is_in_windows(of: Any) -> bool:
    """Whether bounds apply to each of several windows, or to the first windows alone."""
    return bool(of.first_windows or of.window_count > 1)


def per_window(of: Any) -> str:
    """Format the scope of bounds that apply per window: units within a window, or in several windows."""
    return " and window" * (of.privacy_unit is PrivacyUnit.PRIVACY_ID_IN_WINDOW or of.window_count > 1)


def windows_in_words(of: Any) -> str:
    """Describe the windows in which a unit counts, if they are limited."""
    if not (is_in_windows(of) or of.period_micros or of.privacy_unit.over_horizon):
        return ""
    period = " of the horizon" * of.privacy_unit.over_horizon
    if of.period_micros:
        period = f" of each period of {length_of_time(of.period_micros)}"
    windows = up_to(of.window_count, "window")
    if of.first_windows:
        windows = f"its first {windows.removeprefix('one ').removeprefix('up to ')}"
    return f", in {windows}{period}"


def check_bounds(bounds: Any) -> None:
    """Raise `TypeError` unless the value is a contribution limit."""
    if not isinstance(bounds, ContributionLimit) or not dataclasses.is_dataclass(bounds):
        raise ArgumentTypeError(
            "bounds", f"must be NormBound(...), $AutoNorm or RecordBounds(...), got {type(bounds).__name__}", "E202"
        )


ONE_RECORD = RecordBounds(1)
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE


def check_unit(privacy_unit: PrivacyUnit, bounds: ContributionLimit, period_micros: int) -> None:
    """Check that bounds and period fit the privacy unit."""
    if privacy_unit.is_one_record and bounds.has_norm:
        raise ArgumentError(
            "bounds", "must be $RecordBounds if the privacy unit is a record. $NormBound requires $PrivacyId", "E211"
        )
    if privacy_unit.is_one_record and (bounds.size, bounds.kept_keys) != (1, 1):
        raise ArgumentError(
            "bounds",
            "must limit max_records and max_keys to 1 if the privacy unit is a record. To protect all records of a "
            "person, use $PrivacyId",
            "E212",
        )
    if (privacy_unit is PrivacyUnit.PRIVACY_ID_IN_PERIOD) != (period_micros > 0):
        raise ValueError("period_micros must be above 0 for a privacy unit within a period, and 0 otherwise")
