"""How work is parted among workers, given about how large the input of a job is.

Nothing here changes a result: records of one privacy id always meet, and sums are the same in any grouping.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.records.bounding.parts import BLOCK, PARTS

KEY_SHARDS = 256
"""Into how many parts keys go, unless more of them are expected."""
_ROWS_OF_A_SHARD, _MOST_SHARDS = 1 << 22, 1 << 14
_ROWS_OF_A_BUNDLE, _FEW_SUMS = 100_000, 1000
_BYTES_OF_A_ROW, _BYTES_TO_BOUND = 50, 300  # with text of 36 characters as ids, under a norm
_BYTES_OF_A_COUNTER = 8
_BYTES_OF_A_SHARD = 1 << 26
_FEW_BYTES, _MOST_BYTES = 4 * 10**9, 64 * 10**9  # that a worker has left for a shard
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB")


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Scale:
    """About how large the input of a job is; `expecting` of the private transforms takes it.

    Args:
      rows: how many records are read, 1 to 2**60; of a stream, in one window.
      keys: over how many output keys they spread; 1 without keys, or if most records have one key.
    """

    rows: int
    keys: int = 1

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "rows", "keys", low=1, high=1 << 60)

    @property
    def shards(self) -> int:
        """Into how many shards privacy ids go; one worker bounds each."""
        return min(1 << (self.rows // _ROWS_OF_A_SHARD).bit_length(), _MOST_SHARDS)

    def key_shards(self, cells: int) -> int:
        """Return into how many parts keys go, given the counters of a release; each part is added up at once."""
        waiting = self.keys * cells * _BYTES_OF_A_COUNTER // _BYTES_OF_A_SHARD
        return max(KEY_SHARDS, min(1 << waiting.bit_length(), _MOST_SHARDS))

    def bytes_of_shard(self, shards: int) -> float:
        """Return about how much memory a worker needs for a shard of privacy ids under a norm."""
        rows = math.ceil(self.rows / shards)
        return rows * _BYTES_TO_BOUND if rows <= BLOCK else rows * (_BYTES_OF_A_ROW + _BYTES_TO_BOUND / PARTS)

    def check_fits(self, shards: int) -> None:
        """Refuse a norm without `resource_limit` whose shards fit no worker."""
        if self.bytes_of_shard(shards) > _MOST_BYTES:
            raise ArgumentError(
                "resource_limit",
                f"must be given here: about {self.rows:,} rows are expected, and a worker would need "
                f"{_size(self.bytes_of_shard(shards))} for its part of them. It says how many different items are "
                "kept of each privacy id, such as 1000; an item counts again in each key and window",
                "E228",
            )

    def sums(self, shards: int | None) -> int:
        """Return about how many sums become one release: of bundles, or of shards of privacy ids, if there are some."""
        of_bundles = math.ceil(min(self.rows / _ROWS_OF_A_BUNDLE, self.rows / self.keys))
        return of_bundles if shards is None else min(of_bundles, shards)

    def fanout(self, shards: int | None) -> int:
        """Return how many workers add up sums of one release before the last one does; 1 if it does all."""
        sums = self.sums(shards)
        return 1 if sums <= _FEW_SUMS else math.isqrt(sums)

    def lines(self, cells: int, shards: int | None, *, keeps_all: bool, windows: int = 1) -> Iterator[str]:
        """Yield what travels and what waits where, in words.

        Args:
          cells: how many counters a release has; 0 if items are counted one by one.
          shards: how many parts there are, if there are privacy ids.
          keeps_all: whether a norm keeps all items of an id.
          windows: of how many windows one worker holds the sums of a key.
        """
        if shards is not None:
            rows, needed = math.ceil(self.rows / shards), self.bytes_of_shard(shards)
            parts = PARTS if rows > BLOCK else 1
            yield (
                f"Scale: about {_size(self.rows * _BYTES_OF_A_ROW)} of records travel to {shards:,} shards of privacy "
                f"ids. One worker bounds the {rows:,} records of a shard, in {parts} part(s); all of them wait, in "
                f"about {_size(needed)} of memory."
            )
            if keeps_all and needed > _FEW_BYTES:
                yield (
                    f"Scale: that is more than {_size(_FEW_BYTES)}. Where people have many different items, give the "
                    "norm a resource_limit: how many of each are kept."
                )
        if not cells:
            return
        first, sums = self.fanout(shards), self.sums(shards)
        size, last = _size(cells * _BYTES_OF_A_COUNTER), math.ceil(sums / first)
        before = f"{first:,} workers add up the sums of each release, and " if first > 1 else ""
        yield f"Scale: {before}the last worker adds up about {last:,} sum(s) of up to {size} for each release."
        if self.keys > 1:
            cells *= windows
            shards_of_keys = self.key_shards(cells)
            part = math.ceil(self.keys / shards_of_keys)
            yield (
                f"Scale: keys go to {shards_of_keys:,} shards. One worker adds up {part:,} keys of a shard at once, "
                f"in up to about {_size(part * cells * _BYTES_OF_A_COUNTER)} of memory."
            )


def _size(count: float) -> str:
    power = min(int(math.log(max(count, 1), 1000)), len(_UNITS) - 1)
    return f"{float(f'{count / 1000**power:.2g}'):g} {_UNITS[power]}"
