"""One run of a release: all that is chosen and drawn in it, and the name of each of its parts.

Guarantee: each draw has a place in the run, and no two places share randomness. Under a secret, each draw is a
function of the secret, the place, all settings and all exact counts: whoever repeats the run gets the same bytes, in a
pipeline or without one. Without a secret, each call draws new noise and is another release.
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
"""From how many on noise is drawn, because sums that wait for it take memory."""


class Place(NamedTuple):
    """Where in a run a release is.

    Attributes:
      key: its key alone; () without keys.
      start: when its window opens, in microseconds since 1970.
      end: when it closes.
      pane: which firing of the window it is.
    """

    key: tuple[Any, ...] = ()
    start: int = GLOBAL_START
    end: int = GLOBAL_END
    pane: int = 0

    def name(self, *which: Any) -> bytes:
        """Return the `part_name` of a part of the window."""
        return part_name(which, self.start, self.end)

    @property
    def of_key(self) -> tuple[Any, ...]:
        """What tells the key from others of the window."""
        return ("key", *self.key) if self.key else ()


WHOLE = Place()
"""The one release of the global window."""


def place_of_horizon(horizon: Horizon) -> Place:
    """Return the place of what is decided once for all windows of a horizon."""
    return Place(start=horizon.start_micros, end=horizon.end_micros)


class Sum(NamedTuple):
    """Exact sums of a window that wait for their noise.

    Attributes:
      place: the window.
      sums: the sums of its keys, or the one sum without keys.
      run: the name of the run, if it was drawn already. Under a secret it counts for nothing, because the secret names
        the run. Else `None` makes each release a run of its own.
      output: where the releases go; the caller's, who gets it back.
    """

    place: Place
    sums: KeyedSums
    run: bytes | None = None
    output: Any = None


class _Block(NamedTuple):
    """Some sums whose noise is drawn together, with the place of each, and what they are part of."""

    whole: Sum
    sums: KeyedSums
    places: list[Place]


class Run:
    """Chooses and draws for the releases of a transform.

    Args:
      secret: of the transform under its release id; `None` takes the entropy of the system.
      name: of the one run that this is, if it was drawn already.
    """

    def __init__(self, secret: KeyedRandomness | None = None, name: bytes | None = None) -> None:
        self._secret, self._name = secret, name

    @property
    def is_named(self) -> bool:
        """Whether its name was drawn already."""
        return self._name is not None

    @property
    def source(self) -> Randomness:
        """Where the noise comes from."""
        return Randomness.SYSTEM if self._secret is None else Randomness.KEYED

    def name(self, drawn: bytes | None = None) -> bytes:
        """Return the name of the run: made from the secret, else the one that was drawn before, or a new one.

        A secret, a release id and all settings name it, so a replay is the same run.
        """
        if self._secret is not None:
            return self._secret.random_bytes(b"run")(RUN_BYTES)
        return drawn or self._name or os.urandom(RUN_BYTES)

    def choose_norm(self, histogram: np.ndarray, spec: Any, terms: ReleaseTerms, *, scaled_units: Fraction) -> Fraction:
        """Return the norm that an exact histogram of lengths leads to, which may be published."""
        secret = None if self._secret is None else self._secret.derive(NORM_PART)
        return choose_norm(histogram, spec, terms, secret, scaled_units=scaled_units)

    def choose(self, choice: KeyChoice, votes: np.ndarray, places: Sequence[Place]) -> np.ndarray:
        """Return which keys are released, given the votes of each, as `find_chosen` does."""
        return find_chosen(choice, votes, self._secrets((place, place.name(*place.of_key)) for place in places))

    def with_first_votes(self, choice: KeyChoice, first: pa.Table, end: int, *, once: bool) -> pa.Table:
        """Return the votes of round one with noisy ones, as `with_noisy_votes` does."""
        return with_noisy_votes(choice, first, end, self._secret, once=once)

    def find_released(self, choice: KeyChoice | None, sums: KeyedSums, window: Place) -> tuple[list[Place], np.ndarray]:
        """Return the place of each key of a window, and the numbers of those that are released, in order.

        The data choose them, or they are all that Beam can hold.
        """
        keys = [(decode(key),) if key != NO_KEY else () for key in sums.keys.to_pylist()]
        places = [Place(key, window.start, window.end, window.pane) for key in keys]
        kept = np.array([all(map(is_unicode, key)) for key in keys], dtype=bool)
        if choice is not None:
            kept &= self.choose(choice, sums.votes, places)
        return places, np.flatnonzero(kept)

    def draw_lost(self, exact: np.ndarray, calibration: Calibration, max_norm: Fraction | None = None) -> list[int]:
        """Return the noisy histogram of what the run lost, and the noisy weight kept: what may be published.

        Args:
          exact: the same without noise, of all units of the run, int64.
          calibration: that of the releases, before the data have chosen a norm.
          max_norm: the norm, if the data chose it.
        """
        secret = None if self._secret is None else self._secret.derive(LOST_PART)
        return draw_lost(exact, calibration.with_norm(max_norm), secret)

    def release(
        self, waiting: Iterable[Sum], calibration: Calibration, lost: Sequence[int] | None = None
    ) -> Iterator[tuple[list[tuple[Place, Any]], NoisyReleases]]:
        """Yield releases that have the same terms, each with noise of its own, after their places and outputs.

        `lost` is what `draw_lost` returned for the run; `None` if each release has its own histogram, or none.
        """
        groups: dict[Any, list[_Block]] = defaultdict(list)
        counted: Counter[Any] = Counter()
        for whole in waiting:
            sums, cells = whole.sums, whole.sums.sketch_input.spec.cells
            choice = calibration.choice if sums.row is None else None  # a key with rows is chosen for all of them
            places, released = self.find_released(choice, sums, whole.place)
            size = max(1, COUNTERS // cells)
            for number, block in enumerate(sums.ordered(released).blocks(size)):
                own = [places[place] for place in released[number * size :][:size].tolist()]
                # A norm that the data chose is part of the terms, and may be another one in each window.
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
        """Draw the noise of sums that have one norm, and one number if they are rows over time."""
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
        """Yield the pairs of key and item in a window that are released, with their noisy counts."""
        if pairs:
            secrets = self._secrets((window, window.name("item", pair)) for pair, _ in pairs)
            noisy, released = counting.draw(np.array([row for _, row in pairs], dtype=np.int64), secrets)
            yield from ((pairs[place][0], int(noisy[place])) for place in np.flatnonzero(released).tolist())

    def gather(
        self, counting: Counting, rows: list[tuple[bytes, int]], place: Place, run: bytes | None = None
    ) -> NoisyReleases:
        """Return one release of the counts that `count` released for a key, of a run that may have its name already."""
        part, draw = place.name(*place.of_key), os.urandom(DRAW_BYTES)
        if self._secret is not None:
            draw = draw_of(rows, release_randomness(self._secret, part, place.pane))
        return counting.gather(rows, part_of_run(self.name(run), part), draw, self.source)

    def spent_alone(self, calibrated: Calibration | Counting, run: bytes | None = None) -> Stated:
        """Return the statement of a run with this noise that chose no key, or item, and so releases nothing."""
        terms, noise, note = calibrated.terms, calibrated.per_table, calibrated.note
        release_id = part_of_run(self.name(run), part_name(("nothing",))) + bytes(DRAW_BYTES)
        return Stated.of(terms, noise, randomness=self.source, release_id=release_id, keys=note)

    def _secrets(self, parts: Iterable[tuple[Place, bytes]]) -> list[KeyedRandomness] | None:
        """Return the randomness of named parts, each in its window."""
        if (secret := self._secret) is None:
            return None
        return [release_randomness(secret, name, place.pane) for place, name in parts]


def _names(sums: KeyedSums, window: Place) -> list[bytes]:
    """Return the `part_name` of each key of a window, or that of the window without keys."""
    keys = sums.keys.to_pylist()
    return [window.name()] if keys == [NO_KEY] else key_part_names(keys, window.start, window.end)


def _told(lost: Sequence[int] | None, calibration: Calibration) -> LostNote | None:
    """Return the noisy histogram that `Run.draw_lost` drew; `None` if the releases have none of the run."""
    empty = calibration.empty_lost
    return None if lost is None or empty is None else empty.with_values(lost)


def release_alone(sums: KeyedSums, calibration: Calibration) -> NoisyReleases:
    """Return the release of an exact sum that is a run of its own; each call draws new noise."""
    ((_, releases),) = Run().release([Sum(WHOLE, sums)], calibration)
    return releases


def bill_of(
    resolved: ResolvedRelease, windows: tuple[int, ...], *, is_bounded: bool = True, is_idempotent: bool = False
) -> Bill | None:
    """Return the bill for all that one run releases, if an account of a ledger pays for it; else `None`.

    Args:
      resolved: the release under its terms.
      windows: see `ReleaseSpec.identify`.
      is_bounded: whether all records are there as it pays; others are those of a stream.
      is_idempotent: whether a secret and a release id name the run.
    """
    declared, terms = resolved.declared, resolved.terms
    names = [name for name in declared.selectors.names if name is not None]
    facts: dict[str, Any] = {"kind": declared.count.name, "fields": list(map(str, names))}
    facts |= {"settings": declared.display_data(), "digest": declared.identify(terms, windows).hex()}
    flags = {STREAM: not is_bounded, IDEMPOTENT: is_idempotent}
    return terms.bill(facts | {name: True for name, is_set in flags.items() if is_set})


def release_randomness(transform: KeyedRandomness, part: bytes, pane: int = 0) -> KeyedRandomness:
    """Return the randomness of one release: of a part, as `part_name` names it, and of the firing of its window."""
    return transform.derive(encode((part, pane)))
