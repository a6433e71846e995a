"""What in an element is the item, the weight, the privacy id and the key: named by the caller, never guessed.

A selector is `None`, a field name or a callable. Names work on `beam.Row`, named tuples, dicts and batches (pyarrow
`RecordBatch` and `Table`, pandas `DataFrame`). A record that lacks a value, has a null, or a value of a type that
cannot be counted contributes nothing, because an error about it would reveal it; a missing or unusable *column* of a
batch, and a missing field of a declared schema, is an error.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch.privacy.contributions import ContributionBounds

Selector: TypeAlias = "str | Callable[[Any], Any] | None"

_INT64 = np.iinfo(np.int64)


@dataclasses.dataclass(frozen=True)
class Elements:
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
        for name, selector in self.given.items():
            if not callable(selector) and not (isinstance(selector, str) and selector):
                raise TypeError(
                    f"{name} must be a field name, a callable or None, got {type(selector).__name__}; for a part of a "
                    f"tuple give {name}=lambda element: element[0]"
                )

    @property
    def given(self) -> dict[str, str | Callable[[Any], Any]]:
        """The selectors that are not `None`."""
        return {name: selector for name, selector in vars(self).items() if selector is not None}

    def check_weight(self, bounds: ContributionBounds) -> None:
        """Refuses weights without a declared largest one, which would all be clamped to 1."""
        if self.weight is not None and not bounds.says_max_weight:
            raise ValueError(
                "max_weight must be given where weight is, as in bounds=ContributionBounds(max_weight=100): larger "
                "weights are clamped to it, and noise grows with it"
            )


def reader(selector: Selector) -> Callable[[Any], Any]:
    """A function from an element to the selected value, `None` if it has none."""
    if selector is None:
        return _identity
    return functools.partial(_field, selector) if isinstance(selector, str) else functools.partial(_call, selector)


def selected(selector: Selector, elements: list[Any]) -> list[Any]:
    """What `reader` reads of each element."""
    if selector is None:
        return elements
    if isinstance(selector, str) and set(map(type, elements)) == {dict}:
        return [element.get(selector) for element in elements]
    return list(map(reader(selector), elements))


def _identity(element: Any) -> Any:
    return element


def _field(name: str, element: Any) -> Any:
    try:
        return element.get(name) if isinstance(element, dict) else getattr(element, name, None)
    except Exception:  # of a property; the message would carry the element into the logs
        return None


def _call(function: Callable[[Any], Any], element: Any) -> Any:
    try:
        return function(element)
    except Exception:  # the message would carry the element into the logs
        return None


def _is_batch_type(kind: type) -> bool:
    """Whether elements of this type hold many records."""
    return issubclass(kind, (pa.RecordBatch, pa.Table)) or (
        kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "pandas"
    )


is_batch_type: Callable[[type], bool] = functools.lru_cache(maxsize=1024)(_is_batch_type)


def column(batch: Any, argument: str, selector: Selector) -> pa.Array:
    """One column of a batch, by its name."""
    if not isinstance(selector, str):
        raise TypeError(f"{argument} must be a column name where elements are batches")
    try:
        values = batch[selector]
    except KeyError:
        raise ValueError(f"{argument}={selector!r} is not a column of the batch") from None
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()  # which copies
    elif not isinstance(values, pa.Array):
        try:
            values = pa.Array.from_pandas(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            message = f"{argument}={selector!r}: the column mixes types or holds a type unknown to Arrow"
            raise TypeError(message) from None
    if pa.types.is_dictionary(values.type) and values.dictionary.null_count:
        values = values.dictionary_decode()  # a null among the distinct values does not count as null
    if argument in ("key", "privacy_id"):
        check_item_type(argument, values.type)
    return values


def check_item_type(argument: str, kind: pa.DataType) -> None:
    """Refuses a column of a type that cannot be hashed."""
    if not _is_item_type(kind):
        raise TypeError(f"the {argument} column must hold text, bytes or integers, got {kind}")


def _is_item_type(kind: pa.DataType) -> bool:
    """Whether values of this type can be counted; else all would be left out, in silence."""
    if pa.types.is_dictionary(kind):
        return _is_item_type(kind.value_type)
    if pa.types.is_nested(kind):
        return False
    return pa.types.is_integer(kind) or any(word in str(kind) for word in ("string", "binary", "null"))


def valid(*columns: pa.Array) -> np.ndarray:
    """Where no column has a null, as bool."""
    return functools.reduce(np.logical_and, (np.asarray(pc.is_valid(values)) for values in columns))


def whole_weights(weights: Sequence[Any] | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Weights as int64, clipped to 64 bits, and where they were whole numbers at all (elsewhere 0).

    What does not fit is clipped alike on both sides, so that an insert and its delete still cancel.
    """
    if isinstance(weights, pa.Array):
        return _whole_column(weights)
    if set(map(type, weights)) == {int}:
        try:
            return np.array(weights, dtype=np.int64), np.ones(len(weights), dtype=bool)
        except OverflowError:
            pass
    numbers = [_whole(weight) for weight in weights]
    mask = np.array([number is not None for number in numbers], dtype=bool)
    return np.array([number or 0 for number in numbers], dtype=np.int64), mask


def _whole(weight: Any) -> int | None:
    """A weight as an integer of 64 bits; `None` if it is not a whole number."""
    if isinstance(weight, (bool, np.bool_)) or not isinstance(weight, (int, float, np.integer, np.floating)):
        return None
    if not isinstance(weight, (int, np.integer)) and not float(weight).is_integer():
        return None
    return max(-_INT64.max, min(_INT64.max, int(weight)))


def _whole_column(weights: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    kind = weights.type
    if not pa.types.is_integer(kind) and not pa.types.is_floating(kind) and not pa.types.is_null(kind):
        raise TypeError(f"the weight column must hold whole numbers, got {kind}")
    mask = valid(weights)
    if pa.types.is_null(kind):
        return np.zeros(len(weights), dtype=np.int64), mask
    values = weights.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(kind):
        mask &= np.isfinite(values) & (np.floor(values) == values)
        values = np.where(mask, values, 0)
        return np.clip(values, -(2.0**62), 2.0**62).astype(np.int64), mask
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(_INT64.max))
    return values.astype(np.int64), mask
