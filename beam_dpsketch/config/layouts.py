"""Read what is counted, and by which counters: `domain`, `tree`, `spec`, `items`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, plain, read_block, read_list, refuse_others
from beam_dpsketch.config.keys import read_public
from beam_dpsketch.config.paths import join, refusal
from beam_dpsketch.config.scalars import (
    read_bytes,
    read_choice,
    read_duration,
    read_flag,
    read_fraction,
    read_number,
    read_text,
    read_time,
    read_whole,
)
from beam_dpsketch.domains import DOMAINS, BytesDomain, Domain
from beam_dpsketch.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import KINDS, SketchSpec
from beam_dpsketch.sketches.tree_spec import Level, TreeSpec
from beam_dpsketch.sketches.trees import PrefixSpec

_FORMS: Mapping[str, Reader] = {
    "whole": read_whole,
    "byte": read_whole,
    "number": read_number,
    "time": read_time,
    "duration": read_duration,
}
DOMAIN_SETTINGS: Mapping[str, Mapping[str, Reader]] = {
    kind.type_name: {name: _FORMS[setting.form] for name, setting in kind.settings.items()} for kind in DOMAINS
}
"""The settings of each type of domain."""

_TYPES = read_choice({kind.type_name: kind for kind in DOMAINS})

_SKETCHES = read_choice({name: name for name in KINDS})
_HASHING: Mapping[str, Reader] = {
    "kind": _SKETCHES,
    "seed": read_whole,
    "item_hash": read_choice({name: name for name in ITEM_HASHES}),
    "item_key": read_bytes,
}
SPEC: Mapping[str, Reader] = {**_HASHING, "depth": read_whole, "width": read_whole, "hash_version": read_whole}
ACCURACY: Mapping[str, Reader] = {"relative_error": read_number, "failure_probability": read_number, **_HASHING}
_ACCURACY = {
    "relative_error": "the error as a share of the total weight, as 0.001",
    "failure_probability": "how often the error may be larger, as 0.01",
}

LEVEL: Mapping[str, Reader] = {
    "bits": read_whole,
    "sketch": read_choice({name: name for name in ("exact", *KINDS)}),
    "depth": read_whole,
    "width": read_whole,
    "share": read_fraction,
}
_LEVEL = dict.fromkeys(LEVEL, "a level needs bits, sketch, depth, width and share")


def _read_levels(settings: Any, path: str) -> tuple[Level, ...]:
    def level(each: Any, place: str) -> Level:
        return make(place, Level, read_block(each, place, LEVEL, _LEVEL))

    return tuple(read_list(settings, path, level))


TREE_LEVELS: Mapping[str, Reader] = {"levels": _read_levels, "seed": read_whole, "hash_version": read_whole}
TREE_MEMORY: Mapping[str, Reader] = {
    "memory": read_whole,
    "seed": read_whole,
    "arity": read_whole,
    "depth": read_whole,
    "sketch": _SKETCHES,
    "exact_levels": read_flag,
    "leaf_share": read_fraction,
}
PREFIX_SIZES: Mapping[str, Reader] = {
    "depth": read_whole,
    "width": read_whole,
    "seed": read_whole,
    "hash_version": read_whole,
}
PREFIX_MEMORY: Mapping[str, Reader] = {"memory": read_whole, "depth": read_whole, "seed": read_whole}


def read_domain(settings: Any, path: str = "domain") -> Domain | BytesDomain:
    """Return which values there can be: `{type: integer, low: 0, high: 99}`, or the name of a type without settings."""
    given = plain(settings, path)
    given = {"type": given} if isinstance(given, str) else given
    if not isinstance(given, dict) or "type" not in given:
        raise refusal(join(path, "type"), f"is missing; one of {', '.join(DOMAIN_SETTINGS)}", "E802")
    chosen = _TYPES(given["type"], join(path, "type"))
    settings = DOMAIN_SETTINGS[chosen.type_name]
    others = set().union(*DOMAIN_SETTINGS.values()) - settings.keys()
    words = f"not a setting of type {given['type']}, which has {', '.join(settings) or 'none'}"
    refuse_others(given, path, given.keys() - others, words)
    required = {name: setting.needed for name, setting in chosen.settings.items() if setting.needed}
    read = read_block(given, path, {"type": read_text, **settings}, required)
    return make(path, chosen, {name: value for name, value in read.items() if name != "type"})


def read_spec(settings: Any, path: str = "spec") -> SketchSpec:
    """Return a sketch, by its depth and width or by the accuracy that is needed."""
    given = read_block(settings, path, {**SPEC, **ACCURACY})
    if not given.keys() & _ACCURACY.keys():
        return make(path, SketchSpec, given)
    refuse_others(given, path, ACCURACY, "not a setting next to relative_error, which chooses depth and width")
    read_block(settings, path, ACCURACY, _ACCURACY)
    return make(path, SketchSpec.for_accuracy, given)


def read_items(settings: Any, path: str = "items") -> ListedItems:
    """Return items that are counted exactly."""
    return make(path, ListedItems, {"items": read_public(settings, path)}, {"items": path})


def read_tree(settings: Any, domain: Any, path: str = "tree", *, search: bool = False) -> TreeSpec | PrefixSpec:
    """Return the layout of a tree over a domain: for a memory, or as its levels say.

    Args:
      settings: the block.
      domain: the values.
      path: where the block is, for errors.
      search: whether the tree is for a top-K list. Its usual layout depends on `memory` and `seed` alone; any other
        setting then needs `arity`.
    """
    if not domain.is_ordered:
        given = read_block(settings, path, {**PREFIX_MEMORY, **PREFIX_SIZES})
        if given.keys() & {"width", "hash_version"}:
            refuse_others(given, path, PREFIX_SIZES, "not a setting next to width")
            required = dict.fromkeys(("depth", "width"), "give depth and width, or memory and depth")
            read_block(settings, path, PREFIX_SIZES, required)
            return make(path, functools.partial(PrefixSpec, domain=domain), given)
        return make(path, functools.partial(PrefixSpec.for_memory, domain), given)
    given = read_block(settings, path, {**TREE_MEMORY, **TREE_LEVELS})
    if "levels" in given or "hash_version" in given:
        refuse_others(given, path, TREE_LEVELS, "not a setting next to levels, which say all of the layout")
        read_block(settings, path, TREE_LEVELS, {"levels": "a list from the coarsest level to the finest"})
        return make(path, functools.partial(TreeSpec, domain=domain), given)
    if not search:
        return make(path, functools.partial(TreeSpec.for_memory, domain), given)
    if given.keys() <= {"memory", "seed"}:
        return make(path, functools.partial(TreeSpec.for_search, domain), given)
    if "arity" not in given:
        words = "is missing; a tree for a top-K list with more settings than memory and seed needs it, as arity: 16"
        raise refusal(join(path, "arity"), words, "E802")
    return make(path, functools.partial(TreeSpec.for_memory, domain), given)
