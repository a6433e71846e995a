"""The bytes of a release: a little-endian header, the counters, and a 128-bit digest.

Guarantee: `unpack` raises `FormatError` and nothing else, checks sizes before it allocates, builds through the
validating constructors, and accepts exactly the bytes that `pack` writes. The same tables of fields drive both. The
digest finds damage; it does not authenticate. No exact value of the data is stored, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from beam_dpsketch.errors import FormatError
from beam_dpsketch.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit, RecordBounds
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.release.format.fields import (
    F64,
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
from beam_dpsketch.release.format.tree_fields import BYTES_DOMAIN, DOMAIN, LEVEL
from beam_dpsketch.release.release_id import RELEASE_ID_BYTES
from beam_dpsketch.release.statement import PrivacyStatement
from beam_dpsketch.sketches.prefix import PrefixSpec
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec

FORMAT_VERSION = 1
_DIGEST_BYTES = 16
_DTYPES = ("<i1", "<i2", "<i4", "<i8")

_START: dict[str, Field] = {
    "magic": Constant(b"DPSK"),
    "format_version": U16,
    "kind": Choice(("count_min", "count_sketch", "dyadic", "prefix")),
}

_FLAT_SPEC: dict[str, Field] = {
    "hash_version": U16,
    "item_hash": Choice(ITEM_HASHES),
    "item_key": Text(64),
    "seed": U64,
    "depth": U32,
    "width": U32,
}

_TREE_SPEC: dict[str, Field] = {
    "hash_version": U16,
    "seed": U64,
    "domain": DOMAIN,
    "levels": Repeated(LEVEL),
}

_PREFIX_SPEC: dict[str, Field] = {
    "hash_version": U16,
    "seed": U64,
    "domain": BYTES_DOMAIN,
    "depth": U32,
    "width": U32,
}

_SPECS: dict[str, tuple[type, dict[str, Field]]] = {
    "count_min": (SketchSpec, _FLAT_SPEC),
    "count_sketch": (SketchSpec, _FLAT_SPEC),
    "dyadic": (TreeSpec, _TREE_SPEC),
    "prefix": (PrefixSpec, _PREFIX_SPEC),
}

_BOUNDS: dict[str, Field] = {
    "max_contributions_per_partition": U32,
    "max_partitions": U32,
    "max_weight": U32,
    "signed": Choice((False, True)),
}

_STATEMENT: dict[str, Field] = {
    "rho": Exact,
    "sigma_squared_per_level": Repeated(Exact),
    "relation": Choice(tuple(NeighboringRelation)),
    "unit": Choice(tuple(PrivacyUnit)),
    "window_count": U32,
    "disclosed": U8,
    "period_micros": U64,
    "randomness": Choice(tuple(Randomness)),
    "shown_delta": F64,
    "release_ids": Repeated(Bytes(RELEASE_ID_BYTES)),
}

_DTYPE: dict[str, Field] = {"dtype": Choice(_DTYPES)}


def pack(kind: str, spec: Any, counters: np.ndarray, privacy: PrivacyStatement) -> bytes:
    """The bytes of a release; counters take the narrowest integers that hold them."""
    dtype = next(dtype for dtype in _DTYPES if _fits(counters, np.dtype(dtype)))
    statement = {**vars(privacy), "disclosed": privacy.disclosed.value}
    header = b"".join(
        (
            _write(_START, {"magic": None, "format_version": FORMAT_VERSION, "kind": kind}),
            _write(_SPECS[kind][1], vars(spec)),
            _write(_STATEMENT, statement),
            _write(_BOUNDS, vars(privacy.bounds)),
            _write(_DTYPE, {"dtype": dtype}),
        )
    )
    body = header + counters.astype(dtype).tobytes()
    return body + _digest(body)


def unpack(data: bytes) -> tuple[str, Any, np.ndarray, PrivacyStatement]:
    """Kind, spec, counters (int64, flat) and statement of the release in these bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"not a release: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    reader = Reader(data)
    try:
        start = _read(_START, reader)
        kind, version = start["kind"], start["format_version"]
        if version != FORMAT_VERSION:
            raise FormatError(f"its format has number {version}")
        spec_type, spec_fields = _SPECS[kind]
        kind_of_flat = {"kind": kind} if spec_type is SketchSpec else {}
        spec = spec_type(**kind_of_flat, **_read(spec_fields, reader))
        statement = _read(_STATEMENT, reader)
        statement["disclosed"] = Disclosure(statement["disclosed"])
        privacy = PrivacyStatement(bounds=RecordBounds(**_read(_BOUNDS, reader)), **statement)
        dtype = np.dtype(_read(_DTYPE, reader)["dtype"])
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a release that this version can read: {error}") from None
    if reader.left != spec.cells * dtype.itemsize + _DIGEST_BYTES:
        raise FormatError("not a release: the length does not match the header")
    body = data[:-_DIGEST_BYTES]
    if data[-_DIGEST_BYTES:] != _digest(body):
        raise FormatError("not a release: the digest does not match; the bytes are damaged")
    counters = np.frombuffer(body, dtype, offset=reader.position).astype(np.int64)
    if pack(kind, spec, counters, privacy) != data:
        raise FormatError("not a release: the fields are not in their only valid form")
    return kind, spec, counters, privacy


def _write(fields: dict[str, Field], values: Mapping[str, Any]) -> bytes:
    return b"".join(field.write(values[name]) for name, field in fields.items())


def _read(fields: dict[str, Field], reader: Reader) -> dict[str, Any]:
    return {name: field.read(reader) for name, field in fields.items()}


def _fits(counters: np.ndarray, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(counters.min() >= limits.min and counters.max() <= limits.max)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
