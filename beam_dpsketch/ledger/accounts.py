"""Accounts: what is protected, how much it may lose, and in which periods the limit begins anew."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any

from beam_dpsketch import _validate
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.ledger.limits import LossLimit, read_limit
from beam_dpsketch.privacy.contributions import NeighboringRelation, PrivacyUnit

PERIODS: Mapping[str, str] = {"none": "", "month": "%Y-%m", "year": "%Y"}
"""How the periods of a calendar are written, in UTC; `none` is one period without end."""
UNITS: Mapping[str, tuple[PrivacyUnit, ...]] = {
    "privacy_id": (PrivacyUnit.PRIVACY_ID, PrivacyUnit.PRIVACY_ID_OVER_HORIZON),
    "record": (PrivacyUnit.RECORD, PrivacyUnit.RECORD_OVER_HORIZON),
}
"""What releases of an account may protect."""
_NAME = re.compile(r"[^\W_][\w .:/@+-]{0,99}")
_FORMS = {"none": r"", "month": r"[0-9]{4}-(0[1-9]|1[0-2])", "year": r"[0-9]{4}"}
_EXAMPLES = {"month": "2026-11", "year": "2026"}
_MAX_TEXT = 500


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """What all releases of a data set may lose together, for each thing that they protect.

    Attributes:
      name: up to 100 letters, digits and signs, in the ledger once.
      limit: for each period.
      data_set: what the releases are made of, in free words.
      unit: what is protected: "privacy_id", all records of a person, or "record".
      relation: the neighbouring relation under which losses are added up.
      period: when the limit begins anew: "month", "year", or "none", which streams need.
    """

    name: str
    limit: LossLimit
    data_set: str = ""
    unit: str = "privacy_id"
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    period: str = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ArgumentError(
                "account", "must be a name of up to 100 letters, digits and . : / @ + - that begins with one", "E132"
            )
        _validate.instance(LossLimit, limit=self.limit)
        _validate.instance(NeighboringRelation, relation=self.relation)
        _validate.one_of(tuple(UNITS), unit=self.unit)
        _validate.one_of(tuple(PERIODS), period=self.period)
        check_text(data_set=self.data_set)

    def check_terms(self, unit: PrivacyUnit, relation: NeighboringRelation) -> None:
        """Refuse a release that protects something else than the account adds up."""
        if unit not in UNITS[self.unit]:
            what, more = f"account {self.name!r} adds up what is lost of {UNITS[self.unit][0].value}", ""
            if unit in (PrivacyUnit.PRIVACY_ID_IN_WINDOW, PrivacyUnit.PRIVACY_ID_IN_PERIOD):
                more = "; leave period out and give max_windows, so that one bound covers all windows"
            words = f"must be another: {what}, and the release protects {unit.value}{more}"
            raise ArgumentError("unit", words, "E134")
        if relation is not self.relation:
            raise ArgumentError(
                "relation",
                f"must be {self.relation.name}, under which account {self.name!r} adds up, got {relation.name}",
                "E145",
            )

    def period_of(self, time: datetime.datetime) -> str:
        """Return the period that a time is in."""
        return time.astimezone(datetime.UTC).strftime(PERIODS[self.period])

    def checked_period(self, period: str) -> str:
        """Return a period that was named, or raise."""
        if not re.fullmatch(_FORMS[self.period], period):
            form = f'one as "{_EXAMPLES[self.period]}"' if self.period in _EXAMPLES else "left out: it has no end"
            raise ArgumentError("period", f"of account {self.name!r} must be {form}, got {period[:20]!r}", "E135")
        return period

    def as_dict(self) -> dict[str, Any]:
        """Return the account in plain values."""
        return {
            "name": self.name,
            "limit": self.limit.as_dict(),
            "data_set": self.data_set,
            "unit": self.unit,
            "relation": self.relation.name,
            "period": self.period,
        }


def read_account(written: Mapping[str, Any]) -> Account:
    """Return the account that `as_dict` wrote; raise `ValueError`, `TypeError` or `KeyError` for anything else."""
    fields = dict(written)
    relation = NeighboringRelation[fields.pop("relation")]
    return Account(**{**fields, "limit": read_limit(fields["limit"]), "relation": relation})


def check_text(**texts: str) -> None:
    """Refuse what is not a text of at most 500 characters."""
    for name, text in texts.items():
        _validate.instance(str, **{name: text})
        if len(text) > _MAX_TEXT or not text.isprintable():
            raise ArgumentError(name, f"must be one line of at most {_MAX_TEXT} characters", "E146")
