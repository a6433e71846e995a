"""Select the item, weight, privacy id and key of an element, as the caller names them; nothing is guessed.

A selector is `None`, a field name or a callable. Names work on `beam.Row`, named tuples, dicts and batches (pyarrow
`RecordBatch` and `Table`, pandas `DataFrame`). A record with a missing value, a null, or a value of a type that cannot
be counted contributes nothing, because an error about it would reveal it; so does text in a column that is not UTF-8. A
missing or unusable *column* of a batch, a missing field of a declared schema, and a container that is never a record
are errors.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from beam_dpsketch.records.containers import is_batch_type, is_batch_type_by_name

Selector: TypeAlias = "str | Callable[[Any], Any] | None"


@dataclasses.dataclass(frozen=True)
class Selectors:
    """The selectors of one transform.

    Args:
      item: what is counted; `None` is the element itself.
      weight: how much it counts, a whole number; `None` is 1.
      privacy_id: who is protected.
      key: the output key; `None` where elements are (key, value) pairs.
    """

    item: Selector = None
    weight: Selector = None
    privacy_id: Selector = None
    key: Selector = None

    def __post_init__(self) -> None:
        check_selector(**vars(self))

    @property
    def given(self) -> dict[str, str | Callable[[Any], Any]]:
        """Return the selectors that are not `None`."""
        return {name: selector for name, selector in vars(self).items() if selector is not None}

    @property
    def is_batch_type(self) -> Callable[[type], bool]:
        """Return the function that says whether a type is a batch; only callables can read a list as one record."""
        by_name = self.item is None or any(isinstance(selector, str) for selector in self.given.values())
        return is_batch_type_by_name if by_name else is_batch_type


def check_selector(**selectors: Any) -> None:
    """Refuse what selects nothing."""
    for name, selector in selectors.items():
        if selector is not None and not callable(selector) and not (isinstance(selector, str) and selector):
            raise TypeError(
                f"{name} must be a field name, a callable or None, got {type(selector).__name__}; for a part of a "
                f"tuple give {name}=lambda element: element[0]"
            )


IDENTITY_SELECTORS = Selectors()


def make_getter(selector: Selector) -> Callable[[Any], Any]:
    """Return a function from an element to the selected value, `None` if it has none."""
    if selector is None:
        return _identity
    return functools.partial(_get_field, selector) if isinstance(selector, str) else functools.partial(_call, selector)


def select_all(selector: Selector, elements: list[Any]) -> list[Any]:
    """Return the selected value of each element."""
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
    except Exception:  # from a property; the message could carry the element into the logs
        return None


def _call(function: Callable[[Any], Any], element: Any) -> Any:
    try:
        return function(element)
    except Exception:  # the message could carry the element into the logs
        return None


def describe_argument(argument: str, selector: Selector) -> str:
    """Return an argument and the field that it names, in words."""
    if selector is None:
        return f"{argument} (of the pair)" if argument == "key" else f"{argument} (the element itself)"
    return f"{argument}={selector!r}" if isinstance(selector, str) else f"{argument} (a callable)"
