"""Privacy units: who is protected, with which contribution bounds."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.exact.domains.timestamps import Duration, check_milliseconds, duration_to_micros
from beam_dpsketch.exact.reading.selectors import Selector, check_selector
from beam_dpsketch.privacy.contributions import Bounds, ContributionLimit, PrivacyUnit, RecordBounds, check_bounds
from beam_dpsketch.privacy.mechanism import MAX_WINDOWS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """Protect single records. A person with many records is not protected.

    A record is the last value returned by a function of yours before the transform. Beam steps that copy it are
    refused.

    Args:
      max_weight: largest weight, required if weights are read, which are clamped to [0, max_weight], or to
        [-max_weight, max_weight] if signed.
      signed: whether records may delete (negative weights).
    """

    max_weight: int = RecordBounds.max_weight
    signed: bool = False

    def __post_init__(self) -> None:
        self.bounds  # noqa: B018  # validates the arguments

    @property
    def bounds(self) -> RecordBounds:
        return RecordBounds(1, max_weight=self.max_weight, signed=self.signed)

    def promise(self, *, in_windows: bool, overlapping: int, is_stream: bool) -> dict[str, Any]:
        """Fields of terms that depend on the unit. A record counts in all its windows."""
        return {"privacy_unit": PrivacyUnit.RECORD, "window_count": overlapping, "overlapping": overlapping}


@dataclasses.dataclass(frozen=True)
class PrivacyId:
    """Protect all records of one privacy id: a person, a device or an account.

    Args:
      field: a field name or a callable for the privacy id.
      bounds: contribution bounds per privacy id: a `NormBound`, which clips contributions by scaling, or
        `RecordBounds`, which clip them by dropping random records.
      max_windows: number of windows in which each id counts, within the bounds in each of them. Noise grows with its
        square root. With `RecordBounds` but without `max_windows`, an id is protected within each fixed window alone.
        Sliding windows require it. On bounded input the windows are chosen at random. On unbounded input they are the
        first windows with data of the id. A `NormBound` requires it on unbounded input only: on bounded input a norm
        covers all windows.
      period: length of time to which `max_windows`, or the norm, applies, by default all of the input. It is a multiple
        of the time between window starts, as text such as "7d", a `timedelta`, a Beam `Duration` or in seconds. A
        period contains the windows that end in it. Periods start with the `TimeRange`, or in 1970. The input must be
        bounded or have a `TimeRange`.
      opaque_bytes: whether columns of eight bytes are read by value. By default they are refused, because Polars passes
        the addresses of Python objects in this form.
    """

    field: Selector
    bounds: ContributionLimit
    _: dataclasses.KW_ONLY
    max_windows: int | None = None
    period: Duration | None = None
    opaque_bytes: bool = False

    def __post_init__(self) -> None:
        if self.field is None:
            raise ArgumentTypeError(
                "field", "is required: the field that contains the privacy id, or a callable that returns it", "E209"
            )
        check_selector(field=self.field)
        check_bounds(self.bounds)
        _validate.instance(bool, opaque_bytes=self.opaque_bytes)
        check_milliseconds(period=self.period_micros)
        if self.max_windows is not None:
            _validate.whole_fields(self, "max_windows", low=1, high=MAX_WINDOWS)
        elif self.period is not None and not self.has_norm:
            raise ArgumentError(
                "period", "requires max_windows: the number of windows per period in which a privacy id counts", "E210"
            )

    @property
    def has_norm(self) -> bool:
        return self.bounds.has_norm

    @property
    def period_micros(self) -> int:
        return 0 if self.period is None else duration_to_micros(period=self.period)

    def display_data(self) -> dict[str, Any]:
        """List the number of windows and the period, if limited."""
        windows = {} if self.max_windows is None else {"max_windows": str(self.max_windows)}
        return windows | ({"period": f"{self.period_micros / 1_000_000:g} s"} if self.period_micros else {})

    def promise(self, *, in_windows: bool, overlapping: int, is_stream: bool) -> dict[str, Any]:
        """Fields of terms that depend on the unit: who is protected, and in how many windows an id counts.

        In windows, an id without a bound across windows is protected within each window alone. On streams, an id counts
        in its first windows. Norms have `max_windows` on streams only.
        """
        if in_windows and self.max_windows is None and not self.has_norm:
            return {"privacy_unit": PrivacyUnit.PRIVACY_ID_IN_WINDOW, "overlapping": overlapping}
        return {
            "privacy_unit": PrivacyUnit.PRIVACY_ID_IN_PERIOD if self.period_micros else PrivacyUnit.PRIVACY_ID,
            "window_count": self.max_windows or 1,
            "first_windows": self.max_windows is not None and (is_stream or self.has_norm),
            "overlapping": overlapping,
            "period_micros": self.period_micros,
        }


Unit: TypeAlias = "Record | PrivacyId"


def check_unit_type(privacy_unit: Any) -> None:
    """Check the type of `privacy_unit`."""
    if not isinstance(privacy_unit, (Record, PrivacyId)):
        raise ArgumentTypeError(
            "privacy_unit",
            'must be PrivacyId("field", NormBound(20)), to protect all records of a person, or $Record, to protect '
            f"single records. Got {type(privacy_unit).__name__}",
            "E201",
        )


def check_max_weight(bounds: ContributionLimit) -> None:
    """Raise if weights have no declared maximum, because all would be clamped to 1, or if the norm is below it.

    A norm chosen from the data is accepted, because it fits the actual weights of units and not the declared maximum.
    """
    if not bounds.says_max_weight:
        raise ArgumentError(
            "max_weight",
            "is required with weight. Larger weights are capped. Example: $record_of_weights or $norm_of_weights",
            "E203",
        )
    if bounds.has_norm and bounds.size is not None and bounds.size < bounds.max_weight:
        raise ArgumentError(
            "max_norm",
            f"must be at least max_weight ({bounds.max_weight}), got {bounds.size}. The norm limits weight, and a "
            "record with the largest weight must fit in it. Raise max_norm or lower max_weight",
            "E226",
        )


def check_max_keys(privacy_unit: Unit, *, is_keyed: bool) -> None:
    """Raise if record bounds lack `max_keys` with keys, or have it without keys."""
    if not isinstance(privacy_unit, PrivacyId) or privacy_unit.has_norm:
        return
    if is_keyed and privacy_unit.bounds.max_keys is None:
        raise ArgumentError(
            "max_keys",
            "is required with keys: the number of keys in which each privacy id counts. Its records in other keys are "
            "dropped, and noise grows with max_keys. Example: $records_of_2_keys",
            "E305",
        )
    if not is_keyed and privacy_unit.bounds.max_keys is not None:
        raise ArgumentError(
            "max_keys", "is supported only with keys. Without keys, there is a single release. Remove it", "E217"
        )


def given_over_time(bounds: ContributionLimit) -> Bounds:
    """Get the bounds. Raise if the norm is to be chosen from the data."""
    words = "must not be $AutoNorm in continual release. Set the norm that an earlier release reports"
    return bounds.given(ArgumentError("bounds", words, "E218"))


def check_over_time(privacy_unit: Unit, windows: int) -> None:
    """Raise if the unit cannot be bounded over a horizon with this many windows."""
    given_over_time(privacy_unit.bounds)
    if not isinstance(privacy_unit, PrivacyId):
        return
    if privacy_unit.period is not None:
        raise ArgumentError(
            "period", "is not supported in continual release: bounds apply to the whole horizon. Remove it", "E222"
        )
    if not privacy_unit.has_norm and privacy_unit.max_windows is None:
        raise ArgumentError(
            "max_windows",
            "is required with $RecordBounds in continual release: the number of windows, at most "
            f"{windows}, in which each privacy id counts. Example: $person_in_30_windows",
            "E223",
        )
