"""A rehearsal: exact, bounded and private answers side by side, on data that anyone may see.

Nothing is spent: the data are public, or made up. On data that are to be protected, exact and bounded answers next to
private ones would give the people in them away.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch import _validate
from beam_dpsketch._columns import plain_value
from beam_dpsketch.config import read_release
from beam_dpsketch.domains.base import short_keys
from beam_dpsketch.frames.plan import check_columns, columns_of, resolve
from beam_dpsketch.frames.releasing import KeyedReleases, release_table
from beam_dpsketch.frames.sums import ExactSums
from beam_dpsketch.frames.tables import open_table
from beam_dpsketch.hashing.encodings import decode
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.records.columns import parse_weights
from beam_dpsketch.records.groups import split_pair
from beam_dpsketch.records.release_spec import ReleaseSpec, ResolvedRelease
from beam_dpsketch.records.selectors import is_pandas_frame
from beam_dpsketch.records.unused import Unused

USUAL_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_SHOWN_KEYS, _WIDTH, _SECRET_BYTES = 5, 24, 32
PUBLIC_ALONE = (
    "Exact and bounded numbers are of the sample, which must be public or made up: next to private ones they undo "
    "privacy. A rehearsal spends nothing."
)


class Rehearsed(NamedTuple):
    """One answer, of one key.

    Attributes:
      key: the output key; `None` without keys.
      asked: the item, or the share of a quantile.
      exact: of all records.
      bounded: of what the bounds keep.
      private: of a release; NaN where it says nothing, as of an item that groups do not release.
      lower: the lower end of its 95 % interval.
      upper: the upper end.
    """

    key: Any
    asked: Any
    exact: float
    bounded: float
    private: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """What settings make of a public sample; `print` it.

    Attributes:
      rows: the answers, those of the keys with most weight first.
      taken: the share of the weight that the bounds took, exactly.
      said: what a release says of that share; `None` where it does not tell it.
      keys: how many keys the sample has, and how many of them are released; `None` without keys.
    """

    rows: tuple[Rehearsed, ...]
    taken: float
    said: str | None
    keys: tuple[int, int] | None = None

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return the answers as plain Python values, for JSON or a table."""
        return [row._asdict() for row in self.rows]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        keys = list(dict.fromkeys(row.key for row in self.rows))
        for key in keys[:_SHOWN_KEYS]:
            name = "" if self.keys is None else str(key)[:_WIDTH]
            yield f"{name:{_WIDTH}}{'exact':>14}{'bounded':>14}{'private':>14}   95 % interval"
            for row in self.rows:
                if row.key == key:
                    yield _line(row)
        if len(keys) > _SHOWN_KEYS:
            yield f"... and {len(keys) - _SHOWN_KEYS} more keys"
        if self.keys is not None:
            yield f"Keys: {self.keys[1]} of the {self.keys[0]} keys of the sample are released."
        said = "does not tell it" if self.said is None else f"says: {self.said}"
        yield f"The bounds took {self.taken:.1%} of the weight; a release {said}."
        yield PUBLIC_ALONE


def rehearse(sample: Any, settings: Any, *, k: int = 10, quantiles: Iterable[float] = USUAL_SHARES) -> Rehearsal:
    """Return exact, bounded and private answers of a sample under the settings of a release; spends nothing.

    The sample must be public or made up, as large as the data, and like them: noise does not depend on them, and what
    it hides does.

    Args:
      sample: a table, as `release_frame` takes it.
      settings: what is to be released, as `release_frame` takes it; a part of a budget stays unspent.
      k: how many of the most frequent items of each key are shown.
      quantiles: which quantiles are shown, each from 0 to 1.

    >>> import pyarrow as pa
    >>> trips = pa.table({"person": [n // 3 for n in range(6000)], "city": ["Oslo", "Oslo", "Rome"] * 2000})
    >>> unit = {"privacy_id": "person", "records": {"max_per_key": 2}}
    >>> settings = {"kind": "frequencies", "item": "city", "unit": unit, "privacy": {"epsilon": 1}}
    >>> found = rehearse(trips, settings)
    >>> [row.exact for row in found.rows], round(found.taken, 2)
    ([4000.0, 2000.0], 0.33)
    """
    _validate.whole(low=1, high=1 << 31, k=k)
    declared = settings if isinstance(settings, ReleaseSpec) else read_release(settings)
    declared = dataclasses.replace(declared, privacy=declared.privacy.without_budget())
    resolved, secret = resolve(declared), KeyedRandomness(os.urandom(_SECRET_BYTES), b"rehearsal")
    table = _read_often(sample, declared)
    exact, names = _exact(declared, table)
    released, _ = release_table(table, declared, secret)
    bounded = _bounded(resolved, table, secret)  # by one norm and one sample, which the secret chose
    by_key = dict(released.items()) if isinstance(released, KeyedReleases) else {None: released}
    rows = []
    for key in sorted(exact, key=lambda each: -sum(exact[each].values())):
        if key not in by_key:
            continue
        if declared.count.name == "quantiles":
            found = _quantiles(declared.spec.domain, exact[key], bounded[key], by_key[key], list(quantiles))
        else:
            found = _frequencies(names, exact[key], bounded[key], by_key[key], k)
        rows += [Rehearsed(key, *each) for each in found]
    whole, kept = (sum(sum(each.values()) for each in sums.values()) for sums in (exact, bounded))
    told = [lost for each in by_key.values() if (lost := each.privacy.lost_share()) is not None]
    keys = (len(exact), len(exact.keys() & by_key.keys())) if declared.is_keyed else None
    return Rehearsal(tuple(rows), 1 - kept / whole if whole else 0.0, str(told[0]) if told else None, keys)


def _read_often(sample: Any, declared: ReleaseSpec) -> Any:
    """Return the sample as a table that can be read several times; refuse one that cannot be released."""
    opened = open_table(sample, _wanted(declared))
    check_columns(declared, opened)
    if is_pandas_frame(type(sample)):
        return sample
    return pa.Table.from_batches(list(opened.parts), schema=opened.empty.schema)


def _exact(declared: ReleaseSpec, table: Any) -> tuple[dict[Any, dict[Any, float]], dict[Any, Any]]:
    """Return the weight of each item that can be counted, by key, and the names of items."""
    reader, sketch_input, opened = declared.reader, declared.sketch_input, open_table(table, _wanted(declared))
    sums: dict[Any, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
    names: dict[Any, Any] = {}
    for part in opened.parts:
        columns = reader.read_batch(part, sketch_input)
        keys, usable = sketch_input.keys(columns.items)
        weights = np.ones(len(keys), dtype=np.int64)
        if columns.weights is not None:
            weights, whole = parse_weights(columns.weights)
            usable = usable & whole
        of_keys = reader.encode_keys(columns.keys).to_pylist() if declared.is_keyed else itertools.repeat(b"")
        for place, (key, item, weight) in enumerate(zip(of_keys, keys.tolist(), weights.tolist(), strict=False)):
            if usable[place] and key is not None:
                item = short_keys([item])[0] if declared.count.by_item else item
                sums[decode(key) if declared.is_keyed else None][item] += weight
                if item not in names:
                    names[item] = _name(columns.items[place])
    return sums, names


def _name(value: Any) -> Any:
    return plain_value(value.as_py() if isinstance(value, pa.Scalar) else value)


def _bounded(resolved: ResolvedRelease, table: Any, secret: KeyedRandomness) -> dict[Any, dict[Any, float]]:
    """Return the weight that the bounds keep of each item, by key."""
    declared, sums = resolved.declared, defaultdict[Any, dict[Any, float]](lambda: defaultdict(float))
    opened = open_table(table, _wanted(declared))
    one = 1 << declared.sketch_input.scale_bits
    derived = secret.derive(declared.identify(resolved.terms))
    exact = ExactSums(resolved, [opened.empty, *opened.parts], Unused(declared.selectors), derived)
    for each in exact.contributions()[0]:
        if declared.count.by_item:
            encoded, item = split_pair(each[0], per_key=declared.is_keyed)
            sums[decode(encoded) if declared.is_keyed else None][item] += each[1] / one
            continue
        key, items = each if declared.is_keyed else (None, each)
        for item, weight in zip(items.keys.tolist(), items.weights.tolist(), strict=True):
            sums[key][item] += weight / one
    return sums


def _wanted(declared: ReleaseSpec) -> Collection[str]:
    return columns_of(declared.selectors).values()


def _frequencies(
    names: Mapping[Any, Any], exact: Mapping[Any, float], bounded: Mapping[Any, float], released: Any, k: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the largest items with their weights, and what a release says of them."""
    top = sorted(exact, key=lambda item: -exact[item])[:k]
    asked = [names[item] for item in top]
    estimates, intervals = released.estimate(asked), released.interval(asked)
    for place, item in enumerate(top):
        answer = (estimates[place], intervals.lower[place], intervals.upper[place])
        yield asked[place], exact[item], bounded.get(item, 0.0), *map(float, answer)


def _quantiles(
    domain: Any, exact: Mapping[int, float], bounded: Mapping[int, float], released: Any, shares: list[float]
) -> Iterator[tuple[Any, ...]]:
    """Yield quantiles of all records, of those that count, and of a release."""
    answers, intervals = released.quantile(shares), released.quantile_interval(shares)
    for place, share in enumerate(shares):
        true = (_quantile(domain, each, share) for each in (exact, bounded))
        yield share, *true, answers[place], intervals.lower[place], intervals.upper[place]


def _quantile(domain: Any, weights: Mapping[int, float], share: float) -> Any:
    """Return the smallest value whose rank is the share of the weight, or more; NaN without weight."""
    positions = np.array(sorted(weights), dtype=np.uint64)
    ranks = np.cumsum([weights[each] for each in positions.tolist()])
    if not len(ranks) or ranks[-1] <= 0:
        return math.nan
    place = int(np.searchsorted(ranks, share * ranks[-1] * (1 - 2.0**-40)))
    return domain.values(positions[[min(place, len(ranks) - 1)]])[0]


def _line(row: Rehearsed) -> str:
    asked = f"{row.asked:.4g}" if isinstance(row.asked, float) else str(row.asked)
    if isinstance(row.private, float) and math.isnan(row.private):
        private, ends = "-", "not released"
    else:
        private, ends = _shown(row.private), f"{_shown(row.lower)} to {_shown(row.upper)}"
    return f"  {asked[: _WIDTH - 4]:{_WIDTH - 2}}{_shown(row.exact):>14}{_shown(row.bounded):>14}{private:>14}   {ends}"


def _shown(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.4g}"
