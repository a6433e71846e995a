"""What is protected and how much of it may count: the privacy unit, the neighbouring relation, contribution bounds."""

from __future__ import annotations

import dataclasses
import enum

from beam_dpsketch import _validate

MAX_CONTRIBUTION = 1 << 31


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
        """Whether the releases are nodes of a tree over time; a partition is then a window of the horizon."""
        return self in (PrivacyUnit.RECORD_OVER_HORIZON, PrivacyUnit.PRIVACY_ID_OVER_HORIZON)


@dataclasses.dataclass(frozen=True)
class RecordBounds:
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
    def says_max_weight(self) -> bool:
        """Whether max_weight was given, not left at its default."""
        return not isinstance(self.max_weight, _Default)

    @property
    def max_weight_per_partition(self) -> int:
        """The total weight, without signs, that one unit may contribute to one sketch."""
        return self.max_contributions_per_partition * self.max_weight

    @property
    def has_weights(self) -> bool:
        """Whether weights other than 0 and 1 can count."""
        return self.signed or self.max_weight > 1

    @property
    def min_weight(self) -> int:
        """The smallest weight of a record."""
        return -self.max_weight if self.signed else 0

    def as_dict(self) -> dict[str, int]:
        """Return the four bounds by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def union(self, other: RecordBounds) -> RecordBounds:
        """Return the tightest bounds that allow all that either allows."""
        return RecordBounds(
            max(self.max_contributions_per_partition, other.max_contributions_per_partition),
            max_partitions=max(self.max_partitions, other.max_partitions),
            max_weight=max(self.max_weight, other.max_weight),
            signed=self.signed or other.signed,
        )


ONE_RECORD = RecordBounds(1)
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
