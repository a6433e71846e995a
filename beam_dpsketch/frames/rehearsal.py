"""Rehearsals: simulations with exact, clipped and private answers side by side, on public or made-up data.

A rehearsal spends no privacy budget, because its data are public or made up. On protected data, exact and clipped
answers next to private answers would reveal people.

Exact item weights, by key, are computed from all records and from the clipped records.
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
from beam_dpsketch.errors import ArgumentError, InputWarning, PrivacyWarning
from beam_dpsketch.exact.declared.count import Count
from beam_dpsketch.exact.declared.release_spec import ReleaseSpec
from beam_dpsketch.exact.domains.base import short_keys
from beam_dpsketch.exact.reading.groups import dictionary_codes, group_rows, split_pair
from beam_dpsketch.exact.reading.items import WeightedItems
from beam_dpsketch.exact.reading.reading import parse_or_ones
from beam_dpsketch.exact.sketches.spec import SketchSpec
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.frames.releasing import TableRelease, read_declared
from beam_dpsketch.frames.steps.plan import open_checked, tally_of
from beam_dpsketch.frames.steps.tables import TableParts
from beam_dpsketch.planning.kinds.sketched import ItemFrequencies
from beam_dpsketch.statement.clipping import Clipping, weakest
from beam_dpsketch.statement.showing import short, within


class Weights(NamedTuple):
    """Items of a key with their exact weights.

    Attributes:
      items: distinct short keys of the items, ascending. For an ordered domain, in the order of values.
      weights: float64, shape (items,).
      places: first place of each item among all records, int64, shape (items,).
    """

    items: pa.Array
    weights: np.ndarray
    places: np.ndarray

    def largest(self, k: int) -> Weights:
        """Find the k items with the largest weights, largest first. Earlier items break ties."""
        order = np.lexsort((self.places, -self.weights))[:k]
        return Weights(self.items.take(pa.array(order)), self.weights[order], self.places[order])

    def of(self, items: pa.Array) -> np.ndarray:
        """Look up item weights, 0 for absent items."""
        found = pc.index_in(items, value_set=self.items)
        return np.append(self.weights, 0.0)[found.fill_null(len(self.weights)).to_numpy()]

    @property
    def positions(self) -> np.ndarray:
        """Positions of the items in an ordered domain, uint64."""
        return np.array([int.from_bytes(key, "big") for key in self.items.to_pylist()], dtype=np.uint64)

    def quantile(self, domain: Any, share: float) -> Any:
        """Find the smallest value whose rank is at least this share of the weight. `None` without weight."""
        ranks = np.cumsum(self.weights)
        if not len(ranks) or ranks[-1] <= 0:
            return None
        reached = (self.weights > 0) & (ranks >= share * ranks[-1] * (1 - 2.0**-40))
        return domain.from_short_keys([self.items[int(np.argmax(reached))].as_py()])[0]


NOTHING = Weights(pa.nulls(0, pa.large_binary()), np.zeros(0), np.zeros(0, dtype=np.int64))


class Sample(NamedTuple):
    """Exact contents of a sample.

    Attributes:
      by_key: weights by key. `None` is the key if there are no keys.
      weight: total weight over usable records, each 0 or more.
      records: record count.
      unused: unusable records.
      outside: records outside the domain, which count at its ends.
      items: items of all records, in parts.
    """

    by_key: dict[Any, Weights]
    weight: float
    records: int
    unused: int
    outside: int
    items: list[Any]

    @classmethod
    def of(cls, declared: ReleaseSpec, table: TableParts) -> Sample:
        """Read a table exactly."""
        reader, sketch_input, items = declared.reader, declared.sketch_input, []
        tally = tally_of(declared, table)
        tables, weight, size, unused, outside = [], 0.0, 0, 0, 0
        for part in table.parts:
            columns = reader.read_batch(part, sketch_input, tally)
            positions, usable = sketch_input.keys(columns.items)  # with several metrics, usable if any metric counts
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
        """Look up the record items at these places, as plain Python values."""
        ends = np.cumsum([len(each) for each in self.items])
        parts = np.searchsorted(ends, places, side="right")
        starts = np.append(0, ends)[parts]
        return [
            as_list(self.items[part][place : place + 1])[0]
            for part, place in zip(parts.tolist(), (places - starts).tolist(), strict=True)
        ]


def kept_weights(declared: ReleaseSpec, contributed: Iterable[tuple[Any, Any]]) -> dict[Any, Weights]:
    """Compute clipped weights of items, by key, from contributions by encoded key or by pair."""
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
    """Yield contributions in the global window, by encoded key or by pair."""
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
    """Sum the weights per distinct pair of key and item, and find its first place."""
    sums = records.group_by(["key", "item"]).aggregate([("weight", "sum"), ("place", "min")])
    return sums.select(["key", "item", "weight_sum", "place_min"]).rename_columns(records.column_names)


def _shortened(records: pa.Table) -> pa.Table:
    codes, items = dictionary_codes(records["item"])
    short = pa.array(short_keys(items.to_pylist()), pa.large_binary())
    return records.set_column(1, "item", short.take(pa.array(codes)))


def _by_key(records: pa.Table, declared: ReleaseSpec) -> dict[Any, Weights]:
    """Split records by key, in the order of their places."""
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
    """Count records outside an ordered domain."""
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
    """Compute exact, clipped and private answers of a sample under release settings, without spending privacy budget.

    The sample must be public or made up. Use a sample as large as your data, and similar to it. Noise is the same for
    every size. A small sample appears noisier than your data.

    Args:
      sample: a table, as for `release_frame`.
      settings: release settings, as for `release_frame`. A budget share stays unspent.
      k: number of the most frequent items shown per key. `None` uses the k of a top-K list, or 10.
      quantiles: quantiles to show, each from 0 to 1.

    Raises and warns as `release_frame` does.

    >>> import pyarrow as pa
    >>> trips = pa.table({"person": [n // 3 for n in range(6000)], "city": ["Oslo", "Oslo", "Rome"] * 2000})
    >>> unit = {"privacy_id": "person", "records": {"max_records": 2}}
    >>> settings = {"kind": "frequencies", "item": "city", "privacy_unit": unit, "privacy": {"epsilon": 1}}
    >>> found = rehearse(trips, settings)
    >>> [row.exact for row in found.rows], round(found.clipped_share, 2)
    ([4000.0, 2000.0], 0.33)
    """
    declared = read_declared(settings)
    for words in declared.terms.warnings():
        warnings.warn(words, PrivacyWarning, stacklevel=3)
    metrics, shares = declared.count.alone(declared.item), _Shares.of(quantiles)
    asked = {name: _asked(count, k, shares) for name, (count, _) in metrics.items()}
    declared = dataclasses.replace(declared, privacy=declared.privacy.without_budget())
    if declared.time is not None:
        raise refusal("time", "must be left out. A rehearsal uses the whole sample, without time and windows", "E429")
    opened = open_checked(sample, declared)
    opened = opened._replace(parts=[*opened.parts])
    ready, whole = TableRelease(opened, declared), Sample.of(declared, opened)
    contributed = ready.contributed()
    contributed = contributed._replace(parts=[*contributed.parts])
    added = [*added_up(declared, contributed.parts)]
    released = ready.release(contributed)
    for words in ready.told():
        warnings.warn(words, InputWarning, stacklevel=3)
    by_key = released if declared.is_keyed else {None: released}
    order = sorted((key for key in whole.by_key if key in by_key), key=lambda key: -whole.by_key[key].weights.sum())
    rows, weights, clipped_share, outside = defaultdict(list), defaultdict[Any, float](float), 0.0, 0
    for name, (count, item) in metrics.items():
        alone = dataclasses.replace(declared, count=count, item=item)
        exact = Sample.of(alone, opened) if name else whole
        kept = kept_weights(alone, [(key, declared.count.split(each)[name]) for key, each in added] if name else added)
        outside += exact.outside
        for key, each in kept.items():
            weights[key] += each.weights.sum()
        clipped_share = max(clipped_share, 1 - _share(sum(each.weights.sum() for each in kept.values()), exact.weight))
        for key in order:
            both = exact.by_key.get(key, NOTHING), kept.get(key, NOTHING)
            for row in asked[name].rows(alone.spec.domain, exact, *both, by_key[key].parts[name]):
                rows[key].append(Rehearsed(key, *row)._replace(metric=name or None))
    for name in getattr(declared.count, "metrics", {}).keys() - metrics.keys():  # the count of privacy ids
        as_items = dataclasses.replace(
            declared, count=ItemFrequencies(SketchSpec()), item=declared.selectors.privacy_id
        )
        ids, kept_ids = Sample.of(as_items, opened).by_key, ready.kept_ids(contributed)
        for key in order:
            numbers = float(len(ids.get(key, NOTHING).items)), kept_ids.get(key, 0.0)
            rows[key].append(Rehearsed(key, "count", *numbers, *by_key[key].parts[name].count())._replace(metric=name))
    total, released_weight = sum(weights.values()), sum(weights.get(key, 0.0) for key in order)
    return Rehearsal(
        tuple(row for key in order for row in rows[key]),
        whole.records,
        whole.unused,
        outside,
        None if declared.privacy_unit.bounds.signed else clipped_share,
        weakest(each.clipping() for each in by_key.values()) if by_key else Clipping(),
        RehearsedKeys(len(whole.by_key), len(order), _share(released_weight, total)) if declared.is_keyed else None,
    )


def _share(part: float, whole: float) -> float:
    """Compute a share of a whole, 1 if the whole is 0."""
    return float(part / whole) if whole else 1.0


def _asked(count: Count, k: int | None, shares: _Shares) -> _Sums | _Shares | _Largest:
    """Choose the questions for a kind of release."""
    if count.is_summed:
        return _Sums(count.spec)
    return shares if count.is_ranked else _Largest.of(k, count.wanted)


class _Largest(NamedTuple):
    """Question for the heaviest items, and whether they are in a top-K list with this length, if any."""

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
        """Yield items with their weights, and their private estimates."""
        top = exact.largest(self.k)
        asked = sample.values(top.places)
        named = asked if domain is None else domain.from_short_keys(top.items.to_pylist())
        shown = [item if each is None else each for each, item in zip(named, asked, strict=True)]  # undecodable text
        estimates, ends = released.estimate(asked), released.interval(asked)
        of_release = (map(float, each) for each in (estimates, ends.lower, ends.upper))
        listed = None if self.wanted is None else set(released.top_k(self.wanted).item)
        in_list = (None if listed is None else each in listed for each in shown)
        yield from zip(shown, top.weights.tolist(), kept.of(top.items).tolist(), *of_release, in_list, strict=True)


class _Shares(NamedTuple):
    """Question for quantiles."""

    shares: list[float]

    @classmethod
    def of(cls, shares: Iterable[float]) -> _Shares:
        many, _ = as_many(shares)
        found = cls([*map(float, many)])
        if not all(0 <= each <= 1 for each in found.shares):
            raise ArgumentError("quantiles", "must be between 0 and 1. For the 95th percentile, pass 0.95", "E003")
        return found

    def rows(
        self, domain: Any, sample: Sample, exact: Weights, kept: Weights, released: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield exact, clipped and private quantiles."""
        for share, of_release in zip(self.shares, released.quantile(self.shares), strict=True):
            yield share, exact.quantile(domain, share), kept.quantile(domain, share), *of_release


class _Sums(NamedTuple):
    """Question for counts, sums and derived statistics."""

    spec: Any

    def rows(
        self, domain: Any, sample: Sample, exact: Weights, kept: Weights, released: Any
    ) -> Iterator[tuple[Any, ...]]:
        """Yield exact, clipped and private statistics."""
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
    """Answer for a key.

    Attributes:
      key: the output key. `None` without keys.
      asked: the item, the share of a quantile, or for numbers "count", "total", "mean", "variance" or "std".
      exact: answer from all usable records. Values are clamped to the domain and on its grid.
      bounded: answer from the clipped data. `None` for a quantile or a mean without data.
      private: answer of a release. NaN for an item that thresholding does not release, `None` for an undefined mean.
      lower: lower end of its 95 % interval, which is about the clipped number.
      upper: upper end of the interval.
      listed: whether the item is in the release's top-K list. `None` for other kinds.
      metric: metric name. `None` without metrics.
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
    """Number of keys in the sample, number of released keys, and their share of the clipped total."""

    found: int
    released: int
    share: float


@dataclasses.dataclass(frozen=True)
class Rehearsal:
    """Result of release settings on a public sample. Use `print` to show it.

    Attributes:
      rows: answers, starting with the keys of largest weight.
      records: record count of the sample.
      unused: unusable records, whose value is missing, has another type or is not listed.
      outside: values outside an ordered domain, which count at its ends.
      clipped_share: exact clipping loss, as a share of the usable weight. With several metrics, the largest. `None` if
        records may delete.
      clipping: private estimate of the clipping loss. With several keys, the weakest state.
      keys: number and share of the released keys. `None` without keys.
    """

    rows: tuple[Rehearsed, ...]
    records: int
    unused: int
    outside: int
    clipped_share: float | None
    clipping: Clipping
    keys: RehearsedKeys | None = None

    def as_dict(self) -> dict[str, Any]:
        """Convert to plain Python values, for JSON. `rows` is a list of dicts."""
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
        removed = "With deletions, the share that the bounds removed is unknown"
        if self.clipped_share is not None:
            most = ", for the metric that lost most" if any(row.metric for row in self.rows) else ""
            removed = f"The bounds removed {_percent(self.clipped_share)} of the weight that can be counted{most}"
        yield f"{removed}. A release reports: {self.clipping}"
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
    """Format a number with as many digits as its row's interval supports."""
    if isinstance(value, float) and not value.is_integer():
        return within(value, row.lower, row.upper)
    return "-" if value is None else short(value)


def cut(name: str) -> str:
    """Shorten a name to the usual width."""
    return name if len(name) <= _WIDTH else f"{name[: _WIDTH - 3]}..."


def _aligned(lines: list[tuple[str, ...]]) -> Iterator[str]:
    """Align the lines of a table: names left, numbers right."""
    cells = [(cut(name), *others) for name, *others in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *numbers, ends in cells:
        right = "  ".join(each.rjust(width) for each, width in zip(numbers, widths[1:], strict=False))
        yield f"{name.ljust(widths[0])}  {right}  {ends}"
