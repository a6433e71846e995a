"""Specs of sketches. Sketches can be merged if and only if their specs are equal.

Dimensions come from the caller, from an accuracy (`for_accuracy`), or from the paper's formulas (`paper_dimensions`),
whose widths do not give the accuracy that the paper states for them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

from beam_dpsketch import checks as _validate
from beam_dpsketch.encodings import named
from beam_dpsketch.errors import ArgumentError
from beam_dpsketch.exact.domains.base import Domain
from beam_dpsketch.exact.hashing import fingerprints
from beam_dpsketch.privacy.summary_counts import Uncounted

FLAT_KINDS = ("count_sketch", "count_min")
SKETCH_NAMES = {"count_sketch": "CountSketch", "count_min": "Count-Min"}
MAX_DEPTH = 64
MAX_WIDTH = 1 << 26
MAX_CELLS = 1 << 28


Purpose: TypeAlias = Literal["frequencies", "items", "ranks"]


class Spec:
    """Base class of specs.

    Attributes:
      kind: name of the sketch type.
      domain: domain of the values. `None` for sketches of any items.
      cells: number of counters.
      is_listed: whether only listed items are counted, without collisions.
      is_histogram: whether there is exactly one counter for each item.
      takes_laplace: whether answers support Laplace noise.
      counts_privacy_ids: whether a summary count answers, in place of counters.
    """

    kind: ClassVar[str]
    domain: Any
    cells: Any
    is_listed: ClassVar[bool] = False
    is_histogram: ClassVar[bool] = False
    takes_laplace: ClassVar[bool] = True
    counts_privacy_ids: Any = False

    @property
    def fields(self) -> Mapping[str, Spec]:
        """Spec for each item of a record, by argument."""
        return {"item": self}

    @property
    def uncounted(self) -> Uncounted:
        """Items that are dropped, or counted as other items."""
        specs = self.fields.values()
        listed = Uncounted.UNLISTED_ITEMS if any(each.is_listed for each in specs) else Uncounted.NOTHING
        clamps = any(isinstance(each.domain, Domain) and each.domain.doubt for each in specs)
        return listed | Uncounted.CLAMPED if clamps else listed

    @property
    def leading(self) -> tuple[Spec, Fraction]:
        """Spec whose answers decide the norm chosen from the data, and its budget share."""
        return self, Fraction(1)

    @property
    def key_range(self) -> int:
        """Exclusive upper bound of all item keys, if they are numbers."""
        return 1 << 64

    @property
    def total_cells(self) -> int | None:
        """Number of counters, with noise for the whole loss, that sum to an equally exact total, or `None`."""
        return None

    @property
    def has_factor(self) -> bool:
        """Whether rows of a square-root factorization are released, which is impossible over time."""
        return False

    @property
    def noisy(self) -> str:
        """Description of the noisy numbers, and their unit unless it is the contribution of a record."""
        return "each counter"

    @property
    def title(self) -> str:
        """Name of the layout in plans."""
        return str(self.kind).replace("_", " ")

    def describe(self) -> str:
        """Describe the items in a few words, or the shape of a sketch for any items."""
        return self.domain.describe()

    def describe_levels(self) -> Sequence[str]:
        """Describe the shape of each level, if levels differ."""
        return ()

    def purpose(self, *, search: bool) -> Purpose:
        """Classify the use of a release: frequencies of items, the most frequent items, or ranks of values."""
        return "frequencies"


@named("SketchSpec")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SketchSpec(Spec):
    """The kind, the shape and the hash functions of a sketch.

    Args:
      kind: "count_sketch" (unbiased, supports deletions) or "count_min" (does not underestimate).
      depth: rows, 1 to 64. Use odd depths for CountSketch: with an even number of rows, one collision moves the median.
      width: columns, 1 to 2**26.
      seed: chooses the hash functions, 0 to 2**64 - 1. It is not secret: privacy holds for every seed.
      item_hash: "murmur3" (fast), or "blake2b" if an adversary can choose items.
      item_key: 16 bytes, with "blake2b" only. It becomes public with the release, whose readers need it. Keep it secret
        until then, and use a new key for the next publication.
      hash_version: the required version of the hash.
    """

    domain: ClassVar[None] = None  # type: ignore[misc]
    kind: str = "count_sketch"  # type: ignore[misc]  # a class for two kinds
    depth: int = 5
    width: int = 4096
    seed: int = 0
    item_hash: str = "murmur3"
    item_key: bytes = dataclasses.field(default=b"", repr=False)
    hash_version: int = dataclasses.field(default=fingerprints.HASH_VERSION, repr=False)

    def __post_init__(self) -> None:
        _validate.one_of(FLAT_KINDS, kind=self.kind)
        _validate.whole_fields(self, "depth", low=1, high=MAX_DEPTH)
        _validate.whole_fields(self, "width", low=1, high=MAX_WIDTH)
        _validate.whole_fields(self, "seed", low=0, high=(1 << 64) - 1)
        _validate.one_of(fingerprints.ITEM_HASHES, item_hash=self.item_hash)
        _validate.one_of((fingerprints.HASH_VERSION,), hash_version=self.hash_version)
        if self.depth * self.width > MAX_CELLS:
            raise ArgumentError("", f"depth * width must be at most {MAX_CELLS}, got {self.depth * self.width}", "E504")
        key_bytes = fingerprints.KEY_BYTES if self.item_hash == "blake2b" else 0
        if not isinstance(self.item_key, bytes) or len(self.item_key) != key_bytes:
            raise ArgumentError("item_key", f'must be {key_bytes} bytes with the item_hash "{self.item_hash}"', "E505")

    @classmethod
    def for_accuracy(
        cls,
        *,
        relative_error: float,
        failure_probability: float,
        kind: str = "count_sketch",
        seed: int = 0,
        item_hash: str = "murmur3",
        item_key: bytes = b"",
    ) -> SketchSpec:
        """Choose the smallest spec whose collisions keep the estimate of any one item within relative_error * N.

        Guarantee: over insertions of total weight N, `|estimate - truth| <= relative_error * N` before noise, for each
        item with probability at least 1 - failure_probability / 2 over the seed. The other half is reserved for the
        noise. Here the estimate is the minimum over rows of a Count-Min, and the median over rows of a CountSketch. A
        released CountSketch uses their Huber mean, which is within half a scale of the median (most counters determine
        the scale) and has a smaller error on average.

        Source: Markov's inequality in each row. Count-Min fails if all rows do: width ceil(e / relative_error).
        CountSketch fails if half the rows err on the same side, and errors are symmetric. The width is the smallest for
        which 2 P[Bin(depth, 1 / (2 relative_error width)) >= (depth + 1) / 2] <= failure_probability / 2.

        >>> SketchSpec.for_accuracy(relative_error=0.01, failure_probability=0.01)
        SketchSpec(kind='count_sketch', depth=7, width=512, seed=0, item_hash='murmur3')
        """
        _validate.open_unit_interval(relative_error=relative_error, failure_probability=failure_probability)
        _validate.one_of(FLAT_KINDS, kind=kind)
        depth = _rows(failure_probability)
        if kind == "count_min":
            width = math.ceil(math.e / relative_error)
        else:
            depth += 1 - depth % 2
            width = _median_width(depth, relative_error, failure_probability)
        return cls(kind=kind, depth=depth, width=width, seed=seed, item_hash=item_hash, item_key=item_key)

    @classmethod
    def paper_dimensions(
        cls, *, relative_error: float, failure_probability: float, kind: str = "count_sketch", seed: int = 0
    ) -> SketchSpec:
        """Compute the paper's depth ceil(ln(2 / beta)) and width 1 / gamma, for comparison with it.

        No guarantee: on about 1 / relative_error equal items the error exceeds relative_error * N more often than
        failure_probability. Use `for_accuracy`.

        >>> SketchSpec.paper_dimensions(relative_error=0.01, failure_probability=0.01)
        SketchSpec(kind='count_sketch', depth=6, width=100, seed=0, item_hash='murmur3')
        """
        _validate.open_unit_interval(relative_error=relative_error, failure_probability=failure_probability)
        return cls(kind=kind, depth=_rows(failure_probability), width=math.ceil(1 / relative_error), seed=seed)

    @property
    def title(self) -> str:
        return f"{SKETCH_NAMES[self.kind]} {self.depth} x {self.width:,}"

    @property
    def cells(self) -> int:
        return self.depth * self.width

    @property
    def total_cells(self) -> int | None:
        return self.width if self.kind == "count_min" else None

    def describe(self) -> str:
        return f"{self.depth} x {self.width} counters"


def _rows(failure_probability: float) -> int:
    return math.ceil(math.log(2 / failure_probability))


def _median_width(depth: int, relative_error: float, failure_probability: float) -> int:
    """Find the smallest width at which the median of the rows fails with at most failure_probability / 2."""
    too_small, enough = 0, math.ceil(1 / relative_error)
    while _median_fails(depth, 1 / (2 * relative_error * enough)) > failure_probability / 2:
        too_small, enough = enough, 2 * enough
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        if _median_fails(depth, 1 / (2 * relative_error * middle)) > failure_probability / 2:
            too_small = middle
        else:
            enough = middle
    return enough


def _median_fails(depth: int, row_fails: float) -> float:
    """2 P[Bin(depth, row_fails) >= (depth + 1) / 2]."""
    return 2 * half_or_more(depth, min(row_fails, 1.0))


def half_or_more(trials: int, probability: Any) -> Any:
    """Compute P[Bin(trials, probability) >= trials / 2], for a probability or an array."""
    return at_least((trials + 1) // 2, trials, probability)


def at_least(successes: int, trials: int, probability: Any) -> Any:
    """Compute P[Bin(trials, probability) >= successes], for a probability or an array."""
    return sum(
        math.comb(trials, count) * probability**count * (1 - probability) ** (trials - count)
        for count in range(successes, trials + 1)
    )
