"""Declarations of frequencies, quantiles and top-K lists, from what a caller says is counted."""

from __future__ import annotations

from typing import Any, TypeAlias

from beam_dpsketch import _validate
from beam_dpsketch.domains import BytesDomain, Domain
from beam_dpsketch.records.declaration import Declaration
from beam_dpsketch.records.grouping import GroupedDeclaration, Groups
from beam_dpsketch.sketches.grouped_items import GroupedItems
from beam_dpsketch.sketches.listed_items import ListedItems
from beam_dpsketch.sketches.prefix import PrefixSpec
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

Searchable: TypeAlias = "Domain | BytesDomain | TreeSpec | PrefixSpec"


def declare_frequencies(spec: SketchSpec | ListedItems, *declared: Any, **windows: Any) -> Declaration:
    """Return the declaration of counts of items; the other arguments are those of `Declaration`."""
    _validate.instance(SketchSpec, ListedItems, spec=spec)
    return Declaration(spec, *declared, **windows)


def declare_quantiles(domain: Domain | TreeSpec, *declared: Any, **windows: Any) -> Declaration:
    """Return the declaration of a distribution."""
    return Declaration(tree_spec(domain), *declared, **windows)


def declare_top_k(method: Groups | None, domain: Searchable, *declared: Any, **windows: Any) -> Declaration:
    """Return the declaration of a search in a tree, or of grouped counts."""
    if method is None:
        return Declaration(search_spec(domain), *declared, **windows)
    _validate.instance(Groups, method=method)
    if isinstance(domain, (TreeSpec, PrefixSpec)):
        raise TypeError(
            f"domain must be a domain with method=Groups(...), which needs no tree: {domain.domain}; got "
            f"{type(domain).__name__}"
        )
    _validate.instance(Domain, BytesDomain, domain=domain)
    return GroupedDeclaration(GroupedItems(domain), *declared, **windows, method=method)


def tree_spec(domain: Domain | TreeSpec) -> TreeSpec:
    """Return the given layout, or the usual one over a domain."""
    return domain if isinstance(domain, TreeSpec) else TreeSpec.for_memory(domain)


def search_spec(domain: Searchable) -> TreeSpec | PrefixSpec:
    """Return the given layout, or over a domain the usual one for a search."""
    if isinstance(domain, (TreeSpec, PrefixSpec)):
        return domain
    if isinstance(domain, BytesDomain):
        return PrefixSpec.for_memory(domain)
    return TreeSpec.for_search(domain)
