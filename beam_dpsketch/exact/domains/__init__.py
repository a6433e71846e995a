"""Value domains: finite ordered universes for quantiles, and text or bytes for frequent items.

`DOMAINS` lists the types. The class of a domain defines its settings, release bytes, rows, CSV columns, command options
and axes.
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
"""All domain types, in their order in settings."""
