"""The kinds of records in a file of releases, and the one that holds a statement alone."""

from __future__ import annotations

from beam_dpsketch.statement.format.fields import U32, Choice, Field, Text
from beam_dpsketch.statement.format.release_format import pack_statement
from beam_dpsketch.statement.stated import Stated

RECORDS: dict[str, dict[str, Field]] = {
    "release": {},
    "pair": {"key": Text((1 << 32) - 1, U32)},
    "row": {},
    "row_pair": {"key": Text((1 << 32) - 1, U32)},
    "spent": {},
}
"""What comes before the release, the row or the statement in each kind of record."""
RECORD_KIND = Choice(tuple(RECORDS))


def spent_record(stated: Stated) -> bytes:
    """Return the bytes of what a run spent that released nothing."""
    return RECORD_KIND.write("spent") + pack_statement(stated)
