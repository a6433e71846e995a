"""What a rehearsal found, and how it is printed: exact, bounded and private answers side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from beam_dpsketch.statement.clipping import Clipping
from beam_dpsketch.statement.showing import short, within

_SHOWN_KEYS, _WIDTH = 5, 40
_HEADER = ("exact", "bounded", "private", "95 % interval of bounded")
PUBLIC_ALONE = (
    "Exact and bounded numbers are of the sample, which must be public or made up: next to private ones they undo "
    "privacy. A rehearsal spends nothing."
)


class Rehearsed(NamedTuple):
    """One answer, of one key.

    Attributes:
      key: the output key; `None` without keys.
      asked: the item, the share of a quantile, or of numbers "count", "total", "mean", "variance" or "std".
      exact: of all records that can be counted; values are those of the domain, so clamped and on its grid.
      bounded: of what the bounds keep; `None` for a quantile or a mean of nothing.
      private: of a release; NaN for an item that groups do not release, `None` for a mean that cannot be told.
      lower: the lower end of its 95 % interval, which is about the bounded number.
      upper: the upper end.
      listed: whether the item is in the top-K list of the release; `None` where nothing is searched.
      metric: the name of the metric that is asked; `None` without metrics.
    """

    key: Any
    asked: Any
    exact: Any
    bounded: Any
    private: Any
    lower: Any
    upper: Any
    listed: bool | None = None
    metric: str | None = None


class RehearsedKeys(NamedTuple):
    """How many keys the sample has, how many of them are released, and their share of what the bounds keep."""

    found: int
    released: int
    share: float


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """What settings make of a public sample; `print` it.

    Attributes:
      rows: the answers, those of the keys with most weight first.
      records: how many the sample has.
      unused: how many of them cannot be counted, as a value is missing, of another type or not listed.
      outside: how many values lie outside of a domain with an order, and count at its ends.
      taken: the share of the weight of the others that the bounds took, exactly; of several metrics, of the one that
        lost most. `None` where records may delete.
      clipping: what a release tells of that share; of several keys, the weakest state.
      keys: which part of the keys is released; `None` without keys.
    """

    rows: tuple[Rehearsed, ...]
    records: int
    unused: int
    outside: int
    taken: float | None
    clipping: Clipping
    keys: RehearsedKeys | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values, for JSON; `rows` are a list of dicts."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        keys = None if self.keys is None else self.keys._asdict()
        told = {"keys": keys, "clipping": self.clipping.as_dict(), "rows": [row._asdict() for row in self.rows]}
        return {**fields, **told}

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        keys = list(dict.fromkeys(row.key for row in self.rows))
        for key in keys[:_SHOWN_KEYS]:
            title = "" if self.keys is None else short(key)
            yield from _aligned([(title, *_HEADER), *(_cells(row) for row in self.rows if row.key == key)])
        if len(keys) > _SHOWN_KEYS:
            yield f"... and {len(keys) - _SHOWN_KEYS} more keys"
        if self.keys is not None:
            of_all = f"{self.keys.released} of the {self.keys.found} keys of the sample"
            yield f"Keys: {of_all} are released, with {_percent(self.keys.share)} of what the bounds keep."
        searched = [row.listed for row in self.rows if row.listed is not None]
        if searched:
            yield f"List: the release finds {sum(searched)} of these {len(searched)} items."
        if self.unused or not self.records:
            yield (
                f"Not counted: {self.unused:,} of {self.records:,} records, where a value is missing, of another type "
                "or not listed."
            )
        if self.outside:
            of_all = f"{self.outside:,} values of {self.records:,} records"
            yield f"Outside of the domain: {of_all}, which count at its ends."
        taken = "With deletions, the share that the bounds removed is unknown"
        if self.taken is not None:
            most = ", for the metric that lost most" if any(row.metric for row in self.rows) else ""
            taken = f"The bounds removed {_percent(self.taken)} of the weight that can be counted{most}"
        yield f"{taken}. A release reports: {self.clipping}"
        yield PUBLIC_ALONE


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cells(row: Rehearsed) -> tuple[str, ...]:
    asked = short(row.asked) if row.metric is None else f"{row.metric}: {short(row.asked)}"
    exact, bounded, private, lower, upper = (_cell(each, row) for each in row[2:7])
    if row.private != row.private:  # NaN
        return asked, exact, bounded, "-", "not released"
    return asked, exact, bounded, private, f"{lower} to {upper}{', not in the list' * (row.listed is False)}"


def _cell(value: Any, row: Rehearsed) -> str:
    """Return a number with the digits that the interval of its row leaves it."""
    if isinstance(value, float) and not value.is_integer():
        return within(value, row.lower, row.upper)
    return "-" if value is None else short(value)


def cut(name: str) -> str:
    """Return a name of the usual width at most."""
    return name if len(name) <= _WIDTH else f"{name[: _WIDTH - 3]}..."


def _aligned(lines: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield lines of a table: names to the left, numbers to the right."""
    cells = [(cut(name), *others) for name, *others in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *numbers, ends in cells:
        right = "  ".join(each.rjust(width) for each, width in zip(numbers, widths[1:], strict=False))
        yield f"{name.ljust(widths[0])}  {right}  {ends}"
