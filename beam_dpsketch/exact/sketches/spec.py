"""Everything two sketches must share to be merged, in one frozen object: mergeable if and only if specs are equal.

Dimensions come from the caller, from an accuracy (`for_accuracy`), or from the paper's formulas
(`paper_dimensions`), whose widths do not give the accuracy the paper states for them.
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
from beam_dpsketch.privacy.side_counters import Uncounted

FLAT_KINDS = ("count_sketch", "count_min")
MAX_DEPTH = 64
MAX_WIDTH = 1 << 26
MAX_CELLS = 1 << 28


Purpose: TypeAlias = Literal["frequencies", "items", "ranks"]


class Spec:
    """What all specs answer.

    Attributes:
      kind: the name of the sketch that is described.
      domain: the values that it is over; `None` where it takes any items.
      cells: how many counters it has.
      is_listed: whether it counts listed items alone, so that nothing collides.
      is_histogram: whether each item has one counter of its own, and there are no others.
      takes_laplace: whether its answers know Laplace noise.
    """

    kind: ClassVar[str]
    domain: Any
    cells: Any
    is_listed: ClassVar[bool] = False
    is_histogram: ClassVar[bool] = False
    takes_laplace: ClassVar[bool] = True

    @property
    def fields(self) -> Mapping[str, Spec]:
        """What each item of a record is counted by, by its argument."""
        return {"item": self}

    @property
    def uncounted(self) -> Uncounted:
        """Which items do not count, or count as others do."""
        specs = self.fields.values()
        listed = Uncounted.UNLISTED_ITEMS if any(each.is_listed for each in specs) else Uncounted.NOTHING
        return listed | Uncounted.CLAMPED if any(isinstance(each.domain, Domain) for each in specs) else listed

    @property
    def leading(self) -> tuple[Spec, Fraction]:
        """The spec whose answers decide how large a norm the data choose, and its part of rho."""
        return self, Fraction(1)

    @property
    def key_range(self) -> int:
        """Below which number all keys of its items are, if they are numbers."""
        return 1 << 64

    @property
    def total_cells(self) -> int | None:
        """How many counters, with noise for the whole loss, sum to the total as exactly as these; `None` if none do."""
        return None

    @property
    def has_factor(self) -> bool:
        """Whether rows of a square-root factor are released, which there cannot be over time."""
        return False

    @property
    def noisy(self) -> str:
        """What gets noise, in words, and in which unit, if it is not what a record adds to it."""
        return "each counter"

    @property
    def title(self) -> str:
        """What a plan calls the layout."""
        return str(self.kind)

    def describe(self) -> str:
        """Return in a few words what is counted, or the shape of a sketch that takes any items."""
        return self.domain.describe()

    def describe_levels(self) -> Sequence[str]:
        """Return the shape of each level, where levels differ."""
        return ()

    def purpose(self, *, search: bool) -> Purpose:
        """Tell the use of a release: frequencies of items, the most frequent items, or ranks of values."""
        return "frequencies"


@named("SketchSpec")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SketchSpec(Spec):
    """The kind, the shape and the hash functions of a sketch.

    Args:
      kind: "count_sketch" (unbiased, takes deletions) or "count_min" (does not underestimate).
      depth: rows, 1 to 64. Odd depths suit CountSketch: of an even number of rows, one collision moves the median.
      width: columns, 1 to 2**26.
      seed: chooses the hash functions, 0 to 2**64 - 1. Not a secret: privacy holds for every seed.
      item_hash: "murmur3" (fast), or "blake2b" where an adversary can choose items.
      item_key: 16 bytes, with "blake2b" only. It becomes public with the release, whose readers need it; keep it
        secret until then, and take a new one for the next publication.
      hash_version: the version of the hash, to be sure of it.
    """

    domain: ClassVar[None] = None  # type: ignore[misc]
    kind: str = "count_sketch"  # type: ignore[misc]  # one class for two kinds
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
        """Return the smallest spec whose collisions keep the estimate of any one item within relative_error * N.

        Guarantee: over insertions of total weight N, |estimate - truth| <= relative_error * N before noise, for
        each item with probability at least 1 - failure_probability / 2 over the seed. The other half is left for
        the noise. Here the estimate is the minimum over rows of a Count-Min, the median over rows of a CountSketch. A
        released CountSketch takes their Huber mean: it is within half a scale of the median, by what most counters
        hold, and its error is smaller on average.

        Source: Markov's inequality in each row. Count-Min fails if all rows do: width ceil(e / relative_error).
        CountSketch fails if half the rows err on the same side, and errors are symmetric: the smallest width with
        2 P[Bin(depth, 1 / (2 relative_error width)) >= (depth + 1) / 2] <= failure_probability / 2.

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
        """Return the paper's depth ceil(ln(2 / beta)) and width 1 / gamma, for comparison with it.

        No guarantee: on about 1 / relative_error equal items the error exceeds relative_error * N more often than
        failure_probability. Use `for_accuracy`.

        >>> SketchSpec.paper_dimensions(relative_error=0.01, failure_probability=0.01)
        SketchSpec(kind='count_sketch', depth=6, width=100, seed=0, item_hash='murmur3')
        """
        _validate.open_unit_interval(relative_error=relative_error, failure_probability=failure_probability)
        return cls(kind=kind, depth=_rows(failure_probability), width=math.ceil(1 / relative_error), seed=seed)

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
    """Return the smallest width at which the median of the rows fails with failure_probability / 2 or less."""
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
    """Return P[Bin(trials, probability) >= trials / 2], for one probability or an array of them."""
    return at_least((trials + 1) // 2, trials, probability)


def at_least(successes: int, trials: int, probability: Any) -> Any:
    """Return P[Bin(trials, probability) >= successes], for one probability or an array of them."""
    return sum(
        math.comb(trials, count) * probability**count * (1 - probability) ** (trials - count)
        for count in range(successes, trials + 1)
    )
