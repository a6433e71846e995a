"""Types that elements and their fields are known to have, checked while a pipeline is built.

A type that can never count is refused. What types leave open, such as the fields of a dict, is only named. A sample
shows it: see `beam_dpsketch.transforms.steps.checks.sample_check`.
"""

from __future__ import annotations

import contextlib
import decimal
import functools
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.io.parquetio import ReadFromParquet, ReadFromParquetBatched
from apache_beam.typehints import row_type, trivial_inference, typehints
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type

from beam_dpsketch._columns import stands_for_text
from beam_dpsketch.domains import BytesDomain, Domain
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError
from beam_dpsketch.records.selectors import Selector, Selectors, describe_argument, is_batch_type

AnyDomain: TypeAlias = "Domain | BytesDomain | None"

_ITEMS = (bytes, int, np.integer, decimal.Decimal, tuple)
_FLOATS = (float, np.floating)
_OPEN = (typehints.AnyTypeConstraint, typehints.TypeVariable, typehints.ABCSequenceTypeConstraint)
_MAPPINGS = (typehints.DictConstraint, typehints.MappingTypeConstraint)
_CONTAINERS: dict[type, type] = {typehints.ListConstraint: list, typehints.SetTypeConstraint: set}
_WITHOUT_FIELDS = (str, bytes, int, float, tuple, list, set, np.ndarray, np.generic)


def open_questions(
    selectors: Selectors,
    element_type: Any,
    *,
    domains: Mapping[str, AnyDomain],
    per_key: bool,
    columns: frozenset[str] | None = None,
) -> list[str]:
    """Refuse a type of elements that can never count; return the arguments that it leaves open, in words.

    Args:
      selectors: what in an element is what.
      element_type: the type.
      domains: those of items, by argument.
      per_key: whether there are keys.
      columns: the names of all fields, where the source of the elements knows them.
    """
    kind, found = convert_to_beam_type(element_type), {}
    if per_key and selectors.key is None and not _is_batch(kind):
        key, kind = _pair(kind)
        found["key"] = key, not _is_open(key)
    selectors.is_batch_type(_CONTAINERS.get(type(kind), object))  # refuses lists, unless callables read them
    for argument in ("key", "privacy_id", *selectors.items, "weight"):
        selector = selectors.all[argument]
        if selector is not None or argument in selectors.items:
            found[argument] = _selected_of(argument, selector, kind, columns)
    questions = (
        _question(argument, selectors.all[argument], selected, is_known, domains)
        for argument, (selected, is_known) in found.items()
    )
    return [question for question in questions if question]


def refuse_pairs(selectors: Selectors, element_type: Any) -> None:
    """Refuse (key, value) pairs where nothing says what is counted of them: whole pairs would be counted in silence."""
    kind = convert_to_beam_type(element_type)
    members = kind.union_types if isinstance(kind, typehints.UnionConstraint) else [kind]
    pairs = [isinstance(each, typehints.TupleHint.TupleConstraint) and len(each.tuple_types) == 2 for each in members]
    if selectors.item is None and all(pairs):
        raise ArgumentError(
            "keys",
            "must be given where elements are (key, value) pairs, as in $keys_of_pairs, for a release of "
            "each key; or give item, as in item=lambda pair: pair[1], or item=lambda pair: pair to count "
            "whole pairs",
            "E601",
        )


def what_counts(argument: str, domains: Mapping[str, AnyDomain]) -> str:
    """Return which values of an argument can be used, in words."""
    if argument == "weight":
        return "a weight must be a whole number"
    if (domain := domains.get(argument)) is not None:
        return f"{type(domain).__name__} takes {domain.takes}"
    named = "an item" if argument in domains else f"a {argument}"
    return f"{named} must be text, bytes, an integer, a date, a UUID or a tuple of these"


def remedy(argument: str, kind: Any, domains: Mapping[str, AnyDomain]) -> str:
    """Return what to do about values of a type that cannot be used."""
    if isinstance(kind, type) and issubclass(kind, _FLOATS):
        domain = domains.get(argument)
        numbers = domain is not None and domain.plain_type is int
        return "round it, or use FloatDomain(low, high, resolution)" if numbers else "round it to an int"
    return "convert it before, or in a callable"


def _question(
    argument: str, selector: Selector, kind: Any, is_known: bool, domains: Mapping[str, AnyDomain]
) -> str | None:
    """Return what is open about one argument; raise if its type cannot be used, which is guessed for callables."""
    words = describe_argument(argument, selector)
    if _is_open(kind):
        return None if is_known else words
    if not _may_count(kind, functools.partial(_takes, argument, domains)):
        remedied = remedy(argument, one := _one_of(kind), domains)
        if isinstance(selector, str) and isinstance(one, type) and issubclass(one, _FLOATS):
            remedied += f"; if a missing value made floats of integers, read it with dtype: {{{selector}: Int64}}"
        reason = f"{_type_words(kind)}, but {what_counts(argument, domains)}; {remedied}"
        if not callable(selector):
            raise ArgumentTypeError("", f"{words} has type {reason}", "E603")
        return f"{words}, which seems to give {reason}"
    return None if is_known else words


def source_columns(elements: beam.PCollection) -> frozenset[str] | None:
    """Return the columns that elements have because a source of Parquet reads these alone; `None` if it does not say.

    The source is the step that elements come out of, or a step around it.
    """
    step = elements.producer
    while step is not None and elements in step.outputs.values():
        source = getattr(step.transform, "_source", None)
        if isinstance(step.transform, (ReadFromParquet, ReadFromParquetBatched)) or source is step.transform:
            names = getattr(source, "_columns", None)
            return None if names is None else frozenset(name.partition(".")[0] for name in names)
        step = step.parent
    return None


def _selected_of(argument: str, selector: Selector, kind: Any, columns: frozenset[str] | None) -> tuple[Any, bool]:
    """Do as `_selected`, where the names of all fields may be known."""
    if columns is None or not isinstance(selector, str):
        return _selected(argument, selector, kind)
    if selector not in columns:
        words = f"is not a column that the source reads: {', '.join(sorted(columns))}"
        raise ArgumentError(f"{argument}={selector!r}", words, "E606")
    return (typehints.Any, True) if _is_open(kind) else _selected(argument, selector, kind)


def _selected(argument: str, selector: Selector, kind: Any) -> tuple[Any, bool]:
    """Return the type of what is selected, and whether elements surely have it."""
    if _is_batch(kind):
        if not isinstance(selector, str):
            raise ArgumentTypeError(argument, "must be a column name where elements are batches", "E604")
        return typehints.Any, True  # the columns of the first batch are checked as it is read
    fields = field_types(kind)
    if selector is None:
        if fields is not None and not (isinstance(kind, type) and issubclass(kind, tuple)):
            # It turns into a named tuple where a runner encodes it, so it would count on some runners only.
            raise ArgumentError(
                "item", f"must be given where elements are rows: one of {', '.join(fields)}, or a callable", "E605"
            )
        return kind, not _is_open(kind)
    if isinstance(selector, str):
        if fields is not None and selector not in fields:
            raise ArgumentError(
                f"{argument}={selector!r}", f"is not a field of the elements: {', '.join(fields)}", "E606"
            )
        if fields is None and _has_no_field(kind, selector):
            raise ArgumentTypeError(
                f"{argument}={selector!r}",
                f"names a field, but the elements are {_type_words(kind)}; use a callable, such as "
                f"{argument}=lambda element: element[0]",
                "E607",
            )
        selected = typehints.Any if fields is None else fields[selector]
        return selected, not _is_open(selected)
    is_known = not _is_open(kind) and not isinstance(kind, _MAPPINGS)
    return convert_to_beam_type(trivial_inference.infer_return_type(selector, [kind])), is_known


def field_types(kind: Any) -> dict[str, Any] | None:
    """Return the fields of rows, named tuples and dataclasses, with their types; `None` for other types."""
    if not isinstance(kind, row_type.RowTypeConstraint):
        kind = row_type.RowTypeConstraint.from_user_type(kind)
    if kind is None:
        return None
    fields = dict(kind._fields)
    if any(isinstance(field, (str, typing.ForwardRef)) for field in fields.values()):  # annotations as text
        with contextlib.suppress(NameError):  # of a name that is known elsewhere only
            fields.update(typing.get_type_hints(kind.user_type))
    return {name: convert_to_beam_type(field) for name, field in fields.items()}


def _pair(kind: Any) -> tuple[Any, Any]:
    """Return the types of key and value."""
    if _is_open(kind) or kind is tuple:
        return typehints.Any, typehints.Any
    members = kind.union_types if isinstance(kind, typehints.UnionConstraint) else [kind]
    pairs = [parts for parts in map(_parts, members) if len(parts) == 2]
    if not pairs:
        raise ArgumentTypeError(
            "keys",
            "must name a field, as in $selection_of_pages, where elements are not (key, value) pairs: they "
            f"are {_type_words(kind)}",
            "E602",
        )
    keys, values = zip(*pairs, strict=True)
    return typehints.Union[keys], typehints.Union[values]


def _parts(kind: Any) -> list[Any]:
    """Return the types of the parts of a tuple."""
    if isinstance(kind, typehints.TupleHint.TupleConstraint):
        return list(kind.tuple_types)
    fields = field_types(kind) if isinstance(kind, type) and issubclass(kind, tuple) else None
    return list((fields or {}).values())


def _may_count(kind: Any, takes: Callable[[type], bool]) -> bool:
    """Return whether some values of a type can be used."""
    if _is_open(kind):
        return True
    if isinstance(kind, typehints.UnionConstraint):
        return any(_may_count(each, takes) for each in kind.union_types if each is not type(None))
    if isinstance(kind, typehints.TupleHint.TupleConstraint):
        return takes(tuple) and all(_may_count(part, takes) for part in kind.tuple_types)
    if isinstance(kind, typehints.TupleHint.TupleSequenceConstraint):
        return takes(tuple) and _may_count(kind.inner_type, takes)
    if isinstance(kind, row_type.RowTypeConstraint):
        kind = kind.user_type  # of a field that is a named tuple
    return isinstance(kind, type) and takes(kind)


def _takes(argument: str, domains: Mapping[str, AnyDomain], kind: type) -> bool:
    """Return whether instances of a class can be used."""
    if issubclass(kind, (bool, np.bool_)):
        return False
    if argument == "weight":
        return issubclass(kind, (int, np.integer, decimal.Decimal))
    if (domain := domains.get(argument)) is not None:
        return domain.reads_type(kind)
    return stands_for_text(kind) or issubclass(kind, _ITEMS)


def _is_open(kind: Any) -> bool:
    """Return whether nothing is known of the values of a type."""
    if isinstance(kind, typehints.UnionConstraint):
        return any(map(_is_open, kind.union_types))
    if isinstance(kind, type):
        return kind is object or inspect.isabstract(kind)
    return not isinstance(kind, typehints.TypeConstraint) or isinstance(kind, _OPEN)


def _has_no_field(kind: Any, name: str) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, _WITHOUT_FIELDS) and not hasattr(kind, name)
    return not _is_open(kind) and not _may_have_fields(kind)


def _may_have_fields(kind: Any) -> bool:
    if isinstance(kind, typehints.UnionConstraint):
        return any(map(_may_have_fields, kind.union_types))
    return isinstance(kind, _MAPPINGS) or (isinstance(kind, type) and not issubclass(kind, _WITHOUT_FIELDS))


def _is_batch(kind: Any) -> bool:
    return isinstance(kind, type) and is_batch_type(kind)


def _one_of(kind: Any) -> Any:
    """Return the one type of an optional one."""
    members = [each for each in getattr(kind, "union_types", [kind]) if each is not type(None)]
    return members[0] if len(members) == 1 else kind


def _type_words(kind: Any) -> str:
    """Return a type as in source code."""
    if isinstance(kind, type):
        return kind.__name__
    return re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", str(kind))
