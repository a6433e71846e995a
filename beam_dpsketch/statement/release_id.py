"""The public name of a release: the run that made it, which part of that run it is, and the one draw of its noise.

A run is one execution of a private transform, and its parts are its releases: keys, windows, rows over time. Two draws
of one part, as after a failure, differ in the last third only. An id is made of random bytes and of what is published
with the release anyway (its key and its window), so that it says nothing of the data.

The part of a row over time begins with 8 bytes for its key. So rows of one key, and answers made of them, are known to
share noise, and those of different keys of a run are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from beam_dpsketch.encodings import BYTES_TAG, TUPLE, encode

RUN_BYTES = PART_BYTES = DRAW_BYTES = 16
RELEASE_ID_BYTES = RUN_BYTES + PART_BYTES + DRAW_BYTES
TIMELINE_BYTES = RUN_BYTES + 8
GLOBAL_START, GLOBAL_END = -9_223_372_036_854_775_000, 9_223_371_950_454_775_000
"""When the global window of Beam opens and closes, in microseconds since 1970."""


def part_name(which: tuple[Any, ...], start: int = GLOBAL_START, end: int = GLOBAL_END) -> bytes:
    """Return the name of one release of a run, whose window opens and closes at these microseconds since the epoch.

    `which` is its place in the window: () for the only release, ("key", key) or ("row", number).
    """
    return encode((encode(which), start, end))


def key_part_names(keys: Iterable[bytes], start: int, end: int) -> list[bytes]:
    """Return ``part_name(("key", key), start, end)`` of many keys, each given by its canonical bytes."""
    before, after = encode(("key",)), encode((start, end))[1:]
    found = []
    for key in keys:
        which = before + len(key).to_bytes(4, "little") + key
        found.append(TUPLE + (1 + len(which)).to_bytes(4, "little") + BYTES_TAG + which + after)
    return found


def part_of_run(run: bytes, name: bytes) -> bytes:
    """Return the first two thirds of the id of a release; of a row over time, `run` is what `timeline_of_run` names."""
    if len(run) not in (RUN_BYTES, TIMELINE_BYTES):
        raise ValueError(f"run must have {RUN_BYTES} bytes, or {TIMELINE_BYTES} of a row over time")
    return run + hashlib.blake2b(name, key=run, digest_size=RUN_BYTES + PART_BYTES - len(run)).digest()


def timeline_of_run(run: bytes, key: Any = ()) -> bytes:
    """Return the name of the rows over time of one key in a run; without keys, of all its rows."""
    return run + hashlib.blake2b(encode(key), key=run, digest_size=TIMELINE_BYTES - RUN_BYTES).digest()


def run_and_part(release_id: bytes) -> bytes:
    """Return the first two thirds of an id, which `part_of_run` makes."""
    return release_id[: RUN_BYTES + PART_BYTES]


def timeline(release_id: bytes) -> bytes:
    """Cut out the name by `timeline_of_run`, of a row over time or of an answer that was made of rows."""
    return release_id[:TIMELINE_BYTES]


def runs(release_ids: Sequence[bytes]) -> set[bytes]:
    """Return the runs that releases are of."""
    return {release_id[:RUN_BYTES] for release_id in release_ids}


def are_parts_of_one_run(release_ids: Sequence[bytes]) -> bool:
    """Return whether all are of one run, and no two of the same part."""
    return len(runs(release_ids)) == 1 and len(set(map(run_and_part, release_ids))) == len(release_ids)
