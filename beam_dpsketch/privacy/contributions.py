"""What is protected and how much of it may count: the privacy unit, the neighbouring relation, contribution bounds."""

from __future__ import annotations

import dataclasses
import enum
from fractions import Fraction
from typing import Any, ClassVar

from beam_dpsketch import _validate
from beam_dpsketch.errors import IncompatibleSketchError

MAX_CONTRIBUTION = 1 << 31
_MAX_DENOMINATOR = 1 << 16


class _Default(int):
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


class Bounds:
    """How much of each privacy unit may count: `NormBound`, `AutoNorm` or `RecordBounds`."""

    has_norm: ClassVar[bool] = True
    """Whether a unit is scaled down to a length, or else loses records."""

    max_weight: int
    signed: bool

    @property
    def says_max_weight(self) -> bool:
        """Whether max_weight was given, not left at its default."""
        return not isinstance(self.max_weight, _Default)

    @property
    def has_weights(self) -> bool:
        """Whether weights other than 0 and 1 can count."""
        return self.signed or self.max_weight > 1

    @property
    def min_weight(self) -> int:
        """The smallest weight of a record."""
        return -self.max_weight if self.signed else 0

    @property
    def squared_length(self) -> Fraction:
        """The square of the length of what one unit adds at most, in records of one item of weight 1."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    def union(self, other: Bounds) -> Bounds:
        """Return the tightest bounds that allow all that either allows."""
        if type(other) is not type(self):
            raise IncompatibleSketchError(
                "releases under RecordBounds and under a NormBound cannot be combined: make both under one of them"
            )
        return self._union(other)

    def _union(self, other: Any) -> Bounds:
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class RecordBounds(Bounds):
    """How much one privacy unit may contribute to one release; the transforms enforce every bound.

    Take numbers that are known without the data. What exceeds them is dropped, and noise grows with them.

    Args:
      max_contributions_per_partition: records kept per unit and partition (output key), chosen at random.
      max_partitions: partitions kept per unit, chosen at random.
      max_weight: weights are clamped to [0, max_weight], or to [-max_weight, max_weight] if signed; must be given
        where weights are read.
      signed: whether records may delete (negative weights). Then records of a unit are first netted by item, so
        that an insert and its delete in the same window and partition cancel, and what is left of an item is split
        into records of at most max_weight.
    """

    has_norm: ClassVar[bool] = False

    max_contributions_per_partition: int
    _: dataclasses.KW_ONLY
    max_partitions: int = 1
    max_weight: int = _Default(1)
    signed: bool = False

    def __post_init__(self) -> None:
        names = ["max_contributions_per_partition", "max_partitions"]
        if self.says_max_weight:
            names.append("max_weight")
        _validate.whole_fields(self, *names, low=1, high=MAX_CONTRIBUTION)
        _validate.instance(bool, signed=self.signed)
        if self.max_weight_per_partition * self.max_partitions > MAX_CONTRIBUTION:
            raise ValueError(f"the bounds together must not let one unit contribute more than {MAX_CONTRIBUTION}")

    @property
    def max_weight_per_partition(self) -> int:
        """The total weight, without signs, that one unit may contribute to one sketch."""
        return self.max_contributions_per_partition * self.max_weight

    @property
    def squared_length(self) -> Fraction:
        return Fraction(self.max_weight_per_partition**2 * self.max_partitions)

    def _union(self, other: RecordBounds) -> RecordBounds:
        return RecordBounds(
            max(self.max_contributions_per_partition, other.max_contributions_per_partition),
            max_partitions=max(self.max_partitions, other.max_partitions),
            max_weight=max(self.max_weight, other.max_weight),
            signed=self.signed or other.signed,
        )


@dataclasses.dataclass(frozen=True)
class NormBound(Bounds):
    """How long what one privacy unit adds to all counters together may be; the transforms enforce it.

    Each person's records get one common weight of at most 1, just small enough that the length (the root of the sum of
    squares) of all that the person adds is at most that of `max_norm` records of one item. Noise grows with `max_norm`:
    it is that of `RecordBounds(max_norm)`. A person with up to `max_norm` records is not scaled, and one whose records
    are spread over many items may have many more. All keys count together, and on bounded input all windows.

    Take a number that is known without the data: about as many records as a typical heavy person has of one item.

    Args:
      max_norm: the largest length, in records of one item, each of weight 1: an integer or a `Fraction`, up to 2**31.
      max_weight: weights are clamped to [0, max_weight], or to [-max_weight, max_weight] if signed, and then added up
        by item; must be given where weights are read.
      max_per_item: how much one unit may count for one item, in each key and window; 1 counts people per item, as long
        as a person's length is within `max_norm`. `None` leaves it to `max_norm`.
      signed: whether records may delete (negative weights). An insert and its delete of one item, key and window cancel
        before anything else.
      resource_limit: how many different items (in each key and window) are kept of a unit, to save memory, chosen by a
        hash. It is not a privacy bound and does not lower the noise. `None` keeps all.
      max_keys: for how many keys one unit votes where `KeySelection` chooses keys, which needs it. Records in other
        keys still count there. On bounded input with windows it is for how many pairs of key and window; over a
        `Horizon`, keys are chosen once for all windows. With `Groups`, for how many items one unit counts, which need
        it too. `None` elsewhere.
    """

    max_norm: int | Fraction
    _: dataclasses.KW_ONLY
    max_weight: int = _Default(1)
    max_per_item: int | None = None
    signed: bool = False
    resource_limit: int | None = None
    max_keys: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_norm, str):
            raise TypeError("max_norm must be a number of records; AutoNorm() chooses it from the data")
        norm = _validate.exact(max_norm=self.max_norm)
        if norm > MAX_CONTRIBUTION or norm.denominator > _MAX_DENOMINATOR:
            raise ValueError("max_norm must be at most 2**31, and a fraction with a denominator of at most 2**16")
        object.__setattr__(self, "max_norm", norm.numerator if norm.denominator == 1 else norm)
        names = ["max_weight"] if self.says_max_weight else []
        names += [name for name in ("max_per_item", "resource_limit", "max_keys") if getattr(self, name) is not None]
        _validate.whole_fields(self, *names, low=1, high=MAX_CONTRIBUTION)
        _validate.instance(bool, signed=self.signed)

    @property
    def squared_length(self) -> Fraction:
        return Fraction(self.max_norm) ** 2

    @property
    def shown_norm(self) -> str:
        """max_norm in digits, all of them if it is an integer."""
        return str(self.max_norm) if isinstance(self.max_norm, int) else f"{float(self.max_norm):g}"

    @property
    def shown_length(self) -> str:
        """How long one unit may be, in words."""
        return f"the length of at most {self.shown_norm} record(s) of one item"

    @property
    def not_scaled(self) -> str:
        """What of one unit always counts in full, in words."""
        if self.has_weights:
            return f"a total weight of up to {self.shown_norm}, without signs, is not scaled"
        return f"up to {self.shown_norm} record(s) are not scaled"

    def _union(self, other: NormBound) -> NormBound:
        return NormBound(
            max(self.max_norm, other.max_norm),
            max_weight=max(self.max_weight, other.max_weight),
            max_per_item=_largest(self.max_per_item, other.max_per_item),
            signed=self.signed or other.signed,
            resource_limit=_largest(self.resource_limit, other.resource_limit),
            max_keys=_largest(self.max_keys, other.max_keys),
        )


def _largest(first: int | None, second: int | None) -> int | None:
    """Return the larger of two limits; `None` is without limit."""
    return None if first is None or second is None else max(first, second)


def check_bounds(bounds: Any) -> None:
    """Refuse what does not say how much of a unit may count."""
    if not isinstance(bounds, Bounds) or type(bounds) is Bounds:
        raise TypeError(f"bounds must be NormBound(...), AutoNorm() or RecordBounds(...), got {type(bounds).__name__}")


ONE_RECORD = RecordBounds(1)
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
