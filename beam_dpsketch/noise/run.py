"""Run of a release: all its choices and draws, and the names of its components.

Guarantee: each draw has a place in the run, and no two places share randomness. With a secret, each draw is a function
of the secret, the place, all settings and all exact counts: repeating the run gives the same bytes, in a pipeline or
without one. Without a secret, each call draws new noise and is another release.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_dpsketch.encodings import decode, encode, is_unicode
from beam_dpsketch.exact.declared.release_spec import ResolvedRelease
from beam_dpsketch.exact.horizon import Horizon
from beam_dpsketch.exact.reading.groups import Row
from beam_dpsketch.exact.sums.keyed_sums import NO_KEY, KeyedSums
from beam_dpsketch.noise.calibration import Calibration
from beam_dpsketch.noise.counting import Counting, draw_of
from beam_dpsketch.noise.keys import KeyChoice, find_chosen, with_noisy_votes
from beam_dpsketch.noise.noising import PartColumns, draw_lost, release_parts
from beam_dpsketch.noise.norms import NORM_PART, choose_norm
from beam_dpsketch.privacy.loss.payment import IDEMPOTENT, STREAM, Bill
from beam_dpsketch.privacy.mechanism import Randomness
from beam_dpsketch.privacy.noise.keyed_randomness import KeyedRandomness
from beam_dpsketch.privacy.terms import ReleaseTerms
from beam_dpsketch.statement.lost_notes import LostNote
from beam_dpsketch.statement.noisy import NoisyReleases
from beam_dpsketch.statement.release_id import (
    DRAW_BYTES,
    GLOBAL_END,
    GLOBAL_START,
    RUN_BYTES,
    key_part_names,
    part_name,
    part_of_run,
    timeline_of_run,
)
from beam_dpsketch.statement.stated import Stated

LOST_PART = encode(("lost",))
COUNTERS = 1 << 18
"""Number of counters at which waiting sums get their noise, to limit memory."""


class Place(NamedTuple):
    """Position of a release in a run.

    Attributes:
      key: a 1-tuple with its key, or () without keys.
      start: start of its window, in microseconds since 1970.
      end: end of the window.
      pane: index of the window's firing.
    """

    key: tuple[Any, ...] = ()
    start: int = GLOBAL_START
    end: int = GLOBAL_END
    pane: int = 0

    def name(self, *which: Any) -> bytes:
        """Build the `part_name` of a component in the window."""
        return part_name(which, self.start, self.end)

    @property
    def of_key(self) -> tuple[Any, ...]:
        """Name of the key within the window."""
        return ("key", *self.key) if self.key else ()


WHOLE = Place()
"""Place of the only release in the global window."""


def place_of_horizon(horizon: Horizon) -> Place:
    """Build the place for decisions that cover all windows in a horizon."""
    return Place(start=horizon.start_micros, end=horizon.end_micros)


class Sum(NamedTuple):
    """Exact sums in a window that wait for their noise.

    Attributes:
      place: the window.
      sums: sums per key, or a single sum without keys.
      run: name of the run, if drawn already. With a secret it is ignored, because the secret names the run. Without
        either, each release is a separate run.
      output: destination of the releases, returned to the caller.
    """

    place: Place
    sums: KeyedSums
    run: bytes | None = None
    output: Any = None


class _Block(NamedTuple):
    """Sums whose noise is drawn together, with the place of each, and the sum that contains them."""

    whole: Sum
    sums: KeyedSums
    places: list[Place]


class Run:
    """Norm choice, key selection and noise for a transform's releases.

    Args:
      secret: secret of the transform under its release id. `None` uses system entropy.
      name: name of this run, if drawn already.
    """

    def __init__(self, secret: KeyedRandomness | None = None, name: bytes | None = None) -> None:
        self._secret, self._name = secret, name

    @property
    def is_named(self) -> bool:
        """Whether the run's name was drawn already."""
        return self._name is not None

    @property
    def source(self) -> Randomness:
        """Source of the noise."""
        return Randomness.of(self._secret)

    def name(self, drawn: bytes | None = None) -> bytes:
        """Derive the run's name from the secret. Without a secret, use the name drawn before, or draw a new name.

        A secret, a release id and all settings determine the name. A replay is therefore the same run.
        """
        if self._secret is not None:
            return self._secret.random_bytes(b"run")(RUN_BYTES)
        return drawn or self._name or os.urandom(RUN_BYTES)

    def choose_norm(self, histogram: np.ndarray, spec: Any, terms: ReleaseTerms, *, scaled_units: Fraction) -> Fraction:
        """Choose a norm from an exact histogram of lengths. The norm may be published."""
        secret = None if self._secret is None else self._secret.derive(NORM_PART)
        return choose_norm(histogram, spec, terms, secret, scaled_units=scaled_units)

    def choose(self, choice: KeyChoice, votes: np.ndarray, places: Sequence[Place]) -> np.ndarray:
        """Decide which keys are released, given the votes per key, like `find_chosen`."""
        return find_chosen(choice, votes, self._secrets((place, place.name(*place.of_key)) for place in places))

    def with_first_votes(self, choice: KeyChoice, first: pa.Table, end: int, *, once: bool) -> pa.Table:
        """Add noisy votes to the votes of round one, like `with_noisy_votes`."""
        return with_noisy_votes(choice, first, end, self._secret, once=once)

    def find_released(self, choice: KeyChoice | None, sums: KeyedSums, window: Place) -> tuple[list[Place], np.ndarray]:
        """List each key's place in a window, and the indices of released keys, in order.

        Released keys are selected by votes, if keys are chosen from the data, and must be valid Unicode for Beam.
        """
        keys = [(decode(key),) if key != NO_KEY else () for key in sums.keys.to_pylist()]
        places = [Place(key, window.start, window.end, window.pane) for key in keys]
        kept = np.array([all(map(is_unicode, key)) for key in keys], dtype=bool)
        if choice is not None:
            kept &= self.choose(choice, sums.votes, places)
        return places, np.flatnonzero(kept)

    def draw_lost(self, exact: np.ndarray, calibration: Calibration, max_norm: Fraction | None = None) -> list[int]:
        """Draw the run's noisy clipping histogram and noisy clipped weight, which may be published.

        Args:
          exact: the same without noise, over all units in the run, int64.
          calibration: calibration of the releases, before a norm is chosen from the data.
          max_norm: the norm, if it is chosen from the data.
        """
        secret = None if self._secret is None else self._secret.derive(LOST_PART)
        return draw_lost(exact, calibration.with_norm(max_norm), secret)

    def release(
        self, waiting: Iterable[Sum], calibration: Calibration, lost: Sequence[int] | None = None
    ) -> Iterator[tuple[list[tuple[Place, Any]], NoisyReleases]]:
        """Yield releases with the same terms, each with independent noise, after their places and outputs.

        `lost` is the result of `draw_lost` for the run. `None` if the histogram is counted per release, or absent.
        """
        groups: dict[Any, list[_Block]] = defaultdict(list)
        counted: Counter[Any] = Counter()
        for whole in waiting:
            sums, cells = whole.sums, whole.sums.sketch_input.spec.cells
            choice = calibration.choice if sums.row is None else None  # a key is selected once for all its rows
            places, released = self.find_released(choice, sums, whole.place)
            size = max(1, COUNTERS // cells)
            for number, block in enumerate(sums.ordered(released).blocks(size)):
                own = [places[place] for place in released[number * size :][:size].tolist()]
                # A chosen norm is part of the terms, and may differ between windows.
                terms = sums.max_norm, sums.row
                groups[terms].append(_Block(whole, block, own))
                counted[terms] += len(own) * cells
                if counted[terms] >= COUNTERS:
                    del counted[terms]
                    yield self._draw(groups.pop(terms), calibration, lost)
        for group in groups.values():
            yield self._draw(group, calibration, lost)

    def _draw(
        self, blocks: list[_Block], calibration: Calibration, lost: Sequence[int] | None
    ) -> tuple[list[tuple[Place, Any]], NoisyReleases]:
        """Draw the noise of sums with the same norm, and with the same row number if they are timeline rows."""
        sums = KeyedSums.joined([each.sums for each in blocks])
        places = [place for each in blocks for place in each.places]
        known, sketch_input, row = calibration.with_norm(sums.max_norm), sums.sketch_input, sums.row
        runs = [each.whole.run for each in blocks for _ in each.places]
        runs = runs if self._secret is None else [self.name()] * len(places)
        if row is None:
            names = [name for each in blocks for name in _names(each.sums, each.whole.place)]
            secrets = self._secrets(zip(places, names, strict=True))
        else:
            names = [place.name("row", row) for place in places]
            runs = [timeline_of_run(run or b"", *place.key) for run, place in zip(runs, places, strict=True)]
            secrets = self._secrets((place, place.name(*place.of_key, "row", row)) for place in places)
        sketches = sketch_input.kind, sketch_input.spec, sketch_input.scale_bits
        parts = PartColumns(*sketches, sums.counters, sums.released_side, names, runs)
        outputs = [each.whole.output for each in blocks for _ in each.places]
        releases = release_parts(parts, known, secrets, row=row, lost=_told(lost, known))
        return [*zip(places, outputs, strict=True)], releases

    def count(
        self, counting: Counting, pairs: Sequence[tuple[bytes, Row]], window: Place = WHOLE
    ) -> Iterator[tuple[bytes, int]]:
        """Yield the released pairs of key and item in a window, with their noisy counts."""
        if pairs:
            secrets = self._secrets((window, window.name("item", pair)) for pair, _ in pairs)
            noisy, released = counting.draw(np.array([row for _, row in pairs], dtype=np.int64), secrets)
            yield from ((pairs[place][0], int(noisy[place])) for place in np.flatnonzero(released).tolist())

    def gather(
        self, counting: Counting, rows: list[tuple[bytes, int]], place: Place, run: bytes | None = None
    ) -> NoisyReleases:
        """Build a key's release from its released counts, in a run that may already have a name."""
        part, draw = place.name(*place.of_key), os.urandom(DRAW_BYTES)
        if self._secret is not None:
            draw = draw_of(rows, release_randomness(self._secret, part, place.pane))
        return counting.gather(rows, part_of_run(self.name(run), part), draw, self.source)

    def spent_alone(self, calibrated: Calibration | Counting, run: bytes | None = None) -> Stated:
        """Build the statement for a run that selected no key or item."""
        terms, noise, note = calibrated.terms, calibrated.per_table, calibrated.note
        release_id = part_of_run(self.name(run), part_name(("nothing",))) + bytes(DRAW_BYTES)
        return Stated.of(terms, noise, randomness=self.source, release_id=release_id, keys=note)

    def _secrets(self, parts: Iterable[tuple[Place, bytes]]) -> list[KeyedRandomness] | None:
        if (secret := self._secret) is None:
            return None
        return [release_randomness(secret, name, place.pane) for place, name in parts]


def _names(sums: KeyedSums, window: Place) -> list[bytes]:
    keys = sums.keys.to_pylist()
    return [window.name()] if keys == [NO_KEY] else key_part_names(keys, window.start, window.end)


def _told(lost: Sequence[int] | None, calibration: Calibration) -> LostNote | None:
    empty = calibration.empty_lost
    return None if lost is None or empty is None else empty.with_values(lost)


def release_alone(sums: KeyedSums, calibration: Calibration) -> NoisyReleases:
    """Release an exact sum as a separate run. Each call draws new noise."""
    ((_, releases),) = Run().release([Sum(WHOLE, sums)], calibration)
    return releases


def bill_of(
    resolved: ResolvedRelease, windows: tuple[int, ...], *, is_bounded: bool = True, is_idempotent: bool = False
) -> Bill | None:
    """Build the bill for all releases in a run, or `None` without a ledger account.

    Args:
      resolved: the release under its terms.
      windows: see `ReleaseSpec.identify`.
      is_bounded: whether all records are present at payment. Otherwise they belong to a stream.
      is_idempotent: whether a secret and a release id name the run.
    """
    declared, terms = resolved.declared, resolved.terms
    names = [name for name in declared.selectors.names if name is not None]
    facts: dict[str, Any] = {"kind": declared.count.name, "fields": list(map(str, names))}
    facts |= {"settings": declared.display_data(), "digest": declared.identify(terms, windows).hex()}
    flags = {STREAM: not is_bounded, IDEMPOTENT: is_idempotent}
    return terms.bill(facts | {name: True for name, is_set in flags.items() if is_set})


def release_randomness(transform: KeyedRandomness, part: bytes, pane: int = 0) -> KeyedRandomness:
    """Derive a release's randomness from its `part_name` and its window's firing."""
    return transform.derive(encode((part, pane)))
