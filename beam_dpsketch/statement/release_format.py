"""Release format in bytes: spec, statement and counters in MessagePack, followed by a 128-bit digest.

Guarantee: `unpack` raises only `FormatError`, checks sizes before allocation, uses the validating constructors, and
accepts exactly the bytes that `pack` writes. The digest detects damage but does not authenticate. The format stores no
exact data values and involves no pickle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgpack
import numpy as np

from beam_dpsketch.errors import FormatError, said_by
from beam_dpsketch.statement.codec import ReleasedSpec, codec_of
from beam_dpsketch.statement.stated import Stated

RELEASE_START = b"DPSK\x01\x00"
"""First bytes of a release. The last two are the format version."""
DIGEST_BYTES = 16
SIZES = (1, 2, 4, 8)
"""Possible counter sizes in bytes."""
MAX_STORED = 1 << 18
"""Maximum number of values in a release, including lists: its ids, and a few values for each level and metric."""
RECORD_KINDS = ("release", "pair", "row", "row_pair", "spent")
"""Kinds of records in a release file, by index. The last is a statement alone."""

_HEADS: Mapping[int, tuple[int, int, bool]] = {
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3), (0, 0, False)),
    **{0x90 + size: (0, size, True) for size in range(16)},
    **{0xA0 + size: (0, size, False) for size in range(32)},
    **dict(zip((0xCA, 0xCB, *range(0xCC, 0xD4)), [(0, size, False) for size in (4, 8, *SIZES, *SIZES)], strict=True)),
    **dict(zip((0xC4, 0xC5, 0xC6, 0xD9, 0xDA, 0xDB), [(size, 0, False) for size in (1, 2, 4) * 2], strict=True)),
    0xDC: (2, 0, True),
    0xDD: (4, 0, True),
}
"""MessagePack values by first byte, except maps and extensions: bytes in the size field, constant added to the size,
whether the value is a list. The size of a list counts values.
"""


class Content(NamedTuple):
    """Fields of a release, in the order in which they are stored. Each counter is a signed integer of `size` bytes."""

    spec: ReleasedSpec
    statement: Stated
    scale_bits: int
    size: int
    counters: bytes


_CONTENT, _STATEMENT = codec_of(Content), codec_of(Stated)


def pack(spec: Any, counters: np.ndarray, privacy: Stated, scale_bits: int) -> bytes:
    """Encode a release. Counters, in units of 2**-scale_bits, are stored as the narrowest possible integers."""
    dtype = np.dtype(narrowest(counters))
    content = Content(spec, privacy, scale_bits, dtype.itemsize, counters.astype(dtype).tobytes())
    body = RELEASE_START + _packed(_CONTENT.write(content))
    return body + _digest(body)


def unpack(data: bytes) -> tuple[Any, np.ndarray, Stated, int]:
    """Decode spec, counters (int64, flat), statement and scale_bits from a release in bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"not a release: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    body = data[:-DIGEST_BYTES]
    if not body.startswith(RELEASE_START):
        raise FormatError("the magic number or the format version is unknown")
    if data[-DIGEST_BYTES:] != _digest(body):
        raise FormatError("not a release: the digest does not match the bytes, which are damaged")
    try:
        spec, privacy, scale_bits, size, encoded = _CONTENT.read(_unpacked(body[len(RELEASE_START) :]))
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a release that this version can read: {said_by(error)}") from None
    if size not in SIZES or len(encoded) != spec.cells * size:
        raise FormatError("not a release: the length does not match the header")
    counters = np.frombuffer(encoded, f"<i{size}").astype(np.int64)
    if pack(spec, counters, privacy, scale_bits) != data:
        raise FormatError("not a release: the fields are not in canonical form")
    return spec, counters, privacy, scale_bits


def pack_statement(privacy: Stated) -> bytes:
    """Encode a statement without a release."""
    return _packed(_STATEMENT.write(privacy))


def unpack_statement(data: bytes) -> Stated:
    """Decode a statement."""
    try:
        privacy: Stated = _STATEMENT.read(_unpacked(data))
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a statement that this version can read: {said_by(error)}") from None
    if pack_statement(privacy) != data:
        raise FormatError("not a statement: the fields are not in canonical form")
    return privacy


def narrowest(counters: np.ndarray) -> str:
    """Find the narrowest integer type for all counters, as a numpy type string."""
    low, high = int(counters.min(initial=0)), int(counters.max(initial=0))
    return next(f"<i{size}" for size in SIZES if -low <= 1 << (8 * size - 1) > high)


def spent_record(stated: Stated) -> bytes:
    """Encode the loss of a run that released nothing."""
    return bytes([RECORD_KINDS.index("spent")]) + pack_statement(stated)


def _packed(plain: Any) -> bytes:
    packed: bytes = msgpack.packb(plain)
    return packed


def _unpacked(data: bytes) -> Any:
    """Decode plain values. Their memory is small, apart from text and bytes, which are no longer than the data."""
    _check_count(data)
    try:
        return msgpack.unpackb(data)
    except ValueError:
        raise FormatError("the bytes are not MessagePack, or more bytes follow") from None


def _check_count(data: bytes) -> None:
    """Refuse maps, extensions and more than `MAX_STORED` values before allocation. An empty list has 1 byte."""
    place, left, count = 0, 1, 1
    while left and place < len(data):
        head = data[place]
        if head not in _HEADS:
            raise FormatError("a field has the wrong type")
        length, size, is_list = _HEADS[head]
        place += 1 + length
        size += int.from_bytes(data[place - length : place], "big")
        left -= 1
        if is_list:
            left, count = left + size, count + size
            if count > MAX_STORED:
                raise FormatError(f"there are more than {MAX_STORED} values")
        else:
            place += size


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
