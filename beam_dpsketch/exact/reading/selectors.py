"""Select the item, weight, privacy id and key of an element by the caller's declaration. No field is guessed.

Guarantee: batches are distinguished from single records by their type alone, never by values, and messages name only
types. Therefore, an error is about the pipeline and not about a record.

A selector is `None`, a field name or a callable. Names work on `beam.Row`, named tuples, dicts and batches (pyarrow
`RecordBatch` and `Table`, pandas `DataFrame`). A record is dropped if a value is missing, null, or has a type that
cannot be counted, because an error about it would reveal it. Text in a column that is not UTF-8 is dropped too. A
missing or unusable *column* of a batch, a missing field of a declared schema, and a container that is never a record
are errors.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from beam_dpsketch.errors import ArgumentTypeError
from beam_dpsketch.exact.domains.calendar import Calendar

_ARRAYS = (np.ndarray, pa.Array, pa.ChunkedArray)
_LISTS = (list, set, frozenset, collections.deque, types.GeneratorType)
_FRAMES = frozenset({"DataFrame", "LazyFrame"})
_PROTOCOLS = ("__dataframe__", "__arrow_c_stream__")


@functools.lru_cache(maxsize=1024)
def is_batch_type(kind: type) -> bool:
    """Whether elements with this type contain many records. Raise `TypeError` for unreadable data frames."""
    if issubclass(kind, (pa.RecordBatch, pa.Table)) or is_pandas_frame(kind):
        return True
    if issubclass(kind, _ARRAYS) or _is_pandas_type(kind, "Series"):
        return False
    if kind.__name__ in _FRAMES or any(hasattr(kind, protocol) for protocol in _PROTOCOLS):
        raise ArgumentTypeError(
            "",
            f"An element is a {_full_name(kind)}, which is a container and not a record. Convert it to a pyarrow "
            "Table (pyarrow.table(frame)) or a pandas DataFrame first",
            "E609",
        )
    return False


@functools.lru_cache(maxsize=1024)
def is_batch_type_by_name(kind: type) -> bool:
    """Whether this is a batch type, if records are items or have named fields. Raise if it is a list or an array."""
    if issubclass(kind, _LISTS):
        raise ArgumentTypeError(
            "",
            f"An element is a {_full_name(kind)}, which is a container and not a record. Unpack it with "
            "beam.FlatMap(lambda records: records), or convert it to a pandas DataFrame or a pyarrow Table",
            "E609",
        )
    if issubclass(kind, _ARRAYS):
        raise ArgumentTypeError(
            "",
            f"An element is a {_full_name(kind)}, which is a container and not a record. Convert it to a pandas "
            "DataFrame or a pyarrow Table with named columns",
            "E609",
        )
    return is_batch_type(kind)  # type: ignore[arg-type]


def check_values(argument: str, values: Iterable[object]) -> None:
    """Raise if an array is among the values of a record. Lists count as data."""
    for kind in set(map(type, values)):
        if issubclass(kind, _ARRAYS) or _is_pandas_type(kind, "Series", "Index"):
            raise ArgumentTypeError(
                "",
                f"{argument} selects a {_full_name(kind)}, which is a container and not a value. Convert a dict with "
                "columns to a pyarrow Table (pyarrow.table(columns)) or a pandas DataFrame",
                "E609",
            )


def is_pandas_frame(kind: type) -> bool:
    """Whether a type is the pandas data frame, or a subclass."""
    return _is_pandas_type(kind, "DataFrame")


def _is_pandas_type(kind: type, *names: str) -> bool:
    return any(base.__name__ in names and base.__module__.split(".")[0] == "pandas" for base in kind.__mro__)


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


Selector: TypeAlias = "str | Callable[[Any], Any] | None"
KeyColumn: TypeAlias = "Selector | Calendar"
Items: TypeAlias = "Selector | tuple[tuple[str, Selector], ...]"
"""Items of a record: a single selector, or several, each after the name of its argument."""


@dataclasses.dataclass(frozen=True)
class Selectors:
    """The selectors of a transform.

    Args:
      item: the counted value. `None` is the element itself. Several are read as a tuple.
      weight: whole number that a record counts. `None` is 1.
      privacy_id: the privacy id.
      key: the output key, or the columns of a tuple. `None` if elements are (key, value) pairs.
      opaque: arguments whose columns may contain eight bytes that Arrow cannot interpret.
    """

    item: Items = None
    weight: Selector = None
    privacy_id: Selector = None
    key: KeyColumn | tuple[KeyColumn, ...] = None
    opaque: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_selector(**{name: column_of(each) for name, each in self.all.items()})

    @property
    def items(self) -> dict[str, Selector]:
        """Selector per item, by argument."""
        return dict(self.item) if isinstance(self.item, tuple) else {"item": self.item}

    @property
    def keys(self) -> dict[str, KeyColumn]:
        """Selector per key column, by argument. Tuple columns and calendars have numbers."""
        if isinstance(self.key, (tuple, Calendar)):
            return {f"key[{place}]": each for place, each in enumerate(as_columns(self.key))}
        return {"key": self.key}

    @property
    def all(self) -> dict[str, KeyColumn]:
        """All selectors by argument."""
        return {**self.items, "weight": self.weight, "privacy_id": self.privacy_id, **self.keys}

    @property
    def fields(self) -> dict[str, Any]:
        """All selectors by argument, and the whole key."""
        return {**self.all, "key": self.key}

    @property
    def names(self) -> tuple[Any, ...]:
        """Names of all fields, for digests. A callable has no stable name."""
        return tuple(("function",) if callable(each) else each for each in self.all.values())

    @property
    def columns(self) -> dict[str, str | Callable[[Any], Any]]:
        """Column or callable by argument."""
        return {name: column_of(selector) for name, selector in self.all.items() if selector is not None}

    @property
    def is_batch_type(self) -> Callable[[type], bool]:
        """Function that decides whether a type is a batch. Only callables can read a list as a single record."""
        by_name = None in self.items.values() or any(isinstance(selector, str) for selector in self.columns.values())
        return is_batch_type_by_name if by_name else is_batch_type


def check_selector(**selectors: Any) -> None:
    """Check that each selector is a field name, a callable or `None`."""
    for name, selector in selectors.items():
        if selector is not None and not callable(selector) and not (isinstance(selector, str) and selector):
            raise ArgumentTypeError(
                name,
                f"must be a field name, a callable or None, got {type(selector).__name__}. For a part of a tuple, use "
                f"{name}=lambda element: element[0]",
                "E008",
            )


def as_columns(key: KeyColumn | tuple[KeyColumn, ...]) -> tuple[KeyColumn, ...]:
    """List a key's columns."""
    return key if isinstance(key, tuple) else (key,)


def column_of(selector: Any) -> Any:
    """Get the field that a selector names. Keep callables."""
    return selector.time if isinstance(selector, Calendar) else selector


IDENTITY_SELECTORS = Selectors()


def make_getter(selector: Any) -> Callable[[Any], Any]:
    """Create a function from an element to the selected value, `None` if it has none."""
    if isinstance(selector, tuple):
        getters = [make_getter(each[1] if isinstance(each, tuple) else each) for each in selector]
        return lambda element: tuple(get(element) for get in getters)
    if isinstance(selector, Calendar):
        get = functools.partial(_get_field, selector.time)
        return lambda element: selector.label(get(element))
    if selector is None:
        return _identity
    return functools.partial(_get_field, selector) if isinstance(selector, str) else functools.partial(_call, selector)


def select_all(selector: Items, elements: list[Any]) -> list[Any]:
    """Select the value of each element."""
    if isinstance(selector, tuple):
        return list(zip(*(select_all(each, elements) for _, each in selector), strict=True))
    if selector is None:
        return elements
    if isinstance(selector, str) and set(map(type, elements)) == {dict}:
        return [element.get(selector) for element in elements]
    return list(map(make_getter(selector), elements))


def _identity(element: Any) -> Any:
    return element


def _get_field(name: str, element: Any) -> Any:
    try:
        return element.get(name) if isinstance(element, dict) else getattr(element, name, None)
    except Exception:  # from a property; the message could leak the element into logs
        return None


def _call(function: Callable[[Any], Any], element: Any) -> Any:
    try:
        return function(element)
    except Exception:  # the message could leak the element into logs
        return None


def describe_argument(argument: str, selector: KeyColumn | tuple[KeyColumn, ...]) -> str:
    """Describe an argument and its field."""
    if selector is None:
        return f"{argument} (of the pair)" if argument == "key" else f"{argument} (the element itself)"
    argument, named = argument.partition("[")[0], [*map(column_of, as_columns(selector))]
    shown = named[0] if len(named) == 1 else named
    return f"{argument} (a callable)" if any(map(callable, named)) else f"{argument}={shown!r}"
