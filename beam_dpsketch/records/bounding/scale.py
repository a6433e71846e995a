"""How work is parted among workers, given about how large the input of a job is.

Nothing here changes a result: records of one privacy id always meet, and sums are the same in any grouping.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from beam_dpsketch import _validate
from beam_dpsketch._showing import shown_plainly

_ROWS_OF_A_SHARD, _MOST_SHARDS = 1 << 22, 1 << 14
_ROWS_OF_A_BUNDLE, _FEW_SUMS = 100_000, 1000
_BYTES_OF_A_ROW = 50  # with text of 36 characters as ids; numbers take a third of it
_BYTES_OF_A_COUNTER = 8
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


@shown_plainly
@dataclasses.dataclass(frozen=True)
class Scale:
    """About how large the input of a job is; `expecting` of the private transforms takes it.

    Args:
      rows: how many records are read, 1 to 2**60.
      keys: how many output keys they spread over; 1 without keys, or if most records have one key.
    """

    rows: int
    keys: int = 1

    def __post_init__(self) -> None:
        _validate.whole_fields(self, "rows", "keys", low=1, high=1 << 60)

    @property
    def shards(self) -> int:
        """Into how many parts privacy ids go; each is bounded at once."""
        return min(1 << (self.rows // _ROWS_OF_A_SHARD).bit_length(), _MOST_SHARDS)

    @property
    def sums(self) -> int:
        """About how many sums of bundles become one release."""
        return math.ceil(self.rows / _ROWS_OF_A_BUNDLE / self.keys)

    @property
    def fanout(self) -> int:
        """How many workers add up sums of one release before the last one does; 1 if it does all."""
        return 1 if self.sums <= _FEW_SUMS else math.isqrt(self.sums)

    def lines(self, cells: int, shards: int | None) -> Iterator[str]:
        """Yield what travels and what waits where, in words.

        Args:
          cells: how many counters a release has.
          shards: how many parts there are, if there are privacy ids.
        """
        if shards is not None:
            of_all, of_one = (_size(rows * _BYTES_OF_A_ROW) for rows in (self.rows, self.rows / shards))
            yield (
                f"Scale: {of_all} of records travel to {shards:,} shards of privacy ids, about {of_one} to each, which "
                "one worker holds in memory, and needs twice that to bound it."
            )
        size, last = _size(cells * _BYTES_OF_A_COUNTER), math.ceil(self.sums / self.fanout)
        first = f" {self.fanout:,} workers add up the others before." if self.fanout > 1 else ""
        yield f"Scale: the last worker adds up about {last:,} sums of up to {size} for each release.{first}"


def _size(count: float) -> str:
    power = min(int(math.log(max(count, 1), 1000)), len(_UNITS) - 1)
    return f"{count / 1000**power:,.3g} {_UNITS[power]}"
