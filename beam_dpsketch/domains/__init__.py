"""Ordered finite universes, which quantiles are asked over, and text for frequent items."""

from beam_dpsketch.domains.base import Domain
from beam_dpsketch.domains.floats import FloatDomain
from beam_dpsketch.domains.integers import IntegerDomain
from beam_dpsketch.domains.ipv4 import IPv4Domain
from beam_dpsketch.domains.text import BytesDomain, TextDomain
from beam_dpsketch.domains.timestamps import TimestampDomain

__all__ = ["BytesDomain", "Domain", "FloatDomain", "IPv4Domain", "IntegerDomain", "TextDomain", "TimestampDomain"]
