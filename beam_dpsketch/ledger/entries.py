"""Ledger entries as text, chained by digests, and accounts with their limits and periods."""

from __future__ import annotations

import dataclasses
import datetime
import getpass
import hashlib
import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from beam_dpsketch import checks as _validate
from beam_dpsketch.errors import ArgumentError, LedgerError
from beam_dpsketch.ledger.limits import LossLimit, read_limit
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit
from beam_dpsketch.privacy.loss.composition import Loss

PERIODS: Mapping[str, str] = {"none": "", "month": "%Y-%m", "year": "%Y"}
"""Format of each calendar period, in UTC. `none` is a single unbounded period."""
ACCOUNT_UNITS: Mapping[str, tuple[PrivacyUnit, ...]] = {
    "privacy_id": (PrivacyUnit.PRIVACY_ID, PrivacyUnit.PRIVACY_ID_OVER_HORIZON),
    "record": (PrivacyUnit.RECORD, PrivacyUnit.RECORD_OVER_HORIZON),
}
"""Privacy units that an account may protect."""
_NAME = re.compile(r"[^\W_][\w .:/@+-]{0,99}")
_FORMS = {"none": r"", "month": r"[0-9]{4}-(0[1-9]|1[0-2])", "year": r"[0-9]{4}"}
_EXAMPLES = {"month": "2026-11", "year": "2026"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """Privacy budget for all releases from a data set, per privacy unit and period.

    Attributes:
      name: unique in the ledger, up to 100 letters, digits and signs.
      limit: limit per period.
      data_set: description of the data behind the releases, as free text.
      privacy_unit: the protected unit: "privacy_id", all records of a person, or "record".
      relation: the neighboring relation under which losses are added up.
      period: when the limit starts again: "month", "year", or "none", which streams require.
    """

    name: str
    limit: LossLimit
    data_set: str = ""
    privacy_unit: str = "privacy_id"
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    period: str = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ArgumentError(
                "account",
                "must be a name of at most 100 letters, digits, spaces and _ . : / @ + - that begins with a letter "
                "or a digit",
                "E132",
            )
        _validate.instance(LossLimit, limit=self.limit)
        _validate.instance(NeighboringRelation, relation=self.relation)
        _validate.one_of(tuple(ACCOUNT_UNITS), privacy_unit=self.privacy_unit)
        _validate.one_of(tuple(PERIODS), period=self.period)
        _validate.short_text(data_set=self.data_set)

    def check_terms(self, privacy_unit: PrivacyUnit, relation: NeighboringRelation) -> None:
        """Refuse a release whose unit or relation differs from the account's."""
        if privacy_unit not in ACCOUNT_UNITS[self.privacy_unit]:
            what = f"account {self.name!r}, which protects {ACCOUNT_UNITS[self.privacy_unit][0].value}"
            unit = next((name for name, units in ACCOUNT_UNITS.items() if privacy_unit in units), None)
            more = f". Use an account that `dpsketch ledger create` makes with --privacy-unit {unit}"
            if privacy_unit in (PrivacyUnit.PRIVACY_ID_IN_WINDOW, PrivacyUnit.PRIVACY_ID_IN_PERIOD):
                more = ". Set max_windows without period in its settings, so that a single bound covers all windows"
            words = f"must match {what}. The release protects {privacy_unit.value}{more}"
            raise ArgumentError("privacy_unit", words, "E134")
        if relation is not self.relation:
            raise ArgumentError(
                "relation",
                f"must be {self.relation.name}, the relation of account {self.name!r}, got {relation.name}",
                "E145",
            )

    def period_of(self, time: datetime.datetime) -> str:
        """Compute the period that contains a time."""
        return time.astimezone(datetime.UTC).strftime(PERIODS[self.period])

    def checked_period(self, period: str) -> str:
        """Validate the name of a period."""
        if not re.fullmatch(_FORMS[self.period], period):
            form = f"left out, because account {self.name!r} has no periods"
            if self.period in _EXAMPLES:
                form = f'a {self.period} such as "{_EXAMPLES[self.period]}"'
            raise ArgumentError("period", f"must be {form}, got {period[:20]!r}", "E135")
        return period

    def as_dict(self) -> dict[str, Any]:
        """Convert the account to plain values."""
        return {
            "name": self.name,
            "limit": self.limit.as_dict(),
            "data_set": self.data_set,
            "privacy_unit": self.privacy_unit,
            "relation": self.relation.name,
            "period": self.period,
        }


def read_account(written: Mapping[str, Any]) -> Account:
    """Restore an account from `as_dict`, or raise `ValueError`, `TypeError` or `KeyError` for other input."""
    fields = dict(written)
    relation = NeighboringRelation[fields.pop("relation")]
    return Account(**{**fields, "limit": read_limit(fields["limit"]), "relation": relation})


START = "0" * 64
"""Placeholder for a previous digest in the first entry."""
LEDGER, ACCOUNT, SPEND, WRITE_OFF = ENTRY_KINDS = ("ledger", "account", "spend", "write_off")
NAMED = "is_period_named"
"""Fact about a payment whose period was named, not read from the clock."""
RECORDED = "is_recorded"
"""Fact about a payment that was entered for an existing release."""
_RATIO = re.compile(r"\d+(/[1-9]\d*)?", re.ASCII)
_MAX_DIGITS, _MAX_AMOUNT = 1000, 10**13
_YEARS = range(1970, 9000)
_UTC = datetime.UTC


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """Immutable ledger entry.

    Attributes:
      number: its place, from 0.
      kind: "ledger", the first; "account", "spend" or "write_off".
      time: creation time, by the clock of its writer.
      who: its author, as free text.
      account, period: the account and period that it changes.
      payment: name of the release's run: the first 32 hexadecimal digits of its release ids.
      loss: its cost, or the written-off cost.
      total: total loss of the account in this period, after the entry.
      what: facts: a release's kind, settings and their digest, an account's fields, or the reason for a write-off.
      previous: the digest of the previous entry.
    """

    number: int
    kind: str
    time: datetime.datetime
    who: str
    account: str = ""
    period: str = ""
    payment: str = ""
    loss: Loss = Loss()  # noqa: RUF009
    total: Loss = Loss()  # noqa: RUF009
    what: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    previous: str = START

    def to_text(self) -> str:
        """Serialize the entry as canonical JSON."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        fields["time"] = self.time.isoformat(timespec="microseconds").replace("+00:00", "Z")
        fields |= {"loss": _loss_as_dict(self.loss), "total": _loss_as_dict(self.total)}
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def by_clock(self) -> int:
        """1 for a payment in a period read from the clock, otherwise 0."""
        return int(self.kind == SPEND and not self.what.get(NAMED))

    @property
    def digest(self) -> str:
        """SHA-256 of the text, which also covers all previous entries."""
        return digest_of(self.to_text())

    @classmethod
    def of(cls, number: int, body: Any, digest: Any) -> LedgerEntry:
        """Parse an entry from `to_text`, and verify its digest."""
        try:
            if digest_of(body) != digest:
                raise ValueError
            fields = json.loads(body)
            fields["time"] = datetime.datetime.fromisoformat(fields["time"].replace("Z", "+00:00")).astimezone(_UTC)
            fields |= {name: _read_loss(fields[name]) for name in ("loss", "total")}
            entry = cls(**fields)
            if not _is_well_formed(entry) or entry.number != number or entry.to_text() != body:
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            words = f"ledger entry {number} is damaged: it differs from what was written"
            raise LedgerError("", words, "E142") from None
        return entry


def _is_well_formed(entry: LedgerEntry) -> bool:
    texts = (entry.kind, entry.who, entry.account, entry.period, entry.payment, entry.previous)
    is_text = entry.kind in ENTRY_KINDS and all(type(each) is str for each in texts)
    return is_text and type(entry.number) is int and type(entry.what) is dict and entry.time.year in _YEARS


def digest_of(text: str) -> str:
    """Compute the SHA-256 of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def now() -> datetime.datetime:
    """Read the clock."""
    return datetime.datetime.now(_UTC)


def user() -> str:
    """Look up the system's name for the user of this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _loss_as_dict(loss: Loss) -> dict[str, Any]:
    return {name: str(value) for name, value in loss._asdict().items()}


def _read_loss(written: Mapping[str, Any]) -> Loss:
    if {*written} != {*Loss._fields}:
        raise ValueError
    amounts = {name: _fraction(value) for name, value in written.items()}
    if amounts["delta"] > 1 or amounts["pure_rho"] > amounts["rho"]:
        raise ValueError
    return Loss(**amounts)


def _fraction(text: str) -> Fraction:
    if len(text) > _MAX_DIGITS or not _RATIO.fullmatch(text):
        raise ValueError
    if (found := Fraction(text)) > _MAX_AMOUNT:
        raise ValueError
    return found
