"""The bytes of a release: a little-endian header, the counters, and a 128-bit digest.

Guarantee: `unpack` raises `FormatError` and nothing else, checks sizes before it allocates, builds through the
validating constructors, and accepts exactly the bytes that `pack` writes. One table, `_HEADER`, drives both. The
digest finds damage; it does not authenticate. No exact value of the data is stored, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from beam_dpsketch.errors import FormatError
from beam_dpsketch.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.privacy.contributions import ContributionBounds, NeighboringRelation, PrivacyUnit
from beam_dpsketch.release.fields import (
    U8,
    U16,
    U32,
    U64,
    Bytes,
    Choice,
    Constant,
    Exact,
    Field,
    Reader,
    Repeated,
    Text,
)
from beam_dpsketch.release.statement import Disclosure, PrivacyStatement
from beam_dpsketch.sketches.spec import SketchSpec

FORMAT_VERSION = 1
RELEASE_ID_BYTES = 16
_DIGEST_BYTES = 16
_DTYPES = ("<i1", "<i2", "<i4", "<i8")

_HEADER: dict[str, Field] = {
    "magic": Constant(b"DPSK"),
    "format_version": Constant(U16.write(FORMAT_VERSION)),
    "kind": Choice(("count_min", "count_sketch")),
    "hash_version": U16,
    "item_hash": Choice(ITEM_HASHES),
    "item_key": Text(64),
    "seed": U64,
    "depth": U32,
    "width": U32,
    "dtype": Choice(_DTYPES),
    "rho": Exact,
    "sigma_squared_per_level": Repeated(Exact),
    "neighboring": Choice(tuple(NeighboringRelation)),
    "unit": Choice(tuple(PrivacyUnit)),
    "max_contributions_per_partition": U32,
    "max_partitions": U32,
    "max_weight": U32,
    "signed": Choice((False, True)),
    "windows": U32,
    "disclosed": U8,
    "release_ids": Repeated(Bytes(RELEASE_ID_BYTES)),
}

_SPEC = ("depth", "width", "seed", "item_hash", "item_key", "hash_version")
_BOUNDS = ("max_contributions_per_partition", "max_partitions", "max_weight", "signed")
_STATEMENT = ("rho", "sigma_squared_per_level", "neighboring", "unit", "windows", "release_ids")


def pack(kind: str, spec: SketchSpec, counters: np.ndarray, privacy: PrivacyStatement) -> bytes:
    """The bytes of a release; counters take the narrowest integers that hold them."""
    dtype = next(dtype for dtype in _DTYPES if _fits(counters, np.dtype(dtype)))
    values: dict[str, Any] = {"kind": kind, "dtype": dtype, "disclosed": privacy.disclosed.value}
    values |= {name: getattr(spec, name) for name in _SPEC}
    values |= {name: getattr(privacy, name) for name in _STATEMENT}
    values |= {name: getattr(privacy.bounds, name) for name in _BOUNDS}
    header = b"".join(field.write(values.get(name)) for name, field in _HEADER.items())
    body = header + counters.astype(dtype).tobytes()
    return body + _digest(body)


def unpack(data: bytes) -> tuple[str, SketchSpec, np.ndarray, PrivacyStatement]:
    """Kind, spec, counters (int64, flat) and statement of the release in these bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"not a release: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    reader = Reader(data)
    try:
        values = {name: field.read(reader) for name, field in _HEADER.items()}
        spec = SketchSpec(**{name: values[name] for name in _SPEC})
        statement = PrivacyStatement(
            bounds=ContributionBounds(**{name: values[name] for name in _BOUNDS}),
            disclosed=Disclosure(values["disclosed"]),
            **{name: values[name] for name in _STATEMENT},
        )
    except ValueError as error:
        raise FormatError(f"not a release that this version can read: {error}") from None
    dtype = np.dtype(values["dtype"])
    if reader.left != spec.cells * dtype.itemsize + _DIGEST_BYTES:
        raise FormatError("not a release: the length does not match the header")
    body = data[:-_DIGEST_BYTES]
    if data[-_DIGEST_BYTES:] != _digest(body):
        raise FormatError("not a release: the digest does not match; the bytes are damaged")
    counters = np.frombuffer(body, dtype, offset=reader.position).astype(np.int64)
    if pack(values["kind"], spec, counters, statement) != data:
        raise FormatError("not a release: the fields are not in their only valid form")
    return values["kind"], spec, counters, statement


def _fits(counters: np.ndarray, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(counters.min() >= limits.min and counters.max() <= limits.max)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
