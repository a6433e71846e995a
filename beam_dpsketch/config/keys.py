"""Read which output keys are released, and the method of grouped counts: `keys`, `method`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, read_block, read_list, take_one
from beam_dpsketch.config.paths import join, refusal, shown
from beam_dpsketch.config.scalars import read_choice, read_exact, read_item, read_text, read_whole
from beam_dpsketch.kinds.grouped_counts import Groups
from beam_dpsketch.privacy.selection import METHODS
from beam_dpsketch.records.public import AssumePublicKeys, Keys, KeySelection, PublicKeys

SELECT: Mapping[str, Reader] = {
    "delta": read_exact,
    "share": read_exact,
    "min_units": read_whole,
    "method": read_choice({name: name for name in METHODS}),
}
GROUPS: Mapping[str, Reader] = {"delta": read_exact}
_DELTA = {"delta": "take less than 1 / the number of people, as 1.0e-8"}
_FIELD = {"field": "the field that holds the key, as field: country"}
_WHICH = (
    "give public, the list of keys to release; or select, as select: {delta: 1.0e-8}, for those that enough people "
    "are in; or assume_public: true, if the keys in the data may be published"
)


def read_public(settings: Any, path: str = "public") -> tuple[Any, ...]:
    """Return a list of keys or items that may be published."""
    return tuple(read_list(settings, path, read_item))


def read_keys(settings: Any, path: str = "keys") -> Keys:
    """Return which keys are released: `public`, `select` or `assume_public`, with `field`."""
    given = read_block(settings, path, KEYS, _FIELD)
    way, field = take_one(given, path, ("public", "select", "assume_public"), _WHICH), given["field"]
    if way == "public":
        where = {"keys": join(path, "public")}
        return make(path, PublicKeys, {"keys": given["public"], "field": field}, where)
    if way == "select":
        return make(join(path, "select"), KeySelection, {**given["select"], "field": field})
    return make(path, AssumePublicKeys, {"field": field})


def read_method(settings: Any, path: str = "method") -> Groups:
    """Return the method of a top-K list: `{groups: {delta: 1.0e-8}}`."""
    words = {"groups": "the one method is groups: {delta: 1.0e-8}; leave method out to search a tree"}
    return read_block(settings, path, METHOD, words)["groups"]


def _read_select(settings: Any, path: str) -> dict[str, Any]:
    return read_block(settings, path, SELECT, _DELTA)


def _read_true(value: Any, path: str) -> bool:
    if value is not True and value != "true":
        raise refusal(path, f"expected true, or public or select in its place; got {shown(value)}")
    return True


def _read_groups(settings: Any, path: str) -> Groups:
    return make(path, Groups, read_block(settings, path, GROUPS, _DELTA))


KEYS: Mapping[str, Reader] = {
    "public": read_public,
    "select": _read_select,
    "assume_public": _read_true,
    "field": read_text,
}
METHOD: Mapping[str, Reader] = {"groups": _read_groups}
