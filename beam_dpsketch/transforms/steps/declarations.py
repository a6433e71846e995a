"""What callers declare of a private transform: its output keys, whom it protects, and how much of each may count."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from beam_dpsketch import _validate
from beam_dpsketch.hashing.encodings import decode, encode, is_unicode
from beam_dpsketch.privacy.contributions import (
    DEFAULT_BOUNDS,
    ContributionBounds,
    PrivacyUnit,
    check_unit_fits_bounds,
)
from beam_dpsketch.records.selectors import Selectors

Unit: TypeAlias = Literal["record"]


@dataclasses.dataclass(frozen=True)
class Keys:
    """Which output keys there are: a public list, or those of the data by the caller's word that they are public."""

    public: tuple[Any, ...] | None

    @classmethod
    def decided(cls, public_keys: Iterable[Any] | None, keys_are_public: bool) -> Keys:
        """The caller's decision; refuses none and both."""
        _validate.instance(bool, keys_are_public=keys_are_public)
        if (public_keys is not None) == keys_are_public:
            raise ValueError(
                "exactly one of public_keys and keys_are_public=True must be given: output keys taken from the data "
                "show who is in it; list the keys, or state that they are public anyway"
            )
        if public_keys is None:
            return cls(None)
        if isinstance(public_keys, (str, bytes)):
            raise TypeError("public_keys must be a list of keys, got one text")
        encoded = dict.fromkeys(map(encode, public_keys))
        if not encoded:
            raise ValueError("public_keys must not be empty")
        keys = tuple(map(decode, encoded))
        if not all(map(is_unicode, keys)):
            raise ValueError("public_keys must be text that UTF-8 can hold; one has half of a surrogate pair")
        return cls(keys)

    def check_partitions(self, bounds: ContributionBounds) -> None:
        """Refuses more partitions than there are keys, for which noise would be added in vain."""
        if self.public is not None and bounds.max_partitions > len(self.public):
            raise ValueError(
                f"bounds.max_partitions must be at most {len(self.public)}, the number of public_keys, got "
                f"{bounds.max_partitions}: no privacy id can be in more, and noise grows with it"
            )


def declared_bounds(bounds: ContributionBounds | None, elements: Selectors, unit: Unit | None) -> ContributionBounds:
    """The bounds; refuses a release that does not say whose privacy it protects and how much of it may count."""
    if (elements.privacy_id is None) == (unit is None):
        raise ValueError(
            'exactly one of privacy_id and unit="record" must be given: privacy_id="..." protects all records of '
            'a person, unit="record" only single records'
        )
    if unit is not None:
        _validate.one_of(("record",), unit=unit)
    if bounds is not None:
        _validate.instance(ContributionBounds, bounds=bounds)
    elif unit is None:
        raise ValueError(
            "bounds must be given with privacy_id, such as ContributionBounds(max_contributions_per_partition=10): how "
            "many records of each id count; more are dropped, and noise grows with the bound"
        )
    else:
        bounds = DEFAULT_BOUNDS
    if unit is not None:
        check_unit_fits_bounds(PrivacyUnit.RECORD, bounds)
    elements.check_weight(bounds)
    return bounds
