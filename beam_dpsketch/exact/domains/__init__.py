"""Ordered finite universes, which quantiles are asked over, and text for frequent items.

`DOMAINS` lists the types. What settings, bytes of releases, rows, columns of CSV, the command and pictures need to know
of a domain is in its class.
"""

from beam_dpsketch.exact.domains.base import Domain, Universe
from beam_dpsketch.exact.domains.ipv4 import IPv4Domain
from beam_dpsketch.exact.domains.numbers import FloatDomain, IntegerDomain, LogDomain
from beam_dpsketch.exact.domains.text import BytesDomain, TextDomain
from beam_dpsketch.exact.domains.timestamps import TimestampDomain

__all__ = [
    "BytesDomain",
    "Domain",
    "FloatDomain",
    "IPv4Domain",
    "IntegerDomain",
    "LogDomain",
    "TextDomain",
    "TimestampDomain",
]

DOMAINS: tuple[type[Universe], ...] = (
    IntegerDomain,
    FloatDomain,
    LogDomain,
    IPv4Domain,
    TimestampDomain,
    TextDomain,
    BytesDomain,
)
"""All types of domains, in the order in which settings name them."""
