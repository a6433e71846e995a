"""Read whom a release protects and how much of each may count: `unit`, `norm`, `records`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_dpsketch.config.blocks import Reader, make, plain, read_block, refuse_others, take_one
from beam_dpsketch.config.paths import refusal
from beam_dpsketch.config.scalars import read_duration, read_exact, read_flag, read_text, read_whole
from beam_dpsketch.privacy.contributions import ContributionLimit, RecordBounds
from beam_dpsketch.privacy.norm.bounds import AutoNorm, NormBound
from beam_dpsketch.records.units import PrivacyId, Record, Unit

_READERS: Mapping[str, Reader] = {"int": read_whole, "int | None": read_whole, "bool": read_flag}


def _limits(kind: type[ContributionLimit], *first: str) -> dict[str, Reader]:
    """Return the reader of each field, by its type."""
    of_fields = {field.name: _READERS.get(str(field.type), read_exact) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return {**{name: of_fields[name] for name in first}, **of_fields}


RECORD = {"max_weight": read_whole, "signed": read_flag}
NORM = _limits(NormBound, "max_norm", *RECORD)
AUTO = _limits(AutoNorm, "spend", "item_share", *RECORD)
RECORDS = _limits(RecordBounds)
_MAX_NORM = {"max_norm": "about as many records as a heavy person has of one item, as max_norm: 10; or norm: auto"}
_MAX_RECORDS = {"max_contributions_per_partition": "how many records of one id count in one partition, as 10"}
_WHOM = "give privacy_id, the field that says whose a record is; or take unit: record, which protects no person"
_HOW_MUCH = "give norm, as norm: {max_norm: 10} or norm: auto; or records"
_ALONE = "not a setting of unit: {record: ...}; put max_weight and signed into record, or take privacy_id"


def read_norm(settings: Any, path: str = "norm") -> NormBound | AutoNorm:
    """Return the bound of a norm; `auto`, or `{auto: {...}}`, lets the data choose it."""
    given = plain(settings, path)
    if given == "auto":
        return AutoNorm()
    if isinstance(given, dict) and "auto" in given:
        return read_block(given, path, {"auto": _read_auto})["auto"]
    return make(path, NormBound, read_block(given, path, NORM, _MAX_NORM))


def read_records(settings: Any, path: str = "records") -> RecordBounds:
    """Return the bound of a number of records."""
    return make(path, RecordBounds, read_block(settings, path, RECORDS, _MAX_RECORDS))


def read_unit(settings: Any, path: str = "unit") -> Unit:
    """Return whom a release protects: `record`, `{record: {...}}`, or an id with `norm` or `records`."""
    given = plain(settings, path)
    if given == "record":
        return Record()
    if not isinstance(given, dict):
        raise refusal(path, _WHOM)
    given = read_block(given, path, UNIT)
    if take_one(given, path, ("privacy_id", "record"), _WHOM) == "record":
        refuse_others(given, path, ["record"], _ALONE)
        return given["record"]
    bounds = given.pop(take_one(given, path, ("norm", "records"), _HOW_MUCH))
    return make(path, PrivacyId, {"field": given.pop("privacy_id"), "bounds": bounds, **given})


def _read_auto(settings: Any, path: str) -> AutoNorm:
    return make(path, AutoNorm, read_block(settings, path, AUTO))


def _read_record(settings: Any, path: str) -> Record:
    return make(path, Record, read_block(settings, path, RECORD))


UNIT: Mapping[str, Reader] = {
    "privacy_id": read_text,
    "norm": read_norm,
    "records": read_records,
    "max_windows": read_whole,
    "period": read_duration,
    "record": _read_record,
}
