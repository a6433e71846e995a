"""Two rounds of votes, in columns: the totals of round 1 and the additional round 2 votes.

Guarantee: in round 2 an id votes only for keys that it voted for in round 1, and its votes depend on these and on the
set of considered keys alone. If windows are bounded separately, an id is a different voter in each window.

Tables have a row per key and window, in the columns `key` and, if there are windows, `window`. With `once`, a key is
chosen once for all windows, and each vote is in one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from beam_dpsketch.exact.reading.groups import Row, dictionary_codes
from beam_dpsketch.exact.reading.items import NOISY, SECOND, VOTERS, VOTES, SketchInput
from beam_dpsketch.exact.sums.keyed_sums import KeyedSums
from beam_dpsketch.privacy.two_rounds import TwoRounds

VOTER, WINDOW = "voter", "window"


def edges_of(sums: pa.Table, *, each_window: bool) -> pa.Table:
    """List the votes: a row for each voter (by number), key and window.

    Args:
      sums: a row for each unit, key and window, with its vote.
      each_window: whether each window of a unit is bounded separately.
    """
    cast = sums.filter(pa.array(sums[VOTES].to_numpy() > 0))
    voters = dictionary_codes(cast["unit"])[0].astype(np.int64)
    if each_window and WINDOW in cast.column_names:
        windows = dictionary_codes(cast[WINDOW])[0]
        voters = voters * (int(windows.max(initial=0)) + 1) + windows
    return cast.select(_places(cast)).append_column(VOTER, pa.array(voters))


def cast(side: pa.Table) -> pa.Table:
    """Select the keys and windows with votes in round 1."""
    return side.filter(pa.array(side[VOTES].to_numpy() > 0)).select([*_places(side), VOTES, VOTERS])


def first_votes(cast: pa.Table, *, once: bool) -> pa.Table:
    """Sum the round 1 votes per key and window, sorted. A key chosen once is in its first window."""
    sums, places = [(VOTES, "sum"), (VOTERS, "sum")], _places(cast)
    if once and WINDOW in places:
        sums, places = [*sums, (WINDOW, "min")], ["key"]
    found = _named(cast.group_by(places, use_threads=False).aggregate(sums))
    return found.sort_by([(place, "ascending") for place in places])


def those_in(table: pa.Table, left: pa.Table, *, once: bool) -> pa.Table:
    """Filter a table by the keys and windows in another."""
    same = ["key"] if once else _places(table)
    return table.join(left.select(same), same, join_type="left semi", use_threads=False)


def considered(rounds: TwoRounds, first: pa.Table) -> pa.Table:
    """Select the keys and windows for round 2 by noisy votes."""
    return first.filter(pa.array(rounds.considers(first[NOISY].to_numpy()))).select(_places(first))


def second_votes(rounds: TwoRounds, edges: pa.Table, left: pa.Table, *, once: bool) -> pa.Table:
    """Sum the round 2 votes per key and window, over all units in the edges. `left` is `considered`."""
    cast = those_in(edges, left, once=once)
    counts = np.bincount(cast[VOTER].to_numpy()) if len(cast) else np.zeros(0, dtype=np.int64)
    weights = rounds.second_weights(counts[cast[VOTER].to_numpy()])
    cast = cast.select(_places(cast)).append_column(SECOND, pa.array(weights))
    return _named(cast.group_by(_places(cast), use_threads=False).aggregate([(SECOND, "sum")]))


def as_sums(votes: pa.Table, name: str, sketch_input: SketchInput) -> Iterator[tuple[int | None, KeyedSums]]:
    """Yield keyed sums that contain only votes, by the last millisecond of their window, if any.

    Args:
      votes: distinct keys and windows.
      name: the vote column: noisy votes or second votes.
      sketch_input: input definition for the sums.
    """
    ends = votes[WINDOW].to_numpy() if WINDOW in votes.column_names else None
    for end in [None] if ends is None else np.unique(ends).tolist():
        rows = votes if end is None else votes.filter(pa.array(ends == end))
        sums = KeyedSums.of_nothing(sketch_input, rows["key"].combine_chunks())
        sums.side[:, sketch_input.side_columns[name]] = rows[name].to_numpy()[:, np.newaxis]
        yield end, sums


def as_rows(sums: KeyedSums) -> Iterator[tuple[bytes, Row]]:
    """Yield each (key, item) pair with its votes as a row to add."""
    rows = np.insert(sums.votes, 0, 0, axis=1).tolist()
    yield from zip(sums.keys.to_pylist(), map(tuple, rows), strict=True)


def _places(table: pa.Table) -> list[str]:
    return [name for name in ("key", WINDOW) if name in table.column_names]


def _named(sums: pa.Table) -> pa.Table:
    names = [name.removesuffix("_sum").removesuffix("_min") for name in sums.column_names]
    return sums.rename_columns(names)
