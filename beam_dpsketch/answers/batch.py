"""Conversion from batches with noise to releases that answer questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beam_dpsketch.answers.over_time import TimelineRow
from beam_dpsketch.answers.privacy_statement import PrivacyStatement
from beam_dpsketch.answers.released import RELEASED_KINDS, Released
from beam_dpsketch.statement.noisy import NoisyReleases, unchecked


def answers_of(noisy: NoisyReleases) -> Iterator[Released | TimelineRow]:
    """Yield each release in a batch, checking shared parts once."""
    spec, scale_bits = noisy.common
    common: dict[str, Any] = {}
    for stated, counters in noisy.each():
        statement = PrivacyStatement.from_stated(stated)
        if statement.over_time is not None and statement.over_time.is_row:
            yield TimelineRow(spec, counters, statement, scale_bits)
        elif common:
            counters.flags.writeable = False
            yield unchecked(RELEASED_KINDS[spec.kind], {**common, "_counters": counters, "_privacy": statement})
        else:
            first = RELEASED_KINDS[spec.kind](spec, counters, statement, scale_bits)
            common = {**vars(first)}
            yield first
