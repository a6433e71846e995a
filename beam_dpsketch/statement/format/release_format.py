"""The bytes of a release: a little-endian header, the counters, and a 128-bit digest.

Guarantee: `unpack` raises `FormatError` and nothing else, checks sizes before it allocates, builds through the
validating constructors, and accepts exactly the bytes that `pack` writes. The same tables of fields drive both. The
digest finds damage; it does not authenticate. No exact value of the data is stored, and nothing is unpickled.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

import numpy as np

from beam_dpsketch.domains import DOMAINS
from beam_dpsketch.errors import FormatError, said_by
from beam_dpsketch.hashing.fingerprints import ITEM_HASHES
from beam_dpsketch.privacy.aside.lost_histogram import Uncounted
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit, RecordBounds
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.bounds import NormBound
from beam_dpsketch.privacy.over_time.binned import BinaryTree, BinnedRoot
from beam_dpsketch.privacy.selection import METHODS
from beam_dpsketch.privacy.terms import Disclosure
from beam_dpsketch.sketches.grouped_items import GroupedItems
from beam_dpsketch.sketches.levels import LEVEL_KINDS, Level
from beam_dpsketch.sketches.listed_items import MAX_BYTES, from_encoded
from beam_dpsketch.sketches.spec import SketchSpec
from beam_dpsketch.sketches.tree_spec import TreeSpec
from beam_dpsketch.statement.clipping import ClippingState
from beam_dpsketch.statement.format import fields
from beam_dpsketch.statement.format.fields import I64, I128, U8, U16, U32, U64, Choice, Field, Object, Reader, Repeated
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.notes import AnswerNote, GroupNote, KeyNote, RowNote
from beam_dpsketch.statement.release_id import RELEASE_ID_BYTES
from beam_dpsketch.statement.side_notes import NAMES, SideNote
from beam_dpsketch.statement.stated import Stated

FORMAT_VERSION = 1
_DIGEST_BYTES = 16

_KIND = Choice(("count_min", "count_sketch", "quantiles", "listed_items", "groups", "statistics", "metrics", "factor"))
_START: dict[str, Field] = {"magic": fields.Constant(b"DPSK"), "format_version": U16, "kind": _KIND}

_FLAT_SPEC: dict[str, Field] = {
    "hash_version": U16,
    "item_hash": Choice(ITEM_HASHES),
    "item_key": fields.Text(64),
    "seed": U64,
    "depth": U32,
    "width": U32,
}

_FORMS: dict[str, Field] = {
    "whole": I128,
    "byte": U8,
    "number": fields.F64,
    "time": fields.TIME,
    "duration": fields.DURATION,
}
_DOMAINS = {
    kind: Object(kind, {name: _FORMS[setting.form] for name, setting in kind.settings.items()})
    for kind in sorted(DOMAINS, key=lambda kind: kind.number)
}
DOMAIN = fields.OneOf(tuple(each for kind, each in _DOMAINS.items() if kind.is_ordered))
_SKETCH = Choice(LEVEL_KINDS)
_LEVEL = Object(Level, {"bits": U8, "sketch": _SKETCH, "depth": U32, "width": U32, "share": fields.Exact})
SPECS: dict[str, Object] = {
    "count_min": Object(functools.partial(SketchSpec, kind="count_min"), _FLAT_SPEC),
    "count_sketch": Object(functools.partial(SketchSpec, kind="count_sketch"), _FLAT_SPEC),
    "quantiles": Object(TreeSpec, {"hash_version": U16, "seed": U64, "domain": DOMAIN, "levels": Repeated(_LEVEL)}),
    "listed_items": Object(from_encoded, {"encoded_items": fields.Text(MAX_BYTES, U32)}),
    "groups": Object(
        GroupedItems,
        {
            "domain": fields.OneOf(tuple(_DOMAINS.values())),
            "encoded_items": fields.Text(MAX_BYTES, U32),
            "left_out": U64,
        },
    ),
}
"""The fields of each kind of spec; a kind that stands above enters its own."""


class InnerSpec:
    """One of several specs, after the name of its kind; it has none in it, however deep a forgery goes."""

    @staticmethod
    def write(value: Any) -> bytes:
        return _KIND.write(value.kind) + SPECS[value.kind].write(value)

    @staticmethod
    def fields_of(reader: Reader) -> Object:
        """Read the name of the kind; return its fields."""
        kind = _KIND.read(reader)
        if kind == "metrics":
            raise FormatError("metrics are in metrics")
        return SPECS[kind]

    @staticmethod
    def read(reader: Reader) -> Any:
        return InnerSpec.fields_of(reader).read(reader)


_YES_OR_NO = Choice((False, True))
_BOUNDS = fields.OneOf(
    (
        Object(
            RecordBounds,
            {"max_per_key": U32, "max_keys": fields.Optional(U32), "max_weight": U32, "signed": _YES_OR_NO},
        ),
        Object(
            NormBound,
            {
                "max_norm": fields.Exact,
                "max_weight": U32,
                "max_per_item": fields.Optional(U32),
                "signed": _YES_OR_NO,
                "resource_limit": fields.Optional(U32),
                "max_keys": fields.Optional(U32),
                "order": U8,
            },
        ),
    )
)
_NOISE = Choice(tuple(Noise))
_SIDE_NOTE = Object(
    SideNote,
    {
        "names": Repeated(Choice(NAMES)),
        "share": fields.Exact,
        "squared_limit": fields.Exact,
        "noise": _NOISE,
        "sigma_squared": fields.Exact,
        "value": I64,
        "scale_bits": U8,
    },
)
_LOST_NOTE = Object(
    LostNote,
    {
        "share": fields.Exact,
        "noise": _NOISE,
        "sigma_squared": fields.Exact,
        "first": I64,
        "counts": Repeated(I64),
        "kept": fields.Optional(_SIDE_NOTE),
    },
)
_KEY_NOTE = Object(
    KeyNote,
    {
        "method": Choice(METHODS),
        "max_keys": U32,
        "min_units": U32,
        "grid": U32,
        "sigma_squared": fields.Exact,
        "threshold": U64,
        "half": U64,
        "most": U64,
        "share": fields.OrZero(fields.Exact),
    },
)
_NOTHING = Object(type(None), {})
_VOTES = fields.OneOf((_NOTHING, _KEY_NOTE))
_GROUP_NOTE = Object(GroupNote, {"max_items": U32, "threshold": U64, "most": U64, "scale_bits": U8, "votes": _VOTES})
_MECHANISM = fields.OneOf(
    (
        Object(BinnedRoot, {"windows": U32, "ratio": U8, "weight_bits": U8, "gain_bits": U8}),
        Object(BinaryTree, {"windows": U32}),
    )
)
_ROW_NOTE = Object(RowNote, {"mechanism": _MECHANISM, "number": U32, "dropped_bits": U8})
_ANSWER_NOTE = Object(AnswerNote, {"mechanism": _MECHANISM, "windows": U32})
_STATEMENT = Object(
    Stated,
    {
        "rho": fields.Exact,
        "sigma_squared_per_level": Repeated(fields.Exact),
        "relation": Choice(tuple(NeighboringRelation)),
        "unit": Choice(tuple(PrivacyUnit)),
        "window_count": U32,
        "overlapping": U32,
        "first_windows": _YES_OR_NO,
        "disclosed": fields.Flags(Disclosure),
        "uncounted": fields.Flags(Uncounted),
        "weakest": Choice(tuple(ClippingState)),
        "of_metric": _YES_OR_NO,
        "period_micros": U64,
        "randomness": Choice(tuple(Randomness)),
        "shown_delta": fields.F64,
        "release_ids": Repeated(fields.Bytes(RELEASE_ID_BYTES)),
        "bounds": _BOUNDS,
        "norm_spend": fields.Optional(fields.Exact),
        "side": Repeated(_SIDE_NOTE),
        "lost": fields.Optional(_LOST_NOTE),
        "delta": fields.OrZero(fields.Exact),
        "pure": fields.OrZero(fields.Exact),
        "pure_rho": fields.OrZero(fields.Exact),
        "noise": _NOISE,
        "keys": fields.OneOf((_NOTHING, _KEY_NOTE, _GROUP_NOTE)),
        "over_time": fields.OneOf((_NOTHING, _ROW_NOTE, _ANSWER_NOTE)),
    },
)

_DTYPE = Choice(("<i1", "<i2", "<i4", "<i8"))
_COUNTERS: dict[str, fields.Field] = {"scale_bits": U8, "dtype": _DTYPE}


def pack(kind: str, spec: Any, counters: np.ndarray, privacy: Stated, scale_bits: int) -> bytes:
    """Return the bytes of a release; counters, in units of 2**-scale_bits, take the narrowest integers."""
    dtype = narrowest(counters)
    start = fields.write_fields(_START, {"magic": None, "format_version": FORMAT_VERSION, "kind": kind})
    end = fields.write_fields(_COUNTERS, {"scale_bits": scale_bits, "dtype": dtype})
    body = start + SPECS[kind].write(spec) + _STATEMENT.write(privacy) + end + counters.astype(dtype).tobytes()
    return body + _digest(body)


def unpack(data: bytes) -> tuple[str, Any, np.ndarray, Stated, int]:
    """Return kind, spec, counters (int64, flat), statement and scale_bits of the release in these bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"not a release: expected bytes, got {type(data).__name__}")
    data = bytes(data)
    reader = Reader(data)
    try:
        start = fields.read_fields(_START, reader)
        kind, version = start["kind"], start["format_version"]
        if version != FORMAT_VERSION:
            raise FormatError(f"its format has number {version}")
        spec, privacy = SPECS[kind].read(reader), _STATEMENT.read(reader)
        read = fields.read_fields(_COUNTERS, reader)
        scale_bits, dtype = read["scale_bits"], np.dtype(read["dtype"])
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a release that this version can read: {said_by(error)}") from None
    if reader.left != spec.cells * dtype.itemsize + _DIGEST_BYTES:
        raise FormatError("not a release: the length does not match the header")
    body = data[:-_DIGEST_BYTES]
    if data[-_DIGEST_BYTES:] != _digest(body):
        raise FormatError("not a release: the digest does not match; the bytes are damaged")
    counters = np.frombuffer(body, dtype, offset=reader.position).astype(np.int64)
    if pack(kind, spec, counters, privacy, scale_bits) != data:
        raise FormatError("not a release: the fields are not in their only valid form")
    return kind, spec, counters, privacy, scale_bits


def pack_statement(privacy: Stated) -> bytes:
    """Return the bytes of a statement without a release."""
    return _STATEMENT.write(privacy)


def unpack_statement(data: bytes) -> Stated:
    """Return the statement in these bytes."""
    reader = Reader(data)
    try:
        privacy: Stated = _STATEMENT.read(reader)
    except (TypeError, ValueError) as error:
        raise FormatError(f"not a statement that this version can read: {said_by(error)}") from None
    if pack_statement(privacy) != data:
        raise FormatError("not a statement: the fields are not in their only valid form")
    return privacy


def narrowest(counters: np.ndarray) -> str:
    """Return the name of the narrowest integers that hold all counters, one or more."""
    return next(dtype for dtype in _DTYPE.options if _fits(counters, np.dtype(dtype)))


def _fits(counters: np.ndarray, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return bool(counters.min(initial=0) >= limits.min and counters.max(initial=0) <= limits.max)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
