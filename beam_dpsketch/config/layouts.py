"""Read what is counted, and by which counters: `domain`, `tree`, `spec`, `items`, `method`."""

from __future__ import annotations

import functools
from typing import Any

from beam_dpsketch.config.blocks import make, plain, read_block, read_list, refuse_others
from beam_dpsketch.config.layout_settings import DOMAIN, DOMAIN_TYPES, LEVEL, SPEC, TREE
from beam_dpsketch.config.paths import join, refusal, shown
from beam_dpsketch.config.scalars import ITEMS, read_choice
from beam_dpsketch.config.settings import GROUPS, METHOD
from beam_dpsketch.domains import DOMAINS, BytesDomain, Domain
from beam_dpsketch.kinds.grouped_counts import Groups
from beam_dpsketch.sketches.levels import Level
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

_TYPES = read_choice({kind.type_name: kind for kind in DOMAINS})
_LEVELS = TREE.only(("levels", "seed", "hash_version"))
_ACCURACY = SPEC.without("depth", "width", "hash_version")


def _read_levels(settings: Any, path: str) -> tuple[Level, ...]:
    def level(each: Any, place: str) -> Level:
        return make(place, Level, read_block(each, place, LEVEL))

    return tuple(read_list(settings, path, level))


def read_domain(settings: Any, path: str = "domain") -> Domain | BytesDomain:
    """Return which values there can be: `{type: integer, low: 0, high: 99}`, or the name of a type without settings."""
    given = plain(settings, path)
    given = {"type": given} if isinstance(given, str) else given
    if not isinstance(given, dict):
        words = f"expected a block, as {{type: integer, low: 0, high: 100}}, got {shown(given)}"
        raise refusal(path, words)
    if "type" not in given:
        raise refusal(join(path, "type"), f"is missing; one of {', '.join(DOMAIN_TYPES)}", "E802")
    chosen = _TYPES(given["type"], join(path, "type"))
    block = DOMAIN_TYPES[chosen.type_name]
    others = DOMAIN.entries.keys() - block.entries.keys()
    words = f"not a setting of type {given['type']}, which has {', '.join(chosen.settings) or 'none'}"
    refuse_others(given, path, given.keys() - others, words)
    read = read_block(given, path, block)
    return make(path, chosen, {name: value for name, value in read.items() if name != "type"})


def read_spec(settings: Any, path: str = "spec") -> SketchSpec:
    """Return a sketch, by its depth and width or by the accuracy that is needed."""
    given = read_block(settings, path, SPEC)
    if not given.keys() & _ACCURACY.required.keys():
        return make(path, SketchSpec, given)
    refuse_others(given, path, _ACCURACY.entries, "not a setting next to relative_error, which chooses depth and width")
    read_block(settings, path, _ACCURACY)
    return make(path, SketchSpec.for_accuracy, given)


def read_items(settings: Any, path: str = "items") -> ListedItems:
    """Return items that are counted exactly."""
    return make(path, ListedItems, {"items": ITEMS.read(settings, path)}, {"items": path})


def read_tree(settings: Any, domain: Any, path: str = "tree", *, search: bool = False) -> TreeSpec:
    """Return the layout of a tree over a domain: for a memory, or as its levels say.

    Args:
      settings: the block.
      domain: the values.
      path: where the block is, for errors.
      search: whether the tree is for a top-K list. Its usual layout depends on `memory` and `seed` alone; any other
        setting then needs `arity`.
    """
    if not domain.is_ordered:
        raise refusal(path, "not a setting of text and bytes, which are counted one by one; leave it out", "E804")
    given = read_block(settings, path, TREE, levels=_read_levels)
    if "levels" in given or "hash_version" in given:
        refuse_others(given, path, _LEVELS.entries, "not a setting next to levels, which say all of the layout")
        read_block(settings, path, _LEVELS, levels=_read_levels)
        return make(path, functools.partial(TreeSpec, domain=domain), given)
    if not search:
        return make(path, functools.partial(TreeSpec.for_memory, domain), given)
    if given.keys() <= {"memory", "seed"}:
        return make(path, functools.partial(TreeSpec.for_search, domain), given)
    if "arity" not in given:
        words = "is missing; a tree for a top-K list with more settings than memory and seed needs it, as arity: 16"
        raise refusal(join(path, "arity"), words, "E802")
    return make(path, functools.partial(TreeSpec.for_memory, domain), given)


def read_method(settings: Any, path: str = "method") -> Groups:
    """Return the method of a top-K list: `groups`, or `{groups: {delta: 1.0e-8}}`."""

    def read_groups(block: Any, place: str) -> Groups:
        return make(place, Groups, read_block(block, place, GROUPS))

    given = {"groups": {}} if settings == "groups" else settings
    return read_block(given, path, METHOD, groups=read_groups)["groups"]
