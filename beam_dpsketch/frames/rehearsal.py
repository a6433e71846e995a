"""A rehearsal: exact, bounded and private answers side by side, on data that anyone may see.

Nothing is spent: the data are public, or made up. On data that are to be protected, exact and bounded answers next to
private ones would give the people in them away.

What items weigh, by key: in all records of a public sample, and in what the bounds keep of it.

It is exact, so it is for public data alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.rows import as_list, as_many
from beam_dpsketch.config.paths import refusal
from beam_dpsketch.encodings import decode, encode, is_unicode
from beam_dpsketch.errors import ArgumentError, ElementsWarning, PrivacyWarning
from beam_dpsketch.exact.declared.count import Count
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.base import short_keys
from beam_dpsketch.exact.reading.groups import dictionary_codes, group_rows, split_pair
from beam_dpsketch.exact.reading.items import WeightedItems
from beam_dpsketch.exact.reading.reading import parse_or_ones
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.frames.releasing import TableRelease, read_declared
from beam_dpsketch.frames.steps.plan import open_checked, tally_of
from beam_dpsketch.frames.steps.tables import TableParts
from beam_dpsketch.statement.clipping import Clipping, weakest
from beam_dpsketch.statement.showing import short, within


class Weights(NamedTuple):
    """The items of one key, and what each weighs.

    Attributes:
      items: their short keys, each once, ascending; of an ordered domain in the order of values.
      weights: float64 of shape (items,).
      places: where each is first, in all records; int64 of shape (items,).
    """

    items: pa.Array
    weights: np.ndarray
    places: np.ndarray

    def largest(self, k: int) -> Weights:
        """Return the k items that weigh most, largest first; those that come first of equal ones."""
        order = np.lexsort((self.places, -self.weights))[:k]
        return Weights(self.items.take(pa.array(order)), self.weights[order], self.places[order])

    def of(self, items: pa.Array) -> np.ndarray:
        """Return the weight of each of some items, 0 where there is none."""
        found = pc.index_in(items, value_set=self.items)
        return np.append(self.weights, 0.0)[found.fill_null(len(self.weights)).to_numpy()]

    @property
    def positions(self) -> np.ndarray:
        """The items of an ordered domain, uint64."""
        return np.array([int.from_bytes(key, "big") for key in self.items.to_pylist()], dtype=np.uint64)

    def quantile(self, domain: Any, share: float) -> Any:
        """Return the smallest value whose rank is the share of the weight, or more; `None` without weight."""
        ranks = np.cumsum(self.weights)
        if not len(ranks) or ranks[-1] <= 0:
            return None
        reached = (self.weights > 0) & (ranks >= share * ranks[-1] * (1 - 2.0**-40))
        return domain.from_short_keys([self.items[int(np.argmax(reached))].as_py()])[0]


NOTHING = Weights(pa.nulls(0, pa.large_binary()), np.zeros(0), np.zeros(0, dtype=np.int64))


class Sample(NamedTuple):
    """What is exactly in a sample.

    Attributes:
      by_key: the weights of each key; `None` is the key where there are none.
      weight: of all records that can be counted, each 0 or more.
      records: how many there are.
      unused: how many of them cannot be counted.
      outside: how many lie outside of the domain, and count at its ends.
      items: the items of all records, in parts.
    """

    by_key: dict[Any, Weights]
    weight: float
    records: int
    unused: int
    outside: int
    items: list[Any]

    @classmethod
    def of(cls, declared: ReleaseSpec, table: TableParts) -> Sample:
        """Return what is in a table."""
        reader, sketch_input, items = declared.reader, declared.sketch_input, []
        tally = tally_of(declared, table)
        tables, weight, size, unused, outside = [], 0.0, 0, 0, 0
        for part in table.parts:
            columns = reader.read_batch(part, sketch_input, tally)
            positions, usable = sketch_input.keys(columns.items)  # of several metrics, where any counts
            for argument, values in columns.by_argument(reader.selectors).items():
                usable = usable if argument in reader.selectors.items else usable & tally.counting(argument, values)
            weights, _ = parse_or_ones(columns.weights, len(columns.items))
            encoded = reader.encode_keys(columns.keys) if declared.is_keyed else _repeated(NO_KEY, len(usable))
            counted = usable & (weights != 0)
            of_items = sketch_input.as_column(positions[counted])
            places = size + np.flatnonzero(counted)
            tables.append(_add_up(_records(encoded.filter(counted), of_items, weights[counted], places)))
            weight += float(np.maximum(weights[usable], 0).sum(dtype=np.float64))
            size, unused = size + len(usable), unused + int(np.count_nonzero(~usable))
            outside += _count_outside(declared.spec.domain, columns.items, positions, usable)
            items.append(columns.items)
        found = _by_key(_shortened(_add_up(pa.concat_tables(tables))), declared) if tables else {}
        return cls(found, weight, size, unused, outside, items)

    def values(self, places: np.ndarray) -> list[Any]:
        """Return the items of the records at these places, as plain Python values."""
        ends = np.cumsum([len(each) for each in self.items])
        parts = np.searchsorted(ends, places, side="right")
        starts = np.append(0, ends)[parts]
        return [
            as_list(self.items[part][place : place + 1])[0]
            for part, place in zip(parts.tolist(), (places - starts).tolist(), strict=True)
        ]


def kept_weights(declared: ReleaseSpec, contributed: Iterable[tuple[Any, Any]]) -> dict[Any, Weights]:
    """Return the weight that the bounds keep of each item, by key, given what adds up by encoded key, or by pair."""
    sketch_input, tables = declared.sketch_input, []
    one = 1 << sketch_input.scale_bits
    if declared.count.by_item:
        pairs = [(*split_pair(pair, per_key=declared.is_keyed), row[0] / one) for pair, row in contributed]
        keys, items, weights = map(list, zip(*pairs, strict=True)) if pairs else ([], [], [])
        arrays = pa.array(keys, pa.large_binary()), pa.array(items, pa.large_binary())
        return _by_key(_add_up(_records(*arrays, np.array(weights), np.zeros(len(pairs), np.int64))), declared)
    for key, items in contributed:
        size, column = len(items.keys), sketch_input.as_column(items.keys)
        tables.append(_records(_repeated(key, size), column, items.weights / one, np.zeros(size, np.int64)))
    return _by_key(_shortened(_add_up(pa.concat_tables(tables))), declared) if tables else {}


def added_up(declared: ReleaseSpec, contributed: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yield what adds up in the global window, by encoded key, or by pair."""
    for _, each in contributed:
        if declared.count.by_item:
            yield each
        elif isinstance(each, KeyedSums):
            yield from ((key, WeightedItems(own.items, own.weights)) for key, own in each.each())
        else:
            yield (encode(each[0]), each[1]) if declared.is_keyed else (NO_KEY, each)


def _repeated(key: bytes, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(key, pa.large_binary()), size)


def _records(keys: pa.Array, items: pa.Array, weights: np.ndarray, places: np.ndarray) -> pa.Table:
    columns = {"key": keys, "item": items, "weight": weights.astype(np.float64), "place": places}
    return pa.table(columns)


def _add_up(records: pa.Table) -> pa.Table:
    """Return each pair of key and item once, with the sum of its weights and its first place."""
    sums = records.group_by(["key", "item"]).aggregate([("weight", "sum"), ("place", "min")])
    return sums.select(["key", "item", "weight_sum", "place_min"]).rename_columns(records.column_names)


def _shortened(records: pa.Table) -> pa.Table:
    codes, items = dictionary_codes(records["item"])
    short = pa.array(short_keys(items.to_pylist()), pa.large_binary())
    return records.set_column(1, "item", short.take(pa.array(codes)))


def _by_key(records: pa.Table, declared: ReleaseSpec) -> dict[Any, Weights]:
    """Return what is known of each key, in the order of their places."""
    ordered = records.sort_by("item").combine_chunks()
    codes, keys = dictionary_codes(ordered["key"])
    order, groups = group_rows(codes, len(keys))
    ordered, found = ordered.take(pa.array(order)).combine_chunks(), {}
    for encoded, group in zip(keys.to_pylist(), groups, strict=True):
        key = decode(encoded) if declared.is_keyed else None
        if key is None or is_unicode(key):
            each = ordered[group].combine_chunks()
            items, weights, places = (each[name] for name in ("item", "weight", "place"))
            found[key] = Weights(items.combine_chunks(), weights.to_numpy(), places.to_numpy())
    return found


def _count_outside(domain: Any, items: Any, positions: np.ndarray, usable: np.ndarray) -> int:
    """Return how many records lie outside of a domain that has an order."""
    if domain is None or not domain.is_ordered:
        return 0
    at_ends = usable & ((positions == 0) | (positions == positions.max(initial=0)))
    values = Counter(itertools.compress(as_list(items), at_ends.tolist()))
    return sum(count for value, count in values.items() if not domain.is_inside(value))


USUAL_SHARES, USUAL_K = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99), 10


@_validate.explained
def rehearse(
    sample: Any, settings: Any, *, k: int | None = None, quantiles: Iterable[float] = USUAL_SHARES
) -> Rehearsal:
    """Return exact, bounded and private answers of a sample under the settings of a release; spends nothing.

    The sample must be public or made up. Take one of the size of your data, and alike: noise is the same for every
    size, so a small sample looks worse than your data will.

    Args:
      sample: a table, as `release_frame` takes it.
      settings: what is to be released, as `release_frame` takes it; a part of a budget stays unspent.
      k: how many of the most frequent items of each key are shown; `None` for the k of a top-K list, else 10.
      quantiles: which quantiles are shown, each from 0 to 1.

    Raises and warns as `release_frame` does.

    >>> import pyarrow as pa
    >>> trips = pa.table({"person": [n // 3 for n in range(6000)], "city": ["Oslo", "Oslo", "Rome"] * 2000})
    >>> unit = {"privacy_id": "person", "records": {"max_per_key": 2}}
    >>> settings = {"kind": "frequencies", "item": "city", "unit": unit, "privacy": {"epsilon": 1}}
    >>> found = rehearse(trips, settings)
    >>> [row.exact for row in found.rows], round(found.taken, 2)
    ([4000.0, 2000.0], 0.33)
    """
    declared = read_declared(settings)
    for words in declared.terms.foolish():
        warnings.warn(words, PrivacyWarning, stacklevel=3)
    metrics, shares = declared.count.alone(declared.item), _Shares.of(quantiles)
    asked = {name: _asked(count, k, shares) for name, (count, _) in metrics.items()}
    declared = dataclasses.replace(declared, privacy=declared.privacy.without_budget())
    if declared.time is not None:
        raise refusal("time", "a rehearsal is of a sample as a whole: leave time and windows out", "E429")
    opened = open_checked(sample, declared)
    opened = opened._replace(parts=[*opened.parts])
    ready, whole = TableRelease(opened, declared), Sample.of(declared, opened)
    contributed = ready.contributed()
    contributed = contributed._replace(parts=[*contributed.parts])
    added = [*added_up(declared, contributed.parts)]
    released = ready.release(contributed)
    for words in ready.told():
        warnings.warn(words, ElementsWarning, stacklevel=3)
    by_key = released if declared.is_keyed else {None: released}
    order = sorted((key for key in whole.by_key if key in by_key), key=lambda key: -whole.by_key[key].weights.sum())
    rows, weights, taken, outside = defaultdict(list), defaultdict[Any, float](float), 0.0, 0
    for name, (count, item) in metrics.items():
        alone = dataclasses.replace(declared, count=count, item=item)
        exact = Sample.of(alone, opened) if name else whole
        kept = kept_weights(alone, [(key, declared.count.split(each)[name]) for key, each in added] if name else added)
        outside += exact.outside
        for key, each in kept.items():
            weights[key] += each.weights.sum()
        taken = max(taken, 1 - _share(sum(each.weights.sum() for each in kept.values()), exact.weight))
        for key in order:
            both = exact.by_key.get(key, NOTHING), kept.get(key, NOTHING)
            for row in asked[name].rows(alone.spec.domain, exact, *both, by_key[key].parts[name]):
                rows[key].append(Rehearsed(key, *row)._replace(metric=name or None))
    total, released_weight = sum(weights.values()), sum(weights.get(key, 0.0) for key in order)
    return Rehearsal(
        tuple(row for key in order for row in rows[key]),
        whole.records,
        whole.unused,
        outside,
        None if declared.unit.bounds.signed else taken,
        weakest(each.clipping() for each in by_key.values()) if by_key else Clipping(),
        RehearsedKeys(len(whole.by_key), len(order), _share(released_weight, total)) if declared.is_keyed else None,
    )


def _share(part: float, whole: float) -> float:
    """Return a part of a whole; all of nothing."""
    return float(part / whole) if whole else 1.0


def _asked(count: Count, k: int | None, shares: _Shares) -> _Sums | _Shares | _Largest:
    """Return what a kind of release is asked."""
    if count.is_summed:
        return _Sums(count.spec)
    return shares if count.is_ranked else _Largest.of(k, count.wanted)


class _Largest(NamedTuple):
    """Asks for the items that weigh most, and whether they are in a top-K list of this length, if there is one."""

    k: int
    wanted: int | None

    @classmethod
    def of(cls, k: int | None, wanted: int | None) -> _Largest:
        found = cls(wanted or USUAL_K if k is None else k, wanted)
        _validate.whole(low=1, high=1 << 31, k=found.k)
        return found

    def rows(
        self, domain: Any, sample: Sample, exact: Weights, kept: Weights, released: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield items with their weights, and what a release says of them."""
        top = exact.largest(self.k)
        asked = sample.values(top.places)
        named = asked if domain is None else domain.from_short_keys(top.items.to_pylist())
        shown = [item if each is None else each for each, item in zip(named, asked, strict=True)]  # odd text has none
        estimates, ends = released.estimate(asked), released.interval(asked)
        of_release = (map(float, each) for each in (estimates, ends.lower, ends.upper))
        listed = None if self.wanted is None else set(released.top_k(self.wanted).item)
        in_list = (None if listed is None else each in listed for each in shown)
        yield from zip(shown, top.weights.tolist(), kept.of(top.items).tolist(), *of_release, in_list, strict=True)


class _Shares(NamedTuple):
    """Asks for quantiles."""

    shares: list[float]

    @classmethod
    def of(cls, shares: Iterable[float]) -> _Shares:
        many, _ = as_many(shares)
        found = cls([*map(float, many)])
        if not all(0 <= each <= 1 for each in found.shares):
            raise ArgumentError("quantiles", "must be between 0 and 1: 0.95 stands for 95 %", "E003")
        return found

    def rows(
        self, domain: Any, sample: Sample, exact: Weights, kept: Weights, released: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield quantiles of all records, of those that count, and of a release."""
        answers, ends = released.quantile(self.shares), released.quantile_interval(self.shares)
        for share, *of_release in zip(self.shares, answers, ends.lower, ends.upper, strict=True):
            yield share, exact.quantile(domain, share), kept.quantile(domain, share), *of_release


class _Sums(NamedTuple):
    """Asks for counts and sums of numbers, and what comes of them."""

    spec: Any

    def rows(
        self, domain: Any, sample: Sample, exact: Weights, kept: Weights, released: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield what is known of all numbers, of those that count, and of a release."""
        of_all, of_kept = (self.spec.exactly(each.positions, each.weights) for each in (exact, kept))
        for name, answer in of_all.items():
            yield name, answer, of_kept[name], *getattr(released, name)()


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
