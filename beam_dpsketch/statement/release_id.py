"""Public release ids: 16 bytes each for the run, the component and the noise draw.

A run is one execution of a private transform. Its components are its releases: keys, windows and timeline rows. If a
component is drawn twice, for example after a failure, the ids differ only in the last third. An id is derived from
random bytes and the published key, window or row number. It reveals no other data.

A timeline row's component begins with 8 bytes for its key. They identify rows with the same key, and answers computed
from them, as releases that share noise. Rows with different keys do not share noise.
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
"""Start and end of Beam's global window, in microseconds since 1970."""


def part_name(which: tuple[Any, ...], start: int = GLOBAL_START, end: int = GLOBAL_END) -> bytes:
    """Encode a component's name.

    Args:
      which: () for the only release in the window, ("key", key) or ("row", number).
      start: start time of the window, in microseconds since 1970.
      end: its end time.
    """
    return encode((encode(which), start, end))


def key_part_names(keys: Iterable[bytes], start: int, end: int) -> list[bytes]:
    """Compute ``part_name(("key", key), start, end)`` for many keys, given as canonical bytes."""
    before, after = encode(("key",)), encode((start, end))[1:]
    found = []
    for key in keys:
        which = before + len(key).to_bytes(4, "little") + key
        found.append(TUPLE + (1 + len(which)).to_bytes(4, "little") + BYTES_TAG + which + after)
    return found


def part_of_run(run: bytes, name: bytes) -> bytes:
    """Compute the first two thirds of a release id. For timeline rows, `run` is the result from `timeline_of_run`."""
    if len(run) not in (RUN_BYTES, TIMELINE_BYTES):
        raise ValueError(f"run must have {RUN_BYTES} bytes, or {TIMELINE_BYTES} for a timeline row")
    return run + hashlib.blake2b(name, key=run, digest_size=RUN_BYTES + PART_BYTES - len(run)).digest()


def timeline_of_run(run: bytes, key: Any = ()) -> bytes:
    """Compute a timeline id, for a run and a key if there are keys."""
    return run + hashlib.blake2b(encode(key), key=run, digest_size=TIMELINE_BYTES - RUN_BYTES).digest()


def run_and_part(release_id: bytes) -> bytes:
    """Extract the first two thirds of a release id, as made by `part_of_run`."""
    return release_id[: RUN_BYTES + PART_BYTES]


def timeline(release_id: bytes) -> bytes:
    """Extract the timeline id from the id for a timeline row, or for an answer computed from rows."""
    return release_id[:TIMELINE_BYTES]


def runs(release_ids: Sequence[bytes]) -> set[bytes]:
    """Extract the run ids from release ids."""
    return {release_id[:RUN_BYTES] for release_id in release_ids}


def are_parts_of_one_run(release_ids: Sequence[bytes]) -> bool:
    """Whether all ids have the same run and distinct components."""
    return len(runs(release_ids)) == 1 and len(set(map(run_and_part, release_ids))) == len(release_ids)
