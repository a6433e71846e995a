"""The table of domains: what settings, bytes of releases, rows and the command find there."""

from __future__ import annotations

import dataclasses

import pytest

from beam_dpsketch.config.settings import DOMAIN_TYPES
from beam_dpsketch.exact.domains import DOMAINS, __all__
from beam_dpsketch.exact.domains.base import Universe


def test_every_public_domain_is_in_the_table() -> None:
    assert {kind.__name__ for kind in DOMAINS} == {*__all__} - {"Domain"}


def test_names_and_numbers_stay_forever() -> None:
    """Releases of earlier versions hold the numbers: a new domain takes the next one."""
    assert {kind.number: kind.type_name for kind in DOMAINS} == {
        0: "integer",
        1: "ipv4",
        2: "float",
        3: "timestamp",
        4: "text",
        5: "bytes",
        6: "log",
    }


@pytest.mark.parametrize("kind", DOMAINS)
def test_settings_are_all_fields_and_the_argument_of_each_has_words(kind: type[Universe]) -> None:
    names = ["type", *(field.name for field in dataclasses.fields(kind))]  # type: ignore[arg-type]
    entries = DOMAIN_TYPES[kind.type_name].entries
    assert [*entries] == names
    assert all(entry.words for entry in entries.values())
