"""What is protected and how much of it may count: the privacy unit, the neighbouring relation, contribution bounds."""

from __future__ import annotations

import dataclasses
import decimal
import enum
from fractions import Fraction
from typing import Any, ClassVar, Self

from beam_dpsketch import _validate
from beam_dpsketch.errors import AllAtOnce, ArgumentError, ArgumentTypeError, IncompatibleSketchError, RefusalError

MAX_CONTRIBUTION = 1 << 31


class Default(int):
    """A default that can be told from the same number given by a caller."""


class NeighboringRelation(enum.Enum):
    """Which two inputs must be hard to tell apart."""

    REPLACE_ONE = "replace one"
    """One unit's records are exchanged for any other admissible ones; the number of units is public."""

    ADD_OR_REMOVE_ONE = "add or remove one"
    """One unit's records are all there or all missing."""


class PrivacyUnit(enum.Enum):
    """Whose presence the guarantee hides; the value is its meaning in words."""

    RECORD = "one record"
    RECORD_IN_THIS_RELEASE = (
        "one record within this one release (a bare CombineFn does not guard windows, triggers and repeated firings)"
    )
    PRIVACY_ID = "all records of one privacy id"
    PRIVACY_ID_IN_WINDOW = "all records of one privacy id within one window (not over several windows)"
    RECORD_OVER_HORIZON = "one record, over the whole declared horizon"
    PRIVACY_ID_OVER_HORIZON = "all records of one privacy id, over the whole declared horizon"
    PRIVACY_ID_IN_PERIOD = (
        "all that one privacy id contributes to the windows that end within one declared period (not over several "
        "periods)"
    )

    @property
    def is_one_record(self) -> bool:
        """Whether single records are protected; the bounds then keep every record."""
        return self in (PrivacyUnit.RECORD, PrivacyUnit.RECORD_IN_THIS_RELEASE, PrivacyUnit.RECORD_OVER_HORIZON)

    @property
    def over_horizon(self) -> bool:
        """Whether the releases are rows over time, or answers from them."""
        return self in (PrivacyUnit.RECORD_OVER_HORIZON, PrivacyUnit.PRIVACY_ID_OVER_HORIZON)


class ContributionLimit:
    """How much of each privacy unit may count, as a caller says it: `Bounds`, or `AutoNorm`, which the data resolve."""

    has_norm: ClassVar[bool] = False
    """Whether a unit is scaled down to a length, or else loses records."""

    max_weight: int
    signed: bool

    @property
    def size(self) -> int | Fraction | None:
        """`max_norm`, or `max_per_key`; `None` if the data choose it."""
        raise NotImplementedError

    def bound(self, size: int | Fraction) -> Bounds:
        """Return the bounds of another size, or of the one that was chosen."""
        raise NotImplementedError

    @property
    def least(self) -> Bounds:
        """The bounds, or the smallest that the data may choose."""
        return self.bound(1)

    max_keys: int | None = None
    """In how many keys a unit counts or votes, or in how many items of `Groups`; `None` if that is not said."""

    @property
    def kept_keys(self) -> int | None:
        """How many keys of a unit are kept; `None` if all are."""
        return None

    @property
    def says_max_weight(self) -> bool:
        """Whether max_weight was given, not left at its default."""
        return not isinstance(self.max_weight, Default)

    @property
    def has_weights(self) -> bool:
        """Whether weights other than 0 and 1 can count."""
        return self.signed or self.max_weight > 1

    @property
    def min_weight(self) -> int:
        return -self.max_weight if self.signed else 0

    def given(self, otherwise: RefusalError) -> Bounds:
        """Return the bounds; raise this error where the data would have to choose them first."""
        raise otherwise

    def within_max_keys(self) -> Self:
        """Return the same, dropping the items of a unit beyond `max_keys`."""
        return self

    def as_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def words(self, unit: PrivacyUnit, windows: int, period_micros: int) -> str:
        """Return how much of a unit counts, in this number of windows, or in those of each period."""
        raise NotImplementedError

    def _weights(self) -> str:
        return f"weights {self.min_weight} to {self.max_weight}"

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
    """How much of each privacy unit may count: `NormBound` or `RecordBounds`. Noise is calibrated by these."""

    @property
    def squared_length(self) -> Fraction:
        """The square of the length of what one unit adds at most, in records of one item of weight 1."""
        raise NotImplementedError

    @property
    def total_weight(self) -> Fraction | None:
        """The most weight, without signs, of one unit over all keys; `None` if there is no limit."""
        raise NotImplementedError

    def squared_most_of_one_item(self, items: int) -> Fraction:
        """Return the square of the most that a unit of this many items, or more, adds to one of them, in records."""
        raise NotImplementedError

    @property
    def least(self) -> Bounds:
        return self

    def given(self, otherwise: RefusalError) -> Bounds:
        return self

    def union(self, other: Bounds) -> Bounds:
        """Return the tightest bounds that allow all that either allows."""
        if type(other) is not type(self):
            raise IncompatibleSketchError(
                "releases under RecordBounds and under a NormBound cannot be combined: make both under one of them"
            )
        limits = {name: (mine, getattr(other, name)) for name, mine in self.as_dict().items()}
        return type(self)(**{name: None if None in both else max(both) for name, both in limits.items()})


@dataclasses.dataclass(frozen=True)
class RecordBounds(Bounds):
    """How much one privacy unit may contribute to one release; the transforms enforce every bound.

    Take numbers that are known without the data. What exceeds them is dropped, and noise grows with them.

    Args:
      max_per_key: records kept of each unit and key, chosen at random; without keys, of each unit.
      max_keys: keys kept of each unit, chosen at random.
      max_weight: weights are clamped to [0, max_weight], or to [-max_weight, max_weight] if signed; must be given
        where weights are read.
      signed: whether records may delete (negative weights). Then records of a unit are first netted by item, so
        that an insert and its delete in the same window and key cancel, and what is left of an item is split
        into records of at most max_weight.
    """

    max_per_key: int
    _: dataclasses.KW_ONLY
    max_keys: int = 1
    max_weight: int = Default(1)
    signed: bool = False

    def __post_init__(self) -> None:
        self._check_fields()
        if self.max_weight_per_key * self.max_keys > MAX_CONTRIBUTION:
            raise ArgumentError(
                "", f"the bounds together must not let one unit contribute more than {MAX_CONTRIBUTION}", "E204"
            )

    @property
    def size(self) -> int:
        return self.max_per_key

    def bound(self, size: int | Fraction) -> RecordBounds:
        return dataclasses.replace(self, max_per_key=int(size))

    @property
    def kept_keys(self) -> int:
        return self.max_keys

    @property
    def max_weight_per_key(self) -> int:
        """The total weight, without signs, that one unit may contribute to one sketch."""
        return self.max_per_key * self.max_weight

    @property
    def squared_length(self) -> Fraction:
        return Fraction(self.max_weight_per_key**2 * self.max_keys)

    @property
    def total_weight(self) -> Fraction:
        return Fraction(self.max_weight_per_key * self.max_keys)

    def squared_most_of_one_item(self, items: int) -> Fraction:
        return Fraction(self.max_weight_per_key**2)

    def words(self, unit: PrivacyUnit, windows: int, period_micros: int) -> str:
        records = f"{self.max_per_key} record(s)"
        if unit.over_horizon:
            keys = f" and key, {self.max_keys} key(s) per window" if self.max_keys > 1 else ""
            return f"{records} per window{keys}, {windows} window(s) of the horizon, {self._weights()}"
        per_window, period = " per window" if windows > 1 or period_micros else "", period_in_words(period_micros)
        keys = f"{self.max_keys} key(s){per_window}"
        return f"{records} per key, {keys}, {self._weights()}, {windows} window(s){period}"


def period_in_words(period_micros: int) -> str:
    """Return the period that a limit is for, in words; nothing without one."""
    seconds = decimal.Decimal(period_micros).scaleb(-6).normalize()
    return f" of each period of {seconds:f} seconds" if period_micros else ""


def check_bounds(bounds: Any) -> None:
    """Raise `TypeError` unless these are bounds, or a request for some."""
    if not isinstance(bounds, ContributionLimit) or not dataclasses.is_dataclass(bounds):
        raise ArgumentTypeError(
            "bounds", f"must be NormBound(...), $AutoNorm or RecordBounds(...), got {type(bounds).__name__}", "E202"
        )


ONE_RECORD = RecordBounds(1)
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
