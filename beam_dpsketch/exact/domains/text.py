"""Text and bytes as byte paths, for finding frequent items. They are not ordered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import checks as _validate
from beam_dpsketch.columns import plain_column, plain_value
from beam_dpsketch.encodings import named
from beam_dpsketch.exact.domains.base import Universe, has_text_form, is_bytes_type, unwrap_type

_MAX_BYTES = 254
TRUNCATED = 255
_CUT_CHARACTER = 4  # bytes of the longest UTF-8 character


@named("BytesDomain")
@dataclasses.dataclass(frozen=True)
class BytesDomain(Universe):
    """Byte strings. Only their first max_bytes bytes count.

    Args:
      max_bytes: the number of bytes that count, from 1 to 254, as 16. Longer items count as their first max_bytes.
    """

    max_bytes: int
    type_name = "bytes"
    number = 5
    takes = "bytes"
    value_types: ClassVar[tuple[type, ...]] = (bytes,)
    plain_type: ClassVar[type] = bytes
    parsed = "bytes, in hex after 0x or as text"
    is_ordered = False

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "max_bytes", low=1, high=_MAX_BYTES)

    @property
    def key_type(self) -> np.dtype[Any]:
        """Numpy type of a key: the bytes, zeros, and the length plus 1 (numpy strips zeros at the end)."""
        return np.dtype(f"S{self.max_bytes + 1}")

    def index(self, values: Sequence[Any] | np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        if isinstance(values, pa.Array):
            column = plain_column(values)
            if not self.reads_column(column.type):
                return self.index(column.to_pylist())
            keys, sizes = self._pad_column(column)
            usable = np.asarray(column.is_valid())
        else:
            listed = [*map(plain_value, values)]
            usable = np.fromiter((isinstance(item, self.value_types) for item in listed), dtype=bool, count=len(listed))
            data = [self.to_bytes(item) if good else b"" for item, good in zip(listed, usable, strict=True)]
            keys, sizes = np.array(data, dtype=self.key_type), np.fromiter(map(len, data), np.int64, count=len(data))
        ends = np.where(sizes < self.max_bytes, sizes + 1, TRUNCATED)
        keys.view(np.uint8)[self.max_bytes :: self.max_bytes + 1] = ends
        return keys, usable

    def _pad_column(self, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Cut or pad each item to the size of a key, and count its bytes that count."""
        is_coded = pa.types.is_dictionary(column.type)
        data = pc.binary_slice((column.dictionary if is_coded else column).cast(pa.large_binary()), 0, self.max_bytes)
        data = (data.take(column.indices) if is_coded else data).fill_null(b"")
        padded = pc.ascii_rpad(data.view(pa.large_string()), self.max_bytes + 1, "\0").buffers()[2] or b""
        return np.frombuffer(padded, self.key_type, count=len(column)).copy(), np.asarray(pc.binary_length(data))

    def reads_column(self, kind: pa.DataType) -> bool:
        return is_bytes_type(unwrap_type(kind))

    def is_inside(self, value: Any) -> bool:
        return len(self.to_bytes(plain_value(value))) <= self.max_bytes

    def parse(self, text: str) -> Any:
        return bytes.fromhex(text[2:]) if text[:2] == "0x" else text.encode("utf-8", "surrogateescape")

    def reading(self) -> dict[str, Any]:
        """List the settings that other languages need to read values."""
        return {"type": self.type_name, "parsed": self.parsed, "max_bytes": self.max_bytes}

    def describe(self) -> str:
        return f"{self.takes} up to {self.max_bytes} bytes"

    def is_short_key(self, key: bytes) -> bool:
        size = len(key) - 1
        return 0 <= size <= self.max_bytes and key[-1] == (size + 1 if size < self.max_bytes else TRUNCATED)

    def is_cut(self, key: bytes) -> bool:
        return key[-1] == TRUNCATED

    def from_short_keys(self, keys: Sequence[bytes]) -> list[Any]:
        return [self._from_short(key[:-1], _CUT_CHARACTER if self.is_cut(key) else 1) for key in keys]

    def _from_short(self, data: bytes, tries: int) -> Any:
        """Decode an item. A cut item may end within a character, which is dropped."""
        found = (self.from_bytes(data[: len(data) - missing]) for missing in range(tries))
        return next((item for item in found if item is not None), None)

    def to_bytes(self, item: Any) -> bytes:
        return item

    def from_bytes(self, data: bytes) -> Any:
        return data


@named("TextDomain")
class TextDomain(BytesDomain):
    """Text in UTF-8. Only its first max_bytes bytes count.

    Args:
      max_bytes: the number of bytes that count, from 1 to 254, as 16.

    >>> TextDomain(8).index(["word", None])[1].tolist()
    [True, False]
    """

    type_name = "text"
    number = 4
    takes = parsed = "text"
    value_types = (str,)
    plain_type = str
    written = "text in quotes"

    def reads_column(self, kind: pa.DataType) -> bool:
        return has_text_form(unwrap_type(kind))

    def parse(self, text: str) -> str:
        return text

    def to_bytes(self, item: Any) -> bytes:
        return str.encode(item, "utf-8", "surrogatepass")  # not `item.encode`, which a subclass could override

    def from_bytes(self, data: bytes) -> str | None:
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return None
