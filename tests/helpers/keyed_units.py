"""Units for tests of several kinds of keys: `RecordBounds` say in how many keys an id counts if there are any."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_dpsketch import PrivacyId, RecordBounds


def in_keys(privacy_unit: Any, keys: Any, max_keys: int = 1) -> Any:
    """The unit; if its bounds are of records, in this many keys where there are keys, or in as many as it says."""
    if not isinstance(privacy_unit, PrivacyId) or not isinstance(privacy_unit.bounds, RecordBounds):
        return privacy_unit
    count = None if keys is None else privacy_unit.bounds.max_keys or max_keys
    return dataclasses.replace(privacy_unit, bounds=dataclasses.replace(privacy_unit.bounds, max_keys=count))
