"""Text and bytes as paths of bytes, for finding frequent items; they are not ordered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch._columns import plain_column
from beam_dpsketch.domains.base import is_bytes_type, is_text_type, unwrap_type

MAX_BYTES = 254
TRUNCATED = 255


@dataclasses.dataclass(frozen=True)
class BytesDomain:
    """Byte strings; only their first max_bytes bytes count.

    Args:
      max_bytes: 1 to 254; longer items are counted as their first max_bytes.
    """

    max_bytes: int
    item_type: ClassVar[type] = bytes
    takes: ClassVar[str] = "bytes"

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "max_bytes", low=1, high=MAX_BYTES)

    @property
    def key_type(self) -> np.dtype[Any]:
        """Return the numpy type of a key: the bytes, zeros, and the length plus 1 (numpy strips zeros at the end)."""
        return np.dtype(f"S{self.max_bytes + 1}")

    def index(self, items: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of items, and where an item was usable; elsewhere the key is that of an empty item."""
        listed = plain_column(items).to_pylist() if isinstance(items, pa.Array) else list(items)
        usable = np.fromiter((isinstance(item, self.item_type) for item in listed), dtype=bool, count=len(listed))
        keys = [self._key(self.to_bytes(item) if good else b"") for item, good in zip(listed, usable, strict=True)]
        return np.array(keys, dtype=self.key_type), usable

    def reads_column(self, kind: pa.DataType) -> bool:
        """Return whether an Arrow column of this type can hold usable items."""
        return is_bytes_type(unwrap_type(kind))

    def reads_type(self, kind: type) -> bool:
        """Return whether items of a Python type are read."""
        return issubclass(kind, self.item_type)

    def is_inside(self, item: Any) -> bool:
        """Return whether a usable item is short enough not to be truncated."""
        return len(self.to_bytes(item)) <= self.max_bytes

    def to_bytes(self, item: Any) -> bytes:
        """Return the bytes of an item."""
        return item

    def from_bytes(self, data: bytes) -> Any:
        """Return the item with these bytes; `None` if they are not valid."""
        return data

    def _key(self, data: bytes) -> bytes:
        length = len(data) if len(data) < self.max_bytes else TRUNCATED - 1
        return data[: self.max_bytes].ljust(self.max_bytes, b"\0") + bytes([length + 1])


class TextDomain(BytesDomain):
    """Text in UTF-8; only its first max_bytes bytes count.

    >>> TextDomain(8).index(["word", None])[1].tolist()
    [True, False]
    """

    item_type = str
    takes = "text"

    def reads_column(self, kind: pa.DataType) -> bool:
        return is_text_type(unwrap_type(kind))

    def to_bytes(self, item: Any) -> bytes:
        return str.encode(item, "utf-8", "surrogatepass")  # a subclass cannot override it

    def from_bytes(self, data: bytes) -> str | None:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return None
