"""Common behavior of releases: they are noisy, public and immutable, and answer any number of questions.

Guarantee: every answer is post-processing of noisy counters. The privacy statement of the release covers all answers,
at no further privacy loss. A release cannot accumulate, but `combine` adds two releases and composes their statements.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from beam_dpsketch import checks as _validate
from beam_dpsketch.answers.notes import Basis, lines, of_emptiness, of_spending, of_units
from beam_dpsketch.answers.privacy_statement import PrivacyStatement, unpack
from beam_dpsketch.answers.summary_answers import SummaryAnswers
from beam_dpsketch.errors import ArgumentError, ArgumentTypeError, FormatError, IncompatibleSketchError, said_by
from beam_dpsketch.exact.sketches import RawSketch, raw_type
from beam_dpsketch.privacy.noise.laws import Noise
from beam_dpsketch.privacy.norm.scaling import SCALE_BITS
from beam_dpsketch.privacy.summary_counts import WEIGHT, same_as
from beam_dpsketch.statement import release_format
from beam_dpsketch.statement.showing import html_table
from beam_dpsketch.statement.summary_notes import SummaryNote
from beam_dpsketch.statement.tabular import Note

Self = TypeVar("Self", bound="Released")

RELEASED_KINDS: dict[str, type[Released]] = {}
"""Release classes by the name of their kind; each class registers itself."""

_HINTS = {
    "mean total count variance std": "Use PrivateStatistics (kind: statistics)",
    "quantile histogram cdf_interval": "Use PrivateQuantiles (kind: quantiles)",
    "sum avg average": "Use total() or mean() of PrivateStatistics (kind: statistics)",
    "percentile percentiles median": "Use quantile(0.95) of PrivateQuantiles (kind: quantiles)",
    "top_k interval estimate": "Use PrivateFrequencies or PrivateTopK (kind: frequencies, top_k)",
    "to_pandas to_polars to_arrow to_rows": "Convert an answer, such as top_k(10, candidates) or interval(items)",
}


def pictures() -> Any:
    """Import the module of a higher layer that draws releases and timelines, because an unpickled release plots too."""
    return importlib.import_module("beam_dpsketch.plots.pictures")


class NoisyCounters:
    """Read-only noisy counters with their spec and their statement. They are equal if their bytes are equal."""

    def __init__(self, spec: Any, counters: np.ndarray, privacy: PrivacyStatement, scale_bits: int = 0) -> None:
        if counters.size != spec.cells or counters.dtype != np.int64:
            raise ValueError(f"counters must have {spec.cells} values of type int64")
        if len(privacy.sigma_squared_per_level) != len(raw_type(spec).tables(spec)):
            raise ValueError("sigma_squared_per_level must have a value for each level")
        _validate.whole(low=0, high=SCALE_BITS, scale_bits=scale_bits)
        self._spec, self._counters, self._privacy, self._scale_bits = spec, counters.copy(), privacy, scale_bits
        self._counters.flags.writeable = False

    @property
    def spec(self) -> Any:
        """Shape and hash functions."""
        return self._spec

    def to_bytes(self) -> bytes:
        """Encode the release or row in the package's versioned format, which every later version can read."""
        return release_format.pack(self._spec, self._counters, self._privacy, self._scale_bits)

    @property
    def _compared(self) -> tuple[Any, ...]:
        return self._spec, self._counters.tobytes(), self._privacy, self._scale_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoisyCounters) and self._compared == other._compared

    def __hash__(self) -> int:
        return hash(self._privacy.release_ids)


class Released(NoisyCounters, SummaryAnswers):
    """A private release. Made by `release()`, `from_bytes()` or a transform, not by hand.

    All answers describe the clipped data.

    Attributes:
      kind: the `kind` in settings that makes such releases.
    """

    name: ClassVar[str]
    is_row: ClassVar[bool] = False
    raw_type: ClassVar[type[RawSketch]]
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            RELEASED_KINDS[cls.name] = cls

    def __init__(self, spec: Any, counters: np.ndarray, privacy: PrivacyStatement, scale_bits: int = 0) -> None:
        _validate.instance(self.raw_type.spec_type, spec=spec)
        if raw_type(spec) is not self.raw_type:
            raise ArgumentError("spec", f'must have kind="{self.name}", got kind="{spec.kind}"', "E503")
        if privacy.over_time is not None and privacy.over_time.is_row:
            raise ValueError(
                "this is a timeline row, not a sketch. Read it with TimelineRow, and query a SketchTimeline"
            )
        super().__init__(spec, counters, privacy, scale_bits)

    if not TYPE_CHECKING:  # type checkers read the classes

        def __getattr__(self, name: str) -> Any:
            hint = next((f". {words}" for names, words in _HINTS.items() if name in names.split()), "")
            raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")

    def __getitem__(self, name: Any) -> Any:
        words = (
            "A release cannot be indexed. Use interval(item). If there are several keys or windows, select one first"
        )
        raise ArgumentTypeError("", words, "E701")

    @functools.cached_property
    def counters(self) -> np.ndarray:
        """The noisy counters, read-only: of shape (depth, width) for flat sketches, otherwise (spec.cells,).

        They count records: int64, or float64 with fractions if the noise is small.
        """
        counters = self._counters if not self._scale_bits else self._counters / (1 << self._scale_bits)
        counters = counters.reshape(self._shape)
        counters.flags.writeable = False
        return counters

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self._spec.cells,)

    @property
    def _rounding(self) -> float:
        """Largest rounding error in a counter, from rounding off the bits that noise drowns."""
        if self._privacy.noise is Noise.LAPLACE and self._scale_bits >= self._privacy.weight_bits:
            return 0.0  # the grid of the counters is already that of the noise
        return len(self._privacy.release_ids) / (2 << self._scale_bits)

    def _margin(self, confidence: float) -> float:
        """Compute the half-width of a counter's interval, if items do not collide."""
        return self._privacy.margin(confidence) + self._rounding

    def _noise_variance(self, level: int = -1) -> float:
        """Compute the variance from noise and rounding per counter on a level, in squared records."""
        return self._drawn_variance(level) + self._rounding**2 / 3 / len(self._privacy.release_ids)

    def _fourth_cumulant(self, level: int = -1) -> float:
        """Compute the fourth cumulant of the noise per counter on a level, in records^4, or an upper bound for sums."""
        return self._privacy.noise.fourth_cumulant(self._drawn_variance(level), self._privacy.weight_bits)

    def _drawn_variance(self, level: int) -> float:
        privacy = self._privacy
        return privacy.noise.variance(privacy.sigma_squared_per_level[level], privacy.weight_bits)

    @functools.cached_property
    def privacy(self) -> PrivacyStatement:
        """Privacy statement of the release; `print` it."""
        stated = self._privacy
        if self._spec.total_cells is None or stated.own_total is not None:
            return stated
        names, bits = same_as(WEIGHT, stated.bounds), None
        estimate, variance = self._own_total()
        if stated.noise is not Noise.GAUSSIAN:  # the Laplace parameter exceeds the variance
            variance *= float(stated.sigma_squared_per_level[-1]) / self._drawn_variance(-1)
            bits = self._scale_bits if self._spec.is_histogram else None
        return dataclasses.replace(stated, own_total=SummaryNote.of_sum(names, stated.noise, estimate, variance, bits))

    def _own_total(self) -> tuple[float, float]:
        """Sum the counters to the total weight, with its variance, if the spec has `total_cells`."""
        raise NotImplementedError

    @functools.cached_property
    def notes(self) -> tuple[Note, ...]:
        """Warnings about the release, each with a `code` and `words`.

        They use only noisy numbers and public settings, at no privacy loss. Answers have `notes` too.
        """
        return (*self._answer_notes, *of_spending(self.privacy))

    def combine(self: Self, other: Released, *, units_disjoint: bool = False) -> Self:
        """Combine two releases into a release for both inputs: counters, sigma^2 and rho add.

        Rho stays if both are different releases from one run of a transform with keys or in windows, because the noise
        in each covers the change that a privacy unit can cause in all of them. On unbounded input this is true only
        with idempotent noise. Otherwise each release there is a run of its own.

        Args:
          other: a release of the same kind and spec, with the same relation and unit.
          units_disjoint: the caller's promise that no privacy unit is in both inputs. Then rho is the maximum, and a
            replaced unit may be in either input.
        """
        self._check_same_kind(other)
        return self._plus(other, self.privacy.composed(other.privacy, units_disjoint=units_disjoint))

    def _plus(self: Self, other: Released, privacy: PrivacyStatement, *, sign: int = 1) -> Self:
        """Add two releases, or subtract the second with sign -1, in the finer of their units."""
        bits = max(self._scale_bits, other._scale_bits)
        first, second = (each._counters << np.int64(bits - each._scale_bits) for each in (self, other))
        return type(self)(self._spec, first + np.int64(sign) * second, privacy, bits)

    def _check_same_kind(self, other: Released, done: str = "combined") -> None:
        differing = ["kind"]
        if type(self) is type(other):
            names = [field.name for field in dataclasses.fields(self._spec)]
            differing = [name for name in names if getattr(self._spec, name) != getattr(other._spec, name)]
        if differing:
            raise IncompatibleSketchError(
                f"Only releases with the same kind and spec can be {done}. These differ in {', '.join(differing)}"
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a new local file, for `load`, `read_releases` and the command `dpsketch`.

        `read_releases(folder)` reads files whose names end with `.dpsketch`. Raises `ValueError` for an existing file,
        which is not replaced, because its release cannot be made again without privacy loss.
        """
        try:
            with open(path, "xb") as file:
                file.write(self.to_bytes())
        except FileExistsError:
            raise ArgumentError(
                "path", f"must be a new file, and {path} already exists. Use another name", "E726"
            ) from None

    @classmethod
    def from_bytes(cls: type[Self], data: bytes) -> Self:
        """Decode the output of `to_bytes` for this class.

        Raises only `FormatError` for other bytes. `Released.from_bytes` reads every kind.
        """
        spec, counters, privacy, scale_bits = unpack(data)
        kind = RELEASED_KINDS[spec.kind]
        if not issubclass(kind, cls):
            raise FormatError(f"expected {cls.__name__}, got {kind.__name__}. Released.from_bytes reads every kind")
        try:
            return kind(spec, counters, privacy, scale_bits)
        except ValueError as error:
            raise FormatError(f"not a release: {said_by(error)}") from None

    def reading(self, confidence: float) -> dict[str, Any]:
        """Export the numbers from which a program in another language can give the same answers, at one confidence.

        Values are plain values, text and numpy arrays. All of them follow from the release.
        """
        return {"type": "none"}

    def __reduce__(self) -> tuple[Any, ...]:
        return Released.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        holds = "" if self._holds is None else f", {self._holds}"
        told = lines(self._clipping, self.notes)
        return f"<{type(self).__name__} of {self._size}, {self._privacy.shown_loss}{holds}>{told}"

    def _repr_html_(self) -> str:
        holds = [] if self._holds is None else [("holds", self._holds)]
        told = [("clipping", self._clipping.sentence), *(("note", note.message) for note in self.notes)]
        rows = [("size", self._size), *holds, *told, ("privacy", self.privacy)]
        return html_table(rows, caption=type(self).__name__)

    def _basis(self, confidence: float, asked: int = 0) -> Basis:
        return Basis(confidence, self._clipping, self._answer_notes, asked, self._privacy.noise)

    @functools.cached_property
    def _answer_notes(self) -> tuple[Note, ...]:
        """Notes that concern answers."""
        if self._may_be_empty:
            return (of_emptiness(self._holds),)
        return (*of_units(self.privacy), *self._own_notes())

    def _own_notes(self) -> tuple[Note, ...]:
        """List the notes for a release that is not empty."""
        return ()

    @property
    def parts(self) -> Mapping[str, Released]:
        """Releases that answer questions, by metric. A release without metrics has itself under the empty name."""
        return {"": self}

    @property
    @abstractmethod
    def _size(self) -> str:
        """Shape in a few words."""
